//! The keyed hash of this area: HighwayHash, 128 bits of it.

use highway::{HighwayHash as _, HighwayHasher, Key};

#[inline]
pub(super) fn digest(key: &Key, bytes: &[u8]) -> [u64; 2] {
    HighwayHasher::new(Key(key.0)).hash128(bytes)
}
