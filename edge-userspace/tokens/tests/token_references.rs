//! Exact counts equal those of other tokenizers: tiktoken's and @anthropic-ai/tokenizer's,
//! bpe-openai's and tiktoken-rs', with every set of instructions that is here.
//!
//! `EDGE_TOKENS_FUZZ_TEXTS` says how many random strings. From a million on, every document
//! of the corpora is counted, else every thirty-second: `cargo xtask test --exhaustive`.
//! Each part has its own line where a tokenizer or the texts are missing.

#[path = "../../tests/skip/mod.rs"]
mod skip;

mod reference;

use edge_tokens::{Counter, Isa, Vocabulary};
use reference::texts::{BROKEN, Random, TRAPS, fuzz_texts, is_exhaustive, start};
use reference::{Reference, corpora, references};

/// Texts are compared in batches of about so many bytes.
const BATCH_BYTES: usize = 16 << 20;

/// Everyone's counts of one vocabulary.
struct Comparison {
    vocabulary: &'static str,
    references: Vec<Box<dyn Reference>>,
    counters: Vec<Counter>,
    texts: usize,
    /// Counts that a reference did not give.
    refused: usize,
}

impl Comparison {
    fn new(test: &str, vocabulary: &'static str) -> Self {
        let (references, missing) = references(vocabulary);
        for why in missing {
            skip::skipped(&format!("{test} ({vocabulary})"), &why);
        }
        let embedded = Vocabulary::embedded(vocabulary).expect("it is embedded");
        let counters = Isa::available().map(|isa| Counter::with_isa(&embedded, isa));
        Self {
            vocabulary,
            references,
            counters: counters.map(|it| it.expect("available")).collect(),
            texts: 0,
            refused: 0,
        }
    }

    /// All say the same of every text.
    fn compare(&mut self, texts: &[Vec<u8>]) {
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        self.texts += texts.len();
        let theirs: Vec<_> = (self.references.iter_mut())
            .map(|reference| (reference.name(), reference.counts(&texts)))
            .collect();
        for (name, counts) in &theirs {
            let refused = counts.iter().filter(|count| count.is_none()).count();
            // Whoever's Unicode is older than the characters in a text cannot normalise it.
            let may = self.vocabulary == "claude-2";
            assert!(refused == 0 || may, "{name} fails on {refused} texts");
            self.refused += refused;
        }
        for counter in &mut self.counters {
            for (index, text) in texts.iter().enumerate() {
                let ours = counter.count(text);
                for (name, counts) in &theirs {
                    if counts[index].is_some_and(|theirs| theirs != ours) {
                        let (isa, vocabulary) = (counter.isa(), self.vocabulary);
                        let theirs = counts[index].unwrap_or_default();
                        let bytes = text.len();
                        let text = String::from_utf8_lossy(text);
                        let shown = start(&text, 400);
                        panic!(
                            "{vocabulary}: {ours} by {isa}, {theirs} by {name}: {bytes} bytes: {shown:?}"
                        );
                    }
                }
            }
        }
    }

    fn told(&self) {
        let names: Vec<_> = self.references.iter().map(|it| it.name()).collect();
        let names = names.join(", ");
        let (vocabulary, texts, refused) = (self.vocabulary, self.texts, self.refused);
        println!("{vocabulary}: {texts} texts as {names}; {refused} counts not given");
    }
}

/// With each vocabulary, batch by batch.
fn compare(test: &str, mut batches: impl FnMut(&mut dyn FnMut(&[Vec<u8>]))) {
    for vocabulary in Vocabulary::EMBEDDED {
        let mut comparison = Comparison::new(test, vocabulary);
        batches(&mut |texts| comparison.compare(texts));
        assert!(comparison.texts > 20 * comparison.refused);
        comparison.told();
    }
}

#[test]
fn traps_count_as_they_do_elsewhere() {
    fn here() {}
    let mut texts: Vec<Vec<u8>> = TRAPS.iter().map(|text| text.as_bytes().to_vec()).collect();
    texts.extend(BROKEN.iter().map(|text| text.to_vec()));
    // Each after and before each other one: a trap may be in what two make together.
    let pairs = texts.iter().flat_map(|one| {
        let texts = &texts;
        texts.iter().map(move |other| [&**one, other].concat())
    });
    let pairs: Vec<_> = pairs.collect();
    compare(skip::caller(&here), |batch| {
        batch(&texts);
        batch(&pairs);
    });
}

#[test]
fn random_strings_count_as_they_do_elsewhere() {
    fn here() {}
    let texts = fuzz_texts();
    compare(skip::caller(&here), |batch| {
        let mut random = Random::new(1);
        let mut left = texts;
        while left > 0 {
            let now = left.min(20_000);
            let texts: Vec<_> = (0..now).map(|_| random.text()).collect();
            batch(&texts);
            left -= now;
        }
    });
}

#[test]
fn the_same_declaration_in_532_languages_counts_as_it_does_elsewhere() {
    fn here() {}
    let declarations = match corpora::declarations() {
        Ok(declarations) => declarations,
        Err(why) => return skip::skipped(skip::caller(&here), &why),
    };
    // The package's list of languages, and no fewer.
    assert_eq!(declarations.len(), 532);
    let texts: Vec<_> = declarations.into_iter().map(|(_, text)| text).collect();
    compare(skip::caller(&here), |batch| batch(&texts));
}

#[test]
fn the_corpora_count_as_they_do_elsewhere() {
    fn here() {}
    let documents = match corpora::documents() {
        Ok(documents) => documents,
        Err(why) => return skip::skipped(skip::caller(&here), &why),
    };
    let stride = if is_exhaustive() { 1 } else { 32 };
    compare(skip::caller(&here), |batch| {
        let (mut texts, mut bytes) = (Vec::new(), 0);
        for document in documents.iter().step_by(stride) {
            texts.push(document.read().expect("a text that the list names"));
            bytes += texts.last().map_or(0, Vec::len);
            if bytes > BATCH_BYTES {
                batch(&std::mem::take(&mut texts));
                bytes = 0;
            }
        }
        batch(&texts);
    });
}
