//! Pieces of at most [`WINDOW_BYTES`], several at once: a merge each, in turns.
#![expect(unsafe_code, reason = "calls what an instruction set brings")]

use crate::merge::section::NONE;
use crate::merge::{Shared, WINDOW_BYTES};

/// Bits of a position in a piece, below the rank: so the least is the leftmost of its rank.
pub(in crate::arch) const POSITION_BITS: u32 = 6;
/// More than the rank of any pair that merges.
const NO_PAIR: u32 = NONE << POSITION_BITS;
/// How many pieces take turns.
pub(super) const TURNS: usize = 4;

/// What an instruction set has to bring.
///
/// # Safety
/// The functions may only be called where the instruction set is available.
pub(in crate::arch) unsafe trait Vectors {
    /// The least of the first `LANES` (8, 16, 32 or 64) ranks; `N` is at least that.
    unsafe fn least<const LANES: usize, const N: usize>(ranks: &[u32; N]) -> u32;

    /// What two tokens merge to, or [`NONE`].
    unsafe fn merged(shared: &Shared<'_>, left: u32, right: u32) -> u32;

    /// Fills in the tokens and ranks of a piece that fits.
    #[inline(always)]
    unsafe fn start<const LANES: usize, const N: usize>(
        shared: &Shared<'_>,
        piece: &[u8],
        ranks: &mut [u32; N],
        ids: &mut [u32; N],
    ) {
        *ranks = [u32::MAX; N];
        *ids = [NONE; N];
        for (id, &byte) in ids[1..].iter_mut().zip(piece) {
            *id = shared.byte_ids[byte as usize];
        }
        for (at, (rank, two)) in (1..).zip(ranks[1..].iter_mut().zip(piece.windows(2))) {
            let two = u16::from_le_bytes([two[0], two[1]]);
            *rank = (shared.byte_pairs[two as usize] << POSITION_BITS) | at;
        }
    }
}

/// A piece that is being merged. Its bytes have the positions from 1 on; a token that merges
/// with none is before them and another behind.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(super) struct Slot<const N: usize> {
    /// For each position that a token starts at, the rank of merging it with the next, and the
    /// position.
    ranks: [u32; N],
    /// The token that starts at a position.
    ids: [u32; N],
    /// At which positions tokens start.
    live: u64,
    /// What the piece is to those who gave it.
    pub(super) of: usize,
}

/// Of a slot that holds no piece yet.
pub(super) const NOTHING: usize = usize::MAX;

impl<const N: usize> Slot<N> {
    /// A position as an index.
    const POSITION: usize = if N > 64 { 63 } else { N - 1 };

    const EMPTY: Self = Self {
        ranks: [u32::MAX; N],
        ids: [NONE; N],
        live: 0b11,
        of: NOTHING,
    };

    /// A new piece; more than `LANES` (or [`WINDOW_BYTES`]) bytes are cut off.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    pub(super) unsafe fn start<V: Vectors, const LANES: usize>(
        &mut self,
        shared: &Shared<'_>,
        piece: &[u8],
        of: usize,
    ) {
        let piece = &piece[..piece.len().min(LANES).min(WINDOW_BYTES)];
        self.live = u64::MAX >> (WINDOW_BYTES - piece.len());
        self.of = of;
        // SAFETY: the caller's promise.
        unsafe { V::start::<LANES, N>(shared, piece, &mut self.ranks, &mut self.ids) }
    }

    /// At which offsets tokens start; the end of the piece is the last.
    #[inline(always)]
    pub(super) fn starts(&self) -> u64 {
        self.live >> 1
    }

    /// How many tokens it has.
    #[inline(always)]
    pub(super) fn count(&self) -> u32 {
        self.live.count_ones().saturating_sub(2)
    }

    /// One merge, or none if nothing merges: so often at most as the piece has bytes.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    unsafe fn step<V: Vectors, const LANES: usize>(&mut self, shared: &Shared<'_>) -> bool {
        // SAFETY: the caller's promise.
        let least = unsafe { V::least::<LANES, N>(&self.ranks) };
        if least >= NO_PAIR {
            return false;
        }
        let index = |position: u32| position as usize & Self::POSITION;
        let (at, merged) = (least & 63, least >> POSITION_BITS);
        // With damaged tables this might not be a token with another behind it: then no merge
        // would bring the end nearer.
        let from = self.live >> at;
        if from & 1 == 0 || from == 1 {
            return false;
        }
        let after = self.live & (!1 << at);
        let following = after & after.wrapping_sub(1);
        let before = self.live & !(u64::MAX << at);
        self.live = before | (1 << at) | following;
        let next = after.trailing_zeros();
        let previous = before.leading_zeros() ^ 63;
        let left = self.ids[index(previous)];
        let right = self.ids[index(following.trailing_zeros())];
        // SAFETY: as above.
        let with_right = unsafe { V::merged(shared, merged, right) };
        // SAFETY: as above.
        let with_left = unsafe { V::merged(shared, left, merged) };
        self.ids[index(at)] = merged;
        self.ranks[index(next)] = u32::MAX;
        self.ranks[index(at)] = (with_right << POSITION_BITS) | at;
        self.ranks[index(previous)] = (with_left << POSITION_BITS) | previous;
        true
    }
}

/// What is to be merged, and where the counts go.
pub(super) trait Work {
    /// Takes note of what has become of a slot's piece, and starts the next; false if there is
    /// none.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    unsafe fn next<V: Vectors, const LANES: usize, const N: usize>(
        &mut self,
        shared: &Shared<'_>,
        slot: &mut Slot<N>,
    ) -> bool;
}

/// Merges all that there is to do, a few pieces at a time.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn take_turns<V: Vectors, W: Work, const LANES: usize, const N: usize>(
    shared: &Shared<'_>,
    mut work: W,
) {
    let mut slots = [Slot::<N>::EMPTY; TURNS];
    let mut active = TURNS;
    while active > 0 {
        let mut turn = 0;
        while turn < active {
            let slot = &mut slots[turn & (TURNS - 1)];
            // SAFETY: the caller's promise.
            if unsafe { slot.step::<V, LANES>(shared) } {
                turn += 1;
                continue;
            }
            // SAFETY: as above.
            if unsafe { work.next::<V, LANES, N>(shared, slot) } {
                turn += 1;
            } else {
                active -= 1;
                slots[turn & (TURNS - 1)] = slots[active & (TURNS - 1)];
            }
        }
    }
}

/// Merges one piece that fits.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn alone<V: Vectors, const LANES: usize, const N: usize>(
    shared: &Shared<'_>,
    piece: &[u8],
) -> u32 {
    let mut slot = Slot::<N>::EMPTY;
    // SAFETY: the caller's promise.
    unsafe { slot.start::<V, LANES>(shared, piece, 0) };
    // SAFETY: as above.
    while unsafe { slot.step::<V, LANES>(shared) } {}
    slot.count()
}
