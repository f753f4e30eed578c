//! A request's head as an upstream gets it: the client's, written in one pass and left as it is,
//! for another upstream may have to be asked.
//!
//! What belongs to the client's connection stays behind (RFC 9110 section 7.6.1), and so do its
//! host, its framing and its wish for compression, which would hold back events. Not here: what
//! speaks to the edge alone ([`crate::api`]), and the body's framing ([`super::sending`]).

use super::headers::Hop;
use crate::message::Head;
use http::header::{self, HeaderName, HeaderValue};
use zeroize::Zeroizing;

/// What an upstream is told in place of what the client said.
pub(super) struct Own {
    /// Written as they are sent: host, no compression, the credential if there is one.
    lines: Zeroizing<Vec<u8>>,
    /// Which header the credential is in; `None`: the client's passes.
    credential: Option<HeaderName>,
}

impl Own {
    /// The credential with the header that it is in.
    pub(super) fn new(host: &HeaderValue, credential: Option<(HeaderName, HeaderValue)>) -> Self {
        let mut lines = Zeroizing::new(Vec::new());
        line(&mut lines, &header::HOST, host);
        line(
            &mut lines,
            &header::ACCEPT_ENCODING,
            &HeaderValue::from_static("identity"),
        );
        if let Some((name, value)) = &credential {
            line(&mut lines, name, value);
        }
        Self {
            lines,
            credential: credential.map(|(name, _)| name),
        }
    }

    /// Whether a client's header of that name, which is not of its hop, has to give way.
    fn replaces(&self, name: &HeaderName) -> bool {
        match name.as_str() {
            "accept-encoding" | "content-length" | "expect" | "host" => true,
            "authorization" | "x-api-key" => self.credential.is_some(),
            _ => self.credential.as_ref() == Some(name),
        }
    }
}

/// Writes it without what tells the framing, and without the empty line at its end.
pub(super) fn write(out: &mut Vec<u8>, own: &Own, head: &Head) {
    let path = head.path_and_query();
    for part in [head.method.as_str(), " ", path, " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(&own.lines);
    let hop = Hop::of(head.fields.get_all(header::CONNECTION));
    for (name, value) in head.fields.iter() {
        if !hop.has(name) && !own.replaces(name) {
            line(out, name, value);
        }
    }
}

fn line(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
    out.reserve(name.len() + value.len() + 4);
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn written(credential: Option<(&'static str, &str)>, lines: &[(&str, &str)]) -> Vec<String> {
        let mut request = Request::post("https://client.example/v1/x?y");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let host = HeaderValue::from_static("upstream:8000");
        let credential =
            credential.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let mut out = Vec::new();
        write(&mut out, &Own::new(&host, credential), &Head::from(head));
        let text = String::from_utf8(out).unwrap();
        text.split_terminator("\r\n").map(str::to_owned).collect()
    }

    const OURS: [&str; 3] = [
        "POST /v1/x?y HTTP/1.1",
        "host: upstream:8000",
        "accept-encoding: identity",
    ];

    #[test]
    fn what_is_of_the_clients_connection_stays_behind() {
        let lines = [
            ("host", "client.example"),
            ("connection", "close, X-Hop"),
            ("connection", "x-second, content-length, host"),
            ("x-hop", "1"),
            ("x-second", "2"),
            ("content-length", "9"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic eA=="),
            ("expect", "100-continue"),
            ("accept-encoding", "gzip, br"),
            ("x-api-key", "k"),
            ("x-a", "b"),
            ("x-a", ""),
        ];
        let expected = [&OURS[..], &["x-api-key: k", "x-a: b", "x-a: "]].concat();
        assert_eq!(written(None, &lines), expected);
    }

    #[test]
    fn the_upstreams_credential_takes_the_place_of_any_of_the_clients() {
        let lines = [
            ("x-api-key", "a"),
            ("authorization", "Bearer b"),
            ("x-other", "c"),
            ("x-a", "b"),
        ];
        for name in ["x-api-key", "authorization", "x-other"] {
            let own = format!("{name}: secret");
            let written = written(Some((name, "secret")), &lines);
            let mut expected = [&OURS[..], &[&own]].concat();
            if name != "x-other" {
                expected.push("x-other: c");
            }
            expected.push("x-a: b");
            assert_eq!(written, expected);
        }
    }
}
