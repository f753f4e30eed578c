//! What the characters of a block of text are: one bit for each, in words of 64.
//!
//! A block starts where a piece starts. Its bits are characters, not bytes, so that no rule
//! has to know how long a character is.

/// The classes of up to 64 characters. Bits outside of [`Self::valid`] are unset.
#[derive(Clone, Copy, Default)]
pub(crate) struct Characters {
    /// The characters that there are: the lowest bits, without a gap.
    pub(crate) valid: u64,
    /// `\p{L}`.
    pub(crate) letter: u64,
    /// `\p{N}`.
    pub(crate) number: u64,
    /// CR and LF.
    pub(crate) newline: u64,
    /// `\s` but CR and LF.
    pub(crate) blank: u64,
    /// U+0020, which is also blank.
    pub(crate) space: u64,
    /// What is left, marks included.
    pub(crate) other: u64,
    /// U+0027, which is also of the others.
    pub(crate) apostrophe: u64,
    /// What only [`super::o200k`] asks for.
    pub(crate) cased: Cased,
}

/// Classes of words that end where their case changes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cased {
    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`.
    pub(crate) upper: u64,
    /// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`.
    pub(crate) lower: u64,
    /// `\p{M}`, which is also of the others.
    pub(crate) mark: u64,
    /// `/`, which is also of the others.
    pub(crate) slash: u64,
}

/// Letters that make a contraction behind an apostrophe.
#[derive(Clone, Copy, Default)]
pub(crate) struct Contraction {
    /// `s`, `d`, `m`, `t`, which do it alone; without regard to case also U+017F.
    pub(crate) alone: u64,
    /// `l`, which does it doubled.
    pub(crate) l: u64,
    /// `v` and `r`, which do it before an `e`.
    pub(crate) v_or_r: u64,
    /// `e`.
    pub(crate) e: u64,
}

impl Contraction {
    /// The second letter of a pair, at the place of the first.
    #[inline(always)]
    pub(crate) fn pairs(&self) -> u64 {
        (self.l & (self.l >> 1)) | (self.v_or_r & (self.e >> 1))
    }
}

/// Where a pattern's pieces start in a block, by its classes.
pub(crate) trait Algebra {
    /// Whether [`Characters::cased`] is asked for.
    const CASED: bool;
    /// Whether contractions are found without regard to case.
    const ANY_CASE: bool;
    /// Whether a letter or digit before an apostrophe always ends its piece.
    const APOSTROPHE_STARTS: bool;

    /// The first characters of pieces: all of those that are certain; the highest bit is where
    /// the last piece of the block starts, which may go on behind it. `ends` says that the text
    /// ends with the block.
    fn starts(
        c: &Characters,
        ends: bool,
        contraction: impl FnOnce() -> Contraction,
        first_of: impl Fn(u64, u64, u64) -> u64,
    ) -> u64;
}
