//! Many short pieces as work: keys of eight or sixteen bytes, and parts of a text.
#![expect(
    unsafe_code,
    reason = "starts pieces with what an instruction set brings"
)]

use super::turns::{NOTHING, Slot, Vectors, Work};
use crate::merge::Shared;

// The bytes of a key are taken as they lie in memory.
const _: () = assert!(cfg!(target_endian = "little"));

/// Pieces of at most eight bytes.
pub(super) struct Keys8<'a> {
    pub(super) keys: &'a [u64],
    pub(super) counts: &'a mut [u8],
    pub(super) from: usize,
}

impl Work for Keys8<'_> {
    #[inline(always)]
    unsafe fn next<V: Vectors, const LANES: usize, const N: usize>(
        &mut self,
        shared: &Shared<'_>,
        slot: &mut Slot<N>,
    ) -> bool {
        if slot.of != NOTHING {
            self.counts[slot.of] = slot.count() as u8;
        }
        let Some(key) = self.keys.get(self.from) else {
            return false;
        };
        let length = 8 - key.leading_zeros() as usize / 8;
        // SAFETY: the caller's promise.
        unsafe {
            slot.start::<V, LANES>(shared, &bytemuck::bytes_of(key)[..length], self.from);
        }
        self.from += 1;
        true
    }
}

/// Pieces of at most sixteen bytes.
pub(super) struct Keys16<'a> {
    pub(super) keys: &'a [[u64; 2]],
    pub(super) counts: &'a mut [u8],
    pub(super) from: usize,
}

impl Work for Keys16<'_> {
    #[inline(always)]
    unsafe fn next<V: Vectors, const LANES: usize, const N: usize>(
        &mut self,
        shared: &Shared<'_>,
        slot: &mut Slot<N>,
    ) -> bool {
        if slot.of != NOTHING {
            self.counts[slot.of] = slot.count() as u8;
        }
        let Some(key) = self.keys.get(self.from) else {
            return false;
        };
        let whole = u128::from(key[0]) | (u128::from(key[1]) << 64);
        let length = 16 - whole.leading_zeros() as usize / 8;
        // SAFETY: the caller's promise.
        unsafe {
            slot.start::<V, LANES>(shared, &bytemuck::bytes_of(key)[..length], self.from);
        }
        self.from += 1;
        true
    }
}

/// Pieces of a text whose length is within bounds.
pub(super) struct Spans<'a> {
    pub(super) text: &'a [u8],
    pub(super) spans: &'a [(u32, u32)],
    pub(super) counts: &'a mut [u32],
    pub(super) from: usize,
    /// The pieces are longer than this,
    pub(super) above: u32,
    /// and at most this long.
    pub(super) until: u32,
}

impl Spans<'_> {
    /// The next piece that is within the bounds, and its index.
    #[inline(always)]
    pub(super) fn piece(&mut self) -> Option<(usize, std::ops::Range<usize>)> {
        let bounds = self.above + 1..=self.until;
        let rest = self.spans.get(self.from..)?;
        let skipped = rest
            .iter()
            .position(|(_, length)| bounds.contains(length))?;
        let index = self.from + skipped;
        let (start, length) = self.spans[index];
        self.from = index + 1;
        Some((index, start as usize..start as usize + length as usize))
    }
}

impl Work for Spans<'_> {
    #[inline(always)]
    unsafe fn next<V: Vectors, const LANES: usize, const N: usize>(
        &mut self,
        shared: &Shared<'_>,
        slot: &mut Slot<N>,
    ) -> bool {
        if slot.of != NOTHING {
            self.counts[slot.of] = slot.count();
        }
        let Some((index, range)) = self.piece() else {
            return false;
        };
        // SAFETY: the caller's promise.
        unsafe { slot.start::<V, LANES>(shared, &self.text[range], index) };
        true
    }
}
