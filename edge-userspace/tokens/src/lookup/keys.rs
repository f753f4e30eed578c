//! The keys of pieces and their hashes, which the tables are laid out by. Used by the build
//! script too.

/// Words before the tables of a section; a multiple of a cache line.
pub(super) const HEADER: usize = 8;
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"lookup02");

/// The bytes of a key in its last word; the top byte is the count.
pub(crate) const KEY: u64 = (1 << 56) - 1;

/// The multiplier of [`hash_short`].
pub(crate) const SHORT_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// The multipliers of [`hash_medium`].
pub(crate) const MEDIUM_MULTIPLIERS: [u64; 2] = [K1, K2];
const K1: u64 = SHORT_MULTIPLIER;
const K2: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// The line of so many that a hash belongs to, by its high bits.
#[inline(always)]
pub(super) fn line_of(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

/// The hash of a short piece; its high bits choose the place.
#[inline(always)]
pub(crate) fn hash_short(key: u64) -> u64 {
    key.wrapping_mul(K1)
}

/// The hash of a piece of eight to fifteen bytes.
#[inline(always)]
pub(crate) fn hash_medium(key: [u64; 2]) -> u64 {
    let [first, second] = MEDIUM_MULTIPLIERS;
    (key[0].wrapping_mul(first) ^ key[1]).wrapping_mul(second)
}

/// The hash of a piece of up to thirty bytes as the memo keeps it.
#[inline(always)]
pub(crate) fn hash_key(key: [u64; 4]) -> u64 {
    let first = (key[0].wrapping_mul(K1) ^ key[1]).wrapping_mul(K2);
    let second = (key[2].wrapping_mul(K2) ^ key[3]).wrapping_mul(K1);
    (first ^ second.rotate_left(32)).wrapping_mul(K1)
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
