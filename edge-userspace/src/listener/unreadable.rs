//! What hyper does not say of HTTP/1.1, learnt from the bytes as they pass.
//!
//! hyper answers a request that cannot be read itself, with a head and nothing behind it. On
//! the way out that head becomes an answer in the API's shape; everything else passes
//! untouched. And of a request with both framings it shows one alone, so it is noted here
//! whether a length was ever said.

use super::Thread;
use crate::session::Session;
use http::StatusCode;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// No head that hyper writes by itself is longer.
const HEAD_BYTES: usize = 200;

/// The header that gives a body's length.
const NAME: &[u8] = b"content-length";

/// What is known of a connection's bytes.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// An answer passed whose body could end in what looks like a head of hyper's own: no
    /// JSON, no events. From then on nothing is replaced.
    pub(super) opaque: Cell<bool>,
    /// The client has said `content-length`, in a head or elsewhere. A request with chunks
    /// after that may have had both, and its connection must end (RFC 9112 section 6.1).
    pub(super) length_said: Cell<bool>,
    /// What the client says next is waited for: its end will be seen by who reads.
    pub(super) is_awaited: Cell<bool>,
}

/// A client's connection on which such heads are replaced.
pub(super) struct Unreadable<S> {
    stream: Rc<RefCell<S>>,
    thread: Rc<Thread>,
    session: Rc<Session>,
    wire: Rc<Wire>,
    /// The end of what was read, in which the name may begin.
    end: Vec<u8>,
    /// Still to be written in place of one.
    answer: Vec<u8>,
    written: usize,
}

impl<S: AsyncWrite + Unpin> Unreadable<S> {
    pub(super) fn new(
        stream: &Rc<RefCell<S>>,
        thread: &Rc<Thread>,
        session: &Rc<Session>,
        wire: &Rc<Wire>,
    ) -> Self {
        Self {
            stream: Rc::clone(stream),
            thread: Rc::clone(thread),
            session: Rc::clone(session),
            wire: Rc::clone(wire),
            end: Vec::new(),
            answer: Vec::new(),
            written: 0,
        }
    }

    /// Writes what is left of an answer.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.answer.len() {
            let left = &self.answer[self.written..];
            match ready!(poll_write(&self.stream, cx, left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The bytes with hyper's own head at their end replaced, if it is there.
    fn replaced(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        // While a request runs the head is the API's.
        if self.session.running() > 0 || self.wire.opaque.get() {
            return None;
        }
        let own = Own::at_the_end_of(bytes)?;
        let told = (self.thread.api).unreadable(&self.session, own.status);
        let mut answer = bytes[..own.begin].to_vec();
        answer.extend_from_slice(own.line);
        answer.extend_from_slice(b"\r\n");
        for line in own.kept {
            answer.extend_from_slice(line);
            answer.extend_from_slice(b"\r\n");
        }
        for (name, value) in told.fields.iter() {
            answer.extend_from_slice(name.as_str().as_bytes());
            answer.extend_from_slice(b": ");
            answer.extend_from_slice(value.as_bytes());
            answer.extend_from_slice(b"\r\n");
        }
        let length = format!("content-length: {}\r\n\r\n", told.body.len());
        answer.extend_from_slice(length.as_bytes());
        answer.extend_from_slice(&told.body);
        Some(answer)
    }
}

fn poll_write<S: AsyncWrite + Unpin>(
    stream: &RefCell<S>,
    cx: &mut Context<'_>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    Pin::new(&mut *stream.borrow_mut()).poll_write(cx, bytes)
}

/// Whether the name stands in `bytes`, or begins in `end`, which is what came before and
/// becomes what may be followed.
fn says_length(end: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let most = NAME.len() - 1;
    end.extend_from_slice(&bytes[..bytes.len().min(most)]);
    if has_name(end) || has_name(bytes) {
        return true;
    }
    if bytes.len() >= most {
        end.clear();
        end.extend_from_slice(&bytes[bytes.len() - most..]);
    } else {
        let more = end.len().saturating_sub(most);
        end.drain(..more);
    }
    false
}

fn has_name(bytes: &[u8]) -> bool {
    memchr::memchr2_iter(NAME[0], NAME[0].to_ascii_uppercase(), bytes).any(|at| {
        let name = bytes.get(at..at + NAME.len());
        name.is_some_and(|name| name.eq_ignore_ascii_case(NAME))
    })
}

/// A head that hyper wrote by itself.
#[derive(Debug, PartialEq, Eq)]
struct Own<'a> {
    begin: usize,
    status: StatusCode,
    /// The status line.
    line: &'a [u8],
    /// The headers that stay.
    kept: Vec<&'a [u8]>,
}

impl<'a> Own<'a> {
    fn at_the_end_of(bytes: &'a [u8]) -> Option<Self> {
        let lines = bytes.strip_suffix(b"\r\n\r\n")?;
        let near = lines.len().saturating_sub(HEAD_BYTES);
        let begin = near + memchr::memmem::rfind(&lines[near..], b"HTTP/1.1 4")?;
        let mut parts = memchr::memmem::find_iter(&lines[begin..], b"\r\n");
        let first_end = parts.next().map_or(lines.len(), |at| begin + at);
        let line = &lines[begin..first_end];
        let status = StatusCode::from_bytes(line.get(9..12)?).ok()?;
        let mut kept = Vec::new();
        let mut rest = lines.get(first_end + 2..).unwrap_or_default();
        while !rest.is_empty() {
            let end = memchr::memmem::find(rest, b"\r\n").unwrap_or(rest.len());
            let header = &rest[..end];
            rest = rest.get(end + 2..).unwrap_or_default();
            match header {
                b"content-length: 0" => {}
                b"connection: close" => kept.push(header),
                _ if header.starts_with(b"date: ") => kept.push(header),
                _ => return None,
            }
        }
        Some(Self {
            begin,
            status,
            line,
            kept,
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unreadable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut *self.stream.borrow_mut()).poll_read(cx, buffer);
        self.wire.is_awaited.set(read.is_pending());
        ready!(read)?;
        if !self.wire.length_said.get() {
            let said = says_length(&mut self.end, &buffer.filled()[before..]);
            self.wire.length_said.set(said);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unreadable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_answer(cx))?;
        if let Some(answer) = self.replaced(bytes) {
            (self.answer, self.written) = (answer, 0);
            // The rest goes with the flush that follows every write.
            let _ = self.poll_answer(cx)?;
            return Poll::Ready(Ok(bytes.len()));
        }
        poll_write(&self.stream, cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(cx))?;
        Pin::new(&mut *self.stream.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(cx))?;
        Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A head without a body is alone.
        if let [one] = slices {
            return self.poll_write(cx, one);
        }
        ready!(self.poll_answer(cx))?;
        Pin::new(&mut *self.stream.borrow_mut()).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.borrow().is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_however_it_is_cut_and_written() {
        let text = b"POST / HTTP/1.1\r\nhost: a\r\nConTent-LENGTH: 5\r\n\r\ncontent";
        let without = b"POST / HTTP/1.1\r\nhost: content-lengt\r\ncontent-lemgth: 5\r\n\r\n";
        for size in 1..text.len() {
            let found = |text: &[u8]| {
                let mut end = Vec::new();
                (text.chunks(size)).any(|piece| says_length(&mut end, piece))
            };
            assert!(found(text), "in pieces of {size}");
            assert!(!found(without), "in pieces of {size}");
        }
    }

    #[test]
    fn a_head_of_hypers_own_is_known_and_nothing_else() {
        let own = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        let found = Own::at_the_end_of(own).unwrap();
        assert_eq!((found.begin, found.status.as_u16()), (0, 400));
        assert_eq!(found.line, b"HTTP/1.1 400 Bad Request");
        assert_eq!(found.kept, [&b"connection: close"[..], b"date: x"]);
        let behind = [b"{}", &own[..]].concat();
        assert_eq!(Own::at_the_end_of(&behind).unwrap().begin, 2);
        let bare = Own::at_the_end_of(b"HTTP/1.1 431 x\r\n\r\n").unwrap();
        assert_eq!(bare.status.as_u16(), 431);
        for other in [
            &b""[..],
            b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\nrequest-id: r\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n{}",
            b"HTTP/1.1 4\r\n\r\n",
        ] {
            assert_eq!(Own::at_the_end_of(other), None, "{}", other.escape_ascii());
        }
        let long = [&own[..own.len() - 4], &[b'x'; 300], b"\r\n\r\n"].concat();
        assert_eq!(Own::at_the_end_of(&long), None);
    }
}
