//! The exact counter: as many tokens as the reference tokenizer makes of a text.
//!
//! A [`Counter`] belongs to one thread and one vocabulary. A [`Text`] is one text that is still
//! arriving: many may be open beside one counter.

mod text;

use crate::arch::Isa;
use crate::plain;
use crate::vocabulary::Vocabulary;

pub use text::Text;

/// Counts the tokens of texts by one vocabulary, exactly.
#[derive(Debug)]
pub struct Counter {
    vocabulary: Vocabulary,
    isa: Isa,
}

impl Counter {
    /// One for that vocabulary, with the instructions of [`Isa::detect`].
    #[must_use]
    pub fn new(vocabulary: &Vocabulary) -> Self {
        Self {
            vocabulary: vocabulary.clone(),
            isa: Isa::detect(),
        }
    }

    /// One with these instructions; `None` if this machine lacks them.
    #[must_use]
    pub fn with_isa(vocabulary: &Vocabulary, isa: Isa) -> Option<Self> {
        isa.is_available().then(|| Self {
            vocabulary: vocabulary.clone(),
            isa,
        })
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
        plain::count(&self.vocabulary, text)
    }
}
