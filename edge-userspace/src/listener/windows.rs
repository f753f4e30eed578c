//! Keeps one stream from taking all of a small HTTP/2 connection window.
//!
//! A client that never raised its connection window (RFC 9113 section 6.9.2: 65,535 bytes)
//! and lets each stream have as much has all its streams stand still as soon as one of them
//! is not read: what lies unread of it is the whole connection's. What a stream may have on
//! the way is told in the client's first SETTINGS, and here that number is made smaller
//! before HTTP reads it: to half of the connection's window. Less would be a risk: clients
//! give room back when half a window has been read, not before. To two streams that are not
//! read at once there is no remedy but the client's own, a larger connection window.
//!
//! Only the beginning of a connection is looked at: the preface, the first SETTINGS, and
//! whether the frame after it raises the connection window, as all clients that mean to do so
//! at once do. What is odd passes as it is: HTTP judges it. On the way it is noted that
//! something was heard of the client.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// `PRI * HTTP/2.0 …`, of which only the length matters here.
const PREFACE_BYTES: usize = 24;
const HEADER_BYTES: usize = 9;
/// Longest SETTINGS that is looked at; real ones are shorter than a hundred bytes.
const MAX_SETTINGS_BYTES: usize = 1024;
/// RFC 9113 section 6.9.2.
const DEFAULT_WINDOW_BYTES: u32 = 65_535;
const INITIAL_WINDOW_SIZE: u16 = 4;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;

/// A connection's plaintext below HTTP/2.
pub(super) struct Windows<T> {
    inner: T,
    begin: Begin,
    heard: Rc<Cell<bool>>,
}

/// How much of a connection's beginning has come.
enum Begin {
    /// So many bytes of the preface have been given.
    Preface(usize),
    /// The first SETTINGS and the header of what follows, gathered.
    Settings(Vec<u8>),
    /// What was gathered, and how much of it has been given; then everything passes.
    Give(Vec<u8>, usize),
    Over,
}

impl<T> Windows<T> {
    /// `heard` is set whenever something is read.
    pub(super) fn new(inner: T, heard: &Rc<Cell<bool>>) -> Self {
        Self {
            inner,
            begin: Begin::Preface(0),
            heard: Rc::clone(heard),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Windows<T> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = if let Begin::Over = this.begin {
            Pin::new(&mut this.inner).poll_read(cx, buffer)
        } else {
            this.poll_begin(cx, buffer)
        };
        if read.is_ready() {
            this.heard.set(true);
        }
        read
    }
}

impl<T: AsyncRead + Unpin> Windows<T> {
    fn poll_begin(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match &mut self.begin {
                Begin::Preface(given) => {
                    let mut scratch = [0; PREFACE_BYTES];
                    let most = (PREFACE_BYTES - *given).min(buffer.remaining());
                    let mut part = ReadBuf::new(&mut scratch[..most]);
                    ready!(Pin::new(&mut self.inner).poll_read(cx, &mut part))?;
                    buffer.put_slice(part.filled());
                    *given += part.filled().len();
                    if *given == PREFACE_BYTES {
                        self.begin = Begin::Settings(Vec::new());
                    }
                    return Poll::Ready(Ok(()));
                }
                Begin::Settings(gathered) => {
                    let mut scratch = [0; 256];
                    let mut part = ReadBuf::new(&mut scratch);
                    ready!(Pin::new(&mut self.inner).poll_read(cx, &mut part))?;
                    let is_over = part.filled().is_empty();
                    gathered.extend_from_slice(part.filled());
                    if is_over || looked_at(gathered) {
                        self.begin = Begin::Give(std::mem::take(gathered), 0);
                    }
                }
                Begin::Give(gathered, given) => {
                    let rest = &gathered[*given..];
                    if rest.is_empty() {
                        self.begin = Begin::Over;
                        return Pin::new(&mut self.inner).poll_read(cx, buffer);
                    }
                    let count = rest.len().min(buffer.remaining());
                    buffer.put_slice(&rest[..count]);
                    *given += count;
                    return Poll::Ready(Ok(()));
                }
                Begin::Over => return Pin::new(&mut self.inner).poll_read(cx, buffer),
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Windows<T> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

/// Whether enough of the beginning has come; if so, its SETTINGS have been changed where that
/// helps.
fn looked_at(gathered: &mut Vec<u8>) -> bool {
    let Some(first) = Frame::read(gathered) else {
        return false;
    };
    let is_plain = first.kind == SETTINGS
        && first.flags == 0
        && first.stream == 0
        && first.length.is_multiple_of(6)
        && first.length <= MAX_SETTINGS_BYTES;
    if !is_plain {
        return true;
    }
    let end = HEADER_BYTES + first.length;
    let Some(second) = gathered.get(end..).and_then(Frame::read) else {
        return false;
    };
    let mut connection = DEFAULT_WINDOW_BYTES;
    if second.kind == WINDOW_UPDATE && second.stream == 0 {
        let from = end + HEADER_BYTES;
        let Some(&[a, b, c, d]) = gathered.get(from..from + 4) else {
            return false;
        };
        let more = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
        connection = connection.saturating_add(more);
    }
    lower(gathered, first.length, connection);
    true
}

/// Lowers what a stream may have on its way in SETTINGS of so many bytes.
fn lower(gathered: &mut Vec<u8>, length: usize, connection: u32) {
    let (mut stream, mut at) = (DEFAULT_WINDOW_BYTES, None);
    let payload = &gathered[HEADER_BYTES..HEADER_BYTES + length];
    for (number, setting) in payload.as_chunks::<6>().0.iter().enumerate() {
        let [a, b, value @ ..] = *setting;
        if u16::from_be_bytes([a, b]) == INITIAL_WINDOW_SIZE {
            stream = u32::from_be_bytes(value);
            at = Some(HEADER_BYTES + number * 6 + 2);
        }
    }
    // A byte more than half: some clients give back when more than half has been read.
    let half = connection / 2 + 1;
    // Where a stream has more room than its connection, the client gives back by the
    // connection alone, and a stream that stops at half would never go on.
    if stream <= half || stream > connection {
        return;
    }
    match at {
        Some(at) => gathered[at..at + 4].copy_from_slice(&half.to_be_bytes()),
        None => {
            let end = HEADER_BYTES + length;
            let [a, b] = INITIAL_WINDOW_SIZE.to_be_bytes();
            let [c, d, e, f] = half.to_be_bytes();
            gathered.splice(end..end, [a, b, c, d, e, f]);
            let [_, x, y, z] = u32::try_from(length + 6).unwrap_or(0).to_be_bytes();
            gathered[..3].copy_from_slice(&[x, y, z]);
        }
    }
}

/// A frame's header (RFC 9113 section 4.1).
struct Frame {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Frame {
    fn read(bytes: &[u8]) -> Option<Self> {
        let [x, y, z, kind, flags, a, b, c, d] = *bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Self {
            length: u32::from_be_bytes([0, x, y, z]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::collections::VecDeque;
    use tokio::io::AsyncReadExt as _;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let [_, x, y, z] = (payload.len() as u32).to_be_bytes();
        let mut frame = vec![x, y, z, kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    fn settings(list: &[(u16, u32)]) -> Vec<u8> {
        let one = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        frame(
            SETTINGS,
            0,
            0,
            &list.iter().flat_map(one).collect::<Vec<_>>(),
        )
    }

    fn update(stream: u32, more: u32) -> Vec<u8> {
        frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
    }

    /// What HTTP reads of what a client sends, whatever pieces that comes in.
    async fn read(sent: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        for size in [1, 5, 24, 33, 1000] {
            let mut read = Vec::new();
            let pieces = sent.chunks(size).map(Bytes::copy_from_slice);
            let mut windows = Windows::new(Pieces(pieces.collect()), &Rc::default());
            windows.read_to_end(&mut read).await.unwrap();
            all.push(read);
        }
        assert!(all.iter().all(|other| *other == all[0]));
        all.swap_remove(0)
    }

    /// A client that sends in pieces, then nothing more.
    struct Pieces(VecDeque<Bytes>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(piece) = self.0.front_mut() {
                let part = piece.split_to(piece.len().min(buffer.remaining()));
                buffer.put_slice(&part);
                if piece.is_empty() {
                    self.0.pop_front();
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_stream_gets_half_of_a_window_that_was_not_raised() {
        let headers = frame(1, 5, 1, b"headers");
        let rest = |frames: &[Vec<u8>]| [PREFACE, &frames.concat()].concat();
        for (sent, expected) in [
            // As it is by default: the setting is put in.
            (
                vec![settings(&[(2, 0)]), headers.clone()],
                vec![settings(&[(2, 0), (4, 32_768)]), headers.clone()],
            ),
            (
                vec![settings(&[]), headers.clone()],
                vec![settings(&[(4, 32_768)]), headers.clone()],
            ),
            (
                vec![settings(&[(4, 65_535), (2, 0)]), headers.clone()],
                vec![settings(&[(4, 32_768), (2, 0)]), headers.clone()],
            ),
            // Of several the last one stands.
            (
                vec![settings(&[(4, 1), (4, 40_000)]), update(1, 5)],
                vec![settings(&[(4, 1), (4, 32_768)]), update(1, 5)],
            ),
            (
                vec![
                    settings(&[(4, 100_000)]),
                    update(0, 65_535),
                    headers.clone(),
                ],
                vec![settings(&[(4, 65_536)]), update(0, 65_535), headers.clone()],
            ),
        ] {
            assert_eq!(read(&rest(&sent)).await, rest(&expected));
        }
    }

    #[tokio::test]
    async fn what_needs_no_help_or_is_odd_passes_as_it_is() {
        let headers = frame(1, 5, 1, b"headers");
        for frames in [
            // The connection has room for many streams.
            vec![
                settings(&[(4, 65_535)]),
                update(0, 16 << 20),
                headers.clone(),
            ],
            vec![settings(&[]), update(0, 1 << 20)],
            // A stream has little.
            vec![settings(&[(4, 30_000)]), headers.clone()],
            // More than its connection.
            vec![settings(&[(4, 1 << 20)]), headers.clone()],
            vec![frame(SETTINGS, 1, 0, b""), headers.clone()],
            vec![frame(SETTINGS, 0, 3, b""), headers.clone()],
            vec![frame(SETTINGS, 0, 0, b"12345"), headers.clone()],
            vec![frame(SETTINGS, 0, 0, &[0; 6000]), headers.clone()],
            vec![headers.clone()],
            // It ends too early.
            vec![settings(&[(4, 65_535)])],
            vec![settings(&[(4, 65_535)]), update(0, 1)[..11].to_vec()],
            vec![],
        ] {
            let sent = [PREFACE, &frames.concat()].concat();
            assert_eq!(read(&sent).await, sent);
        }
        assert_eq!(
            read(b"GET / HTTP/1.1\r\n\r\n").await,
            b"GET / HTTP/1.1\r\n\r\n"
        );
    }
}
