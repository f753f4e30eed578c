//! A request's head from its decoded fields (RFC 9113 sections 8.2 and 8.3), or why it is
//! none.

use crate::fields::Fields;
use crate::hpack::{Field, Name, Value};
use bytes::Bytes;
use http::Method;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};

/// Fields that are of HTTP/1.1's connections alone (section 8.2.2), besides those that `http`
/// has constants for.
const KEEP_ALIVE: &str = "keep-alive";
const PROXY_CONNECTION: &str = "proxy-connection";

/// A request without its body.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// What it is to do.
    pub method: Method,
    /// To what: with scheme and authority where the request names one, `*` or the path alone where
    /// not, the authority alone of a CONNECT.
    pub uri: Uri,
    /// All other fields.
    pub fields: Fields,
}

/// What requests of one connection mostly have in common: it is not parsed again.
#[derive(Debug, Default)]
pub(crate) struct Before {
    authority: Option<Authority>,
    path: Option<PathAndQuery>,
    /// How many fields the last one had.
    fields: usize,
}

/// Why fields make no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Section 8.1.1.
    Malformed,
    /// More than SETTINGS_MAX_HEADER_LIST_SIZE says.
    TooLarge,
}

/// A request's head while its fields come.
#[derive(Debug)]
pub(crate) struct Gathering<'a> {
    before: &'a mut Before,
    method: Option<Method>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    path: Option<PathAndQuery>,
    fields: Fields,
    length: Option<u64>,
    /// Behind a field that is no pseudo-header there is none any more.
    has_fields: bool,
    /// What still fits, bytes.
    room: usize,
    wrong: Option<Wrong>,
}

impl<'a> Gathering<'a> {
    /// Of at most so many bytes, 32 more for each field among them.
    pub(crate) fn new(before: &'a mut Before, most_bytes: usize) -> Self {
        let fields = Fields::with_capacity(before.fields);
        Self {
            before,
            method: None,
            scheme: None,
            authority: None,
            path: None,
            fields,
            length: None,
            has_fields: false,
            room: most_bytes,
            wrong: None,
        }
    }

    /// The next field.
    pub(crate) fn take(&mut self, field: Field) {
        let Some(room) = self.room.checked_sub(field.size) else {
            // Too large is what a client is told in words; it goes before malformed.
            self.wrong = Some(Wrong::TooLarge);
            return;
        };
        self.room = room;
        if self.wrong.is_none() && self.put(field).is_none() {
            self.wrong = Some(Wrong::Malformed);
        }
    }

    /// None: with it the request is malformed.
    fn put(&mut self, field: Field) -> Option<()> {
        match (field.name, field.value) {
            (Name::Plain(name), Value::Plain(value)) => {
                self.has_fields = true;
                self.plain(name, value)
            }
            (name, Value::Pseudo(value)) if !self.has_fields => self.pseudo(&name, value),
            _ => None,
        }
    }

    fn pseudo(&mut self, name: &Name, value: Bytes) -> Option<()> {
        match name {
            Name::Method => once(&mut self.method, Method::from_bytes(&value).ok()?),
            Name::Scheme => {
                let scheme = match &value[..] {
                    b"https" => Scheme::HTTPS,
                    b"http" => Scheme::HTTP,
                    other => Scheme::try_from(other).ok()?,
                };
                once(&mut self.scheme, scheme)
            }
            Name::Authority => {
                let known = self.before.authority.as_ref();
                let authority = match known.filter(|known| known.as_str().as_bytes() == value) {
                    Some(known) => known.clone(),
                    None => {
                        let authority = Authority::from_maybe_shared(value).ok()?;
                        self.before.authority.insert(authority).clone()
                    }
                };
                once(&mut self.authority, authority)
            }
            Name::Path => {
                let known = self.before.path.as_ref();
                let path = match known.filter(|known| known.as_str().as_bytes() == value) {
                    Some(known) => known.clone(),
                    None if matches!(&value[..], [b'/', ..] | b"*") => {
                        let path = PathAndQuery::from_maybe_shared(value).ok()?;
                        self.before.path.insert(path).clone()
                    }
                    None => return None,
                };
                once(&mut self.path, path)
            }
            // :status is of responses, and extended CONNECT (RFC 8441) was not offered.
            _ => None,
        }
    }

    fn plain(&mut self, name: HeaderName, value: HeaderValue) -> Option<()> {
        if name == CONTENT_LENGTH {
            let length = digits(value.as_bytes())?;
            if self.length.is_some_and(|known| known != length) {
                return None;
            }
            self.length = Some(length);
        } else if is_of_http1(&name) || (name == TE && value != "trailers") {
            return None;
        }
        self.fields.append(name, value);
        Some(())
    }

    /// The request, and the length that it says its body has.
    pub(crate) fn finish(self) -> Result<(RequestHead, Option<u64>), Wrong> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let method = self.method.ok_or(Wrong::Malformed)?;
        let uri = if method == Method::CONNECT {
            // Section 8.5.
            match (self.scheme, self.path, self.authority) {
                (None, None, Some(authority)) => Uri::from(authority),
                _ => return Err(Wrong::Malformed),
            }
        } else {
            let (Some(scheme), Some(path)) = (self.scheme, self.path) else {
                return Err(Wrong::Malformed);
            };
            target(scheme, self.authority, path).ok_or(Wrong::Malformed)?
        };
        self.before.fields = self.fields.len();
        let head = RequestHead {
            method,
            uri,
            fields: self.fields,
        };
        Ok((head, self.length))
    }
}

/// Without an authority the host is in a field (section 8.3.1), and the target is its path.
fn target(scheme: Scheme, authority: Option<Authority>, path: PathAndQuery) -> Option<Uri> {
    let Some(authority) = authority else {
        return Some(Uri::from(path));
    };
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(scheme);
    parts.authority = Some(authority);
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).ok()
}

/// Whether a field may be in a trailer: there no pseudo-header is (section 8.1). What it says
/// concerns nobody.
pub(crate) fn is_trailer(field: &Field) -> bool {
    match (&field.name, &field.value) {
        (Name::Plain(name), Value::Plain(_)) => !is_of_http1(name),
        _ => false,
    }
}

/// Whether it is a field of HTTP/1.1's connections, which HTTP/2 does not have.
pub(crate) fn is_of_http1(name: &HeaderName) -> bool {
    match name.as_str().len() {
        7 => name == UPGRADE,
        10 => name == CONNECTION || name == KEEP_ALIVE,
        16 => name == PROXY_CONNECTION,
        17 => name == TRANSFER_ENCODING,
        _ => false,
    }
}

/// None: there are two.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    if place.is_some() {
        return None;
    }
    *place = Some(value);
    Some(())
}

/// RFC 9110 section 8.6: digits alone.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Name: value` fields, pseudo-headers by their names.
    fn gather(list: &[(&str, &str)]) -> Result<(RequestHead, Option<u64>), Wrong> {
        let mut before = Before::default();
        let mut last = None;
        // The second time what is known from before is used.
        for _ in 0..2 {
            let mut gathering = Gathering::new(&mut before, 1000);
            for (name, value) in list {
                gathering.take(field(name, value));
            }
            last = Some(gathering.finish());
        }
        last.unwrap()
    }

    fn field(name: &str, value: &str) -> Field {
        let named = match name {
            ":method" => Name::Method,
            ":scheme" => Name::Scheme,
            ":authority" => Name::Authority,
            ":path" => Name::Path,
            ":protocol" => Name::Protocol,
            ":status" => Name::Status,
            name => HeaderName::from_bytes(name.as_bytes()).map_or(Name::Bad, Name::Plain),
        };
        Field {
            value: match &named {
                Name::Plain(_) => HeaderValue::from_str(value).map_or(Value::Bad, Value::Plain),
                Name::Bad => Value::Bad,
                _ => Value::Pseudo(Bytes::copy_from_slice(value.as_bytes())),
            },
            name: named,
            size: name.len() + value.len() + 32,
            is_never_indexed: false,
        }
    }

    const GOOD: [(&str, &str); 4] = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "edge.test:443"),
        (":path", "/v1/messages?x=1"),
    ];

    fn with(more: &[(&str, &str)]) -> Vec<(&'static str, &'static str)> {
        let leak = |text: &str| -> &'static str { text.to_owned().leak() };
        let more = more.iter().map(|(name, value)| (leak(name), leak(value)));
        GOOD.into_iter().chain(more).collect()
    }

    #[test]
    fn fields_become_a_request_in_their_order() {
        let list = with(&[
            ("x", "1"),
            ("content-length", "7"),
            ("x", "2"),
            ("te", "trailers"),
        ]);
        let (head, length) = gather(&list).unwrap();
        assert_eq!(head.uri, "https://edge.test:443/v1/messages?x=1");
        assert_eq!((head.method, length), (Method::POST, Some(7)));
        let fields: Vec<_> = (head.fields.iter())
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(fields, list[GOOD.len()..]);
        let (head, length) = gather(&[GOOD[0], GOOD[1], (":path", "*")]).unwrap();
        assert_eq!((head.uri.path(), length), ("*", None));
        let connect = [(":method", "CONNECT"), (":authority", "other.test:443")];
        assert_eq!(gather(&connect).unwrap().0.uri, "other.test:443");
    }

    #[test]
    fn what_is_malformed_is_told() {
        for more in [
            &[(":path", "/late")][..],
            &[("x", "1"), (":other", "x")],
            &[(":protocol", "websocket")],
            &[(":status", "200")],
            &[("connection", "close")],
            &[("keep-alive", "1")],
            &[("proxy-connection", "1")],
            &[("upgrade", "h2c")],
            &[("transfer-encoding", "chunked")],
            &[("te", "gzip")],
            &[("content-length", "+2")],
            &[("content-length", "")],
            &[("content-length", "2"), ("content-length", "3")],
            &[("content-length", "99999999999999999999")],
            &[("bad name", "1")],
            &[("x", "a\nb")],
        ] {
            assert_eq!(
                gather(&with(more)).unwrap_err(),
                Wrong::Malformed,
                "{more:?}"
            );
        }
        for left_out in [0, 1, 3] {
            let mut list = GOOD.to_vec();
            list.remove(left_out);
            assert_eq!(gather(&list).unwrap_err(), Wrong::Malformed, "{list:?}");
        }
        for path in ["", "v1", "https://edge.test/", "/a b", "**"] {
            let list = [GOOD[0], GOOD[1], GOOD[2], (":path", path)];
            assert_eq!(gather(&list).unwrap_err(), Wrong::Malformed, "{path}");
        }
        let connect = [(":method", "CONNECT"), GOOD[1], GOOD[2], GOOD[3]];
        assert_eq!(gather(&connect).unwrap_err(), Wrong::Malformed);
        assert_eq!(
            gather(&[(":method", "CONNECT")]).unwrap_err(),
            Wrong::Malformed
        );
    }

    #[test]
    fn what_is_too_large_is_told_so_even_where_it_is_malformed() {
        let long = "x".repeat(500);
        let list = with(&[("connection", "close"), ("x", &long), ("y", &long)]);
        assert_eq!(gather(&list).unwrap_err(), Wrong::TooLarge);
    }

    #[test]
    fn trailers_have_no_pseudo_header() {
        assert!(is_trailer(&field("x", "1")));
        for name in [":path", "connection", "bad name"] {
            assert!(!is_trailer(&field(name, "1")), "{name}");
        }
    }
}
