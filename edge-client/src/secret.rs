//! Secrets as types of their own: they print as `[redacted]`, are wiped when dropped, and
//! are compared in constant time.
//!
//! Nothing here says what a secret is for; see [`crate::derive`] for what is derived from an
//! API key.

use edge_common::siphash;
use std::fmt;
use std::io::Read as _;
use std::path::Path;
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes that must not be seen: an upstream's credential, a signing secret.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret(Vec<u8>);

/// An API key: the bytes of its text. What clients hold; the edge never stores one.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct ApiKey(Secret);

/// A key's MAC key at one audience. Whoever has it can make tokens for that audience.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct MacKey([u8; 16]);

/// SHA-256 of an API key, against which a header's key is checked.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct KeyHash([u8; 32]);

macro_rules! secret {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[redacted]")
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                equal(self.expose(), other.expose())
            }
        }

        impl Eq for $name {}
    )*};
}

secret!(Secret, ApiKey, MacKey, KeyHash);

/// Whether two texts are the same, in a time that their lengths alone decide.
///
/// What differs is gathered by words of eight bytes and looked at once: to look at each byte alone
/// takes as long for it as for all of them.
#[must_use]
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (words, rest) = one.as_chunks::<8>();
    let (other_words, other_rest) = other.as_chunks::<8>();
    let mut difference = 0;
    for (word, other) in words.iter().zip(other_words) {
        difference |= u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(*other);
    }
    for (byte, other) in rest.iter().zip(other_rest) {
        difference |= u64::from(byte ^ other);
    }
    difference.ct_eq(&0).into()
}

/// Why a secret could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}: cannot read the secret: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is longer than any secret.
    #[error("{path}: longer than {max} bytes, so it is no secret", max = Secret::MAX_FILE_BYTES)]
    TooLong {
        /// The file.
        path: String,
    },
    /// There is nothing in the file but white space.
    #[error("{path}: holds no secret, only white space")]
    Empty {
        /// The file.
        path: String,
    },
    /// The environment variable is not set, or empty.
    #[error("the environment variable {name} is not set")]
    Unset {
        /// The variable.
        name: String,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes: {0}")]
    Random(getrandom::Error),
}

impl Secret {
    /// Longest file that [`Secret::read`] reads.
    pub const MAX_FILE_BYTES: u64 = 65_536;

    /// Takes the bytes over.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Reads a file that holds nothing but the secret; trailing white space is cut.
    ///
    /// # Errors
    /// When the file cannot be read or holds nothing.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let shown = || path.display().to_string();
        // Room for the whole at once: a vector that grows leaves copies behind.
        let mut bytes = Vec::with_capacity(Self::MAX_FILE_BYTES as usize + 1);
        std::fs::File::open(path)
            .and_then(|file| file.take(Self::MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|source| Error::Read {
                path: shown(),
                source,
            })?;
        if bytes.len() as u64 > Self::MAX_FILE_BYTES {
            bytes.zeroize();
            return Err(Error::TooLong { path: shown() });
        }
        let length = bytes.trim_ascii_end().len();
        if length == 0 {
            return Err(Error::Empty { path: shown() });
        }
        bytes[length..].zeroize();
        bytes.truncate(length);
        Ok(Self(bytes))
    }

    /// `length` bytes from the operating system.
    ///
    /// # Errors
    /// When the system has none.
    pub fn random(length: usize) -> Result<Self, Error> {
        let mut secret = Self(vec![0; length]);
        getrandom::fill(&mut secret.0).map_err(Error::Random)?;
        Ok(secret)
    }

    /// The bytes, for the one who must use them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl ApiKey {
    /// What the text of a generated key begins with.
    pub const PREFIX: &str = "sk-edge-";

    /// A new key: [`ApiKey::PREFIX`] and base64url of 32 random bytes.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn generate() -> Result<Self, Error> {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let mut random = Zeroizing::new([0; 32]);
        getrandom::fill(random.as_mut()).map_err(Error::Random)?;
        let mut text = Zeroizing::new([0; 43]);
        let written = URL_SAFE_NO_PAD
            .encode_slice(random.as_ref(), text.as_mut())
            .unwrap_or(0);
        debug_assert_eq!(written, 43, "32 bytes are 43 base64 digits");
        Ok(Self::new([Self::PREFIX.as_bytes(), &text[..]].concat()))
    }

    /// Any bytes are a key when someone gives them.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Secret::new(bytes))
    }

    /// Reads a file that holds nothing but the key; trailing white space is cut.
    ///
    /// # Errors
    /// When the file cannot be read or holds nothing.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Secret::read(path).map(Self)
    }

    /// The bytes, for the one who must use them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.expose()
    }
}

impl MacKey {
    /// Takes the bytes over.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The little-endian words that SipHash and the policy map use.
    #[must_use]
    pub const fn words(&self) -> siphash::Key {
        let both = u128::from_le_bytes(self.0);
        [both as u64, (both >> 64) as u64]
    }

    /// The bytes, for the one who must use them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl KeyHash {
    /// Takes the bytes over.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for the one who must use them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        let shown = format!(
            "{:?} {:?} {:?} {:?}",
            Secret::new(b"abc".to_vec()),
            ApiKey::new(b"abc".to_vec()),
            MacKey::new([1; 16]),
            KeyHash::new([2; 32]),
        );
        assert_eq!(shown, "[redacted] [redacted] [redacted] [redacted]");
    }

    #[test]
    fn texts_are_equal_when_all_their_bytes_are() {
        let text: Vec<u8> = (0..40).collect();
        for length in 0..text.len() {
            assert!(equal(&text[..length], &text[..length]));
            assert!(!equal(&text[..length], &text[..length + 1]));
            for at in 0..length {
                for bit in 0..8 {
                    let mut other = text[..length].to_vec();
                    other[at] ^= 1 << bit;
                    assert!(!equal(&text[..length], &other), "{length} {at} {bit}");
                }
            }
        }
    }

    #[test]
    fn generated_keys_have_the_shape_of_the_protocol_and_differ() {
        use base64::Engine as _;
        let [a, b] = [(); 2].map(|()| ApiKey::generate().unwrap());
        assert_ne!(a, b);
        let text = std::str::from_utf8(a.expose()).unwrap();
        let random = text.strip_prefix("sk-edge-").unwrap();
        let random = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(random)
            .unwrap();
        assert_eq!(random.len(), 32);
    }

    #[test]
    fn a_secret_file_loses_its_trailing_white_space_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, " a b\r\n\n").unwrap();
        assert_eq!(Secret::read(&path).unwrap().expose(), b" a b");
        std::fs::write(&path, " \n").unwrap();
        assert!(matches!(Secret::read(&path), Err(Error::Empty { .. })));
        std::fs::remove_file(&path).unwrap();
        let error = Secret::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("secret") && error.contains("cannot read"),
            "{error}"
        );
    }

    #[test]
    fn words_are_little_endian() {
        let bytes = std::array::from_fn(|i| i as u8);
        assert_eq!(
            MacKey::new(bytes).words(),
            [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]
        );
    }
}
