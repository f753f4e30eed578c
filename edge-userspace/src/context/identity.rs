//! What identifies a prefix: whose it is, in which context, and its fingerprint.
//!
//! Nothing here is learnt or kept; see [`super::slots`] for that.

use edge_common::token::KeyId;

/// Whose a conversation is: the key's id. Nothing learnt of one is ever shown to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tenant(pub u64);

impl From<KeyId> for Tenant {
    fn from(id: KeyId) -> Self {
        Self(id.0)
    }
}

/// The client's own name of a context, as a keyed hash of the header `x-anthropic-context-id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ContextId(pub u64);

impl ContextId {
    /// The header is absent.
    pub const NONE: Self = Self(0);
}

/// A prefix in its canonical form, as 128 bits of a keyed hash. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u64; 2]);

impl Fingerprint {
    /// Of a hash's two words. Zero, which no table could tell from an empty place, becomes one.
    #[must_use]
    pub const fn new(words: [u64; 2]) -> Self {
        match words {
            [0, 0] => Self([1, 0]),
            words => Self(words),
        }
    }

    /// Its two words.
    #[must_use]
    pub const fn words(self) -> [u64; 2] {
        self.0
    }
}

/// What a slot is found by. All three must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Whose.
    pub tenant: Tenant,
    /// In which context.
    pub context: ContextId,
    /// Which prefix.
    pub fingerprint: Fingerprint,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_never_zero() {
        assert_eq!(Fingerprint::new([0, 0]).words(), [1, 0]);
        assert_eq!(Fingerprint::new([0, 7]).words(), [0, 7]);
        assert_eq!(Fingerprint::new([7, 0]).words(), [7, 0]);
    }
}
