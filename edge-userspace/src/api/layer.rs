//! `x-anthropic-layer`: which way a response went, signed so that it cannot be forged.
//!
//! `zero-latency-v2;t=UNIX_SECONDS;kid=ID;sig=SIGNATURE`, where the signature is
//! base64url(HMAC-SHA256(secret, `zero-latency-v2` LF t LF kid LF request-id)) without
//! padding. The legacy lane's value is the plain word `legacy-gateway`: it claims nothing.

use crate::message::digits::{DIGITS, digits};
use crate::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use http::HeaderValue;
use http::header::HeaderName;
use sha2::{Digest as _, Sha256};

/// The header's name.
pub const X_ANTHROPIC_LAYER: HeaderName = HeaderName::from_static("x-anthropic-layer");
/// What the zero lane's header begins with.
pub const ZERO: &str = "zero-latency-v2";
/// The whole value on the legacy lane.
pub const LEGACY: HeaderValue = HeaderValue::from_static("legacy-gateway");

/// 32 bytes in base64 without padding.
const SIGNATURE_CHARS: usize = 43;

/// Signs and checks layer headers.
#[derive(Clone)]
pub struct LayerKey {
    /// It has read what each signed value begins with.
    mac: Hmac<Sha256>,
    kid: String,
    /// As it is signed: in a line of its own.
    kid_line: String,
}

/// Why a layer header is not to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// Not of the shape `zero-latency-v2;t=…;kid=…;sig=…`.
    #[error("not of the shape {ZERO};t=…;kid=…;sig=…")]
    Shape,
    /// Signed with another secret.
    #[error("signed with another secret: its kid is not this one's")]
    OtherKey,
    /// The signature is not that of this value, time and request id.
    #[error("the signature does not fit the value, its time and the request id")]
    Signature,
}

impl LayerKey {
    /// From the secret of `api.layer_secret`.
    #[must_use]
    pub fn new(secret: &Secret) -> Self {
        // Names the secret without telling anything of use about it.
        let name = Sha256::new_with_prefix(b"zl1 layer key id")
            .chain_update(secret.expose())
            .finalize();
        let mac = Hmac::new_from_slice(secret.expose())
            .unwrap_or_else(|_| unreachable!("HMAC takes a key of any length"));
        let kid = hex::encode(&name[..4]);
        Self {
            mac: mac.chain_update(ZERO).chain_update("\n"),
            kid_line: format!("\n{kid}\n"),
            kid,
        }
    }

    /// The header's value for a response with that id, at that Unix time.
    #[must_use]
    pub fn sign(&self, request_id: &HeaderValue, at_s: u64) -> HeaderValue {
        let signature = self.mac(request_id, at_s).finalize().into_bytes();
        let mut signature_text = [0; SIGNATURE_CHARS];
        let written = URL_SAFE_NO_PAD.encode_slice(signature, &mut signature_text);
        debug_assert_eq!(written, Ok(SIGNATURE_CHARS));
        let mut room = [0; DIGITS];
        let parts = [
            ZERO.as_bytes(),
            b";t=",
            digits(at_s, &mut room),
            b";kid=",
            self.kid.as_bytes(),
            b";sig=",
            &signature_text,
        ];
        HeaderValue::from_maybe_shared(Bytes::from(parts.concat())).unwrap_or(LEGACY)
    }

    /// Checks a header against the response's id; gives the time of signing, Unix seconds.
    ///
    /// # Errors
    /// Why it is not to be believed.
    pub fn verify(&self, value: &str, request_id: &HeaderValue) -> Result<u64, LayerError> {
        let mut parts = value.split(';');
        let mut part = |name: &str| {
            let part = parts.next()?;
            part.strip_prefix(name)
        };
        let (Some(""), Some(time), Some(kid), Some(signature)) =
            (part(ZERO), part("t="), part("kid="), part("sig="))
        else {
            return Err(LayerError::Shape);
        };
        if parts.next().is_some() {
            return Err(LayerError::Shape);
        }
        let at_s = time.parse().map_err(|_| LayerError::Shape)?;
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| LayerError::Shape)?;
        if kid != self.kid {
            return Err(LayerError::OtherKey);
        }
        // In constant time.
        (self.mac(request_id, at_s))
            .verify_slice(&signature)
            .map_err(|_| LayerError::Signature)?;
        Ok(at_s)
    }

    fn mac(&self, request_id: &HeaderValue, at_s: u64) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(digits(at_s, &mut [0; DIGITS]));
        mac.update(self.kid_line.as_bytes());
        mac.update(request_id.as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &[u8]) -> LayerKey {
        LayerKey::new(&Secret::new(secret.to_vec()))
    }

    #[test]
    fn a_signed_value_verifies_and_nothing_else_does() {
        let id = HeaderValue::from_static("req_1");
        let value = key(b"secret").sign(&id, 1_800_000_000);
        let value = value.to_str().unwrap();
        assert_eq!(key(b"secret").verify(value, &id), Ok(1_800_000_000));
        assert_eq!(key(b"other").verify(value, &id), Err(LayerError::OtherKey));
        let other_id = HeaderValue::from_static("req_2");
        assert_eq!(
            key(b"secret").verify(value, &other_id),
            Err(LayerError::Signature)
        );
        let later = value.replace("t=1800000000", "t=1800000001");
        assert_eq!(
            key(b"secret").verify(&later, &id),
            Err(LayerError::Signature)
        );
        for bad in ["", "legacy-gateway", &value[1..], &format!("{value};x=1")] {
            assert_eq!(
                key(b"secret").verify(bad, &id),
                Err(LayerError::Shape),
                "{bad}"
            );
        }
    }

    /// `printf 'zero-latency-v2\n1800000000\n0cbf270f\nreq_1' | openssl dgst -sha256 -hmac
    /// secret -binary | base64`, and `printf 'zl1 layer key idsecret' | sha256sum`.
    #[test]
    fn the_value_is_what_other_tools_make_of_it() {
        let id = HeaderValue::from_static("req_1");
        assert_eq!(
            key(b"secret").sign(&id, 1_800_000_000),
            "zero-latency-v2;t=1800000000;kid=0cbf270f;\
             sig=WGFlr4KUj25KrA8PDSH5d3OO22M8Ywc3_1Oeo5TNRhE",
        );
    }
}
