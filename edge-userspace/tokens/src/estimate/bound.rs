//! The lower bound: what a text has at least, whatever its vocabulary.
//!
//! Every piece that a pattern cuts is at least one token. Under every pattern supported:
//! - A piece has ASCII letters only as one run of letters, with at most one character before
//!   it; the one exception is a contraction behind an apostrophe. So of the ASCII letters
//!   that stand directly behind an ASCII character which is neither, each is in a piece of
//!   its own.
//! - A piece with digits has nothing else but a space before them; so has each run of digits.
//! - Of two characters of punctuation behind a letter, a digit or a space, the first cannot
//!   go before letters, so they are a piece without letters or digits; and what goes on after
//!   punctuation in the same piece are line ends and `/` behind them alone.
//!
//! Normal forms keep all three: they leave ASCII as it is, or put an accent on it.

use super::Features;
use super::algebra::{Counts, at, pair};
use super::classes::{run, set};

/// At least so many tokens has the text, or each of the texts together, under every supported
/// pattern with any vocabulary.
#[must_use]
pub fn lower_bound(features: &Features) -> u64 {
    features.parts().map(|(_, counts)| of_counts(counts)).sum()
}

/// As [`lower_bound`], of one stretch.
pub(super) fn of_counts(counts: &Counts) -> u64 {
    let words = counts[pair(2, set::BREAK, run::LETTER)];
    let starts = counts[at::RUN + run::DIGIT] - counts[at::RUN2 + run::DIGIT];
    // Behind ASCII: other scripts have digits too.
    let numbers = starts - counts[pair(0, run::HIGH, run::DIGIT)];
    let punctuation = counts[at::TRIPLE + run::PUNCTUATION];
    words + numbers + punctuation
}

/// Of the punctuation that the triples count, what is before it is soft.
const _: usize = pair(2, set::SOFT, run::PUNCTUATION);
