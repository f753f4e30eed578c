//! The exact counter: as many tokens as the reference tokenizer makes of a text.
//!
//! A [`Counter`] belongs to one thread and one vocabulary. A [`Text`] is one text that is still
//! arriving: many may be open beside one counter.

pub(crate) mod characters;
pub(crate) mod cl100k;
mod cuts;
mod endless;
pub(crate) mod gpt2;
pub(crate) mod look_up;
pub(crate) mod o200k;
mod text;

use std::fmt;

use look_up::LookUp;

use crate::NormalForm;
use crate::arch::Isa;
use crate::arch::blocks::{self, Sink as _};
use crate::lookup::{self, batch::Batch};
use crate::lookup::{Memo, Shared};
use crate::merge;
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
        let is_normal = self.vocabulary.normal_form() == NormalForm::None || text.is_ascii();
        if is_normal && text.len() <= MOST_AT_ONCE {
            let (tokens, end) = self.count_valid(text);
            return tokens
                + if end < text.len() {
                    self.count_parts(&text[end..])
                } else {
                    0
                };
        }
        self.count_parts(text)
    }

    /// The tokens of what needs more than to be cut into pieces: the rules for invalid UTF-8,
    /// or a normal form.
    #[cold]
    fn count_parts(&mut self, text: &[u8]) -> u64 {
        let mut whole = Text::new(self);
        for part in text.chunks(MOST_AT_ONCE) {
            whole.push(self, part);
        }
        whole.finish(self)
    }

    /// The tokens of UTF-8 in the vocabulary's normal form.
    fn count_normal(&mut self, text: &[u8]) -> u64 {
        let (tokens, end) = self.count_valid(text);
        debug_assert_eq!(end, text.len(), "it is UTF-8");
        tokens
    }

    /// The tokens up to where a piece has something in it that is no UTF-8, and where that piece
    /// starts.
    fn count_valid(&mut self, text: &[u8]) -> (u64, usize) {
        let pattern = self.vocabulary.pattern();
        let isa = self.isa;
        let (mut look_up, batch) = self.look_up();
        let end = blocks::pieces(isa, pattern, text, batch, &mut look_up);
        (look_up.tokens, end)
    }

    /// The tokens of the pieces that end there, one behind the other.
    fn count_pieces(&mut self, text: &[u8], ends: impl Iterator<Item = usize>) -> u64 {
        let (mut look_up, batch) = self.look_up();
        let mut start = 0;
        for end in ends {
            batch.push(text, start, end);
            start = end;
            if batch.is_full() {
                look_up.take(text, batch);
            }
        }
        look_up.take(text, batch);
        look_up.tokens
    }

    fn merge(&self) -> merge::Shared<'_> {
        merge::Shared::read(self.vocabulary.merge_section()).expect(TESTED)
    }

    fn look_up(&mut self) -> (LookUp<'_>, &mut Batch) {
        let look_up = LookUp {
            shared: Shared::read(self.vocabulary.lookup_section()).expect(TESTED),
            tables: self.memo.tables(),
            merge: merge::Shared::read(self.vocabulary.merge_section()).expect(TESTED),
            scratch: &mut self.scratch,
            isa: self.isa,
            tokens: 0,
        };
        (look_up, &mut self.batch)
    }
}

const TESTED: &str = "the sections of a vocabulary are made by this package";

/// Bytes of a text that are cut into pieces in one go: offsets in it are of 32 bits.
const MOST_AT_ONCE: usize = 1 << 30;

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
