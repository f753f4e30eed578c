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
use crate::exact::characters::{Algebra, Contraction};
use crate::lookup::batch::Batch;
use crate::pattern::Pattern;

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
    #[inline(always)]
    unsafe fn load_part(at: *const u8, length: usize) -> Self {
        let mut bytes = [0_u8; 64];
        // SAFETY: the caller's promise.
        let part = unsafe { std::slice::from_raw_parts(at, length) };
        bytes[..length].copy_from_slice(part);
        // SAFETY: there are 64 bytes; the instructions are the caller's promise.
        unsafe { Self::load(bytes.as_ptr()) }
    }
    /// Bytes that are this one.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn equal(self, byte: u8) -> u64;
    /// Bytes that are one of these.
    ///
    /// # Safety
    /// The instructions are there.
    #[inline(always)]
    unsafe fn any_of<const N: usize>(self, bytes: [u8; N]) -> u64 {
        // SAFETY: the caller's promise.
        let equal = |byte| unsafe { self.equal(byte) };
        bytes.iter().fold(0, |found, &byte| found | equal(byte))
    }
    /// Bytes from `first` on, `count` of them, all of ASCII.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn range(self, first: u8, count: u8) -> u64;
    /// The same with this bit set in each byte: 0x20 makes capitals small.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn with(self, bit: u8) -> Self;
    /// Bytes that have this bit, a single one.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn test(self, bit: u8) -> u64;
    /// Bytes from 0x80 on.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn high(self) -> u64;
    /// Bytes 0x80 to 0xbf.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn continuation(self) -> u64;
    /// Bytes of at least this, as unsigned numbers; asked for above 0x80.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn at_least(self, byte: u8) -> u64;
    /// The classes of ASCII.
    ///
    /// # Safety
    /// The instructions are there.
    #[inline(always)]
    unsafe fn bytes(self) -> Bytes {
        // SAFETY: the caller's promise.
        unsafe {
            let newline = self.any_of(*b"\n\r");
            let space = self.equal(b' ');
            Bytes {
                letter: self.with(0x20).range(b'a', 26),
                number: self.range(b'0', 10),
                newline,
                blank: (self.range(b'\t', 5) & !newline) | space,
                space,
                apostrophe: self.equal(b'\''),
                high: self.high(),
                nul: self.equal(0),
            }
        }
    }
    /// ASCII capitals among the letters given.
    ///
    /// # Safety
    /// The instructions are there.
    #[inline(always)]
    unsafe fn capitals(self, letter: u64) -> u64 {
        // SAFETY: the caller's promise.
        letter & !unsafe { self.test(0x20) }
    }
    /// Letters of contractions; as bytes, U+017F left out.
    ///
    /// # Safety
    /// The instructions are there.
    #[inline(always)]
    unsafe fn contraction(self, any_case: bool) -> Contraction {
        // SAFETY: the caller's promise.
        unsafe {
            let low = self.with(if any_case { 0x20 } else { 0 });
            Contraction {
                alone: low.any_of(*b"sdmt"),
                l: low.equal(b'l'),
                v_or_r: low.any_of(*b"vr"),
                e: low.equal(b'e'),
            }
        }
    }
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
    /// [`long_piece`](super::long_piece) in a function of its own that has the instructions
    /// enabled.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn long_piece<A: Algebra>(
        text: &[u8],
        at: usize,
        known: usize,
        pattern: Pattern,
    ) -> Option<usize>;
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

/// Methods of [`Vector`] that call the function of the same name, which has the instructions
/// enabled.
macro_rules! by_functions {
    ($(fn $name:ident($($argument:ident: $of:ty),*) -> $to:ty;)*) => { $(
        #[inline(always)]
        unsafe fn $name(self $(, $argument: $of)*) -> $to {
            // SAFETY: the caller's promise.
            unsafe { $name(self $(, $argument)*) }
        }
    )* };
}
pub(crate) use by_functions;
