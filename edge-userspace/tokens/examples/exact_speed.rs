//! How fast the exact counter is on files: `exact_speed VOCABULARY ISA FILE...`.
//!
//! Each file is counted in slices again and again; of each slice the shortest time stands, so
//! that what else the machine does at the time is left out.

use std::hint::black_box;
use std::time::Instant;

use edge_tokens::{Counter, Isa, Vocabulary};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, vocabulary, isa, files @ ..] = &arguments[..] else {
        panic!("exact_speed VOCABULARY ISA FILE...");
    };
    let vocabulary = Vocabulary::embedded(vocabulary).expect("a vocabulary's name");
    let isa = Isa::named(isa).expect("a name of instructions");
    for file in files {
        let text = std::fs::read_to_string(file).expect("a text");
        let mut counter =
            Counter::with_isa(&vocabulary, isa).expect("instructions of this machine");
        let first = best(&mut counter, &text, 32 << 10, 1);
        let warm = best(
            &mut counter,
            &text,
            32 << 10,
            std::env::var("ROUNDS").map_or(15, |r| r.parse().expect("a number")),
        );
        let tokens = counter.count(text.as_bytes());
        let short = |length| {
            best(
                &mut Counter::with_isa(&vocabulary, isa).expect("as above"),
                &text[..boundary(&text, 1 << 16)],
                length,
                30,
            )
        };
        let name = file.rsplit('/').next().unwrap_or(file);
        println!(
            "{name:10} {:8} {tokens:8} first {first:5.0} warm {warm:5.0} MB/s; 512: {:4.0}, 2048: {:4.0} ns",
            text.len(),
            512e3 / short(512),
            2048e3 / short(2048)
        );
    }
}

/// Megabytes a second of a text in slices.
fn best(counter: &mut Counter, text: &str, slice: usize, rounds: usize) -> f64 {
    let mut slices = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (one, behind) = rest.split_at(boundary(rest, slice));
        slices.push((one, f64::MAX));
        rest = behind;
    }
    for _ in 0..rounds {
        for (one, time) in &mut slices {
            let now = Instant::now();
            black_box(counter.count(black_box(one.as_bytes())));
            *time = time.min(now.elapsed().as_secs_f64());
        }
    }
    text.len() as f64 / 1e6 / slices.iter().map(|slice| slice.1).sum::<f64>()
}

/// The last place at or before `at` where a character starts; the end if that is nearer.
fn boundary(text: &str, at: usize) -> usize {
    let mut places = (0..=at.min(text.len())).rev();
    places.find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}
