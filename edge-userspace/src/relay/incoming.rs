//! A request's body as the client's connection gives it, whichever HTTP it speaks.
//!
//! Trailers are read and thrown away: no API of this kind has any. Not here: what may come of
//! it, and how much ([`super::request`]).

use bytes::Bytes;
use edge_http2::{Code, Stream};
use http_body::{Body, Frame, SizeHint};
use std::cell::RefCell;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// Most that is made room for before it has come.
const AHEAD_BYTES: u64 = 64 * 1024;
/// Most that is read at a time: whoever counts it lets others run in between.
const PIECE_BYTES: usize = 16 * 1024;

/// The body of any request.
#[derive(Debug)]
pub struct Incoming {
    wire: Wire,
    /// Something was waited for: a client that waits to be told to go on may have been told.
    has_begun: bool,
}

#[derive(Debug)]
enum Wire {
    Nothing,
    Http1(hyper::body::Incoming),
    Http2(Arriving),
}

/// The body broke off.
#[derive(Debug, thiserror::Error)]
pub enum IncomingError {
    /// Over HTTP/1.1.
    #[error("{0}")]
    Http1(#[source] hyper::Error),
    /// Over HTTP/2: the stream has ended by that.
    #[error("the stream was reset: {0}")]
    Http2(Code),
}

/// An HTTP/2 connection, as the body of one of its requests sees it.
pub trait Line {
    /// The rest of that stream is wanted, and nothing of it is there: a client that waits to be
    /// told so is told (`expect: 100-continue`).
    fn ask(&self, stream: Stream);
    /// So many bytes have been read of that stream.
    fn read(&self, stream: Stream, bytes: usize);
    /// Nobody will read more of it.
    fn leave(&self, stream: Stream);
}

/// Where a connection puts the body of an HTTP/2 request.
#[derive(Default)]
pub struct Inbox(RefCell<Arrived>);

#[derive(Default)]
struct Arrived {
    /// Not read yet: as much as the stream's window at the most. The older of it, then what
    /// has come since.
    ready: Bytes,
    data: Vec<u8>,
    /// What is still to come by its `content-length`, bytes; the connection holds it to that.
    left: Option<u64>,
    /// Nothing more comes.
    is_over: bool,
    broken: Option<Code>,
    reader: Option<Waker>,
    /// The client has been told that it is wanted, or is never to be.
    is_asked_for: bool,
}

/// The other end of an [`Inbox`].
struct Arriving {
    inbox: Rc<Inbox>,
    line: Rc<dyn Line>,
    stream: Stream,
}

impl Incoming {
    /// Of an HTTP/2 request that has a body.
    #[must_use]
    pub fn http2(inbox: Rc<Inbox>, line: Rc<dyn Line>, stream: Stream) -> Self {
        Self::on(Wire::Http2(Arriving {
            inbox,
            line,
            stream,
        }))
    }

    /// Of a request that has none.
    #[must_use]
    pub const fn none() -> Self {
        Self::on(Wire::Nothing)
    }

    const fn on(wire: Wire) -> Self {
        Self {
            wire,
            has_begun: false,
        }
    }

    /// Whether some of it has been read, or waited for.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whoever reads it from now on only listens: a client that waits to be told to go on is not.
    /// Over HTTP/2 alone.
    pub fn do_not_ask(&self) {
        if let Wire::Http2(arriving) = &self.wire {
            arriving.inbox.0.borrow_mut().is_asked_for = true;
        }
    }
}

impl From<hyper::body::Incoming> for Incoming {
    fn from(body: hyper::body::Incoming) -> Self {
        Self::on(Wire::Http1(body))
    }
}

impl Inbox {
    /// Of a body of that length, where it is said.
    #[must_use]
    pub fn new(length: Option<u64>) -> Rc<Self> {
        Rc::new(Self(RefCell::new(Arrived {
            left: length,
            ..Arrived::default()
        })))
    }

    /// A piece has come; `is_end`: the last one.
    pub fn put(&self, piece: &[u8], is_end: bool) {
        self.change(|arrived| {
            if arrived.data.is_empty() {
                let room = arrived.left.unwrap_or(0).min(AHEAD_BYTES) as usize;
                arrived.data.reserve_exact(room.max(piece.len()));
            }
            arrived.data.extend_from_slice(piece);
            arrived.left = (arrived.left).map(|left| left.saturating_sub(piece.len() as u64));
            arrived.is_over |= is_end;
        });
    }

    /// The stream has been reset.
    pub fn fail(&self, code: Code) {
        self.change(|arrived| {
            if !arrived.is_over {
                arrived.broken = Some(code);
            }
        });
    }

    fn change(&self, how: impl FnOnce(&mut Arrived)) {
        let reader = {
            let mut arrived = self.0.borrow_mut();
            how(&mut arrived);
            arrived.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Arrived {
    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.data.is_empty()
    }

    fn next_piece(&mut self) -> Bytes {
        if self.ready.is_empty() {
            self.ready = exact(mem::take(&mut self.data));
        }
        let count = self.ready.len().min(PIECE_BYTES);
        self.ready.split_to(count)
    }
}

impl Arriving {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Code>>> {
        let data = {
            let mut arrived = self.inbox.0.borrow_mut();
            if let Some(code) = arrived.broken {
                return Poll::Ready(Some(Err(code)));
            }
            if arrived.is_empty() {
                if arrived.is_over {
                    return Poll::Ready(None);
                }
                if !(arrived.reader.as_ref()).is_some_and(|known| known.will_wake(cx.waker())) {
                    arrived.reader = Some(cx.waker().clone());
                }
                if !mem::replace(&mut arrived.is_asked_for, true) {
                    drop(arrived);
                    self.line.ask(self.stream);
                }
                return Poll::Pending;
            }
            arrived.next_piece()
        };
        // What is read is given back: the window is what lies unread.
        self.line.read(self.stream, data.len());
        Poll::Ready(Some(Ok(data)))
    }

    fn is_over(&self) -> bool {
        let arrived = self.inbox.0.borrow();
        arrived.is_over && arrived.is_empty() && arrived.broken.is_none()
    }

    fn left(&self) -> Option<u64> {
        let arrived = self.inbox.0.borrow();
        let unread = arrived.ready.len() + arrived.data.len();
        Some(arrived.left?.saturating_add(unread as u64))
    }
}

/// Without much memory that was made room for in vain: it may be kept for long, and is counted by
/// its length.
fn exact(mut data: Vec<u8>) -> Bytes {
    if data.capacity() / 2 > data.len() {
        data.shrink_to_fit();
    }
    Bytes::from(data)
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.line.leave(self.stream);
    }
}

impl fmt::Debug for Arriving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arriving").field(&self.stream).finish()
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = IncomingError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncomingError>>> {
        let this = self.get_mut();
        this.has_begun = true;
        match &mut this.wire {
            Wire::Nothing => Poll::Ready(None),
            Wire::Http1(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(IncomingError::Http1)))
            }
            Wire::Http2(arriving) => {
                let data = ready!(arriving.poll(cx));
                Poll::Ready(data.map(|data| match data {
                    Ok(data) => Ok(Frame::data(data)),
                    Err(code) => Err(IncomingError::Http2(code)),
                }))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.wire {
            Wire::Nothing => true,
            Wire::Http1(body) => body.is_end_stream(),
            Wire::Http2(arriving) => arriving.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.wire {
            Wire::Nothing => SizeHint::with_exact(0),
            Wire::Http1(body) => body.size_hint(),
            Wire::Http2(arriving) => arriving
                .left()
                .map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_http2::{Config, Connection, Event};
    use std::cell::Cell;
    use std::task::Wake;

    /// What a line has been told.
    #[derive(Default)]
    struct Told {
        asked: Cell<u32>,
        read: Cell<usize>,
        left: Cell<u32>,
    }

    impl Line for Told {
        fn ask(&self, _: Stream) {
            self.asked.set(self.asked.get() + 1);
        }

        fn read(&self, _: Stream, bytes: usize) {
            self.read.set(self.read.get() + bytes);
        }

        fn leave(&self, _: Stream) {
            self.left.set(self.left.get() + 1);
        }
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicU32);

    impl Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// There is no other way to come by one than that a client begins it.
    fn stream() -> Stream {
        let mut connection = Connection::new(Config {
            max_streams: 1,
            stream_window_bytes: 65_535,
            connection_window_bytes: 65_535,
            max_head_bytes: 1000,
            clock: || 0,
        });
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend_from_slice(b"\0\0\0\x04\0\0\0\0\0");
        // GET, https, / and an authority.
        bytes.extend_from_slice(b"\0\0\x06\x01\x05\0\0\0\x01\x82\x87\x84\x41\x01x");
        let mut input = &bytes[..];
        match connection.receive(&mut input) {
            Ok(Some(Event::Request { stream, .. })) => stream,
            other => panic!("{other:?}"),
        }
    }

    fn poll(
        body: &mut Incoming,
        woken: &std::sync::Arc<Woken>,
    ) -> Poll<Option<Result<Bytes, Code>>> {
        let waker = Waker::from(std::sync::Arc::clone(woken));
        let frame = Pin::new(body).poll_frame(&mut Context::from_waker(&waker));
        frame
            .map_ok(|frame| frame.into_data().unwrap())
            .map_err(|error| match error {
                IncomingError::Http2(code) => code,
                IncomingError::Http1(error) => panic!("{error}"),
            })
    }

    #[test]
    fn what_comes_is_read_in_its_order_and_told_to_the_line() {
        let (told, woken) = (
            Rc::new(Told::default()),
            std::sync::Arc::new(Woken::default()),
        );
        let inbox = Inbox::new(Some(12));
        let line = Rc::clone(&told) as Rc<dyn Line>;
        let mut body = Incoming::http2(Rc::clone(&inbox), line, stream());
        assert_eq!(body.size_hint().exact(), Some(12));
        assert_eq!(told.asked.get(), 0);
        assert!(poll(&mut body, &woken).is_pending());
        assert!(poll(&mut body, &woken).is_pending());
        assert_eq!(told.asked.get(), 1);
        inbox.put(b"one ", false);
        inbox.put(b"two ", false);
        assert_eq!(woken.0.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(body.size_hint().exact(), Some(12));
        assert_eq!(
            poll(&mut body, &woken),
            Poll::Ready(Some(Ok("one two ".into())))
        );
        assert_eq!((told.read.get(), body.size_hint().exact()), (8, Some(4)));
        inbox.put(b"four", true);
        assert!(!body.is_end_stream());
        assert_eq!(
            poll(&mut body, &woken),
            Poll::Ready(Some(Ok("four".into())))
        );
        assert!(body.is_end_stream());
        // What ended well stays so.
        inbox.fail(Code::CANCEL);
        assert_eq!(poll(&mut body, &woken), Poll::Ready(None));
        drop(body);
        assert_eq!((told.read.get(), told.left.get()), (12, 1));
    }

    #[test]
    fn who_only_listens_asks_for_nothing_and_reads_what_comes() {
        let (told, woken) = (
            Rc::new(Told::default()),
            std::sync::Arc::new(Woken::default()),
        );
        let inbox = Inbox::new(None);
        let line = Rc::clone(&told) as Rc<dyn Line>;
        let mut body = Incoming::http2(Rc::clone(&inbox), line, stream());
        assert!(!body.has_begun());
        body.do_not_ask();
        assert!(poll(&mut body, &woken).is_pending());
        assert!(body.has_begun());
        inbox.put(b"unasked", true);
        let piece = poll(&mut body, &woken);
        assert_eq!(piece, Poll::Ready(Some(Ok("unasked".into()))));
        assert_eq!((told.asked.get(), told.read.get()), (0, 7));
    }

    #[test]
    fn a_body_that_is_taken_back_is_not_whole_whatever_the_code_says() {
        for code in [Code::NO_ERROR, Code::CANCEL] {
            let (told, woken) = (
                Rc::new(Told::default()),
                std::sync::Arc::new(Woken::default()),
            );
            let inbox = Inbox::new(None);
            let mut body = Incoming::http2(Rc::clone(&inbox), told, stream());
            inbox.put(b"begun", false);
            inbox.fail(code);
            assert!(!body.is_end_stream());
            assert_eq!(poll(&mut body, &woken), Poll::Ready(Some(Err(code))));
        }
    }

    #[test]
    fn a_small_piece_of_a_large_body_keeps_no_large_memory() {
        let mut data = Vec::with_capacity(AHEAD_BYTES as usize);
        data.push(1);
        let data: Vec<u8> = exact(data).into();
        assert!(data.capacity() < 64);
    }
}
