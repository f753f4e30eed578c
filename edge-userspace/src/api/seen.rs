//! What a request's headers say, read in one pass.

use crate::context::wire::{self, WireFingerprint};
use crate::prompt::decode::Encoding;
use crate::session::Presented;
use edge_http2::Fields;
use http::HeaderValue;
use http::uri::Authority;

/// The `anthropic-beta` by which a prefix hint is asked for.
pub(super) const PREFIX_HINT: &[u8] = b"prefix-hint-2024-10-22";
/// The one by which `edge_usage` events are asked for.
pub(super) const EDGE_USAGE: &[u8] = b"edge-usage-2026-11-01";
/// Those that speak to the edge alone.
pub(super) const OWN_BETAS: [&[u8]; 2] = [PREFIX_HINT, EDGE_USAGE];

/// What a header counts besides its name and its value.
const HEADER_BYTES: usize = 32;

/// What the edge looks at in a request's headers.
#[derive(Debug, Default)]
pub(super) struct Seen<'a> {
    key: Option<&'a [u8]>,
    keys_conflict: bool,
    version: Option<&'a HeaderValue>,
    versions_conflict: bool,
    /// `x-anthropic-layer` on a request is a forgery.
    pub(super) layer: bool,
    /// How the body is encoded.
    pub(super) encoding: Encoding,
    /// A content encoding other than those that are read.
    pub(super) encoding_unknown: bool,
    is_chunked: bool,
    /// A transfer encoding other than chunked, once.
    pub(super) framing_unknown: bool,
    /// How many `host` headers there are.
    pub(super) hosts: usize,
    /// The last of them.
    pub(super) host: Option<&'a HeaderValue>,
    /// One of them names no host.
    pub(super) host_malformed: bool,
    /// `connection` names a header that is not of one hop and that is relied on.
    pub(super) names_end_to_end: bool,
    /// `x-debug: legacy`
    pub(super) debug_legacy: bool,
    /// A value begins or ends with a blank, which HTTP/2 has no use for (RFC 9113 section
    /// 8.2.1) and HTTP/1.1 would lose.
    pub(super) has_blanks: bool,
    /// The size of all headers, each with its name and 32 bytes more (RFC 9113 section 6.5.2).
    pub(super) head_bytes: usize,
    /// What the client says of its body's size, bytes.
    pub(super) content_length: Option<u64>,
    /// `anthropic-fingerprint`
    fingerprint: Option<&'a HeaderValue>,
    fingerprints_conflict: bool,
    /// The client's own name of the conversation's context.
    pub(super) context_id: Option<&'a [u8]>,
    /// `x-anthropic-context-id` comes with two values.
    pub(super) context_ids_conflict: bool,
    /// The name under which the client announces, or will announce, what it asks for.
    pub(super) context_hint: Option<&'a [u8]>,
    /// The client asks to be told how the answer will begin.
    pub(super) wants_prefix_hint: bool,
    /// The client asks for a running count within event streams.
    pub(super) wants_usage: bool,
    has_own: bool,
    cookies: usize,
}

impl<'a> Seen<'a> {
    pub(super) fn read(fields: &'a Fields) -> Self {
        let mut seen = Self::default();
        for (name, value) in fields.iter() {
            seen.has_blanks |= has_blanks(value.as_bytes());
            seen.head_bytes += name.as_str().len() + value.len() + HEADER_BYTES;
            match name.as_str() {
                "x-api-key" => seen.key(value.as_bytes()),
                "authorization" => {
                    if let Some(key) = bearer(value.as_bytes()) {
                        seen.key(key);
                    }
                }
                "anthropic-version" => {
                    let conflict = seen.version.is_some_and(|version| version != value);
                    seen.versions_conflict |= conflict;
                    seen.version = Some(value);
                }
                wire::HEADER => {
                    let conflict = seen.fingerprint.is_some_and(|other| other != value);
                    seen.fingerprints_conflict |= conflict;
                    seen.fingerprint = Some(value);
                }
                "host" => {
                    seen.hosts += 1;
                    seen.host = Some(value);
                    seen.host_malformed |= !may_be_host(value.as_bytes());
                }
                "content-encoding" => {
                    let value = value.as_bytes();
                    // RFC 9110 section 8.4.1.3: the same.
                    let value = if value.eq_ignore_ascii_case(b"x-gzip") {
                        b"gzip"
                    } else {
                        value
                    };
                    let known = Encoding::ALL.into_iter();
                    let known =
                        { known }.find(|known| value.eq_ignore_ascii_case(known.name().as_bytes()));
                    // Encodings upon each other are not understood.
                    seen.encoding_unknown |= known.is_none() || seen.encoding != Encoding::Identity;
                    seen.encoding = known.unwrap_or_default();
                }
                "content-length" => {
                    seen.content_length =
                        (value.to_str().ok()).and_then(|digits| digits.parse().ok());
                }
                "connection" => {
                    let mut names = value.as_bytes().split(|byte| *byte == b',');
                    seen.names_end_to_end |= names.any(|name| is_relied_on(name.trim_ascii()));
                }
                "transfer-encoding" => {
                    seen.framing_unknown |=
                        seen.is_chunked || !value.as_bytes().eq_ignore_ascii_case(b"chunked");
                    seen.is_chunked = true;
                }
                "x-anthropic-layer" => seen.layer = true,
                "x-anthropic-context-id" => {
                    let value = value.as_bytes();
                    seen.context_ids_conflict |= seen.context_id.is_some_and(|id| id != value);
                    seen.context_id = Some(value);
                }
                "x-anthropic-context-hint" => {
                    seen.context_hint = Some(value.as_bytes());
                    seen.has_own = true;
                }
                "anthropic-beta" => {
                    let names = value.as_bytes().split(|byte| *byte == b',');
                    for name in names {
                        seen.wants_prefix_hint |= name.trim_ascii() == PREFIX_HINT;
                        seen.wants_usage |= name.trim_ascii() == EDGE_USAGE;
                    }
                }
                "x-debug" => {
                    seen.debug_legacy |= value.as_bytes().eq_ignore_ascii_case(b"legacy");
                    seen.has_own = true;
                }
                "cookie" => seen.cookies += 1,
                _ => {}
            }
        }
        seen
    }

    fn key(&mut self, key: &'a [u8]) {
        // Both are the client's own, so an early exit tells it nothing.
        self.keys_conflict |= self.key.is_some_and(|other| other != key);
        self.key = Some(key);
    }

    /// Whether something of it is not to be sent on, or not as it is
    /// ([`super::headers::remove_own`]).
    pub(super) fn speaks_to_the_edge(&self) -> bool {
        self.has_own || self.wants_prefix_hint || self.wants_usage || self.cookies > 1
    }

    pub(super) fn presented(&self) -> Presented<'a> {
        match self.key {
            _ if self.keys_conflict => Presented::Conflicting,
            Some(key) => Presented::Key(key),
            None => Presented::Nothing,
        }
    }

    /// The fingerprint that the request is said to have, if any; an error when it is none.
    pub(super) fn fingerprint(&self) -> Result<Option<WireFingerprint>, ()> {
        let Some(value) = self.fingerprint else {
            return Ok(None);
        };
        let fingerprint = WireFingerprint::parse(value.as_bytes());
        match fingerprint.filter(|_| !self.fingerprints_conflict) {
            None => Err(()),
            fingerprint => Ok(fingerprint),
        }
    }

    pub(super) fn version_is_one_of(&self, accepted: &[String]) -> bool {
        let Some(version) = self.version else {
            return false;
        };
        let known = accepted.iter().any(|known| version == known.as_str());
        known && !self.versions_conflict
    }
}

fn has_blanks(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_blank(value.first()) || is_blank(value.last())
}

/// Whether it could be a host and a port (RFC 9112 section 3.2); none at all may be.
fn may_be_host(value: &[u8]) -> bool {
    value.is_empty() || Authority::try_from(value).is_ok_and(|host| !host.as_str().contains('@'))
}

/// Whether the edge checks that header or the upstream depends on it. `connection` must not
/// name such a one (RFC 9110 section 7.6.1): what it names is removed, so a request could be
/// judged with a header and arrive without it.
fn is_relied_on(name: &[u8]) -> bool {
    const NAMES: [&str; 4] = ["authorization", "x-api-key", "host", "cookie"];
    const BEGINNINGS: [&str; 4] = ["accept", "anthropic-", "content-", "x-anthropic-"];
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let begins = |known: &str| {
        let begin = name.get(..known.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(known.as_bytes()))
    };
    NAMES.into_iter().any(is) || BEGINNINGS.into_iter().any(begins)
}

/// The credential of a `Bearer` authorization (RFC 6750 section 2.1). Another scheme
/// carries no key.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = value.split_at_checked(7)?;
    let key = key.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::HeaderName;

    fn map(lines: &[(&'static str, &'static str)]) -> Fields {
        (lines.iter())
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn key_in(lines: &[(&'static str, &'static str)]) -> Option<Vec<u8>> {
        match Seen::read(&map(lines)).presented() {
            Presented::Key(key) => Some(key.to_vec()),
            Presented::Nothing => None,
            Presented::Conflicting => Some(b"conflict".to_vec()),
        }
    }

    #[test]
    fn keys_come_in_either_header_or_the_same_in_both() {
        let one = Some(b"k1".to_vec());
        let conflict = Some(b"conflict".to_vec());
        assert_eq!(key_in(&[("x-api-key", "k1")]), one);
        assert_eq!(key_in(&[("authorization", "Bearer k1")]), one);
        assert_eq!(key_in(&[("authorization", "bearer  k1")]), one);
        assert_eq!(
            key_in(&[("x-api-key", "k1"), ("authorization", "Bearer k1")]),
            one
        );
        assert_eq!(
            key_in(&[("x-api-key", "k1"), ("authorization", "Bearer k2")]),
            conflict
        );
        assert_eq!(
            key_in(&[("x-api-key", "k1"), ("x-api-key", "k2")]),
            conflict
        );
        assert_eq!(key_in(&[("authorization", "Basic k1")]), None);
        assert_eq!(key_in(&[("authorization", "Bearer")]), None);
        assert_eq!(key_in(&[("authorization", "Bearer ")]), None);
        assert_eq!(key_in(&[]), None);
    }

    #[test]
    fn versions_must_be_there_and_be_one() {
        let accepted = ["2023-06-01".to_owned()];
        let good = |lines: &[_]| Seen::read(&map(lines)).version_is_one_of(&accepted);
        assert!(good(&[("anthropic-version", "2023-06-01")]));
        assert!(!good(&[]));
        assert!(!good(&[("anthropic-version", "2020-01-01")]));
        assert!(!good(&[
            ("anthropic-version", "2020-01-01"),
            ("anthropic-version", "2023-06-01")
        ]));
    }

    #[test]
    fn headers_that_are_relied_on_are_noticed_in_connection() {
        let seen = |value| Seen::read(&map(&[("connection", value)])).names_end_to_end;
        for value in [
            "close",
            "keep-alive, TE",
            "upgrade, HTTP2-Settings",
            "x-hop",
            "",
        ] {
            assert!(!seen(value), "{value}");
        }
        for name in [
            "authorization",
            "X-Api-Key",
            "anthropic-version",
            "Content-Length",
            "host",
            "x-anthropic-layer",
            "Accept-Encoding",
            "accept",
            "cookie",
        ] {
            assert!(seen(name), "{name}");
        }
        assert!(seen("close,\tContent-Encoding , x-hop"));
        let second = map(&[("connection", "close"), ("connection", "x-api-key")]);
        assert!(Seen::read(&second).names_end_to_end);
    }

    #[test]
    fn contexts_and_betas_are_seen_wherever_they_stand() {
        let lines = map(&[
            ("anthropic-beta", "a-1"),
            ("anthropic-beta", "b-2 , prefix-hint-2024-10-22,c"),
            ("x-anthropic-context-id", "u1"),
            ("x-anthropic-context-hint", "project"),
        ]);
        let seen = Seen::read(&lines);
        assert!(seen.wants_prefix_hint && !seen.context_ids_conflict);
        assert_eq!(seen.context_id, Some(&b"u1"[..]));
        assert_eq!(seen.context_hint, Some(&b"project"[..]));
        let lines = map(&[
            ("anthropic-beta", "prefix-hint-2024-10-22x"),
            ("x-anthropic-context-id", "u1"),
            ("x-anthropic-context-id", "u2"),
        ]);
        let seen = Seen::read(&lines);
        assert!(!seen.wants_prefix_hint && seen.context_ids_conflict);
    }

    #[test]
    fn encodings_and_framings_other_than_ours_are_noticed() {
        let seen = |name, value| {
            let map = map(&[(name, value)]);
            let seen = Seen::read(&map);
            (seen.encoding_unknown, seen.framing_unknown)
        };
        assert_eq!(seen("content-encoding", "GZIP"), (false, false));
        assert_eq!(seen("content-encoding", "zstd"), (false, false));
        assert_eq!(seen("content-encoding", "br"), (true, false));
        assert_eq!(seen("content-encoding", "gzip, gzip"), (true, false));
        assert_eq!(seen("transfer-encoding", "Chunked"), (false, false));
        assert_eq!(seen("transfer-encoding", "gzip, chunked"), (false, true));
    }
}
