//! A request on its way out: its head, then its body as that comes.

use super::connect::Io;
use super::head::{self, Own};
use super::{Broken, Sendable};
use crate::message::Head;
use crate::message::digits::{DIGITS, digits};
use bytes::{Buf as _, Bytes};
use http::Method;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite as _;

/// So much of a body is taken before it is written.
const AHEAD_BYTES: usize = 64 * 1024;
/// Pieces up to this size are written out of one buffer with what is before them.
const COPIED_BYTES: usize = 4096;
/// Pieces that one system call writes.
const SLICES: usize = 16;
/// A buffer for heads that is larger is not kept for the next.
const KEPT_BYTES: usize = 8 * 1024;
/// A request of at most this size may be written together with others.
const SMALL_BYTES: usize = 16 * 1024;

/// One connection's. It is used for one request after the other.
pub(super) struct Sending<B> {
    /// What is to be written first, and how much of it has been.
    first: Vec<u8>,
    written: usize,
    /// What is to be written then.
    pieces: VecDeque<Bytes>,
    piece_bytes: usize,
    /// What is still to be taken.
    body: Option<B>,
    framing: Framing,
    is_done: bool,
}

enum Framing {
    /// So many bytes are still to come.
    Length(u64),
    Chunked,
}

impl<B: Sendable> Sending<B> {
    /// Nothing is to be sent yet.
    pub(super) fn new() -> Self {
        Self {
            first: Vec::new(),
            written: 0,
            pieces: VecDeque::new(),
            piece_bytes: 0,
            body: None,
            framing: Framing::Length(0),
            is_done: true,
        }
    }

    /// Begins with a request of that head as the client sent it.
    pub(super) fn begin(&mut self, own: &Own, head: &Head, body: B) {
        let has_body = !body.is_end_stream();
        let length = if has_body {
            body.size_hint().exact()
        } else {
            Some(0)
        };
        self.framing = length.map_or(Framing::Chunked, Framing::Length);
        let tells = has_body || !matches!(head.method, Method::GET | Method::HEAD);
        self.first.clear();
        self.written = 0;
        head::write(&mut self.first, own, head);
        let mut room = [0; DIGITS];
        let parts: [&[u8]; 3] = match length {
            Some(length) if tells => [b"content-length: ", digits(length, &mut room), b"\r\n\r\n"],
            Some(_) => [b"\r\n", b"", b""],
            None => [b"transfer-encoding: chunked\r\n\r\n", b"", b""],
        };
        for part in parts {
            self.first.extend_from_slice(part);
        }
        self.body = has_body.then_some(body);
        self.is_done = false;
    }

    /// Whether all of it has been written.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Gives up: nothing more is written.
    pub(super) fn stop(&mut self) {
        self.body = None;
        self.pieces.clear();
        self.piece_bytes = 0;
        self.written = self.first.len();
    }

    /// All of the request, if all of it is there, is small, and nothing of it was written; to be
    /// given back by [`Sending::tried`].
    pub(super) fn take_whole(&mut self, cx: &mut Context<'_>) -> Result<Option<Vec<u8>>, Broken> {
        self.take_in(cx)?;
        let is_whole = self.body.is_none() && self.pieces.is_empty() && self.written == 0;
        let is_small = self.first.len() <= SMALL_BYTES;
        Ok((is_whole && is_small).then(|| std::mem::take(&mut self.first)))
    }

    /// So much of what was taken has been written.
    pub(super) fn tried(&mut self, bytes: Vec<u8>, written: usize) {
        self.first = bytes;
        self.written = 0;
        self.advance(written);
        if self.left_bytes() == 0 {
            self.done();
        }
    }

    fn done(&mut self) {
        self.is_done = true;
        if self.first.capacity() > KEPT_BYTES {
            self.first = Vec::new();
        }
    }

    /// Writes what can be written.
    pub(super) fn poll(&mut self, io: &mut Io, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        while !self.is_done {
            self.take_in(cx)?;
            if self.left_bytes() == 0 {
                // Under TLS what was written may lie there still, while the client is waited for.
                let flushed = Pin::new(&mut *io).poll_flush(cx);
                let flushed = flushed.map_err(Broken::Write)?;
                if self.body.is_some() {
                    return Poll::Pending;
                }
                ready!(flushed);
                self.done();
                break;
            }
            match ready!(self.poll_write(io, cx)).map_err(Broken::Write)? {
                0 => return Poll::Ready(Err(Broken::Write(io::ErrorKind::WriteZero.into()))),
                count => self.advance(count),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what there is of the body, within the bound.
    fn take_in(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        while self.left_bytes() < AHEAD_BYTES
            && let Some(body) = &mut self.body
        {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(frame))) => {
                    let is_last = body.is_end_stream();
                    if let Ok(data) = frame.into_data() {
                        self.push(data)?;
                    }
                    if is_last {
                        self.end()?;
                    }
                }
                Poll::Ready(Some(Err(_))) => return Err(Broken::Body),
                Poll::Ready(None) => self.end()?,
            }
        }
        Ok(())
    }

    /// All of the body has been taken.
    fn end(&mut self) -> Result<(), Broken> {
        self.body = None;
        match self.framing {
            Framing::Length(0) => {}
            Framing::Length(_) => return Err(Broken::Body),
            Framing::Chunked => self.copy(b"0\r\n\r\n"),
        }
        Ok(())
    }

    fn push(&mut self, data: Bytes) -> Result<(), Broken> {
        if data.is_empty() {
            return Ok(());
        }
        match &mut self.framing {
            Framing::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(Broken::Body)?;
                self.put(data);
            }
            Framing::Chunked => {
                let size = format!("{:x}\r\n", data.len());
                self.copy(size.as_bytes());
                self.put(data);
                self.copy(b"\r\n");
            }
        }
        Ok(())
    }

    fn put(&mut self, data: Bytes) {
        if data.len() <= COPIED_BYTES && self.pieces.is_empty() {
            // A slow upstream may never take all of it at once, and what it took goes first.
            if self.written >= COPIED_BYTES {
                self.first.drain(..self.written);
                self.written = 0;
            }
            self.first.extend_from_slice(&data);
        } else {
            self.piece_bytes += data.len();
            self.pieces.push_back(data);
        }
    }

    fn copy(&mut self, bytes: &[u8]) {
        self.put(Bytes::copy_from_slice(bytes));
    }

    fn left_bytes(&self) -> usize {
        self.first.len() - self.written + self.piece_bytes
    }

    fn poll_write(&self, io: &mut Io, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let first = &self.first[self.written..];
        if self.pieces.is_empty() {
            return Pin::new(io).poll_write(cx, first);
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        let all = std::iter::once(first).chain(self.pieces.iter().map(|piece| &piece[..]));
        let mut count = 0;
        for (slice, bytes) in slices.iter_mut().zip(all.filter(|bytes| !bytes.is_empty())) {
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        Pin::new(io).poll_write_vectored(cx, &slices[..count])
    }

    fn advance(&mut self, mut count: usize) {
        let of_first = count.min(self.first.len() - self.written);
        self.written += of_first;
        count -= of_first;
        if self.written == self.first.len() {
            self.first.clear();
            self.written = 0;
        }
        self.piece_bytes -= count;
        while count > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let of_piece = count.min(piece.len());
            piece.advance(of_piece);
            count -= of_piece;
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::RequestBody;
    use http::{HeaderValue, Request};

    #[test]
    fn the_framing_is_told_here_and_once() {
        let mut sending = Sending::<RequestBody>::new();
        let request = Request::post("/v1/x?y")
            .header("content-length", "9")
            .header("transfer-encoding", "chunked")
            .header("x-a", "b");
        let (head, ()) = request.body(()).unwrap().into_parts();
        let head = Head::from(head);
        let own = Own::new(&HeaderValue::from_static("a"), None);
        sending.begin(&own, &head, RequestBody::default());
        let head = "POST /v1/x?y HTTP/1.1\r\nhost: a\r\naccept-encoding: identity\r\nx-a: b\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&sending.first), head);
    }

    #[test]
    fn small_pieces_to_a_slow_upstream_take_no_more_room_than_is_left_of_them() {
        let mut sending = Sending::<RequestBody>::new();
        sending.put(Bytes::from_static(&[0; 3000]));
        for n in 0..100_000_u32 {
            sending.put(Bytes::copy_from_slice(&n.to_be_bytes().repeat(250)));
            sending.advance(1000);
            assert_eq!(sending.left_bytes(), 3000);
            assert!(sending.first.capacity() < AHEAD_BYTES);
        }
        let last = 99_999_u32.to_be_bytes().repeat(250);
        assert!(sending.first.ends_with(&last));
    }
}
