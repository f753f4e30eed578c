//! The pieces of GPT-2, and of Claude 2 on the normal form, of a whole block at once.

use super::characters::{Algebra, Characters, Contraction};

/// GPT-2, r50k_base, p50k_base.
pub(crate) struct Gpt2;

impl Algebra for Gpt2 {
    const CASED: bool = false;
    const ANY_CASE: bool = false;
    const APOSTROPHE_STARTS: bool = true;

    #[inline(always)]
    fn starts(
        c: &Characters,
        ends: bool,
        contraction: impl FnOnce() -> Contraction,
        _first_of: impl Fn(u64, u64, u64) -> u64,
    ) -> u64 {
        let &Characters {
            letter,
            number,
            other,
            ..
        } = c;
        let white = c.newline | c.blank;
        let behind_space = c.space << 1;
        let run = |class: u64| class & !(class << 1) & !behind_space;
        let others = run(other);
        let last = white & !(white >> 1) & (c.valid >> 1);
        let mut starts = 1 | run(letter) | run(number) | others | (white & !(white << 1)) | last;
        let apostrophes = c.apostrophe & others & (letter >> 1);
        if apostrophes != 0 {
            let found = contraction();
            let alone = apostrophes & (found.alone >> 1);
            let pairs = apostrophes & (found.pairs() >> 1);
            starts &= !((alone | pairs) << 1);
            if !ends {
                // Of a pair only the first letter may be inside of the block.
                starts &= !((apostrophes << 1) & !(c.valid >> 1));
            }
            starts |= letter & ((alone << 2) | (pairs << 3));
        }
        starts & c.valid
    }
}
