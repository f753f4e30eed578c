//! How fast the texts are that cost most: `count_slow [VOCABULARY]`, in time on a core.
//!
//! Each is counted whole, once by a new counter and then again, and in parts.

use std::hint::black_box;
use std::time::Duration;

use edge_tokens::{Counter, Text, Vocabulary};

const BYTES: usize = 1_000_000;

fn main() {
    let name = std::env::args().nth(1);
    let name = name.as_deref().unwrap_or("cl100k_base");
    let vocabulary = Vocabulary::embedded(name).expect("a vocabulary's name");
    let mut random = 7u64;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % bound
    };
    let letters: String = (0..BYTES)
        .map(|_| (b'a' + below(26) as u8) as char)
        .collect();
    let cased: String = (0..BYTES)
        .map(|_| (b"Aa"[below(2)] + below(26) as u8) as char)
        .collect();
    let capitals = letters.to_uppercase();
    let latin: String = (0..BYTES / 2)
        .map(|_| char::from_u32(0xe0 + below(23) as u32).expect("a letter"))
        .collect();
    let signs: String = (0..BYTES)
        .map(|_| b"!#$%&()*+-=~"[below(12)] as char)
        .collect();
    let short: String = (0..BYTES / 20)
        .map(|_| {
            let word: String = (0..19).map(|_| (b'a' + below(26) as u8) as char).collect();
            word + " "
        })
        .collect();
    let blanks: String = (0..BYTES)
        .map(|_| [' ', '\t', '\n', ' '][below(4)])
        .collect();
    let mut texts = vec![
        ("letters", letters),
        ("both cases", cased),
        ("capitals", capitals),
        ("Latin-1", latin),
        ("signs", signs),
        ("words of 19", short),
        ("white space", blanks),
    ];
    for one in [
        " ",
        "\n",
        "\t",
        "a",
        "A",
        "=",
        "ab",
        " \n",
        "\u{1f600}",
        "\u{a0}",
    ] {
        texts.push((one, one.repeat(BYTES / one.len())));
    }
    for (name, text) in &texts {
        let text = text.as_bytes();
        print!("{name:12?}");
        let mut counter = Counter::new(&vocabulary);
        for _ in 0..2 {
            print!(
                " {:6.1}",
                rate(text.len(), || counter.count(black_box(text)))
            );
        }
        for chunk in [100, 1_400, 16_384, 65_536] {
            let rate = rate(text.len(), || {
                let mut parts = Text::new(&counter);
                for part in text.chunks(chunk) {
                    parts.push(&mut counter, part);
                }
                parts.finish(&mut counter)
            });
            print!(" {chunk}: {rate:6.1}");
        }
        println!(" MB/s");
    }
}

/// Megabytes a second of what this thread was on a core.
fn rate(bytes: usize, count: impl FnOnce() -> u64) -> f64 {
    let started = worked();
    black_box(count());
    bytes as f64 / 1e6 / (worked() - started).as_secs_f64()
}

/// The time that this thread has been on a core: others may want it too.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
