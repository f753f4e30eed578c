//! The key that a connection's requests show, kept as it was shown once: so that each of them is
//! compared and not hashed.
//!
//! It lies in memory for as long as the connection is open, as it does in what HTTP/2 keeps of
//! headers (HPACK's table), and is overwritten then.

use crate::keys::KeyRecord;
use crate::secret::{KeyHash, equal};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// Longer ones are hashed each time.
const MOST_BYTES: usize = 256;

/// What was shown and was right.
#[derive(Default)]
pub(super) struct Known(Option<Shown>);

struct Shown {
    text: Zeroizing<Box<[u8]>>,
    hash: KeyHash,
}

impl Known {
    /// Whether what is shown is that key; in constant time either way.
    pub(super) fn is_key(&mut self, key: &KeyRecord, shown: &[u8]) -> bool {
        let is_known = |known: &Shown| equal(&known.text, shown) && known.hash == key.key_hash;
        if self.0.as_ref().is_some_and(is_known) {
            return true;
        }
        let hash = KeyHash::new(Sha256::digest(shown).into());
        let is_key = hash == key.key_hash;
        if is_key && shown.len() <= MOST_BYTES {
            let text = Zeroizing::new(shown.into());
            self.0 = Some(Shown { text, hash });
        }
        is_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::derive;
    use crate::secret::ApiKey;

    fn record(key: &[u8]) -> KeyRecord {
        let key = ApiKey::new(key.to_vec());
        KeyRecord {
            id: derive::key_id(&key),
            name: "test".into(),
            key_hash: derive::key_hash(&key),
            policy: None,
            not_before_s: 0,
            not_after_s: u64::MAX,
            alpn_only: false,
            rates: Default::default(),
            max_prompt_tokens: None,
            allowance: None,
            revoked: false,
        }
    }

    #[test]
    fn what_was_right_once_is_right_for_that_key_alone() {
        let long = vec![b'x'; MOST_BYTES + 1];
        let (one, other, long_one) = (record(b"one"), record(b"other"), record(&long));
        let mut known = Known::default();
        for _ in 0..2 {
            assert!(!known.is_key(&one, b"other"));
            assert!(!known.is_key(&one, b"on"));
            assert!(!known.is_key(&one, b""));
            assert!(known.is_key(&one, b"one"));
            assert!(!known.is_key(&other, b"one"), "the entry is another's now");
            assert!(known.is_key(&long_one, &long));
            assert!(known.is_key(&other, b"other"));
        }
    }
}
