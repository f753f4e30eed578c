//! What is derived from an API key. All of it is one-way.
//!
//! - key id: the first 8 bytes of SHA-256("zl1 key id" ‖ key), public;
//! - key hash: SHA-256(key), which checks a key that comes in a header;
//! - MAC key of an audience: HKDF-SHA256 (RFC 5869; no salt, info = "zl1 preauth" ‖
//!   audience), 16 bytes. It is of no use at another audience.

use crate::secret::{ApiKey, KeyHash, MacKey};
use edge_common::token::KeyId;
use hkdf::Hkdf;
use sha2::{Digest as _, Sha256};

/// The public name of a key.
#[must_use]
pub fn key_id(key: &ApiKey) -> KeyId {
    let digest: [u8; 32] = Sha256::new_with_prefix(b"zl1 key id")
        .chain_update(key.expose())
        .finalize()
        .into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    KeyId::from_bytes([a, b, c, d, e, f, g, h])
}

/// The hash that checks a header's key.
#[must_use]
pub fn key_hash(key: &ApiKey) -> KeyHash {
    KeyHash::new(Sha256::digest(key.expose()).into())
}

/// The MAC key at `audience`.
#[must_use]
pub fn mac_key(key: &ApiKey, audience: &str) -> MacKey {
    let mut bytes = [0; 16];
    Hkdf::<Sha256>::new(None, key.expose())
        .expand_multi_info(&[b"zl1 preauth", audience.as_bytes()], &mut bytes)
        .expect("16 bytes are fewer than HKDF's bound of 255 hashes");
    MacKey::new(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the protocol page, made by an independent implementation.
    #[test]
    fn protocol_vector() {
        let key = ApiKey::new(b"sk-edge-test".to_vec());
        assert_eq!(key_id(&key).to_string(), "16c90ee8f37ea61f");
        assert_eq!(
            hex::encode(mac_key(&key, "demo").expose()),
            "dd0a70cd36ab09f377bda082827a7738",
        );
        // `printf %s sk-edge-test | sha256sum`
        assert_eq!(
            hex::encode(key_hash(&key).expose()),
            "97a59d641b06991d977a747c9b2b3bc805c3e42eca3ece189195baf015623916",
        );
    }

    #[test]
    fn audiences_do_not_share_a_mac_key() {
        let key = ApiKey::new(b"sk-edge-test".to_vec());
        assert_ne!(mac_key(&key, "demo"), mac_key(&key, "demo2"));
        assert_ne!(mac_key(&key, "demo"), mac_key(&key, ""));
    }

    #[test]
    fn a_token_made_from_derived_parts_is_the_protocol_vector() {
        let key = ApiKey::new(b"sk-edge-test".to_vec());
        let nonce = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]);
        let token = edge_common::token::Token::issue(
            key_id(&key),
            mac_key(&key, "demo").words(),
            1_800_000_000,
            nonce,
        );
        assert_eq!(
            std::str::from_utf8(&token.to_name()).unwrap(),
            "ezl1-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260",
        );
    }
}
