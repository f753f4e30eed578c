//! The secret by which prefixes are named: drawn when a process starts, and never told.
//!
//! Without it nobody can make two prefixes that have one name.

use super::ContextId;
use super::hash::digest;
use edge_common::siphash;
use highway::Key;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Keys of the hashes: for what stands in a request, for the chain over it, and for what it
/// counts.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u64; WORDS]);

const WORDS: usize = 10;

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no random numbers to give.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; WORDS * 8];
        getrandom::fill(&mut bytes)?;
        let secret = Self::of(&bytes);
        bytes.zeroize();
        Ok(secret)
    }

    /// A known one, for demonstrations and tests: names that it makes can be shown, and prove
    /// nothing.
    #[must_use]
    pub fn demonstration() -> Self {
        Self::of(
            b"zl1 demonstration: this is not a secret, so that everybody sees the same chain. ",
        )
    }

    fn of(bytes: &[u8; WORDS * 8]) -> Self {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self(words)
    }

    /// The number that stands for a client's own name of a context. Never that of no name.
    #[must_use]
    pub fn context_id(&self, name: &[u8]) -> ContextId {
        let [word, other] = digest(&self.texts(), name);
        ContextId(if word == 0 { other | 1 } else { word })
    }

    /// For what stands in a request.
    pub(super) fn texts(&self) -> Key {
        let [a, b, c, d, ..] = self.0;
        Key([a, b, c, d])
    }

    /// For the chain.
    pub(super) fn chain(&self) -> Key {
        let [_, _, _, _, a, b, c, d, ..] = self.0;
        Key([a, b, c, d])
    }

    /// For what it counts.
    pub(super) fn counts(&self) -> siphash::Key {
        let [.., a, b] = self.0;
        [a, b]
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
