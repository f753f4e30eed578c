//! Blocks of text in one register of 64 bytes.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the same promise stands for each: the instructions are there"
)]
#![expect(
    unsafe_code,
    reason = "loads and stores of vectors; the benches `tokens.*.avx512` show what they are for"
)]

use std::arch::x86_64::*;

use crate::arch::blocks::{self, Classes, Leads, Sink, Vector, WINDOWS, by_functions, drive};
use crate::exact::characters::Algebra;
use crate::lookup::batch::Batch;
use crate::pattern::Pattern;

/// Cuts a text into pieces: see [`drive`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
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
struct Block(__m512i);

// SAFETY: all that is called is enabled by `pieces`, the only caller of `drive` with it.
unsafe impl Vector for Block {
    const NOTES: bool = false;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_loadu_si512(at.cast()) })
    }

    #[inline(always)]
    unsafe fn load_part(at: *const u8, length: usize) -> Self {
        // SAFETY: the caller's promise; what is masked out is not read.
        Self(unsafe { load_part(at, length) })
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
    unsafe fn classes(self, block: &[u8], leads: Leads, cased: bool) -> (Classes, u64) {
        // SAFETY: the caller's promise.
        unsafe { classes(self.0, block, leads, cased) }
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

    // Keys of up to seven and fifteen bytes are made by moving the block's bytes in registers,
    // all pieces of a kind at once; the stores write whole registers, what is too much is
    // written over by the next block.
    #[inline(always)]
    unsafe fn emit(self, at: usize, starts: u64, ends: u64, batch: &mut Batch) {
        let block = self.0;
        // SAFETY: the instructions and the room in the batch are the caller's promise.
        unsafe {
            // Starts with an end in the next 7, 15 bytes, and their ends.
            let up = |word: u64, by: u32| word | (word >> by);
            let down = |word: u64, by: u32| word | (word << by);
            let (to_4, from_4) = (up(up(ends >> 1, 1), 2), down(down(starts << 1, 1), 2));
            let (to_7, from_7) = (up(to_4, 3), down(from_4, 3));
            let (to_15, from_15) = (up(up(to_4, 4), 7), down(down(from_4, 4), 7));
            let (start_7, end_7) = (starts & to_7, ends & from_7);
            let (start_15, end_15) = (starts & to_15 & !to_7, ends & from_15 & !from_7);
            let (start_long, end_long) = (starts & !to_15, ends & !from_15);
            let iota = _mm512_set_epi8(
                63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43,
                42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22,
                21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
            );
            let in_eight = _mm512_set1_epi64(0x0706_0504_0302_0100);
            let which_eight = _mm512_set_epi64(
                0x0707_0707_0707_0707,
                0x0606_0606_0606_0606,
                0x0505_0505_0505_0505,
                0x0404_0404_0404_0404,
                0x0303_0303_0303_0303,
                0x0202_0202_0202_0202,
                0x0101_0101_0101_0101,
                0,
            );
            let shorts = start_7.count_ones() as usize;
            let first = _mm512_maskz_compress_epi8(start_7, iota);
            let behind = _mm512_maskz_compress_epi8(end_7, iota);
            // Three registers of them without asking; more are rare.
            let to = batch.short.as_mut_ptr().add(batch.shorts);
            for step in 0..3 {
                let which = _mm512_add_epi8(which_eight, _mm512_set1_epi8(step * 8));
                let key = keys(block, first, behind, which, in_eight);
                _mm512_storeu_si512(to.add(step as usize * 8).cast(), key);
            }
            let mut done = 24;
            while done < shorts {
                let which = _mm512_add_epi8(which_eight, _mm512_set1_epi8(done as i8));
                let key = keys(block, first, behind, which, in_eight);
                _mm512_storeu_si512(to.add(done).cast(), key);
                done += 8;
            }
            batch.shorts += shorts;
            let mediums = start_15.count_ones() as usize;
            let first = _mm512_maskz_compress_epi8(start_15, iota);
            let behind = _mm512_maskz_compress_epi8(end_15, iota);
            let in_sixteen = _mm512_broadcast_i32x4(_mm_set_epi64x(
                0x0f0e_0d0c_0b0a_0908,
                0x0706_0504_0302_0100,
            ));
            let which_sixteen = _mm512_set_epi64(
                0x0303_0303_0303_0303,
                0x0303_0303_0303_0303,
                0x0202_0202_0202_0202,
                0x0202_0202_0202_0202,
                0x0101_0101_0101_0101,
                0x0101_0101_0101_0101,
                0,
                0,
            );
            let to = batch.medium.as_mut_ptr().add(batch.mediums);
            let key = keys(block, first, behind, which_sixteen, in_sixteen);
            _mm512_storeu_si512(to.cast(), key);
            if mediums > 4 {
                let which = _mm512_add_epi8(which_sixteen, _mm512_set1_epi8(4));
                let key = keys(block, first, behind, which, in_sixteen);
                _mm512_storeu_si512(to.add(4).cast(), key);
            }
            batch.mediums += mediums;
            // At most four of sixteen bytes.
            let first = _mm512_castsi512_si128(_mm512_maskz_compress_epi8(start_long, iota));
            let behind = _mm512_castsi512_si128(_mm512_maskz_compress_epi8(end_long, iota));
            let lengths = _mm_sub_epi8(behind, first);
            let offsets = _mm_add_epi32(_mm_cvtepu8_epi32(first), _mm_set1_epi32(at as i32));
            let lengths = _mm_cvtepu8_epi32(lengths);
            let to: *mut __m128i = batch.long.as_mut_ptr().add(batch.longs).cast();
            _mm_storeu_si128(to, _mm_unpacklo_epi32(offsets, lengths));
            _mm_storeu_si128(to.add(1), _mm_unpackhi_epi32(offsets, lengths));
            batch.longs += start_long.count_ones() as usize;
        }
    }
}

#[inline(never)]
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn long_piece<A: Algebra>(text: &[u8], at: usize, known: usize, pattern: Pattern) -> Option<usize> {
    // SAFETY: the instructions are enabled here.
    unsafe { blocks::long_piece::<Block, A>(text, at, known, pattern) }
}

macro_rules! enabled {
    ($($item:item)*) => { $(
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt")]
        $item
    )* };
}

enabled! {

/// Keys of the pieces that `which` says, each of the bytes from `first` to `behind`.
fn keys(block: __m512i, first: __m512i, behind: __m512i, which: __m512i, within: __m512i) -> __m512i {
    let from = _mm512_add_epi8(_mm512_permutexvar_epi8(which, first), within);
    let inside = _mm512_cmplt_epu8_mask(from, _mm512_permutexvar_epi8(which, behind));
    _mm512_maskz_permutexvar_epi8(inside, from, block)
}

unsafe fn load_part(at: *const u8, length: usize) -> __m512i {
    let mask = _bzhi_u64(!0, length as u32);
    // SAFETY: the caller's promise for these bytes.
    unsafe { _mm512_maskz_loadu_epi8(mask, at.cast()) }
}

fn equal(block: Block, byte: u8) -> u64 {
    _mm512_cmpeq_epi8_mask(block.0, _mm512_set1_epi8(byte as i8))
}

/// Bytes from `first` on, `count` of them.
fn range(block: Block, first: u8, count: u8) -> u64 {
    let from = _mm512_sub_epi8(block.0, _mm512_set1_epi8(first as i8));
    _mm512_cmplt_epu8_mask(from, _mm512_set1_epi8(count as i8))
}

fn with(block: Block, bit: u8) -> Block {
    Block(_mm512_or_si512(block.0, _mm512_set1_epi8(bit as i8)))
}

fn test(block: Block, bit: u8) -> u64 {
    _mm512_test_epi8_mask(block.0, _mm512_set1_epi8(bit as i8))
}

fn high(block: Block) -> u64 {
    _mm512_movepi8_mask(block.0)
}

fn continuation(block: Block) -> u64 {
    _mm512_cmplt_epi8_mask(block.0, _mm512_set1_epi8(0xc0_u8 as i8))
}

fn at_least(block: Block, byte: u8) -> u64 {
    _mm512_cmpge_epu8_mask(block.0, _mm512_set1_epi8(byte as i8))
}

/// Characters of two and three bytes by tables in registers: those of one window of 2,048 code
/// points at a time.
fn classes(vector: __m512i, block: &[u8], leads: Leads, cased: bool) -> (Classes, u64) {
    let mut found = Classes::default();
    let plain = range(Block(vector), 0xe5, 5) | equal(Block(vector), 0xeb) | equal(Block(vector), 0xec);
    let plain = plain & leads.three;
    found.letter = plain;
    if cased {
        (found.upper, found.lower) = (plain, plain);
    }
    let iota = _mm512_set_epi8(
        63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42,
        41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20,
        19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
    );
    let behind = |by: i8| _mm512_permutexvar_epi8(_mm512_add_epi8(iota, _mm512_set1_epi8(by)), vector);
    let (second, third, fourth) = (behind(1), behind(2), behind(3));
    // The second half of a window pair: U+0800 of U+0000, of the same first byte.
    let upper_half = test(Block(second), 0x20);
    let broken = (equal(Block(vector), 0xe0) & !upper_half) | (equal(Block(vector), 0xed) & upper_half) | !at_least(Block(vector), 0xc2);
    let three = leads.three & !leads.four & !plain & !broken;
    let two = leads.two & !leads.three & !broken;
    // U+10000 to U+1FFFF, emoji among them.
    let four = leads.four & equal(Block(vector), 0xf0) & range(Block(second), 0x90, 16);
    let third_half = test(Block(third), 0x20);
    let mut left = two | three | four;
    // The lowest eleven bits of the code points: which byte of a window, and which bit.
    let high = _mm512_mask_blend_epi8(three, vector, second);
    let high = _mm512_mask_mov_epi8(high, four, third);
    let low = _mm512_mask_blend_epi8(three, second, third);
    let low = _mm512_mask_mov_epi8(low, four, fourth);
    let place = _mm512_or_si512(
        _mm512_and_si512(_mm512_slli_epi16::<3>(high), _mm512_set1_epi8(0xf8_u8 as i8)),
        _mm512_and_si512(_mm512_srli_epi16::<3>(low), _mm512_set1_epi8(7)),
    );
    let powers = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    let bit = _mm512_shuffle_epi8(powers, _mm512_and_si512(low, _mm512_set1_epi8(7)));
    let in_upper = _mm512_movepi8_mask(place);
    while left != 0 {
        let i = left.trailing_zeros() as usize;
        let (window, same) = if two >> i & 1 == 1 {
            (0, two)
        } else if four >> i & 1 == 1 {
            let half = (third_half >> i & 1) as usize;
            let halves = if half == 1 { third_half } else { !third_half };
            let window = 32 + usize::from(block[i + 1] & 0xf) * 2 + half;
            (window, four & equal(Block(second), block[i + 1]) & halves)
        } else {
            let half = (upper_half >> i & 1) as usize;
            let halves = if half == 1 { upper_half } else { !upper_half };
            (usize::from(block[i] & 0xf) * 2 + half, three & equal(Block(vector), block[i]) & halves)
        };
        left &= !same;
        let tables = &WINDOWS.0[window * 5 * 256..][..5 * 256];
        let with = |class: usize| {
            let table = &tables[class * 256..][..256];
            // SAFETY: a table has 256 bytes.
            let quarter = |i: usize| unsafe { _mm512_loadu_si512(table.as_ptr().add(64 * i).cast()) };
            let lower = _mm512_permutex2var_epi8(quarter(0), place, quarter(1));
            let upper = _mm512_permutex2var_epi8(quarter(2), place, quarter(3));
            let eight = _mm512_mask_blend_epi8(in_upper, lower, upper);
            _mm512_test_epi8_mask(eight, bit) & same
        };
        found.space |= with(0);
        found.letter |= with(1);
        found.number |= with(2);
        if cased {
            found.upper |= with(3);
            found.lower |= with(4);
        }
    }
    (found, leads.two & !(plain | two | three | four))
}

}
