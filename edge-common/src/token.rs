//! The pre-auth token: layout, parsing, tag.
//!
//! One ALPN protocol name, `ezl1-` and 56 lower-case hex digits:
//! key id (8 bytes), issued-at in Unix seconds (4, big-endian), nonce (8), tag (8);
//! the tag is SipHash-2-4 under the key's MAC key over the first twenty bytes.
//! Not here: whether the key is known and the time right ([`crate::policy`]).

use crate::siphash::{Key, siphash24_20};
use core::fmt;

/// What every token name begins with.
pub const PREFIX: &[u8; 5] = b"ezl1-";
/// Length of the hex text after the prefix, in bytes.
pub const TEXT_LEN: usize = 56;
/// Length of the whole ALPN name, in bytes.
pub const NAME_LEN: usize = PREFIX.len() + TEXT_LEN;

/// The hex text of a token as seven little-endian words of eight digits each, the shape
/// in which a scanner can copy it without a loop the verifier has to follow.
pub type Text = [u64; 7];

/// A key's public name: the first 8 bytes of SHA-256("zl1 key id" ‖ key), as a
/// little-endian word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct KeyId(pub u64);

impl KeyId {
    /// From the bytes as they stand in a token.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    /// The bytes as they stand in a token.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// From sixteen hex digits, as printed.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 16 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        u64::from_str_radix(text, 16)
            .ok()
            .map(|v| Self(v.swap_bytes()))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0.swap_bytes())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A parsed token. Nothing about it has been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whose token it claims to be.
    pub key_id: KeyId,
    /// When it was made, Unix seconds.
    pub issued_at_s: u32,
    /// Makes it single-use.
    pub nonce: u64,
    /// What the holder's MAC key made of the three above.
    pub tag: u64,
}

impl Token {
    /// Parses the hex text. `None` when a digit is not lower-case hex.
    #[inline(always)]
    #[must_use]
    pub fn parse(text: &Text) -> Option<Self> {
        let [t0, t1, t2, t3, t4, t5, t6] = *text;
        let mut bad = 0;
        let (w0, w1) = (unhex(t0, &mut bad), unhex(t1, &mut bad));
        let w2 = unhex(t2, &mut bad);
        let (w3, w4) = (unhex(t3, &mut bad), unhex(t4, &mut bad));
        let (w5, w6) = (unhex(t5, &mut bad), unhex(t6, &mut bad));
        if bad != 0 {
            return None;
        }
        Some(Self {
            key_id: KeyId(join(w0, w1)),
            issued_at_s: w2.swap_bytes(),
            nonce: join(w3, w4),
            tag: join(w5, w6),
        })
    }

    /// The tag that the holder of `mac_key` would have made for these fields.
    #[inline(always)]
    #[must_use]
    pub fn expected_tag(&self, mac_key: Key) -> u64 {
        let issued = u64::from(self.issued_at_s.swap_bytes());
        siphash24_20(
            mac_key,
            [self.key_id.0, issued | self.nonce << 32],
            (self.nonce >> 32) as u32,
        )
    }

    /// Makes a token: the client's side.
    #[must_use]
    pub fn issue(key_id: KeyId, mac_key: Key, issued_at_s: u32, nonce: u64) -> Self {
        let mut token = Self {
            key_id,
            issued_at_s,
            nonce,
            tag: 0,
        };
        token.tag = token.expected_tag(mac_key);
        token
    }

    /// The token as an ALPN protocol name.
    #[must_use]
    pub fn to_name(&self) -> [u8; NAME_LEN] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut name = [0; NAME_LEN];
        let (prefix, digits) = name.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX);
        let bytes = (self.key_id.to_bytes().into_iter())
            .chain(self.issued_at_s.to_be_bytes())
            .chain(self.nonce.to_le_bytes())
            .chain(self.tag.to_le_bytes());
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair.copy_from_slice(&[
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
        }
        name
    }
}

#[inline(always)]
fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Eight hex digits (first digit in the lowest byte) to the four bytes they spell, first
/// byte lowest. Sets bits in `bad` when a digit is not `0-9a-f`.
#[inline(always)]
fn unhex(text: u64, bad: &mut u64) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Bit 6 tells letters from digits; a letter's low nibble is its value less nine.
    let letter = (text >> 6) & ONES;
    let value = (text & (ONES * 0x0f)) + letter * 9;
    // Spell the value again: what differs from the text was no lower-case hex digit.
    let above_nine = ((value + ONES * 0x76) >> 7) & ONES;
    let spelt = value + ONES * 0x30 + above_nine * 0x27;
    *bad |= (spelt ^ text) | (value & (ONES * 0xf0));
    // Fold pairs of nibbles into bytes, then the bytes together.
    let bytes = ((value << 4) | (value >> 8)) & 0x00ff_00ff_00ff_00ff;
    let halves = (bytes | (bytes >> 8)) & 0x0000_ffff_0000_ffff;
    (halves | (halves >> 16)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(digits: &[u8]) -> Text {
        core::array::from_fn(|i| u64::from_le_bytes(digits[i * 8..][..8].try_into().unwrap()))
    }

    /// The vector of the protocol page: key `sk-edge-test`, audience `demo`, made by an
    /// independent implementation.
    #[test]
    fn protocol_vector() {
        let key_id = KeyId::from_hex("16c90ee8f37ea61f").unwrap();
        let mac = u128::from_str_radix("dd0a70cd36ab09f377bda082827a7738", 16).unwrap();
        let mac = mac.to_be_bytes();
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap());
        let mac = [word(&mac[..8]), word(&mac[8..])];
        let nonce = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]);
        let token = Token::issue(key_id, mac, 1_800_000_000, nonce);
        let name = token.to_name();
        assert_eq!(
            core::str::from_utf8(&name).unwrap(),
            "ezl1-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260",
        );
        assert_eq!(Token::parse(&text(&name[5..])), Some(token));
    }

    #[test]
    fn every_byte_but_lower_case_hex_is_refused_at_every_place() {
        let good = [b'a'; TEXT_LEN];
        for at in 0..TEXT_LEN {
            for byte in 0..=255u8 {
                let mut digits = good;
                digits[at] = byte;
                let lower_hex = byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                assert_eq!(
                    Token::parse(&text(&digits)).is_some(),
                    lower_hex,
                    "{byte:#x} at {at}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn parse_undoes_to_name(id: u64, issued_at_s: u32, nonce: u64, tag: u64) {
            let token = Token { key_id: KeyId(id), issued_at_s, nonce, tag };
            let name = token.to_name();
            prop_assert_eq!(hex::encode(token.key_id.to_bytes()), core::str::from_utf8(&name[5..21]).unwrap());
            prop_assert_eq!(Token::parse(&text(&name[5..])), Some(token));
        }

        #[test]
        fn parse_agrees_with_the_hex_crate(digits in proptest::collection::vec(any::<u8>(), TEXT_LEN)) {
            let lower = digits.iter().all(|b| !b.is_ascii_uppercase());
            prop_assert_eq!(Token::parse(&text(&digits)).is_some(), lower && hex::decode(&digits).is_ok());
        }

        #[test]
        fn any_flipped_bit_changes_the_tag(key: [u64; 2], id: u64, at: u32, nonce: u64, bit in 0u32..160) {
            let token = Token::issue(KeyId(id), key, at, nonce);
            let mut other = token;
            match bit {
                0..64 => other.key_id.0 ^= 1 << bit,
                64..96 => other.issued_at_s ^= 1 << (bit - 64),
                _ => other.nonce ^= 1 << (bit - 96),
            }
            prop_assert_ne!(other.expected_tag(key), token.tag);
        }
    }
}
