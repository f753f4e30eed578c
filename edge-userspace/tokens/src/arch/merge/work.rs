//! Many short pieces as work: keys of eight or sixteen bytes, and parts of a text.
#![expect(
    unsafe_code,
    reason = "starts pieces with what an instruction set brings"
)]

use super::turns::{NOTHING, Slot, Vectors, Work};
use crate::merge::Shared;

// The bytes of a key are taken as they lie in memory.
const _: () = assert!(cfg!(target_endian = "little"));

/// A piece in words, with zeros behind its last byte, which is none.
pub(super) trait Key: bytemuck::Pod {
    /// Its bytes.
    fn length(&self) -> usize;
}

impl Key for u64 {
    #[inline(always)]
    fn length(&self) -> usize {
        8 - self.leading_zeros() as usize / 8
    }
}

impl Key for [u64; 2] {
    #[inline(always)]
    fn length(&self) -> usize {
        let whole = u128::from(self[0]) | (u128::from(self[1]) << 64);
        16 - whole.leading_zeros() as usize / 8
    }
}

/// Pieces of at most eight, or sixteen, bytes.
pub(super) struct Keys<'a, K> {
    pub(super) keys: &'a [K],
    pub(super) counts: &'a mut [u8],
    pub(super) from: usize,
}

impl<K: Key> Work for Keys<'_, K> {
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
        let bytes = &bytemuck::bytes_of(key)[..key.length()];
        // SAFETY: the caller's promise.
        unsafe { slot.start::<V, LANES>(shared, bytes, self.from) };
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
