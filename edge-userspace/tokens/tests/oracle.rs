//! The plain counter and the embedded vocabularies against the reference tokenizers that the
//! Rust registry has: bpe-openai and tiktoken-rs, which embed the vocabularies themselves.
//!
//! `EDGE_TOKENS_FUZZ_TEXTS` says how many texts a fuzz makes; the whole number for a release
//! is 1,000,000.

mod fuzz;

use std::path::Path;
use std::sync::LazyLock;

use edge_tokens::{Counter, Isa, NormalForm, Pattern, Ranks, Vocabulary, plain};
use sha2::{Digest as _, Sha256};
use tiktoken_rs::CoreBPE;
use unicode_normalization::UnicodeNormalization as _;

#[test]
fn embedded_ranks_are_those_of_the_references() {
    for (name, tiktoken, bpe) in [
        (
            "cl100k_base",
            tiktoken_rs::cl100k_base_singleton(),
            bpe_openai::cl100k_base(),
        ),
        (
            "o200k_base",
            tiktoken_rs::o200k_base_singleton(),
            bpe_openai::o200k_base(),
        ),
    ] {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        let ranks = vocabulary.ranks();
        assert_eq!(ranks.tokens(), bpe.bpe.num_tokens());
        for (rank, token) in ranks.iter() {
            assert_eq!(bpe.bpe.token_bytes(rank), token, "{name}, rank {rank}");
            assert_eq!(tiktoken.decode_bytes(&[rank]).unwrap(), token);
        }
    }
}

#[test]
fn embedded_files_are_those_of_the_provenance() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vocabularies");
    let provenance = std::fs::read_to_string(folder.join("PROVENANCE.md")).unwrap();
    for name in Vocabulary::EMBEDDED {
        let file = std::fs::read(folder.join(format!("{name}.bin"))).unwrap();
        let row = format!("| `{name}.bin` | `{}` |", hex::encode(Sha256::digest(file)));
        assert!(provenance.contains(&row), "PROVENANCE.md lacks {row}");
    }
}

#[test]
fn cl100k_counts_are_those_of_tiktoken_and_bpe() {
    let vocabulary = Vocabulary::embedded("cl100k_base").unwrap();
    let tiktoken = tiktoken_rs::cl100k_base_singleton();
    let bpe = bpe_openai::cl100k_base();
    fuzz::texts(1, |text| {
        let count = plain::count(&vocabulary, text.as_bytes()) as usize;
        assert_eq!(count, tiktoken.encode_ordinary(text).len(), "{text:?}");
        assert_eq!(count, bpe.count(text), "{text:?}");
    });
}

#[test]
fn o200k_counts_are_those_of_tiktoken_and_bpe() {
    let vocabulary = Vocabulary::embedded("o200k_base").unwrap();
    let tiktoken = tiktoken_rs::o200k_base_singleton();
    let bpe = bpe_openai::o200k_base();
    fuzz::texts(2, |text| {
        let count = plain::count(&vocabulary, text.as_bytes()) as usize;
        assert_eq!(count, tiktoken.encode_ordinary(text).len(), "{text:?}");
        assert_eq!(count, bpe.count(text), "{text:?}");
    });
}

#[test]
fn gpt2_counts_are_those_of_tiktoken() {
    for (name, tiktoken) in [
        ("r50k_base", tiktoken_rs::r50k_base_singleton()),
        ("p50k_base", tiktoken_rs::p50k_base_singleton()),
    ] {
        // Rank 50,256 is the special token's; p50k_base has runs of spaces behind it.
        let token = |rank| match rank {
            50_256 => Vec::new(),
            _ => tiktoken.decode_bytes(&[rank]).unwrap_or_default(),
        };
        let ranks = Ranks::new((0..50_281).map(token)).unwrap();
        let vocabulary = Vocabulary::of(name, ranks, Pattern::Gpt2, NormalForm::None);
        fuzz::texts(3, |text| {
            let count = plain::count(&vocabulary, text.as_bytes()) as usize;
            assert_eq!(
                count,
                tiktoken.encode_ordinary(text).len(),
                "{name}: {text:?}"
            );
        });
    }
}

/// The npm package is tiktoken with these ranks and this pattern, on the text's NFKC.
#[test]
fn claude_2_counts_are_those_of_tiktoken_on_its_nfkc() {
    let vocabulary = Vocabulary::embedded("claude-2").unwrap();
    let ranks = vocabulary.ranks().iter();
    let tiktoken = CoreBPE::new(
        ranks.map(|(rank, token)| (token.to_vec(), rank)).collect(),
        Default::default(),
        regex_text(Pattern::Gpt2),
    );
    let tiktoken = tiktoken.unwrap();
    fuzz::texts(99, |text| {
        let count = plain::count(&vocabulary, text.as_bytes()) as usize;
        let normal: String = text.nfkc().collect();
        assert_eq!(count, tiktoken.encode_ordinary(&normal).len(), "{text:?}");
    });
}

/// The patterns' own text in the reference's machine, over a vocabulary in which pieces that
/// are cut otherwise are likely to have another count.
#[test]
fn pieces_of_each_pattern_are_those_of_its_regular_expression() {
    for (seed, pattern) in (4..).zip(Pattern::ALL) {
        let reference = split(regex_text(pattern));
        let vocabulary = Vocabulary::of("bytes", BYTES.clone(), pattern, NormalForm::None);
        fuzz::texts(seed, |text| {
            let mut expected = reference.find_iter(text).map(|m| m.unwrap().as_str());
            for piece in plain::pieces(&vocabulary, text.as_bytes()) {
                let piece = std::str::from_utf8(piece).unwrap();
                assert_eq!(Some(piece), expected.next(), "{pattern} in {text:?}");
            }
            assert_eq!(expected.next(), None);
        });
    }
}

/// Any pattern may come with any tokens: the fast counters, too, take them as they come.
#[test]
fn counters_of_every_pattern_and_isa_equal_the_plain_one() {
    let embedded = Vocabulary::embedded("cl100k_base").unwrap();
    for (seed, pattern) in (20..).zip(Pattern::ALL) {
        for normal_form in [NormalForm::None, NormalForm::Nfc, NormalForm::Nfkc] {
            let ranks = embedded.ranks().clone();
            let vocabulary = Vocabulary::of("any", ranks, pattern, normal_form);
            let counters = Isa::available().map(|isa| Counter::with_isa(&vocabulary, isa).unwrap());
            let mut counters: Vec<Counter> = counters.collect();
            fuzz::texts(seed, |text| {
                let count = plain::count(&vocabulary, text.as_bytes());
                for counter in &mut counters {
                    let isa = counter.isa();
                    let fast = counter.count(text.as_bytes());
                    assert_eq!(fast, count, "{pattern}, {normal_form:?}, {isa}: {text:?}");
                }
            });
        }
    }
}

static BYTES: LazyLock<Ranks> =
    LazyLock::new(|| Ranks::new((0..=255_u8).map(|byte| [byte])).unwrap());

fn split(pattern: &str) -> fancy_regex::Regex {
    fancy_regex::Regex::new(pattern).unwrap()
}

/// As published: tiktoken's `openai_public.py`, `claude.json`, Llama 3's and Qwen 2's
/// `tokenizer.json`.
fn regex_text(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Cl100k => {
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
        }
        Pattern::O200k => concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
            r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        Pattern::Gpt2 => {
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
        }
        Pattern::Llama3 => {
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        }
        Pattern::Qwen2 => {
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        }
    }
}
