//! The exact counter: as many tokens as the reference tokenizer makes of a text.
//!
//! A [`Counter`] belongs to one thread and one vocabulary. A [`Text`] is one text that is still
//! arriving: many may be open beside one counter.

pub(crate) mod characters;
pub(crate) mod cl100k;
pub(crate) mod gpt2;
pub(crate) mod o200k;
mod look_up;
mod text;

use crate::arch::Isa;
use crate::lookup::{Memo, Shared};
use crate::lookup::batch::Batch;
use crate::plain;
use crate::vocabulary::Vocabulary;

pub use text::Text;

/// Counts the tokens of texts by one vocabulary, exactly.
pub struct Counter {
    vocabulary: Vocabulary,
    isa: Isa,
    memo: Memo,
    batch: Box<Batch>,
}

impl Counter {
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
        let mut look_up = look_up::LookUp {
            shared: Shared::read(self.vocabulary.lookup_section()).expect("written here"),
            tables: self.memo.tables(),
            vocabulary: &self.vocabulary,
            tokens: 0,
        };
        let end = match self.isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: only an available one is taken.
            #[expect(unsafe_code, reason = "for now")]
            Isa::Avx512 => unsafe {
                match self.vocabulary.pattern() {
                    crate::Pattern::Cl100k => crate::arch::avx512::blocks::pieces::<cl100k::Cl100k>(text, self.vocabulary.pattern(), &mut self.batch, &mut look_up),
                    crate::Pattern::Llama3 => crate::arch::avx512::blocks::pieces::<cl100k::Llama3>(text, self.vocabulary.pattern(), &mut self.batch, &mut look_up),
                    crate::Pattern::Qwen2 => crate::arch::avx512::blocks::pieces::<cl100k::Qwen2>(text, self.vocabulary.pattern(), &mut self.batch, &mut look_up),
                    crate::Pattern::O200k => crate::arch::avx512::blocks::pieces::<o200k::O200k>(text, self.vocabulary.pattern(), &mut self.batch, &mut look_up),
                    crate::Pattern::Gpt2 => crate::arch::avx512::blocks::pieces::<gpt2::Gpt2>(text, self.vocabulary.pattern(), &mut self.batch, &mut look_up),
                }
            },
            _ => 0,
        };
        let tokens = look_up.tokens;
        tokens + plain::count(&self.vocabulary, &text[end..])
    }
}

#[cfg(test)]
mod tests;
