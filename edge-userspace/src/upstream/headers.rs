//! Headers that belong to one connection and must not be passed on.

use edge_http2::Fields;
use http::header::{self, HeaderName, HeaderValue};

/// The headers of one message's hop (RFC 9110 section 7.6.1): `connection`, what it names, and those
/// that are of one hop although nothing names them.
///
/// `content-length` and `host` stay when `connection` names them: they are not of one hop,
/// and dropping them at a sender's word is a way to smuggle.
pub struct Hop {
    named: Vec<HeaderName>,
}

impl Hop {
    /// Of a message whose `connection` has these values.
    pub fn of<'a>(connection: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let named = (connection.into_iter())
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
            .filter(|name| *name != header::CONTENT_LENGTH && *name != header::HOST);
        Self {
            named: named.collect(),
        }
    }

    /// Whether a header of that name is one of them.
    #[must_use]
    pub fn has(&self, name: &HeaderName) -> bool {
        *name == header::CONNECTION || is_of_one_hop(name.as_str()) || self.named.contains(name)
    }
}

/// Removes the headers of one hop.
pub fn strip_hop_by_hop(fields: &mut Fields) {
    let hop = Hop::of(fields.get_all(header::CONNECTION));
    fields.retain(|name, _| !hop.has(name));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        (lines.iter())
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn what_belongs_to_one_hop_goes_and_the_rest_stays() {
        let mut fields = fields(&[
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
        strip_hop_by_hop(&mut fields);
        let left: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            left,
            ["content-type", "anthropic-ratelimit-requests-remaining"]
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
            let mut fields = fields(&[(name, "x"), ("content-type", "a")]);
            strip_hop_by_hop(&mut fields);
            assert_eq!(fields.len(), 1, "{name}");
        }
    }

    #[test]
    fn a_sender_cannot_have_the_framing_or_the_host_dropped() {
        let mut fields = fields(&[
            ("connection", "content-length, host"),
            ("content-length", "5"),
            ("host", "a"),
        ]);
        strip_hop_by_hop(&mut fields);
        assert_eq!(fields.len(), 2);
    }
}
