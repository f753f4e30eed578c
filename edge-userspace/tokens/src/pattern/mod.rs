//! How text is cut into pieces before anything is merged: the patterns of the vocabularies.
//!
//! A pattern is one of those that are known here by name, never a regular expression at run
//! time: each is a few classes and rules, and all that a faster splitter does has to equal
//! [`Pattern::piece_end`].

pub mod class;
#[cfg(test)]
#[rustfmt::skip]
mod runs;
mod white_space;
mod word;

use std::fmt;

/// The pattern of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// Of cl100k_base: words with a character before them, up to three digits, the rest with
    /// the line ends behind it; contractions in any case.
    Cl100k,
    /// Of o200k_base: as cl100k_base, but a word ends where its case changes, holds its marks
    /// and its contraction, and `/` counts as a line end.
    O200k,
    /// Of GPT-2, of r50k_base and p50k_base, and (on the NFKC form) of Claude 2: words, digits
    /// and the rest, each with a space before it.
    Gpt2,
    /// Of Llama 3: as cl100k_base was first published. White space after the last line end of
    /// a text is a piece of its own.
    Llama3,
    /// Of Qwen 2: as Llama 3's with digits one by one.
    Qwen2,
}

impl Pattern {
    /// All that there are.
    pub const ALL: [Self; 5] = [
        Self::Cl100k,
        Self::O200k,
        Self::Gpt2,
        Self::Llama3,
        Self::Qwen2,
    ];

    /// Its name in commands and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cl100k => "cl100k",
            Self::O200k => "o200k",
            Self::Gpt2 => "gpt2",
            Self::Llama3 => "llama3",
            Self::Qwen2 => "qwen2",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pattern| pattern.name() == name)
    }

    /// Where the piece that starts at `start` ends, in the text `bytes` that is all there:
    /// always after `start`, at most `bytes.len()`. An invalid part of UTF-8 is U+FFFD.
    ///
    /// # Panics
    /// If `start` is not inside of `bytes`.
    #[must_use]
    pub fn piece_end(self, bytes: &[u8], start: usize) -> usize {
        assert!(start < bytes.len(), "no piece starts at the end of a text");
        let word = match self {
            Self::Cl100k | Self::Llama3 => word::cl100k(bytes, start, 3),
            Self::Qwen2 => word::cl100k(bytes, start, 1),
            Self::O200k => word::o200k(bytes, start),
            Self::Gpt2 => word::gpt2(bytes, start),
        };
        word.unwrap_or_else(|| match self {
            Self::Cl100k => white_space::cl100k(bytes, start),
            Self::O200k | Self::Llama3 | Self::Qwen2 => white_space::lines(bytes, start),
            Self::Gpt2 => white_space::gpt2(bytes, start),
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
