//! Blocks of text in two registers of 32 bytes.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the same promise stands for each: the instructions are there"
)]
#![expect(
    unsafe_code,
    reason = "loads of vectors; the benches `tokens.*.avx2` show what they are for"
)]

use std::arch::x86_64::*;

use crate::arch::blocks::{self, Sink, Vector, by_functions, drive};
use crate::exact::characters::Algebra;
use crate::lookup::batch::Batch;
use crate::pattern::Pattern;

/// Cuts a text into pieces: see [`drive`].
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(crate) fn pieces<A: Algebra>(
    text: &[u8],
    pattern: Pattern,
    batch: &mut Batch,
    sink: &mut impl Sink,
) -> usize {
    // SAFETY: the instructions are enabled here.
    unsafe { drive::<Block, A>(text, pattern, batch, sink) }
}

/// 64 bytes.
#[derive(Clone, Copy)]
struct Block(__m256i, __m256i);

// SAFETY: all that is called is enabled by `pieces`, the only caller of `drive` with it.
unsafe impl Vector for Block {
    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self(
                _mm256_loadu_si256(at.cast()),
                _mm256_loadu_si256(at.add(32).cast()),
            )
        }
    }

    #[inline(always)]
    unsafe fn any_of<const N: usize>(self, bytes: [u8; N]) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { any_of(self, bytes) }
    }

    by_functions! {
        fn equal(byte: u8) -> u64;
        fn range(first: u8, count: u8) -> u64;
        fn with(bit: u8) -> Self;
        fn test(bit: u8) -> u64;
        fn high() -> u64;
        fn continuation() -> u64;
        fn at_least(byte: u8) -> u64;
    }

    #[inline(always)]
    unsafe fn long_piece<A: Algebra>(
        text: &[u8],
        at: usize,
        known: usize,
        pattern: Pattern,
    ) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe { long_piece::<A>(text, at, known, pattern) }
    }

    #[inline(always)]
    unsafe fn extract(word: u64, mask: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { _pext_u64(word, mask) }
    }

    #[inline(always)]
    unsafe fn deposit(word: u64, mask: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { _pdep_u64(word, mask) }
    }

    #[inline(always)]
    unsafe fn first_of(selected: u64, lasts: u64, firsts: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { _pdep_u64(_pext_u64(selected, lasts), firsts) }
    }
}

#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn long_piece<A: Algebra>(text: &[u8], at: usize, known: usize, pattern: Pattern) -> Option<usize> {
    // SAFETY: the instructions are enabled here.
    unsafe { blocks::long_piece::<Block, A>(text, at, known, pattern) }
}

macro_rules! enabled {
    ($($item:item)*) => { $(
        #[inline]
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        $item
    )* };
}

enabled! {

/// The highest bits of all bytes.
fn bits(low: __m256i, high: __m256i) -> u64 {
    mask(low) | mask(high) << 32
}

/// The highest bit of each byte, by the instruction itself: what the compiler knows as a
/// comparison it may keep as one through a branch, and then takes it apart byte by byte.
fn mask(half: __m256i) -> u64 {
    let mask: u64;
    // SAFETY: the instruction is enabled, reads a register and writes one.
    unsafe {
        std::arch::asm!(
            "vpmovmskb {mask:e}, {half}",
            mask = out(reg) mask,
            half = in(ymm_reg) half,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    mask
}

fn equal(block: Block, byte: u8) -> u64 {
    let byte = _mm256_set1_epi8(byte as i8);
    bits(_mm256_cmpeq_epi8(block.0, byte), _mm256_cmpeq_epi8(block.1, byte))
}

fn any_of<const N: usize>(block: Block, bytes: [u8; N]) -> u64 {
    let mut found = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for byte in bytes {
        let byte = _mm256_set1_epi8(byte as i8);
        found.0 = _mm256_or_si256(found.0, _mm256_cmpeq_epi8(block.0, byte));
        found.1 = _mm256_or_si256(found.1, _mm256_cmpeq_epi8(block.1, byte));
    }
    bits(found.0, found.1)
}

fn test(block: Block, bit: u8) -> u64 {
    let which = _mm256_set1_epi8(bit as i8);
    let zero = _mm256_setzero_si256();
    let unset = |half| _mm256_cmpeq_epi8(_mm256_and_si256(half, which), zero);
    !bits(unset(block.0), unset(block.1))
}

fn at_least(block: Block, byte: u8) -> u64 {
    let byte = _mm256_set1_epi8(byte as i8);
    let is = |half| _mm256_cmpeq_epi8(_mm256_max_epu8(half, byte), half);
    bits(is(block.0), is(block.1))
}

fn high(block: Block) -> u64 {
    bits(block.0, block.1)
}

fn continuation(block: Block) -> u64 {
    let first = _mm256_set1_epi8(0xc0_u8 as i8);
    bits(_mm256_cmpgt_epi8(first, block.0), _mm256_cmpgt_epi8(first, block.1))
}

/// Bytes from `first` on, `count` of them.
fn range(block: Block, first: u8, count: u8) -> u64 {
    let (first, last) = (_mm256_set1_epi8(first as i8), _mm256_set1_epi8(count as i8 - 1));
    let is = |half| {
        let from = _mm256_sub_epi8(half, first);
        _mm256_cmpeq_epi8(_mm256_min_epu8(from, last), from)
    };
    bits(is(block.0), is(block.1))
}

fn with(block: Block, bit: u8) -> Block {
    let bit = _mm256_set1_epi8(bit as i8);
    Block(_mm256_or_si256(block.0, bit), _mm256_or_si256(block.1, bit))
}

}
