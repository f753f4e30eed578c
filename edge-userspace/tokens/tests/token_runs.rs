//! A million of one character: counted right, in parts too, on a stack that allows no
//! recursion, within a time that anything worse than linear would exceed by far.

#[path = "../../tests/skip/mod.rs"]
mod skip;

mod reference;

use edge_tokens::{Counter, Isa, Text, Vocabulary};
use reference::references;
use reference::texts::RUNS;
use std::sync::mpsc;
use std::time::Duration;

const LENGTH: usize = 1_000_000;
/// What every reference takes.
const SHORT: usize = 5_000;
/// Less than a level of recursion for each byte would take, by far.
const STACK_BYTES: usize = 256 << 10;
/// A hang guard: what is quadratic takes hours.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the references fail on themselves, at a million: for white space the stack of tiktoken's regular
/// expressions is too small, and the WebAssembly of the npm package has no room for any.
fn fails(reference: &str, vocabulary: &str, run: &str) -> bool {
    match reference {
        "tiktoken" => matches!(
            (vocabulary, run),
            ("o200k_base" | "claude-2", "space") | ("claude-2", "newline")
        ),
        "@anthropic-ai/tokenizer" => true,
        _ => false,
    }
}

/// Whole, and in parts, with every set of instructions that is here.
fn counts(vocabulary: &'static str, text: Vec<u8>) -> Vec<(String, u64)> {
    let (tell, told) = mpsc::sync_channel(1);
    let count = move || {
        let vocabulary = Vocabulary::embedded(vocabulary).expect("it is embedded");
        let mut counts = Vec::new();
        for isa in Isa::available() {
            let mut counter = Counter::with_isa(&vocabulary, isa).expect("available");
            counts.push((isa.to_string(), counter.count(&text)));
            for size in [997, 65_536] {
                let mut parts = Text::new(&counter);
                for part in text.chunks(size) {
                    parts.push(&mut counter, part);
                }
                counts.push((format!("{isa} by {size}"), parts.finish(&mut counter)));
            }
        }
        let _ = tell.send(counts);
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let thread = thread.spawn(count).expect("a thread");
    let counts = told.recv_timeout(PATIENCE).expect("counts in time");
    thread.join().expect("it ends when it has told");
    counts
}

#[test]
fn a_million_of_one_character() {
    fn here() {}
    for vocabulary in Vocabulary::EMBEDDED {
        let (mut references, missing) = references(vocabulary);
        for why in missing {
            skip::skipped(&format!("{} ({vocabulary})", skip::caller(&here)), &why);
        }
        // It takes a time that grows with the square.
        references.retain(|reference| reference.name() != "tiktoken-rs");
        for (length, (run, character)) in [SHORT, LENGTH]
            .into_iter()
            .flat_map(|length| RUNS.map(|run| (length, run)))
        {
            let text = character.repeat(length).into_bytes();
            let mut expected = Vec::new();
            for reference in &mut references {
                let count = reference.counts(&[&text])[0];
                let name = reference.name();
                let fails = length == LENGTH && fails(name, vocabulary, run);
                assert_eq!(count.is_none(), fails, "{name} {vocabulary} {run} {length}");
                expected.extend(count.map(|count| (name, count)));
            }
            // Where all fail, what is left is that every way comes to the same.
            let counts = counts(vocabulary, text);
            let first = counts[0].1;
            assert!(first > 0 && first <= 4 * length as u64);
            for (way, count) in counts {
                assert_eq!(count, first, "{vocabulary} {run} {length}: {way}");
                for (name, theirs) in &expected {
                    assert_eq!(count, *theirs, "{vocabulary} {run} {length}: {way}, {name}");
                }
            }
        }
    }
}
