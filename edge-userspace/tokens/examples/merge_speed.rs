//! Merging alone, beside the `bpe` crate: what a look-up miss costs, and an endless piece.
//!
//! `cargo run -p edge-tokens --release --example merge_speed -- [o200k] [TEXT]`: the text's
//! pieces that are no tokens, each once, are what a cold cache would ask for.

use std::collections::HashSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use edge_tokens::arch::Isa;
use edge_tokens::merge::{self, Endless, Scratch, Shared};

const ROUNDS: usize = 9;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let o200k = arguments.first().is_some_and(|name| name == "o200k");
    let reference = if o200k {
        arguments.remove(0);
        bpe_openai::o200k_base()
    } else {
        bpe_openai::cl100k_base()
    };
    let bpe = &reference.bpe;
    let tokens: Vec<Vec<u8>> = (0..bpe.num_tokens() as u32)
        .map(|id| bpe.token_bytes(id).to_vec())
        .collect();
    let known: HashSet<&[u8]> = tokens.iter().map(Vec::as_slice).collect();
    let started = Instant::now();
    let section = merge::write(&tokens);
    let shared = Shared::read(&section).expect("what was just written");
    println!(
        "section {} bytes, made in {:?}, proper: {}",
        shared.bytes(),
        started.elapsed(),
        shared.is_proper()
    );

    let mut random = 7u64;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % bound
    };
    const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let base64: Vec<u8> = (0..2_000_000).map(|_| BASE64[below(64)]).collect();
    let mut texts = vec![(
        "base64".to_owned(),
        String::from_utf8(base64).expect("ASCII"),
    )];
    for path in &arguments {
        let bytes = std::fs::read(path).expect("a readable file");
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        texts.push((name, String::from_utf8_lossy(&bytes).into_owned()));
    }
    for (name, text) in &texts {
        let mut seen = HashSet::new();
        let missed: Vec<&str> = reference
            .split(text)
            .filter(|piece| !known.contains(piece.as_bytes()) && seen.insert(*piece))
            .collect();
        for (least, most) in [(1, 8), (9, 16), (17, 32), (33, 64), (65, usize::MAX)] {
            let pieces: Vec<&str> = missed
                .iter()
                .filter(|piece| (least..=most).contains(&piece.len()))
                .copied()
                .collect();
            if pieces.len() >= 50 {
                short(name, &pieces, reference, &shared);
            }
        }
    }

    let mut letters: Vec<u8> = (0..1_000_000).map(|_| b'a' + below(26) as u8).collect();
    endless("random letters", &letters, reference, &shared);
    letters.iter_mut().for_each(|byte| *byte = below(256) as u8);
    endless("random bytes", &letters, reference, &shared);
    let latin1: String = letters.iter().map(|&byte| byte as char).collect();
    endless("random Latin-1", latin1.as_bytes(), reference, &shared);
    endless(
        "base64",
        &texts[0].1.as_bytes()[..1_000_000],
        reference,
        &shared,
    );
    for one in [
        "a",
        "^",
        "_",
        "=",
        " ",
        "\u{1f600}",
        "\u{301}",
        "\u{200d}",
        "ab",
        "aab",
    ] {
        let many = one.repeat(1_000_000 / one.len());
        endless(one, many.as_bytes(), reference, &shared);
    }
    for (name, text) in &texts[1..] {
        let end = text.len().min(1_000_000);
        endless(name, &text.as_bytes()[..end], reference, &shared);
    }
}

/// The time that this thread has been on a core: others may want it too.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Pieces of one class of length: the lower quartile of interleaved rounds.
fn short(name: &str, pieces: &[&str], reference: &bpe_openai::Tokenizer, shared: &Shared<'_>) {
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut text = Vec::new();
    let mut spans = Vec::new();
    for piece in pieces {
        spans.push((text.len() as u32, piece.len() as u32));
        text.extend_from_slice(piece.as_bytes());
    }
    let keys16: Vec<[u64; 2]> = pieces
        .iter()
        .filter(|piece| piece.len() <= 16)
        .map(|piece| {
            let mut key = [0; 16];
            key[..piece.len()].copy_from_slice(piece.as_bytes());
            let key = u128::from_le_bytes(key);
            [key as u64, (key >> 64) as u64]
        })
        .collect();
    let keys8: Vec<u64> = keys16
        .iter()
        .filter(|key| key[1] == 0)
        .map(|key| key[0])
        .collect();
    let mut counts = vec![0u32; spans.len()];
    let mut small = vec![0u8; spans.len()];
    let mut scratch = Scratch::default();
    let mut names = vec!["bpe".to_owned()];
    let mut times = vec![Vec::new()];
    let mut totals = Vec::new();
    for round in 0..ROUNDS {
        let mut at = 0;
        let mut measure = |name: String, count: &mut dyn FnMut() -> u64| {
            let started = worked();
            let total = black_box(count());
            let took = (worked() - started).as_nanos() as f64;
            if round == 0 && at > 0 {
                names.push(name);
                times.push(Vec::new());
            }
            times[at].push(took);
            at += 1;
            totals.push(total);
        };
        measure("bpe".to_owned(), &mut || {
            pieces
                .iter()
                .map(|piece| reference.bpe.count(piece.as_bytes()) as u64)
                .sum()
        });
        for isa in Isa::available() {
            measure(format!("{isa} one"), &mut || {
                let one = |piece: &&str| merge::count(shared, piece.as_bytes(), isa, &mut scratch);
                pieces.iter().map(one).sum()
            });
            measure(format!("{isa} many"), &mut || {
                merge::count_pieces(shared, isa, &text, &spans, &mut counts, &mut scratch);
                counts.iter().map(|&count| u64::from(count)).sum()
            });
            if keys8.len() == pieces.len() {
                measure(format!("{isa} keys8"), &mut || {
                    merge::count_keys8(shared, isa, &keys8, &mut small);
                    small.iter().map(|&count| u64::from(count)).sum()
                });
            } else if keys16.len() == pieces.len() {
                measure(format!("{isa} keys16"), &mut || {
                    merge::count_keys16(shared, isa, &keys16, &mut small);
                    small.iter().map(|&count| u64::from(count)).sum()
                });
            }
        }
    }
    assert!(
        totals.iter().all(|&total| total == totals[0]),
        "counts differ: {totals:?}"
    );
    print!(
        "{name}: {} pieces of {:.1} bytes, {:.2} tokens;",
        pieces.len(),
        bytes as f64 / pieces.len() as f64,
        totals[0] as f64 / pieces.len() as f64
    );
    for (name, times) in names.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 4];
        print!(
            " {name} {:.0} ns {:.0} MB/s;",
            median / pieces.len() as f64,
            bytes as f64 * 1e3 / median
        );
    }
    println!();
}

/// One piece without an end.
fn endless(name: &str, piece: &[u8], reference: &bpe_openai::Tokenizer, shared: &Shared<'_>) {
    let mut scratch = Scratch::default();
    let mut times = [(); 3].map(|()| Vec::new());
    for _ in 0..5 {
        let started = worked();
        let wanted = reference.bpe.count(piece) as u64;
        times[0].push((worked() - started).as_nanos());
        let started = worked();
        assert_eq!(
            merge::count(shared, piece, Isa::detect(), &mut scratch),
            wanted
        );
        times[1].push((worked() - started).as_nanos());
        let started = worked();
        let mut endless = Endless::new(shared);
        for chunk in piece.chunks(1_400) {
            endless.push(shared, chunk);
        }
        assert_eq!(endless.finish(shared), wanted);
        times[2].push((worked() - started).as_nanos());
    }
    let rates = times.map(|mut times| {
        times.sort_unstable();
        piece.len() as f64 * 1e3 / times[1] as f64
    });
    println!(
        "endless {name:?}: bpe {:.0}, whole {:.0}, in chunks {:.0} MB/s",
        rates[0], rates[1], rates[2]
    );
}
