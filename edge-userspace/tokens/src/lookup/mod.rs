//! From a piece to its number of tokens without merging: the vocabulary's own tokens in shared
//! tables that are laid out ahead and only read, and a bounded memo of what was learnt, one for
//! each counter.
//!
//! Pieces go by their size. Up to seven bytes are one word, up to fifteen are two, padded with
//! zeros, and the top byte of an entry is its count: a piece that holds a NUL would be
//! ambiguous and goes with the long ones, whose length is part of what is compared.

pub(crate) mod batch;
pub(crate) mod memo;
pub(crate) mod shared;
mod write;

pub(crate) use memo::{Memo, Tables};
pub(crate) use shared::Shared;
pub(crate) use write::write;

/// The bytes of a key in its last word; the top byte is the count.
pub(crate) const KEY: u64 = (1 << 56) - 1;

const K1: u64 = 0x9e37_79b9_7f4a_7c15;
const K2: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// The hash of a short piece; its high bits choose the place.
#[inline(always)]
pub(crate) fn hash_short(key: u64) -> u64 {
    key.wrapping_mul(K1)
}

/// The hash of a piece of eight to fifteen bytes.
#[inline(always)]
pub(crate) fn hash_medium(key: [u64; 2]) -> u64 {
    (key[0].wrapping_mul(K1) ^ key[1]).wrapping_mul(K2)
}

/// The hash of any piece.
#[inline(always)]
pub(crate) fn hash_long(piece: &[u8]) -> u64 {
    let mut hash = piece.len() as u64;
    let mut mix = |word: u64| {
        hash = (hash ^ word).wrapping_mul(K1);
        hash ^= hash >> 29;
    };
    let (words, _) = piece.as_chunks::<8>();
    for word in words {
        mix(u64::from_le_bytes(*word));
    }
    match piece.last_chunk::<8>() {
        Some(last) => mix(u64::from_le_bytes(*last)),
        None => mix(padded(piece)[0]),
    }
    hash.wrapping_mul(K2)
}

/// The first fifteen bytes of a piece, with zeros behind them.
#[inline(always)]
pub(crate) fn padded(piece: &[u8]) -> [u64; 2] {
    let mut bytes = [0; 16];
    let length = piece.len().min(15);
    bytes[..length].copy_from_slice(&piece[..length]);
    let words = bytes.as_chunks::<8>().0;
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

/// The bytes of a key: all but the zeros at its end.
pub(crate) fn unpadded(key: [u64; 2]) -> ([u8; 16], usize) {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key[0].to_le_bytes());
    bytes[8..].copy_from_slice(&key[1].to_le_bytes());
    let zeros = (u128::from_le_bytes(bytes).leading_zeros() / 8) as usize;
    (bytes, 16 - zeros)
}
