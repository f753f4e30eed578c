//! Why a vocabulary file is not taken.

use super::ranks::RanksError;
use crate::pattern::Pattern;

/// Why a vocabulary could not be loaded. Each message says where and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is larger than any vocabulary that is known.
    #[error("{name}: {bytes} bytes, a vocabulary file has at most {most}")]
    TooLarge {
        /// Name of the vocabulary.
        name: String,
        /// Size of the file.
        bytes: u64,
        /// The bound.
        most: u64,
    },
    /// A `.tiktoken` file has no pattern in it.
    #[error("{name}: a .tiktoken file does not say its pattern; name one of {patterns}")]
    NoPattern {
        /// Name of the vocabulary.
        name: String,
        /// Those that there are.
        patterns: String,
    },
    /// A `tokenizer.json` says its pattern, which is not the one that was given.
    #[error("{name}: its pattern is {found}, not {given}; leave the pattern out")]
    OtherPattern {
        /// Name of the file.
        name: String,
        /// What it says.
        found: Pattern,
        /// What was given.
        given: Pattern,
    },
    /// Neither a `.tiktoken` file nor a `tokenizer.json`.
    #[error("{name}: the name of a vocabulary file ends with .tiktoken or .json")]
    Extension {
        /// Name of the vocabulary.
        name: String,
    },
    /// A line of a `.tiktoken` file.
    #[error("{name}, line {line}: {reason}")]
    Line {
        /// Name of the vocabulary.
        name: String,
        /// The line, the first is 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is damaged: what it says does not fit together.
    #[error("{name}: {reason}; get the file again")]
    Damaged {
        /// Name of the vocabulary.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is sound, but of a kind that is not counted here.
    #[error("{name}: {what} is not supported: {found} (what is: docs/tokens.md)")]
    Unsupported {
        /// Name of the vocabulary.
        name: String,
        /// The part of the file.
        what: &'static str,
        /// What it says.
        found: String,
    },
    /// The tokens are no vocabulary.
    #[error("{name}: {source}")]
    Ranks {
        /// Name of the vocabulary.
        name: String,
        /// Why.
        source: RanksError,
    },
}
