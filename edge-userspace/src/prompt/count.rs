//! The tokens of a prompt, and what kind of number that is.

use super::place::Part;

/// Whether a count is the tokenizer's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By the model's published tokenizer and the published rule for what is around texts.
    Exact,
    /// Anything else.
    Estimate,
}

impl Kind {
    /// Both, in order of their number.
    pub const ALL: [Self; 2] = [Self::Exact, Self::Estimate];

    /// As headers and metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Estimate => "estimate",
        }
    }
}

/// The tokens of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// All of it.
    pub tokens: u64,
    /// What kind of number that is.
    pub kind: Kind,
    /// As few it may be; of an exact count the count.
    pub low: u64,
    /// As many it may be.
    pub high: u64,
    /// What it consists of.
    pub parts: Parts,
}

/// What a count consists of. An estimate's parts are rounded one by one, so they may differ
/// from the whole by one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Parts {
    /// Texts, by [`Part`].
    pub texts: [u64; Part::ALL.len()],
    /// Pictures, and documents that are not text.
    pub pictures: u64,
    /// What the model's rule adds around them.
    pub framing: u64,
}
