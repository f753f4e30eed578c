//! Blocks of text in four registers of 16 bytes: their classes. NEON moves no bits in a word, so
//! that part is as in plain Rust.
//!
//! Loads deal the bytes out: the first to the first register, the second to the second and so on.
//! No routine here looks at neighbours, and four bits that are neighbours in a mask then are in
//! four registers, where shifts with insertion bring them together.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the same promise stands for each: the instructions are there"
)]
#![expect(unsafe_code, reason = "vector intrinsics")]

use std::arch::aarch64::*;

use crate::arch::blocks::{self, Sink, Vector, by_functions, drive};
use crate::arch::scalar::blocks::Block as Words;
use crate::exact::characters::Algebra;
use crate::lookup::batch::Batch;
use crate::pattern::Pattern;

/// Cuts a text into pieces: see [`drive`].
#[target_feature(enable = "neon")]
pub(crate) fn pieces<A: Algebra>(
    text: &[u8],
    pattern: Pattern,
    batch: &mut Batch,
    sink: &mut impl Sink,
) -> usize {
    // SAFETY: the instructions are enabled here.
    unsafe { drive::<Block, A>(text, pattern, batch, sink) }
}

/// 64 bytes: every fourth from the first on, from the second, the third, the fourth.
#[derive(Clone, Copy)]
struct Block(uint8x16x4_t);

// SAFETY: all that is called is enabled by `pieces`, the only caller of `drive` with it.
unsafe impl Vector for Block {
    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { vld4q_u8(at) })
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
        // SAFETY: no instructions are asked for.
        unsafe { Words::extract(word, mask) }
    }

    #[inline(always)]
    unsafe fn deposit(word: u64, mask: u64) -> u64 {
        // SAFETY: no instructions are asked for.
        unsafe { Words::deposit(word, mask) }
    }

    #[inline(always)]
    unsafe fn first_of(selected: u64, lasts: u64, firsts: u64) -> u64 {
        // SAFETY: no instructions are asked for.
        unsafe { Words::first_of(selected, lasts, firsts) }
    }
}

#[inline(never)]
#[target_feature(enable = "neon")]
fn long_piece<A: Algebra>(text: &[u8], at: usize, known: usize, pattern: Pattern) -> Option<usize> {
    // SAFETY: the instructions are enabled here.
    unsafe { blocks::long_piece::<Block, A>(text, at, known, pattern) }
}

macro_rules! enabled {
    ($($item:item)*) => { $(
        #[inline]
        #[target_feature(enable = "neon")]
        $item
    )* };
}

enabled! {

/// One bit for each byte: the highest of what `of` says.
fn bits(block: Block, of: impl Fn(uint8x16_t) -> uint8x16_t) -> u64 {
    let uint8x16x4_t(first, second, third, fourth) = block.0;
    let low = vsriq_n_u8::<1>(of(second), of(first));
    let high = vsriq_n_u8::<1>(of(fourth), of(third));
    let four = vsriq_n_u8::<2>(high, low);
    // The same four in both halves of a byte: of one byte one half is taken, the other of the next.
    let four = vsriq_n_u8::<4>(four, four);
    let bits = vshrn_n_u16::<4>(vreinterpretq_u16_u8(four));
    vget_lane_u64::<0>(vreinterpret_u64_u8(bits))
}

fn equal(block: Block, byte: u8) -> u64 {
    let byte = vdupq_n_u8(byte);
    bits(block, |part| vceqq_u8(part, byte))
}

fn any_of<const N: usize>(block: Block, bytes: [u8; N]) -> u64 {
    bits(block, |part| {
        let mut found = vdupq_n_u8(0);
        for byte in bytes {
            found = vorrq_u8(found, vceqq_u8(part, vdupq_n_u8(byte)));
        }
        found
    })
}

fn test(block: Block, bit: u8) -> u64 {
    let bit = vdupq_n_u8(bit);
    bits(block, |part| vtstq_u8(part, bit))
}

fn at_least(block: Block, byte: u8) -> u64 {
    let byte = vdupq_n_u8(byte);
    bits(block, |part| vcgeq_u8(part, byte))
}

fn high(block: Block) -> u64 {
    bits(block, |part| part)
}

fn continuation(block: Block) -> u64 {
    let first = vdupq_n_s8(0xc0_u8 as i8);
    bits(block, |part| vcltq_s8(vreinterpretq_s8_u8(part), first))
}

/// Bytes from `first` on, `count` of them.
fn range(block: Block, first: u8, count: u8) -> u64 {
    let (first, count) = (vdupq_n_u8(first), vdupq_n_u8(count));
    bits(block, |part| vcltq_u8(vsubq_u8(part, first), count))
}

fn with(block: Block, bit: u8) -> Block {
    let bit = vdupq_n_u8(bit);
    let uint8x16x4_t(first, second, third, fourth) = block.0;
    let with = |part| vorrq_u8(part, bit);
    Block(uint8x16x4_t(with(first), with(second), with(third), with(fourth)))
}

}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_those_of_words() {
        const FEW: &[u8] = b" '\n\rasdmtlvreSLVRE09/\t\0\x80\xbf\xc0\xc5\xe0\xf0";
        let mut seed = 1_u64;
        for round in 0..2_000 {
            let block: [u8; 64] = std::array::from_fn(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let byte = (seed >> 33) as u8;
                // ASCII alone, all bytes, or few of them.
                match round % 3 {
                    0 => byte & 0x7f,
                    1 => byte,
                    _ => FEW[usize::from(byte) % FEW.len()],
                }
            });
            assert_eq!(masks::<Block>(&block), masks::<Words>(&block), "{block:x?}");
        }
    }

    fn masks<V: Vector>(block: &[u8; 64]) -> Vec<u64> {
        let mut masks = Vec::new();
        for length in [0, 1, 17, 63, 64] {
            // SAFETY: these bytes are there; where this is compiled, NEON is, too.
            unsafe {
                let vector = match length {
                    64 => V::load(block.as_ptr()),
                    _ => V::load_part(block.as_ptr(), length),
                };
                let bytes = vector.bytes();
                masks.extend([bytes.letter, bytes.number, bytes.newline, bytes.blank]);
                masks.extend([bytes.space, bytes.apostrophe, bytes.high, bytes.nul]);
                masks.extend([vector.capitals(bytes.letter), vector.continuation()]);
                masks.extend([0, b'/', 0xc5].map(|byte| vector.equal(byte)));
                masks.extend([1, 8, 0x80].map(|bits| vector.test(bits)));
                masks.extend([0xe0, 0xe5, 0xf0].map(|byte| vector.at_least(byte)));
                for any_case in [false, true] {
                    let found = vector.contraction(any_case);
                    masks.extend([found.alone, found.l, found.v_or_r, found.e]);
                }
            }
        }
        masks
    }
}
