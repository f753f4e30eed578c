//! Tokenizers of others, to compare counts with, and where they and the texts are.
//!
//! Two are crates. The others run in a process of their own, [`helper::Helper`], where
//! `cargo xtask setup --references` has put what they need; a test that lacks them says so
//! by name. What is here counts for others; it knows nothing of how the product counts.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses its own part of it"
)]

pub(crate) mod corpora;
pub(crate) mod helper;
pub(crate) mod texts;

use helper::Helper;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Counts by someone else.
pub(crate) trait Reference {
    /// Who.
    fn name(&self) -> &'static str;

    /// The count of each text; none where the reference itself fails.
    fn counts(&mut self, texts: &[&[u8]]) -> Vec<Option<u64>>;
}

/// Those that know a vocabulary and can run here, and why others cannot.
pub(crate) fn references(vocabulary: &str) -> (Vec<Box<dyn Reference>>, Vec<String>) {
    let mut here: Vec<Box<dyn Reference>> = Vec::new();
    let mut missing = Vec::new();
    here.extend(BpeOpenai::new(vocabulary).map(|it| Box::new(it) as Box<dyn Reference>));
    here.extend(TiktokenRs::new(vocabulary).map(|it| Box::new(it) as Box<dyn Reference>));
    let mut helpers = vec![Helper::tiktoken(vocabulary)];
    if vocabulary == "claude-2" {
        helpers.push(Helper::anthropic());
    }
    for helper in helpers {
        match helper {
            Ok(helper) => here.push(Box::new(helper)),
            Err(why) => missing.push(why),
        }
    }
    (here, missing)
}

/// The folder of what `cargo xtask setup --references` installs.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("EDGE_REFERENCES").map_or_else(|| target().join("references"), PathBuf::from)
}

/// The build directory.
pub(crate) fn target() -> &'static Path {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().unwrap_or(scratch)
}

/// The crate bpe-openai.
pub(crate) struct BpeOpenai(&'static bpe_openai::Tokenizer);

impl BpeOpenai {
    pub(crate) fn new(vocabulary: &str) -> Option<Self> {
        match vocabulary {
            "cl100k_base" => Some(Self(bpe_openai::cl100k_base())),
            "o200k_base" => Some(Self(bpe_openai::o200k_base())),
            _ => None,
        }
    }

    /// One text.
    pub(crate) fn count(&self, text: &str) -> u64 {
        self.0.count(text) as u64
    }
}

impl Reference for BpeOpenai {
    fn name(&self) -> &'static str {
        "bpe-openai"
    }

    fn counts(&mut self, texts: &[&[u8]]) -> Vec<Option<u64>> {
        each(texts, |text| self.count(text))
    }
}

/// The crate tiktoken-rs.
pub(crate) struct TiktokenRs(&'static tiktoken_rs::CoreBPE);

impl TiktokenRs {
    pub(crate) fn new(vocabulary: &str) -> Option<Self> {
        match vocabulary {
            "cl100k_base" => Some(Self(tiktoken_rs::cl100k_base_singleton())),
            "o200k_base" => Some(Self(tiktoken_rs::o200k_base_singleton())),
            _ => None,
        }
    }

    /// One text.
    pub(crate) fn count(&self, text: &str) -> u64 {
        self.0.count_ordinary(text) as u64
    }
}

impl Reference for TiktokenRs {
    fn name(&self) -> &'static str {
        "tiktoken-rs"
    }

    fn counts(&mut self, texts: &[&[u8]]) -> Vec<Option<u64>> {
        each(texts, |text| self.count(text))
    }
}

/// What is no UTF-8 is replaced by std's rule, since these take text alone.
fn each(texts: &[&[u8]], count: impl Fn(&str) -> u64) -> Vec<Option<u64>> {
    let one = |text: &&[u8]| {
        let text = String::from_utf8_lossy(text);
        catch_unwind(AssertUnwindSafe(|| count(&text))).ok()
    };
    texts.iter().map(one).collect()
}
