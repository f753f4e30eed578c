//! Blocks of text in words of eight bytes: plain Rust, for every machine.

#![expect(
    unsafe_code,
    reason = "the trait is for instructions; here two loads and nothing else"
)]

use crate::arch::blocks::{Sink, Vector, drive, long_piece};
use crate::exact::characters::Algebra;
use crate::lookup::batch::Batch;
use crate::pattern::Pattern;

/// Cuts a text into pieces: see [`drive`].
pub(crate) fn pieces<A: Algebra>(
    text: &[u8],
    pattern: Pattern,
    batch: &mut Batch,
    sink: &mut impl Sink,
) -> usize {
    // SAFETY: no instructions are asked for.
    unsafe { drive::<Block, A>(text, pattern, batch, sink) }
}

/// 64 bytes, the first in the lowest bits of the first word.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Block([u64; 8]);

const HIGH: u64 = every(0x80);
const LOW: u64 = every(0x7f);

/// That byte in each place of a word.
const fn every(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

impl Block {
    /// One bit for each byte, of what `of` says in the bytes' highest bits.
    #[inline(always)]
    fn bits(self, of: impl Fn(u64) -> u64) -> u64 {
        let mut bits = 0;
        for (i, &word) in self.0.iter().enumerate() {
            let ones = (of(word) & HIGH) >> 7;
            // Brings the lowest bits of all bytes together in the highest byte.
            bits |= (ones.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
        }
        bits
    }
}

/// The highest bit of each byte that is not zero.
#[inline(always)]
fn nonzero(word: u64) -> u64 {
    ((word & LOW) + LOW) | word
}

// SAFETY: no instructions are asked for, and no byte is read but those that the caller promises.
unsafe impl Vector for Block {
    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller's promise.
        let bytes: [[u8; 8]; 8] = unsafe { at.cast::<[[u8; 8]; 8]>().read_unaligned() };
        Self(bytes.map(u64::from_le_bytes))
    }

    #[inline(always)]
    unsafe fn equal(self, byte: u8) -> u64 {
        self.bits(|word| !nonzero(word ^ every(byte)))
    }

    /// ASCII from `first` on, `count` of them.
    #[inline(always)]
    unsafe fn range(self, first: u8, count: u8) -> u64 {
        self.bits(|word| {
            let low = word & LOW;
            let from = low + every(0x80 - first);
            let behind = low + every(0x80 - first - count);
            from & !behind & !word
        })
    }

    #[inline(always)]
    unsafe fn with(self, bit: u8) -> Self {
        Self(self.0.map(|word| word | every(bit)))
    }

    #[inline(always)]
    unsafe fn high(self) -> u64 {
        self.bits(|word| word)
    }

    #[inline(never)]
    unsafe fn long_piece<A: Algebra>(
        text: &[u8],
        at: usize,
        known: usize,
        pattern: Pattern,
    ) -> Option<usize> {
        // SAFETY: no instructions are asked for.
        unsafe { long_piece::<Self, A>(text, at, known, pattern) }
    }

    #[inline(always)]
    unsafe fn continuation(self) -> u64 {
        self.bits(|word| word & !(word << 1))
    }

    #[inline(always)]
    unsafe fn test(self, bit: u8) -> u64 {
        self.bits(|word| word << bit.leading_zeros())
    }

    #[inline(always)]
    unsafe fn at_least(self, byte: u8) -> u64 {
        // Of what has the highest bit; only that is asked for.
        self.bits(|word| word & ((word & LOW) + every(0u8.wrapping_sub(byte))))
    }

    #[inline(always)]
    unsafe fn extract(word: u64, mask: u64) -> u64 {
        let mut moves = Moves::of(mask);
        let mut word = word & mask;
        for by in [1, 2, 4, 8, 16, 32] {
            let moving = word & moves.next(by);
            word = (word ^ moving) | (moving >> by);
        }
        word
    }

    #[inline(always)]
    unsafe fn deposit(word: u64, mask: u64) -> u64 {
        let mut moves = Moves::of(mask);
        let steps = [1, 2, 4, 8, 16, 32].map(|by| (by, moves.next(by)));
        let mut word = word;
        for (by, moving) in steps.into_iter().rev() {
            word = (word & !moving) | ((word << by) & moving);
        }
        word & mask
    }

    /// From the last bits downwards: with the runs turned round, a carry goes through them.
    #[inline(always)]
    unsafe fn first_of(selected: u64, lasts: u64, firsts: u64) -> u64 {
        let runs = lasts.wrapping_sub(firsts) | lasts;
        let (runs, selected) = (runs.reverse_bits(), selected.reverse_bits());
        let passed = runs & !runs.wrapping_add(selected);
        passed.reverse_bits() & firsts
    }
}

/// The steps in which the bits of a mask move together: those that move by one, by two, ...
/// (Warren, "Hacker's Delight", 7-4).
struct Moves {
    mask: u64,
    zeros: u64,
}

impl Moves {
    #[inline(always)]
    fn of(mask: u64) -> Self {
        Self {
            mask,
            zeros: !mask << 1,
        }
    }

    /// The bits that move by so many places, where they are then.
    #[inline(always)]
    fn next(&mut self, by: u32) -> u64 {
        let mut odd = self.zeros;
        for shift in [1, 2, 4, 8, 16, 32] {
            odd ^= odd << shift;
        }
        let moving = odd & self.mask;
        self.mask = (self.mask ^ moving) | (moving >> by);
        self.zeros &= !odd;
        moving
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_move_as_they_are_defined_to() {
        let mut seed = 1_u64;
        for _ in 0..10_000 {
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed ^ seed >> 31
            };
            let (word, mask) = (next(), next() & next());
            let places = (0..64).filter(|i| mask >> i & 1 == 1);
            let (mut together, mut apart) = (0, 0);
            for (to, from) in places.enumerate() {
                together |= (word >> from & 1) << to;
                apart |= (word >> to & 1) << from;
            }
            // SAFETY: no instructions are asked for.
            assert_eq!(unsafe { Block::extract(word, mask) }, together);
            // SAFETY: as above.
            assert_eq!(unsafe { Block::deposit(word, mask) }, apart);
        }
    }
}
