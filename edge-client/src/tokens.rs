//! Pre-auth tokens: one for each connection, right before its ClientHello.
//!
//! Not here: what a token looks like ([`edge_common::token`]).

use crate::clock::Clock;
use crate::secret::{self, ApiKey, MacKey};
use edge_common::token::{KeyId, NAME_LEN, Token};
use std::sync::Arc;

/// Makes the tokens of one key at one audience.
#[derive(Clone, Debug)]
pub struct TokenSource {
    key_id: KeyId,
    mac_key: MacKey,
    clock: Arc<Clock>,
}

impl TokenSource {
    /// Derives what tokens of `key` at `audience` need; the key itself is not kept. `clock` is
    /// that of the edge that the tokens are for.
    ///
    /// ```
    /// use edge_client::{ApiKey, Clock, TokenSource};
    /// use std::sync::Arc;
    ///
    /// let key = ApiKey::new(b"sk-edge-test".to_vec());
    /// let tokens = TokenSource::new(&key, "demo", Arc::new(Clock::new()));
    /// let names = tokens.alpn(&[b"h2"])?;
    /// assert_eq!(names[0], b"h2");
    /// assert!(names[1].starts_with(b"ezl1-16c90ee8f37ea61f"), "last, and of this key");
    /// # Ok::<(), edge_client::secret::Error>(())
    /// ```
    #[must_use]
    pub fn new(key: &ApiKey, audience: &str, clock: Arc<Clock>) -> Self {
        Self {
            key_id: crate::derive::key_id(key),
            mac_key: crate::derive::mac_key(key, audience),
            clock,
        }
    }

    /// The key's public name.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The clock that tokens are dated by.
    #[must_use]
    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// A fresh token as an ALPN protocol name, for one connection and no other.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn name(&self) -> Result<[u8; NAME_LEN], secret::Error> {
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce).map_err(secret::Error::Random)?;
        // A token carries 32 bits of Unix time, until 2106.
        let issued_at_s = u32::try_from(self.clock.now_s()).unwrap_or(u32::MAX);
        let nonce = u64::from_le_bytes(nonce);
        Ok(Token::issue(self.key_id, self.mac_key.words(), issued_at_s, nonce).to_name())
    }

    /// The ALPN list of one connection: `protocols`, and a fresh token last, where fingerprints
    /// of ClientHellos do not look.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn alpn(&self, protocols: &[&[u8]]) -> Result<Vec<Vec<u8>>, secret::Error> {
        let token = self.name()?;
        let names = protocols.iter().map(|name| name.to_vec());
        Ok(names.chain([token.to_vec()]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn source() -> TokenSource {
        let key = ApiKey::new(b"sk-edge-test".to_vec());
        TokenSource::new(&key, "demo", Arc::new(Clock::new()))
    }

    fn parse(name: &[u8; NAME_LEN]) -> Token {
        let digits = &name[5..];
        let text =
            std::array::from_fn(|i| u64::from_le_bytes(digits[i * 8..][..8].try_into().unwrap()));
        Token::parse(&text).unwrap()
    }

    #[test]
    fn each_token_is_good_and_none_is_like_another() {
        let tokens = source();
        let made = [(); 3].map(|()| parse(&tokens.name().unwrap()));
        for token in made {
            assert_eq!(token.tag, token.expected_tag(tokens.mac_key.words()));
            assert_eq!(token.key_id.to_string(), "16c90ee8f37ea61f");
        }
        assert_ne!(made[0].nonce, made[1].nonce);
        assert_ne!(made[1].nonce, made[2].nonce);
    }

    #[test]
    fn tokens_are_dated_by_the_edges_clock() {
        let tokens = source();
        let now = SystemTime::now();
        let now_s = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert!(tokens.clock().learn(now_s + 3600, now, now));
        let issued = u64::from(parse(&tokens.name().unwrap()).issued_at_s);
        assert!(
            issued.abs_diff(now_s + 3600) < 60,
            "{issued} beside {now_s}"
        );
    }

    #[test]
    fn nothing_secret_is_printed() {
        let shown = format!("{:?}", source());
        assert!(shown.contains("[redacted]"), "{shown}");
        assert!(!shown.contains("sk-edge"), "{shown}");
    }
}
