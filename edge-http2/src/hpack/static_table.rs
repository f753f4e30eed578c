//! The static table (RFC 7541, appendix A), as the decoder and as the encoder look at it.

use super::entry::{Entry, OVERHEAD, SizedName};
use super::{Name, Value};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};

/// How many entries it has; the dynamic table's indices begin after them.
pub(super) const LENGTH: usize = 61;

/// The entries; an index is one more than the place here.
pub(super) static ENTRIES: [Entry; LENGTH] = [
    pseudo(Name::Authority, ":authority", ""),
    pseudo(Name::Method, ":method", "GET"),
    pseudo(Name::Method, ":method", "POST"),
    pseudo(Name::Path, ":path", "/"),
    pseudo(Name::Path, ":path", "/index.html"),
    pseudo(Name::Scheme, ":scheme", "http"),
    pseudo(Name::Scheme, ":scheme", "https"),
    pseudo(Name::Status, ":status", "200"),
    pseudo(Name::Status, ":status", "204"),
    pseudo(Name::Status, ":status", "206"),
    pseudo(Name::Status, ":status", "304"),
    pseudo(Name::Status, ":status", "400"),
    pseudo(Name::Status, ":status", "404"),
    pseudo(Name::Status, ":status", "500"),
    plain("accept-charset", ""),
    plain("accept-encoding", "gzip, deflate"),
    plain("accept-language", ""),
    plain("accept-ranges", ""),
    plain("accept", ""),
    plain("access-control-allow-origin", ""),
    plain("age", ""),
    plain("allow", ""),
    plain("authorization", ""),
    plain("cache-control", ""),
    plain("content-disposition", ""),
    plain("content-encoding", ""),
    plain("content-language", ""),
    plain("content-length", ""),
    plain("content-location", ""),
    plain("content-range", ""),
    plain("content-type", ""),
    plain("cookie", ""),
    plain("date", ""),
    plain("etag", ""),
    plain("expect", ""),
    plain("expires", ""),
    plain("from", ""),
    plain("host", ""),
    plain("if-match", ""),
    plain("if-modified-since", ""),
    plain("if-none-match", ""),
    plain("if-range", ""),
    plain("if-unmodified-since", ""),
    plain("last-modified", ""),
    plain("link", ""),
    plain("location", ""),
    plain("max-forwards", ""),
    plain("proxy-authenticate", ""),
    plain("proxy-authorization", ""),
    plain("range", ""),
    plain("referer", ""),
    plain("refresh", ""),
    plain("retry-after", ""),
    plain("server", ""),
    plain("set-cookie", ""),
    plain("strict-transport-security", ""),
    plain("transfer-encoding", ""),
    plain("user-agent", ""),
    plain("vary", ""),
    plain("via", ""),
    plain("www-authenticate", ""),
];

const fn pseudo(name: Name, sent: &'static str, value: &'static str) -> Entry {
    let value_of = Value::Pseudo(Bytes::from_static(value.as_bytes()));
    let size = sent.len() + value.len() + OVERHEAD;
    Entry {
        name: SizedName {
            name,
            length: sent.len(),
        },
        value: value_of,
        size,
    }
}

const fn plain(name: &'static str, value: &'static str) -> Entry {
    let value_of = Value::Plain(HeaderValue::from_static(value));
    let size = name.len() + value.len() + OVERHEAD;
    let length = name.len();
    let name = Name::Plain(HeaderName::from_static(name));
    Entry {
        name: SizedName { name, length },
        value: value_of,
        size,
    }
}

/// The first index under which `name` is found, or 0: which is how a literal says that its name
/// follows.
pub(super) fn index_of(name: &HeaderName) -> usize {
    match *name {
        header::ACCEPT_CHARSET => 15,
        header::ACCEPT_ENCODING => 16,
        header::ACCEPT_LANGUAGE => 17,
        header::ACCEPT_RANGES => 18,
        header::ACCEPT => 19,
        header::ACCESS_CONTROL_ALLOW_ORIGIN => 20,
        header::AGE => 21,
        header::ALLOW => 22,
        header::AUTHORIZATION => 23,
        header::CACHE_CONTROL => 24,
        header::CONTENT_DISPOSITION => 25,
        header::CONTENT_ENCODING => 26,
        header::CONTENT_LANGUAGE => 27,
        header::CONTENT_LENGTH => 28,
        header::CONTENT_LOCATION => 29,
        header::CONTENT_RANGE => 30,
        header::CONTENT_TYPE => 31,
        header::COOKIE => 32,
        header::DATE => 33,
        header::ETAG => 34,
        header::EXPECT => 35,
        header::EXPIRES => 36,
        header::FROM => 37,
        header::HOST => 38,
        header::IF_MATCH => 39,
        header::IF_MODIFIED_SINCE => 40,
        header::IF_NONE_MATCH => 41,
        header::IF_RANGE => 42,
        header::IF_UNMODIFIED_SINCE => 43,
        header::LAST_MODIFIED => 44,
        header::LINK => 45,
        header::LOCATION => 46,
        header::MAX_FORWARDS => 47,
        header::PROXY_AUTHENTICATE => 48,
        header::PROXY_AUTHORIZATION => 49,
        header::RANGE => 50,
        header::REFERER => 51,
        header::REFRESH => 52,
        header::RETRY_AFTER => 53,
        header::SERVER => 54,
        header::SET_COOKIE => 55,
        header::STRICT_TRANSPORT_SECURITY => 56,
        header::TRANSFER_ENCODING => 57,
        header::USER_AGENT => 58,
        header::VARY => 59,
        header::VIA => 60,
        header::WWW_AUTHENTICATE => 61,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_views_are_of_one_table() {
        let mut plain = 0;
        for (entry, index) in ENTRIES.iter().zip(1..) {
            if let Name::Plain(name) = &entry.name.name {
                assert_eq!(index_of(name), index, "{name}");
                assert_eq!(entry.name.length, name.as_str().len());
                plain += 1;
            }
        }
        assert_eq!(plain, 47);
        assert_eq!(index_of(&HeaderName::from_static("x-api-key")), 0);
    }
}
