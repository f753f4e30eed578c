//! What is wrong with a text, and where.

use super::{MAX_DEPTH, MAX_KEY_BYTES, MAX_NUMBER_BYTES};
use std::fmt;

/// A key that came twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate(pub &'static str);

/// Where the text is wrong, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Error {
    /// Bytes before the place.
    pub at: u64,
    /// What is wrong.
    pub what: Wrong,
}

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Something else should stand there.
    Expected(&'static str),
    /// It ends too early.
    Ends,
    /// It goes on after the value.
    GoesOn,
    /// A control character in a string.
    Control,
    /// A backslash with nothing that may follow it.
    Escape,
    /// Not UTF-8.
    Utf8,
    /// More than [`MAX_DEPTH`].
    Depth,
    /// A key of more than [`MAX_KEY_BYTES`].
    KeyLength,
    /// A number of more than [`MAX_NUMBER_BYTES`].
    NumberLength,
    /// A key that must not come again.
    Duplicate(&'static str),
}

impl Wrong {
    /// Whether the text is JSON all the same (RFC 8259), and only not taken here.
    #[must_use]
    pub const fn is_json(self) -> bool {
        match self {
            Self::Depth | Self::KeyLength | Self::NumberLength | Self::Duplicate(_) => true,
            Self::Expected(_)
            | Self::Ends
            | Self::GoesOn
            | Self::Control
            | Self::Escape
            | Self::Utf8 => false,
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::Ends => f.write_str("the JSON ends too early"),
            Self::GoesOn => f.write_str("the JSON goes on after its end"),
            Self::Control => f.write_str("a control character in a string, not escaped"),
            Self::Escape => f.write_str("no such escape in a string"),
            Self::Utf8 => f.write_str("not UTF-8"),
            Self::Depth => write!(f, "more than {MAX_DEPTH} objects and arrays in each other"),
            Self::KeyLength => write!(f, "a key of more than {MAX_KEY_BYTES} bytes"),
            Self::NumberLength => write!(f, "a number of more than {MAX_NUMBER_BYTES} bytes"),
            Self::Duplicate(name) => write!(f, "the key {name} comes a second time"),
        }
    }
}
