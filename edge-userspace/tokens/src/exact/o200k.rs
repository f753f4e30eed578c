//! The pieces of o200k_base of a whole block at once.

use super::characters::{Algebra, Cased, Characters, Contraction};
use super::cl100k::{triples, white_space};

/// o200k_base: words that end where their case changes, with their marks and contractions.
pub(crate) struct O200k;

impl Algebra for O200k {
    const CASED: bool = true;
    const ANY_CASE: bool = true;
    const APOSTROPHE_STARTS: bool = false;

    #[inline(always)]
    fn starts(
        c: &Characters,
        ends: bool,
        contraction: impl FnOnce() -> Contraction,
        first_of: impl Fn(u64, u64, u64) -> u64,
    ) -> u64 {
        let Cased {
            upper,
            lower,
            mark,
            slash,
        } = c.cased;
        let mut rest = Rest::of(c, c.other & !mark, slash);
        let mut word = upper | lower;
        if mark != 0 {
            (rest, word) = marks(c, rest, word);
        }
        let suffixes = c.apostrophe & (word << 1) & (word >> 1);
        let (mut within, mut behind) = (0, 0);
        if suffixes != 0 {
            (within, behind) = contractions(suffixes, &contraction());
        }
        if within != 0 {
            word &= !within;
            // The same again without what belongs to the contractions.
            let other = c.other & !mark & !within;
            rest = Rest::of(c, other, slash);
            if mark != 0 {
                (rest, word) = marks_of(c, rest, (upper | lower) & !within, other);
            }
        }
        let after_other = (rest.other | rest.attached) << 1;
        let joined = rest.leading << 1;
        let words = word & ((c.number << 1) | (c.newline << 1) | (after_other & !joined));
        let cases = case_changes(upper & word, lower & word, ends, c.valid, &first_of);
        let blanks = white_space(c, rest.other, rest.attached, ends, first_of);
        let mut starts = 1 | words | cases | triples(c.number) | rest.leading | blanks;
        if !ends {
            // Of a contraction only a part may be inside of the block.
            starts &= !(c.apostrophe & (word << 1) & !(c.valid >> 2));
        }
        ((starts & !within) | (behind & word)) & c.valid
    }
}

/// The characters that are neither white space, words nor numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Rest {
    other: u64,
    /// Line ends and slashes behind them, which belong to their piece.
    attached: u64,
    /// Those that start their piece, and take the word behind it if that follows at once.
    leading: u64,
}

impl Rest {
    #[inline(always)]
    fn of(c: &Characters, other: u64, slash: u64) -> Self {
        let tail = c.newline | slash;
        let seeds = c.newline & (other << 1);
        let attached = (tail & !tail.wrapping_add(seeds)) | seeds;
        let other = other & !attached;
        Self {
            other,
            attached,
            leading: other & !(other << 1) & !(c.space << 1),
        }
    }
}

/// Marks are part of a word, but behind two of the rest, or behind one with its space, they are
/// of the rest.
#[cold]
fn marks(c: &Characters, rest: Rest, word: u64) -> (Rest, u64) {
    marks_of(c, rest, word, c.other & !c.cased.mark)
}

#[cold]
fn marks_of(c: &Characters, mut rest: Rest, word: u64, other: u64) -> (Rest, u64) {
    let mark = c.cased.mark & word;
    let mut of_rest = 0;
    // What starts a piece changes with each run of marks that is found to be of the rest.
    for _ in 0..64 {
        let seeds = mark & (rest.other << 1) & !(rest.leading << 1);
        let found = (mark & !mark.wrapping_add(seeds)) | (seeds & mark);
        if found & !of_rest == 0 {
            break;
        }
        // The leftmost is certain.
        let first = found & !of_rest;
        let first = first & first.wrapping_neg();
        of_rest |= mark & !mark.wrapping_add(first);
        rest = Rest::of(c, other | of_rest, c.cased.slash);
    }
    (rest, word & !of_rest)
}

/// Contractions behind words: their characters, and what follows them. One that follows
/// another directly is none.
#[inline(always)]
fn contractions(suffixes: u64, found: &Contraction) -> (u64, u64) {
    let alone = suffixes & (found.alone >> 1);
    let pairs = suffixes & (found.pairs() >> 1);
    let follow = |alone: u64, pairs: u64| (alone << 2) | (pairs << 3);
    let (mut left_alone, mut left_pairs) = (alone, pairs);
    let chained = follow(alone, pairs) & (alone | pairs);
    if chained != 0 {
        (left_alone, left_pairs) = unchained(alone, pairs);
    }
    let within =
        (left_alone | (left_alone << 1)) | (left_pairs | (left_pairs << 1) | (left_pairs << 2));
    (within, follow(left_alone, left_pairs))
}

#[cold]
fn unchained(alone: u64, pairs: u64) -> (u64, u64) {
    let (mut kept_alone, mut kept_pairs) = (0_u64, 0_u64);
    let mut left = alone | pairs;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        left &= !bit;
        if ((kept_alone << 2) | (kept_pairs << 3)) & bit == 0 {
            kept_alone |= alone & bit;
            kept_pairs |= pairs & bit;
        }
    }
    (kept_alone, kept_pairs)
}

/// Where a word ends because its case changes: `U*L+` first, `U+L*` where that does not match.
#[inline(always)]
fn case_changes(
    upper: u64,
    lower: u64,
    ends: bool,
    valid: u64,
    first_of: &impl Fn(u64, u64, u64) -> u64,
) -> u64 {
    let both = upper & lower;
    let (upper, lower) = (upper & !both, lower & !both);
    if both == 0 {
        return upper & (lower << 1);
    }
    mixed_case(upper, lower, both, ends, valid, first_of)
}

/// With characters that are both, which are lower behind lower and upper behind upper.
#[inline(always)]
fn mixed_case(
    upper: u64,
    lower: u64,
    both: u64,
    ends: bool,
    valid: u64,
    first_of: &impl Fn(u64, u64, u64) -> u64,
) -> u64 {
    let seeds = both & (lower << 1);
    let lower_both = both & !both.wrapping_add(seeds);
    let starts = upper & ((lower | lower_both) << 1);
    // Upper behind one that is both: if no lower follows either, `U*L+` has given the last of
    // these back, and what is behind it is a word of its own.
    let behind = upper & ((both & !lower_both) << 1);
    if behind == 0 {
        return starts;
    }
    let firsts = upper & !(upper << 1);
    let lasts = upper & !(upper >> 1);
    let known = if ends { valid } else { valid >> 1 };
    let given_back = lasts & !((lower | both) >> 1) & known;
    starts | (behind & first_of(given_back, lasts, firsts))
}
