//! SipHash-2-4 (Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012), for the
//! one message length that the pre-auth token needs.
//!
//! Not a general hasher: the BPF verifier likes straight lines, and a 20-byte message is
//! two words and a tail.

/// A 128-bit SipHash key as its two little-endian words.
pub type Key = [u64; 2];

/// SipHash-2-4 of a 20-byte message.
///
/// `words` are the message's first sixteen bytes as two little-endian words, `tail` the
/// last four bytes as a little-endian word. The eight output bytes of the paper's vectors
/// are this value in little-endian order.
#[inline(always)]
#[must_use]
pub fn siphash24_20(key: Key, words: [u64; 2], tail: u32) -> u64 {
    let [k0, k1] = key;
    let mut state = State {
        v0: k0 ^ 0x736f_6d65_7073_6575,
        v1: k1 ^ 0x646f_7261_6e64_6f6d,
        v2: k0 ^ 0x6c79_6765_6e65_7261,
        v3: k1 ^ 0x7465_6462_7974_6573,
    };
    let [w0, w1] = words;
    state.compress(w0);
    state.compress(w1);
    // The last block carries the message's length in its top byte.
    state.compress(u64::from(tail) | 20 << 56);
    state.finish()
}

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline(always)]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }

    #[inline(always)]
    fn compress(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    #[inline(always)]
    fn finish(mut self) -> u64 {
        self.v2 ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.round();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::Hasher as _;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher24;

    fn ours(key: [u8; 16], message: [u8; 20]) -> u64 {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        siphash24_20(
            [word(&key[..8]), word(&key[8..])],
            [word(&message[..8]), word(&message[8..16])],
            u32::from_le_bytes(message[16..].try_into().unwrap()),
        )
    }

    /// Entry 20 of `vectors_sip64` in the SipHash authors' reference implementation.
    #[test]
    fn reference_vector() {
        let key = core::array::from_fn(|i| i as u8);
        let message = core::array::from_fn(|i| i as u8);
        assert_eq!(
            ours(key, message).to_le_bytes(),
            [0x98, 0xee, 0xa2, 0x1a, 0xf2, 0x5c, 0xd6, 0xbe],
        );
    }

    proptest! {
        #[test]
        fn equals_the_siphasher_crate(key: [u8; 16], message: [u8; 20]) {
            let mut hasher = SipHasher24::new_with_key(&key);
            hasher.write(&message);
            prop_assert_eq!(ours(key, message), hasher.finish());
        }
    }
}
