//! What has been learnt of pieces of more than thirty bytes: a ring of their bytes, the oldest
//! written over by the newest, and an index of where each stands.

use crate::arch::look_up as kernel;

/// Words of the ring, and lines of eight entries of its index.
const RING_BITS: u32 = 18;
const INDEX_BITS: u32 = 12;
const RING: usize = 1 << RING_BITS;
pub(super) const INDEX: usize = 8 << INDEX_BITS;
/// Longer pieces are not remembered.
const LONGEST_BYTES: usize = 504;
/// Words behind the ring that the last piece of a round goes on in.
const OVERHANG: usize = LONGEST_BYTES / 8 + 1;
pub(super) const WORDS: usize = RING + OVERHANG.next_multiple_of(8);

/// The ring and its index.
///
/// An entry is a tag of the hash above the place, which counts words since the first piece and
/// so tells what has been written over. A piece stands behind one word of its length and its
/// tokens.
pub(crate) struct Pieces<'a> {
    pub(super) index: &'a mut [[u64; 8]; INDEX / 8],
    pub(super) ring: &'a mut [u64; WORDS],
    /// The place of the next piece. The first is not 0, which is no entry.
    pub(super) next: &'a mut u64,
}

const PLACE: u64 = (1 << 40) - 1;

impl Pieces<'_> {
    #[inline(always)]
    fn line_of(hash: u64) -> usize {
        // Of other bits than the tag.
        (hash << 24 >> (64 - INDEX_BITS)) as usize
    }

    /// Has the index fetched where that hash is.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        kernel::prefetch(&self.index[Self::line_of(hash)]);
    }

    /// Where a piece of that hash may be, if it is there; has it fetched.
    #[inline(always)]
    pub(crate) fn place(&self, hash: u64) -> u64 {
        let tag = hash & !PLACE;
        let line = &self.index[Self::line_of(hash)];
        let same = |e: u64| if (e ^ tag) & !PLACE == 0 { e } else { 0 };
        let place = line.iter().fold(0, |found, &e| found.max(same(e))) & PLACE;
        kernel::prefetch(&self.ring[place as usize % RING]);
        place
    }

    /// The tokens of the piece if it is what stands at `place`.
    #[inline(always)]
    pub(crate) fn get(&self, piece: &[u8], place: u64) -> Option<u64> {
        if place == 0 || self.next.wrapping_sub(place) > (RING - OVERHANG) as u64 {
            return None;
        }
        let words = &self.ring[place as usize % RING..];
        let (head, words) = words.split_first()?;
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let same = *head >> 32 == piece.len() as u64 && bytes.get(..piece.len())? == piece;
        same.then_some(*head & 0xffff_ffff)
    }

    /// Keeps the tokens of a piece. Once the ring is full it takes one of four only: of a text
    /// that comes again and again but is larger than the ring, the newest would always write
    /// over what is asked for next.
    pub(crate) fn keep(&mut self, piece: &[u8], hash: u64, tokens: u64, turn: u32) {
        let is_full = *self.next >= RING as u64;
        if piece.len() > LONGEST_BYTES || (is_full && !turn.is_multiple_of(4)) {
            return;
        }
        let place = (*self.next).max(1);
        let (head, words) = self.ring[place as usize % RING..]
            .split_first_mut()
            .expect("it is behind the place");
        *head = (piece.len() as u64) << 32 | tokens;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
        bytes[..piece.len()].copy_from_slice(piece);
        *self.next = place + 1 + piece.len().div_ceil(8) as u64;
        let line = &mut self.index[Self::line_of(hash)];
        // The oldest goes.
        let oldest = (0..8).min_by_key(|&i| line[i] & PLACE).unwrap_or(0);
        line[oldest] = (hash & !PLACE) | (place & PLACE);
    }
}
