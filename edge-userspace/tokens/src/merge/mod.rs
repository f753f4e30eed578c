//! How many tokens byte-pair merging leaves of one piece.
//!
//! The rule is tiktoken's: of all neighbours whose bytes together are a token, the pair of the
//! lowest rank merges first, and of equal ones the leftmost, until no two merge. A piece that
//! is itself a token is not asked for here: [`count`] merges, and a token that merging cannot
//! reach would come out as several.
//!
//! Three ways, all exact:
//! - up to [`WINDOW_BYTES`], by the rule itself, several pieces at once
//!   ([`arch`](crate::arch)): a merge is a chain of dependent steps, so one piece alone leaves
//!   most of the core idle;
//! - longer, in linear time, window by window with an overlap, and if the windows do not agree
//!   there, byte by byte ([`prefix`]); if the piece is not at hand as a whole, by both
//!   ([`endless`]); for all of these the vocabulary has to be [proper](Shared::is_proper);
//! - for a vocabulary that is not, a heap of pairs ([`heap`]).
//!
//! Not here: what a piece is (the pattern's business), and what was counted before (the
//! look-up's).

mod endless;
mod heap;
mod prefix;
pub mod section;
mod shared;
#[cfg(test)]
mod tests;
pub mod write;

pub use endless::Endless;
pub use shared::{Damaged, Shared};
pub use write::write;

pub(crate) use prefix::Ring;

use crate::arch::{Isa, merge as kernel};

/// The longest piece that is merged by the rule itself.
pub const WINDOW_BYTES: usize = 62;

/// What counting a long piece needs beside the vocabulary; kept by the caller between pieces.
///
/// Bounded by the longest token, and for a vocabulary that is not [proper](Shared::is_proper)
/// by the longest piece.
#[derive(Default)]
pub struct Scratch {
    ring: Ring,
    heap: heap::Heap,
}

/// The tokens of one piece.
#[must_use]
pub fn count(shared: &Shared<'_>, piece: &[u8], isa: Isa, scratch: &mut Scratch) -> u64 {
    if piece.len() <= WINDOW_BYTES {
        return u64::from(kernel::count_one(shared, piece, isa));
    }
    match u32::try_from(piece.len()) {
        Ok(length) if shared.is_proper() => {
            let mut count = [0];
            let ring = &mut scratch.ring;
            kernel::count_pieces(shared, isa, piece, &[(0, length)], &mut count, ring);
            u64::from(count[0])
        }
        Err(_) if shared.is_proper() => {
            scratch.ring.clear(shared);
            kernel::push_prefix(shared, isa, &mut scratch.ring, piece);
            scratch.ring.count()
        }
        _ => scratch.heap.count(shared, piece),
    }
}

/// The tokens of each of many pieces of at most eight bytes: `keys` are their bytes from the
/// lowest up, without a NUL, filled up with zeros. The zero key has no tokens.
///
/// # Panics
/// If `counts` is not as long as `keys`.
pub fn count_keys8(shared: &Shared<'_>, isa: Isa, keys: &[u64], counts: &mut [u8]) {
    assert_eq!(keys.len(), counts.len(), "a count for each key");
    kernel::count_keys8(shared, isa, keys, counts);
}

/// As [`count_keys8`], for pieces of at most sixteen bytes.
///
/// # Panics
/// If `counts` is not as long as `keys`.
pub fn count_keys16(shared: &Shared<'_>, isa: Isa, keys: &[[u64; 2]], counts: &mut [u8]) {
    assert_eq!(keys.len(), counts.len(), "a count for each key");
    kernel::count_keys16(shared, isa, keys, counts);
}

/// The tokens of each of many pieces of `text`, given by start and length in bytes.
///
/// # Panics
/// If `counts` is not as long as `pieces`, or a piece is not within the text.
pub fn count_pieces(
    shared: &Shared<'_>,
    isa: Isa,
    text: &[u8],
    pieces: &[(u32, u32)],
    counts: &mut [u32],
    scratch: &mut Scratch,
) {
    assert_eq!(pieces.len(), counts.len(), "a count for each piece");
    kernel::count_pieces(shared, isa, text, pieces, counts, &mut scratch.ring);
    if !shared.is_proper() {
        for (&(start, length), count) in pieces.iter().zip(counts) {
            if length as usize > WINDOW_BYTES {
                let piece = &text[start as usize..][..length as usize];
                *count = scratch.heap.count(shared, piece) as u32;
            }
        }
    }
}
