//! The pieces of cl100k_base, Llama 3 and Qwen 2, of a whole block at once.

use super::characters::{Algebra, Characters, Contraction};

/// Their common pattern: whether white space that ends a text is one piece, and whether digits
/// go by three.
pub(crate) struct Words<const ONE_TAIL: bool, const TRIPLES: bool>;

/// cl100k_base: white space that ends a text is one piece.
pub(crate) type Cl100k = Words<true, true>;
/// Llama 3: white space that ends a text is cut behind its last line end.
pub(crate) type Llama3 = Words<false, true>;
/// Qwen 2: as Llama 3's, with digits one by one.
pub(crate) type Qwen2 = Words<false, false>;

impl<const ONE_TAIL: bool, const TRIPLES: bool> Algebra for Words<ONE_TAIL, TRIPLES> {
    const CASED: bool = false;
    const ANY_CASE: bool = true;
    const APOSTROPHE_STARTS: bool = true;

    #[inline(always)]
    fn starts(
        c: &Characters,
        ends: bool,
        contraction: impl FnOnce() -> Contraction,
        first_of: impl Fn(u64, u64, u64) -> u64,
    ) -> u64 {
        let &Characters {
            letter,
            number,
            other,
            ..
        } = c;
        let after_other = other << 1;
        // One that starts its piece takes the word behind it, if that follows at once.
        let leading = other & !after_other & !(c.space << 1);
        let words = letter & ((number << 1) | (c.newline << 1) | (after_other & !(leading << 1)));
        let numbers = if TRIPLES { triples(number) } else { number };
        let blanks = white_space(c, other, 0, ends && !ONE_TAIL, first_of);
        let mut starts = 1 | words | numbers | leading | blanks;
        let apostrophes = c.apostrophe & leading & (letter >> 1);
        if apostrophes != 0 {
            let found = contraction();
            starts |= letter & ((apostrophes & (found.alone >> 1)) << 2);
            starts |= letter & ((apostrophes & (found.pairs() >> 1)) << 3);
        }
        starts & c.valid
    }
}

/// Every third of a run of numbers.
#[inline(always)]
pub(super) fn triples(number: u64) -> u64 {
    let mut starts = number & !(number << 1);
    // Those with three more behind them, then six, and so on.
    let mut more = number & (number >> 1) & (number >> 2) & (number >> 3);
    let mut by = 3;
    while more != 0 && by < 64 {
        starts |= (starts & more) << by;
        more &= more >> by;
        by *= 2;
    }
    starts
}

/// Pieces of white space: a run up to its last line end, then its blanks but the last, then the
/// last, which goes with a word behind it. Line ends that follow the `other` characters belong
/// to these, and so does what is in `attached` already. `tail` says that the text ends with the
/// block and that blanks at its end are a piece.
#[inline(always)]
pub(super) fn white_space(
    c: &Characters,
    other: u64,
    attached: u64,
    tail: bool,
    first_of: impl Fn(u64, u64, u64) -> u64,
) -> u64 {
    let &Characters {
        newline,
        blank,
        valid,
        ..
    } = c;
    let attached = attached | attach(newline, other);
    let free = newline & !attached;
    let newlines = free & !((newline | blank | other) << 1);
    let firsts = blank & !(blank << 1);
    let lasts = blank & !(blank >> 1);
    let before_word = lasts & !(newline >> 1) & (valid >> 1);
    // Blanks behind a line end are a piece only if no other line end follows them.
    let behind = firsts & (free << 1);
    let at_end = if tail { blank & !(valid >> 1) } else { 0 };
    let alone = behind & first_of(before_word | at_end, lasts, firsts);
    newlines | (firsts & !behind) | before_word | alone
}

/// The `newline`s that follow the `other` characters without a gap.
#[inline(always)]
fn attach(newline: u64, other: u64) -> u64 {
    let seeds = newline & (other << 1);
    newline & !newline.wrapping_add(seeds)
}
