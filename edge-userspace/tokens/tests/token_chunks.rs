//! A text that arrives in parts counts as it does whole, however it is cut; and what is said
//! of it on the way is never too much.
//!
//! Sizes as in `token_references.rs`.

#[path = "../../tests/skip/mod.rs"]
mod skip;

mod reference;

use edge_tokens::{Counter, Isa, Text, Vocabulary};
use reference::corpora;
use reference::texts::{BROKEN, Random, TRAPS, is_exhaustive};

/// One counter for each vocabulary and each set of instructions that is here.
fn counters() -> Vec<Counter> {
    let vocabularies = Vocabulary::EMBEDDED.map(|name| Vocabulary::embedded(name).expect("it is"));
    let of = |vocabulary| {
        Isa::available().map(move |isa| Counter::with_isa(vocabulary, isa).expect("available"))
    };
    vocabularies.iter().flat_map(of).collect()
}

/// The count of a text in parts, while what is known on the way only grows, up to it.
fn in_parts<'a>(counter: &mut Counter, parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut text = Text::new(counter);
    let mut known = 0;
    for part in parts {
        text.push(counter, part);
        let at_least = text.at_least();
        assert!(at_least >= known, "{at_least} after {known}");
        known = at_least;
    }
    let tokens = text.finish(counter);
    assert!(known <= tokens, "at least {known}, but {tokens}");
    tokens
}

fn assert_whole(counter: &mut Counter, whole: u64, text: &[u8], cuts: &[usize]) {
    let bounds: Vec<usize> = [0]
        .iter()
        .chain(cuts)
        .copied()
        .chain([text.len()])
        .collect();
    let parts = bounds.windows(2).map(|pair| &text[pair[0]..pair[1]]);
    let tokens = in_parts(counter, parts);
    if tokens != whole {
        let (name, isa) = (counter.vocabulary().name(), counter.isa());
        let shown = String::from_utf8_lossy(&text[..text.len().min(400)]);
        panic!("{name} {isa}: {tokens} in parts cut at {cuts:?}, {whole} whole: {shown:?}");
    }
}

#[test]
fn every_split_of_a_thousand_texts() {
    let mut random = Random::new(2);
    let mut texts: Vec<Vec<u8>> = TRAPS.iter().map(|text| text.as_bytes().to_vec()).collect();
    texts.extend(BROKEN.iter().map(|text| text.to_vec()));
    while texts.len() < 1_000 {
        texts.push(random.text());
    }
    for counter in &mut counters() {
        for text in &texts {
            let whole = counter.count(text);
            for cut in 0..=text.len() {
                assert_whole(counter, whole, text, &[cut]);
            }
            let every_byte: Vec<usize> = (1..text.len()).collect();
            assert_whole(counter, whole, text, &every_byte);
        }
    }
}

#[test]
fn random_strings_cut_anywhere_any_number_of_times() {
    let mut random = Random::new(3);
    let texts = if is_exhaustive() { 200_000 } else { 5_000 };
    for counter in &mut counters() {
        for _ in 0..texts {
            let mut text = random.text();
            for _ in 0..random.below(4) {
                text.extend(random.text());
            }
            let whole = counter.count(&text);
            let cuts = cuts(&mut random, text.len());
            assert_whole(counter, whole, &text, &cuts);
        }
    }
}

#[test]
fn the_corpora_cut_anywhere_any_number_of_times() {
    fn here() {}
    let documents = match corpora::documents() {
        Ok(documents) => documents,
        Err(why) => return skip::skipped(skip::caller(&here), &why),
    };
    let stride = if is_exhaustive() { 1 } else { 32 };
    let mut random = Random::new(4);
    let mut counters = counters();
    for document in documents.iter().step_by(stride) {
        let text = document.read().expect("a text that the list names");
        for counter in &mut counters {
            let whole = counter.count(&text);
            let cuts = cuts(&mut random, text.len());
            assert_whole(counter, whole, &text, &cuts);
        }
    }
}

#[test]
fn texts_that_arrive_at_the_same_time_do_not_mix() {
    let mut random = Random::new(5);
    for counter in &mut counters() {
        let texts: Vec<Vec<u8>> = (0..50).map(|_| random.text()).collect();
        let whole: Vec<u64> = texts.iter().map(|text| counter.count(text)).collect();
        let mut open: Vec<Text> = texts.iter().map(|_| Text::new(counter)).collect();
        let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..longest {
            for (text, open) in texts.iter().zip(&mut open) {
                if let Some(byte) = text.get(at) {
                    open.push(counter, &[*byte]);
                }
            }
        }
        let parted = open.into_iter().map(|text| text.finish(counter));
        assert_eq!(parted.collect::<Vec<_>>(), whole);
    }
}

/// Places to cut in order; some parts empty, some of a byte, some large.
fn cuts(random: &mut Random, length: usize) -> Vec<usize> {
    let count = random.below(12);
    let mut cuts: Vec<usize> = (0..count).map(|_| random.below(length + 1)).collect();
    if let Some(first) = cuts.first().copied() {
        cuts.extend([first, (first + 1).min(length)]);
    }
    cuts.sort_unstable();
    cuts
}
