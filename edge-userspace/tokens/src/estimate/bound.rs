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
use super::algebra::{Counts, at, pair, triple};
use super::classes::{run, set};

/// At least so many tokens has the text, or each of the texts together, under every supported
/// pattern with any vocabulary.
#[must_use]
pub fn lower_bound(features: &Features) -> u64 {
    features.parts().map(|(_, counts)| of_counts(counts)).sum()
}

/// As [`lower_bound`], of one stretch.
pub(super) fn of_counts(counts: &Counts) -> u64 {
    let words = counts[pair(8 + set::BREAK, run::LETTER)];
    let numbers = counts[at::START + run::DIGIT];
    let punctuation: u64 = [run::LETTER, run::DIGIT, run::SPACE]
        .map(|before| counts[triple(before, run::PUNCTUATION)])
        .into_iter()
        .sum();
    words + numbers + punctuation
}
