//! The exact counter: as many tokens as the reference tokenizer makes of a text.
//!
//! A [`Counter`] belongs to one thread and one vocabulary. A [`Text`] is one text that is still
//! arriving: many may be open beside one counter.

pub(crate) mod characters;
pub(crate) mod cl100k;
pub(crate) mod gpt2;
pub(crate) mod look_up;
pub(crate) mod o200k;
mod text;

use std::fmt;

use look_up::LookUp;

use crate::NormalForm;
use crate::arch::{Isa, blocks};
use crate::lookup::{self, batch::Batch};
use crate::lookup::{Memo, Shared};
use crate::merge;
use crate::plain;
use crate::vocabulary::Vocabulary;

pub use text::Text;

/// Counts the tokens of texts by one vocabulary, exactly.
pub struct Counter {
    vocabulary: Vocabulary,
    isa: Isa,
    memo: Memo,
    scratch: merge::Scratch,
    batch: Box<Batch>,
}

impl Counter {
    /// What one learns while it counts takes so many bytes at most, beside the vocabulary's
    /// tables, which all share.
    pub const MEMO_BYTES: usize = lookup::memo::BYTES;

    /// One for that vocabulary, with the instructions of [`Isa::detect`].
    #[must_use]
    pub fn new(vocabulary: &Vocabulary) -> Self {
        Self::of(vocabulary, Isa::detect())
    }

    /// One with these instructions; `None` if this machine lacks them.
    #[must_use]
    pub fn with_isa(vocabulary: &Vocabulary, isa: Isa) -> Option<Self> {
        isa.is_available().then(|| Self::of(vocabulary, isa))
    }

    fn of(vocabulary: &Vocabulary, isa: Isa) -> Self {
        Self {
            vocabulary: vocabulary.clone(),
            isa,
            memo: Memo::new(),
            scratch: merge::Scratch::default(),
            batch: Batch::new(),
        }
    }

    /// The vocabulary it counts by.
    #[must_use]
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The instructions it counts with.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The tokens of a text. Special tokens in it are plain text, an invalid part of UTF-8 is
    /// U+FFFD, as `String::from_utf8_lossy` has it.
    pub fn count(&mut self, text: &[u8]) -> u64 {
        if self.vocabulary.normal_form() != NormalForm::None && !text.is_ascii() {
            let text = String::from_utf8_lossy(text);
            let text = self.vocabulary.normal_form().whole(&text);
            return self.count_normal(text.as_bytes());
        }
        self.count_normal(text)
    }

    /// The tokens of a text in the vocabulary's normal form.
    fn count_normal(&mut self, text: &[u8]) -> u64 {
        let mut look_up = LookUp {
            shared: Shared::read(self.vocabulary.lookup_section()).expect("written here"),
            tables: self.memo.tables(),
            merge: merge::Shared::read(self.vocabulary.merge_section()).expect("written here"),
            scratch: &mut self.scratch,
            isa: self.isa,
            tokens: 0,
        };
        let pattern = self.vocabulary.pattern();
        let end = blocks::pieces(self.isa, pattern, text, &mut self.batch, &mut look_up);
        look_up.tokens + plain::count(&self.vocabulary, &text[end..])
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter")
            .field("vocabulary", &self.vocabulary)
            .field("isa", &self.isa)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
