//! Pieces by loads from the text, where there is no vector of the block to move bytes in: first
//! only where they end is noted, then the keys of many are made in one loop.
#![expect(
    unsafe_code,
    reason = "loads and stores without bounds to check: one for each piece"
)]

use crate::lookup::batch::Batch;

/// Notes where the pieces of a block end. So many at a time without asking that it is foreseen
/// how many are asked for.
///
/// # Safety
/// There is room for a block.
#[inline(always)]
pub(crate) unsafe fn note(at: usize, mut ends: u64, batch: &mut Batch) {
    let count = ends.count_ones() as usize;
    let to = batch.ends[batch.noted..].as_mut_ptr();
    let mut eight = |from: usize| {
        for i in from..from + 8 {
            // SAFETY: the caller's promise: 64 more at most, and what is too much is not counted.
            unsafe { *to.add(i) = at as u32 + ends.trailing_zeros() };
            ends &= ends.wrapping_sub(1);
        }
    };
    eight(0);
    if count > 8 {
        eight(8);
        let mut done = 16;
        while done < count {
            eight(done);
            done += 8;
        }
    }
    batch.noted += count;
}

/// Adds what has been noted to the lists, by loads from the text, without a branch that depends
/// on a piece: each is written to two lists, and one of them grows.
#[inline(always)]
pub(crate) fn settle(text: &[u8], batch: &mut Batch) {
    let noted = batch.noted.min(batch.ends.len());
    assert!(batch.has_room(noted), "full lists were not taken");
    let mut start = batch.from;
    let mut done = 0;
    let (mut shorts, mut others) = (batch.shorts, 0);
    // Sixteen bytes are read of each, wherever it ends.
    while done < noted && start + 16 <= text.len() {
        // SAFETY: there are so many.
        let end = unsafe { *batch.ends.get_unchecked(done) } as usize;
        let length = end - start;
        // SAFETY: eight bytes are there; there is room for all that were noted, here and below.
        unsafe {
            *batch.short.get_unchecked_mut(shorts) = word(text, start) & below(length);
        }
        // SAFETY: as above.
        unsafe { *batch.longer.get_unchecked_mut(others) = start as u64 | (length as u64) << 32 };
        shorts += usize::from(length < 8);
        others += usize::from(length >= 8);
        start = end;
        done += 1;
    }
    batch.shorts = shorts;
    let (mut mediums, mut longs) = (batch.mediums, batch.longs);
    for &place in &batch.longer[..others] {
        let (start, length) = (place & 0xffff_ffff, place >> 32);
        let at = start as usize;
        // SAFETY: sixteen bytes are there; there is room for all that were noted.
        unsafe {
            *batch.medium.get_unchecked_mut(mediums) =
                [word(text, at), word(text, at + 8) & below(length as usize)];
        }
        mediums += usize::from(length < 16);
        // SAFETY: as above.
        unsafe { *batch.long.get_unchecked_mut(longs) = (start as u32, length as u32) };
        longs += usize::from(length >= 16);
    }
    (batch.mediums, batch.longs) = (mediums, longs);
    for i in done..noted {
        let end = batch.ends[i] as usize;
        batch.push(text, start, end);
        start = end;
    }
    (batch.noted, batch.from) = (0, start);
}

/// Eight bytes of a text.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn word(text: &[u8], at: usize) -> u64 {
    // SAFETY: the caller's promise.
    u64::from_le_bytes(unsafe { text.as_ptr().add(at).cast::<[u8; 8]>().read() })
}

/// The bytes of a word that are left of a length, by eights.
#[inline(always)]
fn below(length: usize) -> u64 {
    (1_u64 << (8 * (length & 7))) - 1
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
