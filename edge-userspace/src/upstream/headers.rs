//! Headers that belong to one connection and must not be passed on.

use http::header::{self, HeaderMap, HeaderName};

/// Removes the headers of one hop (RFC 9110 section 7.6.1): `connection`, what it names,
/// and those that are of one hop although nothing names them.
///
/// `content-length` and `host` stay when `connection` names them: they are not of one hop,
/// and dropping them at a sender's word is a way to smuggle.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        strip_named(headers);
    }
    // Hardly any message has one of these: one look at all names is cheaper than looking each up.
    let found = headers.keys().filter(|name| is_of_one_hop(name.as_str()));
    let found: Vec<HeaderName> = found.cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// Whether a header of that name is of one hop, though nothing names it.
#[must_use]
pub fn is_of_one_hop(name: &str) -> bool {
    matches!(
        name,
        "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// What `connection` names and may take out.
pub(super) fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::HOST)
        .collect()
}

fn strip_named(headers: &mut HeaderMap) {
    for name in named(headers) {
        headers.remove(name);
    }
    headers.remove(header::CONNECTION);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        (lines.iter())
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn what_belongs_to_one_hop_goes_and_the_rest_stays() {
        let mut headers = map(&[
            ("connection", "close, X-Secret-Hop ,, keep-alive"),
            ("connection", "x-second"),
            ("x-secret-hop", "1"),
            ("x-second", "2"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eA=="),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("content-type", "application/json"),
            ("anthropic-ratelimit-requests-remaining", "7"),
        ]);
        strip_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            ["anthropic-ratelimit-requests-remaining", "content-type"]
        );
    }

    #[test]
    fn each_of_them_goes_by_itself_too() {
        for name in [
            "connection",
            "keep-alive",
            "proxy-connection",
            "proxy-authenticate",
            "proxy-authorization",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ] {
            let mut headers = map(&[(name, "x"), ("content-type", "a")]);
            strip_hop_by_hop(&mut headers);
            assert_eq!(headers.len(), 1, "{name}");
        }
    }

    #[test]
    fn a_sender_cannot_have_the_framing_or_the_host_dropped() {
        let mut headers = map(&[
            ("connection", "content-length, host"),
            ("content-length", "5"),
            ("host", "a"),
        ]);
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers.len(), 2);
    }
}
