//! A response on its way in: its head, then its body as that comes.

use super::Broken;
use super::connect::Io;
use super::framing::{Framing, stays_open};
use crate::message::Response;
use bytes::{Bytes, BytesMut};
use edge_http2::Fields;
use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode, Version};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio_util::io::poll_read_buf;

/// Most bytes of a response's head.
const MAX_HEAD_BYTES: usize = 128 * 1024;
const MAX_HEADERS: usize = 100;
/// Room for the fields that the edge adds, limits of the key among them.
const ADDED_FIELDS: usize = 20;
/// What one read may take, bytes: at first, and where more keeps coming.
const READ_BYTES: usize = 8 * 1024;
const MOST_READ_BYTES: usize = 64 * 1024;
/// With less room than this a read is not worth its call.
const LEAST_READ_BYTES: usize = 2 * 1024;

/// One connection's. It is used for one response after the other.
pub(super) struct Receiving {
    /// What has been read and not been given.
    read: BytesMut,
    /// What the next read may take.
    read_bytes: usize,
    framing: Framing,
    /// Where names and values are in the head that has been read last.
    places: Vec<[usize; 4]>,
    /// Heads of this exchange so far, the interim ones included.
    head_bytes: usize,
    /// By the last head.
    stays_open: bool,
    /// The connection has come to its end.
    is_over: bool,
}

impl Receiving {
    pub(super) fn new() -> Self {
        Self {
            read: BytesMut::new(),
            read_bytes: READ_BYTES,
            framing: Framing::Length(0),
            places: Vec::new(),
            head_bytes: 0,
            stays_open: true,
            is_over: false,
        }
    }

    /// The head of the response to a request of that method. What comes in the meantime
    /// (RFC 9110 section 15.2) is passed over.
    pub(super) fn poll_head(
        &mut self,
        method: &Method,
        io: &mut Io,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<()>, Broken>> {
        self.framing = Framing::UntilEnd;
        loop {
            while let Some((line, length)) = read_head(&self.read, &mut self.places)? {
                let bytes = self.read.split_to(length).freeze();
                self.head_bytes += length;
                // Also where one read brought the rest of it.
                if self.head_bytes > MAX_HEAD_BYTES {
                    return Poll::Ready(Err(Broken::NoHttp("its heads are too long")));
                }
                let Some(status) = line.status()? else {
                    // An interim one.
                    continue;
                };
                let mut response = Response {
                    status,
                    fields: fields(&bytes, &self.places)?,
                    body: (),
                };
                self.head_bytes = 0;
                self.framing = Framing::of(method, line.version, &mut response)?;
                if self
                    .left_bytes()
                    .is_some_and(|left| left > READ_BYTES as u64)
                {
                    self.read_bytes = MOST_READ_BYTES;
                }
                self.stays_open = stays_open(line.version, &response.fields);
                return Poll::Ready(Ok(response));
            }
            if self.read.len() > MAX_HEAD_BYTES {
                return Poll::Ready(Err(Broken::NoHttp("its head is too long")));
            }
            if ready!(self.poll_read(io, cx))? == 0 {
                return Poll::Ready(Err(Broken::NoAnswer));
            }
        }
    }

    /// The next piece of the body.
    pub(super) fn poll_body(
        &mut self,
        io: &mut Io,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            if let Some(data) = self.framing.take(&mut self.read)? {
                return Poll::Ready(Some(Ok(data)));
            }
            if self.framing.is_at_end() {
                return Poll::Ready(None);
            }
            if self.is_over || ready!(self.poll_read(io, cx))? == 0 {
                return Poll::Ready(match self.framing {
                    Framing::UntilEnd => None,
                    _ => Some(Err(Broken::Truncated)),
                });
            }
        }
    }

    /// What is left of the body, where that is known.
    pub(super) fn left_bytes(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Whether nothing of the body is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.framing.is_at_end()
    }

    /// Whether another response can come after this one.
    pub(super) fn can_go_on(&self) -> bool {
        self.is_at_end() && self.stays_open && !self.is_over && self.read.is_empty()
    }

    /// Keeps little while nothing comes.
    pub(super) fn rest(&mut self) {
        // What was read lies before what is left, in the same room.
        if self.read_bytes > READ_BYTES || self.read.capacity() > READ_BYTES {
            self.read = BytesMut::new();
        }
        self.read_bytes = READ_BYTES;
    }

    /// Reads once. More is asked for while reads come full, so a long body takes few calls and
    /// a stream of small events little room.
    fn poll_read(&mut self, io: &mut Io, cx: &mut Context<'_>) -> Poll<Result<usize, Broken>> {
        let free = self.read.capacity() - self.read.len();
        if free < LEAST_READ_BYTES || self.read_bytes > READ_BYTES {
            let known = self.left_bytes().unwrap_or(u64::MAX);
            let known = usize::try_from(known).unwrap_or(usize::MAX);
            self.read
                .reserve(self.read_bytes.min(known.max(LEAST_READ_BYTES)));
        }
        let room = self.read.capacity() - self.read.len();
        let count =
            ready!(poll_read_buf(Pin::new(io), cx, &mut self.read)).map_err(Broken::read)?;
        self.is_over = count == 0;
        self.read_bytes = if count == room {
            (self.read_bytes * 2).min(MOST_READ_BYTES)
        } else if count < self.read_bytes / 4 {
            (self.read_bytes / 2).max(READ_BYTES)
        } else {
            self.read_bytes
        };
        Poll::Ready(Ok(count))
    }
}

/// The first line of a head.
struct Line {
    version: Version,
    status: u16,
}

/// The head at the beginning of `read`, if all of it is there: its first line, its length, and where
/// in it each name begins and ends, and each value.
fn read_head(read: &[u8], places: &mut Vec<[usize; 4]>) -> Result<Option<(Line, usize)>, Broken> {
    if read.is_empty() {
        return Ok(None);
    }
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        read,
        &mut headers,
    );
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Broken::NoHttp("its head has too many headers"));
        }
        Err(_) => return Err(Broken::NoHttp("its head is malformed")),
    };
    let begin = read.as_ptr() as usize;
    places.clear();
    places.extend(response.headers.iter().map(|header| {
        let name = header.name.as_ptr() as usize - begin;
        let value = header.value.as_ptr() as usize - begin;
        [
            name,
            name + header.name.len(),
            value,
            value + header.value.len(),
        ]
    }));
    let line = Line {
        version: match response.version {
            Some(0) => Version::HTTP_10,
            _ => Version::HTTP_11,
        },
        status: response.code.unwrap_or_default(),
    };
    Ok(Some((line, length)))
}

impl Line {
    /// `None`: the response is an interim one.
    fn status(&self) -> Result<Option<StatusCode>, Broken> {
        let status = StatusCode::from_u16(self.status);
        let status = status.map_err(|_| Broken::NoHttp("its status is none"))?;
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Broken::NoHttp("it switches to another protocol unasked"));
        }
        Ok((!status.is_informational()).then_some(status))
    }
}

/// What is at those places of a head.
fn fields(head: &Bytes, places: &[[usize; 4]]) -> Result<Fields, Broken> {
    let mut fields = Fields::with_capacity(places.len() + ADDED_FIELDS);
    for [name, name_end, value, value_end] in places {
        let name = HeaderName::from_bytes(&head[*name..*name_end]);
        let value = HeaderValue::from_maybe_shared(head.slice(*value..*value_end));
        match (name, value) {
            (Ok(name), Ok(value)) => fields.append(name, value),
            _ => return Err(Broken::NoHttp("its head is malformed")),
        }
    }
    Ok(fields)
}
