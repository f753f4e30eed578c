//! Benches that assert the answer they time.
//!
//! `cargo xtask bench NAME [--quick]`. Each prints `figure NAME VALUE UNIT`, one a line, and
//! times a null baseline and trivial competitors in the same run, so that a goal that they
//! meet too shows itself as no goal. What the benches share is here; it times nothing.

pub mod daemon;
pub mod page;
pub mod peers;
pub mod plot;
pub mod process;
pub mod trace;

use std::path::{Path, PathBuf};

/// Issued-at of the captured hellos' token: the second at which they are judged.
pub const NOW_S: u64 = 1_800_000_000;
/// Key id of the captured hellos' token, as printed (the protocol's test vector).
pub const KEY_ID: &str = "16c90ee8f37ea61f";
/// That key's MAC key at the audience `demo`, as little-endian words.
pub const MAC_KEY: [u64; 2] = [0xf309_ab36_cd70_0add, 0x3877_7a82_82a0_bd77];

/// A captured ClientHello by its file's name in `edge-common/tests/hellos`.
///
/// # Panics
/// When there is no such file, or it is not hex.
#[must_use]
pub fn captured_hello(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edge-common/tests/hellos");
    let path = folder.join(format!("{name}.hex"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let digits = text.lines().filter(|line| !line.starts_with('#'));
    let digits: Vec<u8> = digits.flat_map(str::bytes).collect();
    let nibble = |digit: u8| char::from(digit).to_digit(16).expect("hex") as u8;
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]))
        .collect()
}

/// The same with one text replaced by another as long.
///
/// # Panics
/// When `old` is not there, or the lengths differ.
#[must_use]
pub fn replaced(hello: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let at = hello.windows(old.len()).position(|window| window == old);
    let at = at.expect("the text to be replaced");
    let mut hello = hello.to_vec();
    hello[at..at + new.len()].copy_from_slice(new);
    hello
}

/// The middle of a set of samples.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// The sample that so many of a hundred do not exceed, by its rank; no number when there are none.
#[must_use]
pub fn percentile(samples: &[f64], percent: usize) -> f64 {
    let mut samples = samples.to_vec();
    samples.sort_by(f64::total_cmp);
    let rank = (samples.len() * percent).div_ceil(100).max(1);
    samples.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// Whether a name is among those of an environment variable, with commas between; all are when
/// it is not set.
#[must_use]
pub fn is_wanted(variable: &str, name: &str) -> bool {
    match std::env::var(variable) {
        Ok(names) => names.split(',').any(|wanted| wanted == name),
        Err(_) => true,
    }
}

/// Where a record of that name is kept.
///
/// # Panics
/// When its folder cannot be made.
#[must_use]
pub fn record(file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("record");
    std::fs::create_dir_all(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    folder.join(file)
}

/// Prints a figure.
pub fn figure(name: &str, value: f64, unit: &str) {
    println!("figure {name} {value:.1} {unit}");
}

/// Prints a figure whose digits behind the point matter: seconds.
pub fn figure_exact(name: &str, value: f64, unit: &str) {
    println!("figure {name} {value:.3} {unit}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_samples() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99), 99.0);
        assert_eq!(percentile(&hundred, 50), 50.0);
        assert_eq!(percentile(&[3.0, 1.0, 2.0], 50), 2.0);
        assert_eq!(percentile(&[7.0], 1), 7.0);
        assert!(percentile(&[], 50).is_nan());
    }
}
