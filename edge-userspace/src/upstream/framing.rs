//! Where a response's body ends (RFC 9112 section 6.3), and chunked bodies taken apart.
//!
//! Strict: what two readers could take for different lengths is no HTTP here.

use super::Broken;
use crate::message::Response;
use bytes::{Buf as _, Bytes, BytesMut};
use edge_http2::Fields;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode, Version};

/// Longest line that says a chunk's size, with its extensions; longest trailer line.
const MAX_LINE_BYTES: usize = 4096;
/// Most bytes of all extensions and trailers of one body.
const MAX_ASIDE_BYTES: usize = 16 * 1024;

const LINE_END: &[u8] = b"\r\n";

/// What is left of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked(Chunked),
    /// All that comes until the connection's end.
    UntilEnd,
}

/// Within a chunked body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunked {
    at: At,
    aside_bytes: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    /// So many bytes of a chunk are still to come.
    Data(u64),
    /// The line end behind a chunk.
    DataEnd,
    Trailers,
    End,
    /// So it goes on, behind what has been given.
    Broken(&'static str),
}

impl Framing {
    /// Of the response to a request of that method, by that version of HTTP. A length that it says
    /// several times it says once then: who reads on may know no such thing (RFC 9110 section 8.6).
    pub(super) fn of(
        method: &Method,
        version: Version,
        response: &mut Response<()>,
    ) -> Result<Self, Broken> {
        let Response { status, fields, .. } = response;
        let (length, times) = content_length(fields)?;
        if let Some(length) = length
            && times > 1
        {
            fields.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        let is_without = *method == Method::HEAD
            || matches!(*status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let mut codings = fields.get_all(header::TRANSFER_ENCODING);
        let framing = match (codings.next(), length) {
            // Section 6.1: whoever passed it on may not have known what it means.
            (Some(_), _) if version < Version::HTTP_11 => {
                return Err(Broken::NoHttp("it has chunks, by HTTP/1.0"));
            }
            (Some(coding), None) if codings.next().is_none() && is_chunked(coding.as_bytes()) => {
                Self::Chunked(Chunked::default())
            }
            (Some(_), None) => return Err(Broken::NoHttp("its transfer-encoding is not chunked")),
            (Some(_), Some(_)) => return Err(Broken::NoHttp("it is framed in two ways")),
            (None, Some(length)) => Self::Length(length),
            (None, None) => Self::UntilEnd,
        };
        Ok(if is_without { Self::Length(0) } else { framing })
    }

    /// Whether nothing is left.
    pub(super) fn is_at_end(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.at == At::End,
            Self::UntilEnd => false,
        }
    }

    /// Takes what there is of the body in `read`. `None`: nothing, or the end of it.
    pub(super) fn take(&mut self, read: &mut BytesMut) -> Result<Option<Bytes>, Broken> {
        match self {
            Self::Length(left) => Ok(take(read, left)),
            Self::Chunked(chunked) => chunked.take(read),
            Self::UntilEnd => Ok((!read.is_empty()).then(|| read.split().freeze())),
        }
    }
}

impl Chunked {
    /// Of one chunk at a time; goes on over what comes right behind it, so that the end is known
    /// together with the last of the data.
    fn take(&mut self, read: &mut BytesMut) -> Result<Option<Bytes>, Broken> {
        self.pass(read)?;
        let At::Data(left) = &mut self.at else {
            return Ok(None);
        };
        let data = take(read, left);
        if *left == 0 {
            self.at = At::DataEnd;
            if let Err(Broken::NoHttp(what)) = self.pass(read) {
                // What was good comes first.
                self.at = At::Broken(what);
            }
        }
        Ok(data)
    }

    /// Goes on to the next data or to the end, as far as that is there.
    fn pass(&mut self, read: &mut BytesMut) -> Result<(), Broken> {
        loop {
            match &mut self.at {
                At::Data(_) | At::End => return Ok(()),
                At::Broken(what) => return Err(Broken::NoHttp(what)),
                At::DataEnd => {
                    match read.get(..LINE_END.len()) {
                        Some(LINE_END) => read.advance(LINE_END.len()),
                        None if read.is_empty() || read[0] == b'\r' => return Ok(()),
                        _ => return Err(Broken::NoHttp("a chunk is longer than it says")),
                    }
                    self.at = At::Size;
                }
                At::Size => {
                    let Some(length) = line(read)? else {
                        return Ok(());
                    };
                    let (size, digits) = hex(&read[..length])?;
                    read.advance(length + LINE_END.len());
                    self.aside(length - digits)?;
                    self.at = if size == 0 {
                        At::Trailers
                    } else {
                        At::Data(size)
                    };
                }
                // No API of this kind has any that is worth passing on.
                At::Trailers => {
                    let Some(length) = line(read)? else {
                        return Ok(());
                    };
                    read.advance(length + LINE_END.len());
                    self.aside(length)?;
                    if length == 0 {
                        self.at = At::End;
                    }
                }
            }
        }
    }

    fn aside(&mut self, bytes: usize) -> Result<(), Broken> {
        self.aside_bytes += bytes;
        if self.aside_bytes > MAX_ASIDE_BYTES {
            return Err(Broken::NoHttp(
                "a chunked body has too many extensions or trailers",
            ));
        }
        Ok(())
    }
}

/// How long the next line is without its end, if all of it is there.
fn line(read: &[u8]) -> Result<Option<usize>, Broken> {
    let within = &read[..read.len().min(MAX_LINE_BYTES)];
    match memchr::memchr(b'\n', within) {
        Some(at) if at > 0 && read[at - 1] == b'\r' => Ok(Some(at - 1)),
        Some(_) => Err(Broken::NoHttp(
            "a line within a chunked body ends without CR",
        )),
        None if within.len() == MAX_LINE_BYTES => {
            Err(Broken::NoHttp("a line within a chunked body is too long"))
        }
        None => Ok(None),
    }
}

/// At most `left` of what there is, which is then so much less.
fn take(read: &mut BytesMut, left: &mut u64) -> Option<Bytes> {
    let count = usize::try_from(*left).map_or(read.len(), |left| left.min(read.len()));
    *left -= count as u64;
    (count > 0).then(|| read.split_to(count).freeze())
}

/// A chunk's size, and how many digits it has.
fn hex(line: &[u8]) -> Result<(u64, usize), Broken> {
    let malformed = Broken::NoHttp("a chunk's size is malformed");
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let digits = digits.count();
    let rest = line[digits..].trim_ascii_start();
    if digits == 0 || digits > 16 || !(rest.is_empty() || rest[0] == b';') {
        return Err(malformed);
    }
    let values = line[..digits]
        .iter()
        .map(|digit| char::from(*digit).to_digit(16));
    // Sixteen of them are 64 bits.
    let size = values.fold(0, |size, value| size << 4 | u64::from(value.unwrap_or(0)));
    Ok((size, digits))
}

/// What `content-length` says, and how many times; the same several times is once.
fn content_length(fields: &Fields) -> Result<(Option<u64>, u32), Broken> {
    let (mut length, mut times) = (None, 0);
    for value in fields.get_all(header::CONTENT_LENGTH) {
        for value in value.as_bytes().split(|byte| *byte == b',') {
            let value = value.trim_ascii();
            let is_digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(value).ok().filter(|_| is_digits);
            let one = text.and_then(|text| text.parse::<u64>().ok());
            match one {
                Some(one) if length.is_none_or(|other| other == one) => {
                    (length, times) = (Some(one), times + 1);
                }
                _ => return Err(Broken::NoHttp("its content-length is no length")),
            }
        }
    }
    Ok((length, times))
}

fn is_chunked(coding: &[u8]) -> bool {
    coding.trim_ascii().eq_ignore_ascii_case(b"chunked")
}

/// Whether the connection can go on after a response, by its head (RFC 9112 section 9.3).
pub(super) fn stays_open(version: Version, fields: &Fields) -> bool {
    let mut stays = version == Version::HTTP_11;
    for value in fields.get_all(header::CONNECTION) {
        for option in value.as_bytes().split(|byte| *byte == b',') {
            let option = option.trim_ascii();
            if option.eq_ignore_ascii_case(b"close") {
                return false;
            }
            stays |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::HeaderName;
    use proptest::prelude::*;

    fn framing(lines: &[(&'static str, &'static str)]) -> Result<Framing, Broken> {
        let mut response = Response::new(());
        response.fields = (lines.iter())
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect();
        Framing::of(&Method::POST, Version::HTTP_11, &mut response)
    }

    #[test]
    fn a_body_has_one_length_or_is_no_http() {
        let chunked = || Framing::Chunked(Chunked::default());
        for (lines, expected) in [
            (&[][..], Some(Framing::UntilEnd)),
            (&[("content-length", "5")], Some(Framing::Length(5))),
            (&[("content-length", "0")], Some(Framing::Length(0))),
            (
                &[("content-length", "5"), ("content-length", "5")],
                Some(Framing::Length(5)),
            ),
            (&[("content-length", "5, 5")], Some(Framing::Length(5))),
            (&[("transfer-encoding", "Chunked")], Some(chunked())),
            (&[("content-length", "5"), ("content-length", "6")], None),
            (&[("content-length", "5, 6")], None),
            (&[("content-length", "+5")], None),
            (&[("content-length", "-5")], None),
            (&[("content-length", "")], None),
            (&[("content-length", "5x")], None),
            (&[("content-length", "99999999999999999999")], None),
            (&[("transfer-encoding", "gzip, chunked")], None),
            (&[("transfer-encoding", "gzip")], None),
            (
                &[
                    ("transfer-encoding", "chunked"),
                    ("transfer-encoding", "chunked"),
                ],
                None,
            ),
            (
                &[("transfer-encoding", "chunked"), ("content-length", "5")],
                None,
            ),
        ] {
            assert_eq!(framing(lines).ok(), expected, "{lines:?}");
        }
        let mut response = Response::new(());
        let five = HeaderValue::from_static("5");
        response.fields.append(header::CONTENT_LENGTH, five);
        for (method, status) in [(Method::HEAD, 200), (Method::GET, 204), (Method::GET, 304)] {
            response.status = StatusCode::from_u16(status).unwrap();
            let framing = Framing::of(&method, Version::HTTP_11, &mut response).unwrap();
            assert_eq!(framing, Framing::Length(0));
        }
        let mut old = Response::new(());
        let chunked = HeaderValue::from_static("chunked");
        old.fields.append(header::TRANSFER_ENCODING, chunked);
        assert!(Framing::of(&Method::POST, Version::HTTP_10, &mut old).is_err());
    }

    /// What is taken of a chunked body that comes in pieces of that size, whether it has come to
    /// its end, and what is left over.
    fn taken(sent: &[u8], size: usize) -> Result<(Vec<u8>, bool, usize), Broken> {
        let mut framing = Framing::Chunked(Chunked::default());
        let (mut read, mut all) = (BytesMut::new(), Vec::new());
        for piece in sent.chunks(size) {
            read.extend_from_slice(piece);
            while let Some(data) = framing.take(&mut read)? {
                assert!(!data.is_empty());
                all.extend_from_slice(&data);
            }
        }
        Ok((all, framing.is_at_end(), read.len()))
    }

    #[test]
    fn chunked_bodies_come_apart_wherever_they_are_cut() {
        let sent = b"5\r\nhello\r\n00a ; x=\"y\"\r\n, chunked!\r\n1;\r\n\n\r\n0;end\r\nx-sum: 1\r\nx: 2\r\n\r\nHTTP";
        for size in 1..=sent.len() {
            let (all, ended, left) = taken(sent, size).unwrap();
            assert_eq!(all, b"hello, chunked!\n", "{size}");
            assert!(ended && left == 4);
        }
        for whole in 0..sent.len() - 4 {
            let (all, ended, _) = taken(&sent[..whole], 7).unwrap();
            assert!(b"hello, chunked!\n".starts_with(&all[..]) && !ended);
        }
    }

    #[test]
    fn the_end_is_known_with_the_last_data() {
        let mut framing = Framing::Chunked(Chunked::default());
        let mut read = BytesMut::from(&b"2\r\nhi\r\n2\r\nho\r\n0\r\n\r\n"[..]);
        assert_eq!(framing.take(&mut read).unwrap().unwrap(), "hi");
        assert!(!framing.is_at_end());
        assert_eq!(framing.take(&mut read).unwrap().unwrap(), "ho");
        assert!(framing.is_at_end());
    }

    #[test]
    fn malformed_chunks_are_no_http() {
        let long = [&b"1;"[..], &[b'x'; 5000], b"\r\n"].concat();
        let trailers = [&b"0\r\n"[..], &b"x: 123456789\r\n".repeat(1500)].concat();
        let extensions = b"1;123456789\r\nx\r\n".repeat(2000);
        for sent in [
            &b"\r\n"[..],
            b"x\r\n",
            b"5\nhello",
            b"-1\r\n",
            b"0x1\r\nx\r\n",
            b" 1\r\nx\r\n",
            b"1 x\r\n",
            b"1\r\nxy\r\n",
            b"1\r\nx\n0\r\n\r\n",
            b"1\r\nx\rx",
            b"11111111111111111\r\n",
            b"0\r\n\n",
            &long,
            &trailers,
            &extensions,
        ] {
            for size in [1, 3, 10_000] {
                let shown = String::from_utf8_lossy(&sent[..sent.len().min(30)]);
                assert!(taken(sent, size).is_err(), "{shown:?} by {size}");
            }
        }
    }

    #[test]
    fn connections_stay_open_as_the_version_and_the_options_say() {
        let stays = |version, value: &'static str| {
            let mut fields = Fields::new();
            if !value.is_empty() {
                fields.append(header::CONNECTION, HeaderValue::from_static(value));
            }
            stays_open(version, &fields)
        };
        assert!(stays(Version::HTTP_11, "") && stays(Version::HTTP_11, "x-hop"));
        assert!(!stays(Version::HTTP_11, "x-hop, Close"));
        assert!(!stays(Version::HTTP_10, "") && stays(Version::HTTP_10, "Keep-Alive"));
    }

    proptest! {
        #[test]
        fn any_data_in_any_chunks_comes_as_it_was(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 0..20),
            size in 1usize..700,
        ) {
            let mut sent = Vec::new();
            for piece in &pieces {
                sent.extend_from_slice(format!("{:X}\r\n", piece.len()).as_bytes());
                sent.extend_from_slice(piece);
                sent.extend_from_slice(b"\r\n");
            }
            sent.extend_from_slice(b"0\r\n\r\n");
            let (all, ended, left) = taken(&sent, size).unwrap();
            prop_assert_eq!(all, pieces.concat());
            prop_assert!(ended && left == 0);
        }

        #[test]
        fn any_bytes_at_all_do_no_harm(sent in proptest::collection::vec(any::<u8>(), 0..300), size in 1usize..300) {
            let _ = taken(&sent, size);
        }
    }
}
