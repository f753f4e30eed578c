//! Pieces by loads from the text, where there is no vector of the block to move bytes in.
#![expect(
    unsafe_code,
    reason = "loads and stores without bounds to check: one for each piece"
)]

use crate::lookup::batch::Batch;

/// Adds pieces to the batch as [`Vector::emit`] does, by loads from the text, without a branch
/// that depends on their length: each is written to all three lists, and one of them grows.
///
/// # Safety
/// The batch has room for a block, and the ends are inside of it or right behind it.
#[inline(always)]
pub(crate) unsafe fn by_loads(
    text: &[u8],
    at: usize,
    starts: u64,
    mut ends: u64,
    batch: &mut Batch,
) {
    // Sixteen bytes are read of each piece, wherever it ends.
    const READ: usize = 64 + 16;
    let mut last = [0_u8; READ];
    let block = text[at..].first_chunk::<READ>().unwrap_or_else(|| {
        last[..text.len() - at].copy_from_slice(&text[at..]);
        &last
    });
    let (mut shorts, mut mediums, mut longs) = (batch.shorts, batch.mediums, batch.longs);
    let mut start = starts.trailing_zeros() as usize;
    while ends != 0 {
        let end = ends.trailing_zeros() as usize;
        ends &= ends - 1;
        let length = end - start;
        // The bytes of a word that are left of a length, by eights.
        let mask = (1_u64 << (8 * (length & 7))) - 1;
        let word = |k: usize| {
            let from = block.as_ptr().wrapping_add(start + 8 * k).cast::<[u8; 8]>();
            // SAFETY: a piece starts below 64, so these bytes are within the 80.
            u64::from_le_bytes(unsafe { from.read() })
        };
        let (low, high) = (word(0), word(1));
        // SAFETY: the caller's promise: there is room for 64 more, here and below.
        unsafe { *batch.short.get_unchecked_mut(shorts) = low & mask };
        shorts += usize::from(length < 8);
        // SAFETY: as above.
        unsafe { *batch.medium.get_unchecked_mut(mediums) = [low, high & mask] };
        mediums += usize::from(length.wrapping_sub(8) < 8);
        // SAFETY: as above.
        unsafe { *batch.long.get_unchecked_mut(longs) = ((at + start) as u32, length as u32) };
        longs += usize::from(length > 15);
        start = end;
    }
    (batch.shorts, batch.mediums, batch.longs) = (shorts, mediums, longs);
}

/// Pieces of a block that holds a NUL.
#[cold]
#[inline(never)]
pub(super) fn one_by_one(
    text: &[u8],
    at: usize,
    mut starts: u64,
    mut ends: u64,
    batch: &mut Batch,
) {
    while starts != 0 {
        let (start, end) = (starts.trailing_zeros(), ends.trailing_zeros());
        batch.push(text, at + start as usize, at + end as usize);
        starts &= starts - 1;
        ends &= ends - 1;
    }
}
