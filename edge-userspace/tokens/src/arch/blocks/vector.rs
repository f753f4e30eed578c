//! What a set of instructions has to offer.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the same promise stands for each: the instructions are there"
)]
#![expect(
    unsafe_code,
    reason = "calls what the instructions have to be there for"
)]

use super::{Classes, Leads, note};
use crate::exact::characters::Contraction;
use crate::lookup::batch::Batch;

/// What the bytes of a block are: a bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bytes {
    /// `A` to `Z`, `a` to `z`.
    pub(crate) letter: u64,
    /// `0` to `9`.
    pub(crate) number: u64,
    /// CR and LF.
    pub(crate) newline: u64,
    /// Space, tab, vertical tab, form feed.
    pub(crate) blank: u64,
    /// Space.
    pub(crate) space: u64,
    /// Apostrophe.
    pub(crate) apostrophe: u64,
    /// Not ASCII.
    pub(crate) high: u64,
    /// NUL.
    pub(crate) nul: u64,
}

/// 64 bytes of text, in vector registers.
///
/// # Safety
/// Each method may be called only where the instructions that the type stands for are there,
/// and has to be inlined into a function that has them enabled.
pub(crate) unsafe trait Vector: Copy {
    /// Whether [`Self::emit`] only notes where the pieces end.
    const NOTES: bool = true;

    /// 64 bytes from `at`.
    ///
    /// # Safety
    /// They can be read, and the instructions are there.
    unsafe fn load(at: *const u8) -> Self;
    /// `length` bytes from `at`, fewer than 64; then zeros.
    ///
    /// # Safety
    /// They can be read, and the instructions are there.
    unsafe fn load_part(at: *const u8, length: usize) -> Self;
    /// The classes of ASCII.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn bytes(self) -> Bytes;
    /// Bytes that are this one.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn equal(self, byte: u8) -> u64;
    /// ASCII capitals among the letters given.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn capitals(self, letter: u64) -> u64;
    /// Letters of contractions; as bytes, U+017F left out.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn contraction(self, any_case: bool) -> Contraction;
    /// Bytes 0x80 to 0xbf.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn continuation(self) -> u64;
    /// Bytes that have one of these bits.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn test(self, bits: u8) -> u64;
    /// Bytes of at least this, as unsigned numbers.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn at_least(self, byte: u8) -> u64;
    /// The classes of characters outside of ASCII, and the first bytes of those that are left
    /// to be looked at one by one. Those of CJK and Hangul are letters without a case.
    ///
    /// # Safety
    /// The instructions are there.
    #[inline(always)]
    unsafe fn classes(self, _block: &[u8], leads: Leads, cased: bool) -> (Classes, u64) {
        // SAFETY: the caller's promise.
        let (from, behind) = unsafe { (self.at_least(0xe5), self.at_least(0xea)) };
        // SAFETY: as above.
        let letter =
            leads.three & ((from & !behind) | unsafe { self.equal(0xeb) | self.equal(0xec) });
        let both = if cased { letter } else { 0 };
        let classes = Classes {
            letter,
            upper: both,
            lower: both,
            ..Classes::default()
        };
        (classes, leads.two & !letter)
    }
    /// The bits of `word` at the places of `mask`, moved together.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn extract(word: u64, mask: u64) -> u64;
    /// The lowest bits of `word`, moved to the places of `mask`.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn deposit(word: u64, mask: u64) -> u64;
    /// As [`crate::exact::characters::first_of`].
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn first_of(selected: u64, lasts: u64, firsts: u64) -> u64;
    /// Adds the pieces that start at `starts` and end at `ends` to the batch. `at` is the place
    /// in the text.
    ///
    /// # Safety
    /// The instructions are there; the batch has room for a block.
    #[inline(always)]
    unsafe fn emit(self, at: usize, _starts: u64, ends: u64, batch: &mut Batch) {
        // SAFETY: the caller's promise.
        unsafe { note(at, ends, batch) };
    }
}
