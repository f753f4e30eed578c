//! Sends what belongs together in one piece, at the beginning of a connection.
//!
//! When the client's last words of the handshake have come, TLS gives it a ticket, HTTP/2 says
//! its settings, and then that the client's have been read: three writes of some ten bytes, each a
//! segment, a system call, and a wake-up of the client. They are kept back here until a read
//! would wait, so until all that has come is answered. From then on everything passes as it is.
//!
//! Nothing is kept from a client that is to be told something last: what is kept back is sent
//! before the end of the stream, and when the stream is dropped, as far as it can be sent then.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is kept back at most.
const MOST_BYTES: usize = 2048;

/// A stream whose first answers are gathered. Reads must go on until one would wait, else
/// [`Gather::end`] must be called.
pub(super) struct Gather<S: AsyncWrite + Unpin> {
    stream: S,
    state: State,
    /// Kept back, and not yet sent.
    kept: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has been read of the stream.
    New,
    /// Something has, and no read had to wait since.
    Gathers,
    /// What was kept back goes out, then everything passes.
    Ended,
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            state: State::New,
            kept: Vec::new(),
        }
    }

    /// The stream below.
    pub(super) fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// From now on everything passes; what was kept back goes with the next read, write or flush.
    pub(super) fn end(&mut self) {
        self.state = State::Ended;
    }

    /// Sends what was kept back.
    #[inline]
    fn poll_kept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        if self.kept.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.poll_send_kept(cx)
    }

    #[cold]
    fn poll_send_kept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.kept.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.kept))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => drop(self.kept.drain(..count)),
            }
        }
        self.kept = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Whether so much is to be kept back.
    fn keeps(&self, bytes: usize) -> bool {
        self.state == State::Gathers && self.kept.len() + bytes <= MOST_BYTES
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gather<S> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        match (this.state, &read) {
            (State::New, Poll::Ready(Ok(()))) => this.state = State::Gathers,
            (State::Gathers | State::Ended, Poll::Pending) => {
                if let Poll::Ready(Err(error)) = this.poll_kept(cx) {
                    return Poll::Ready(Err(error));
                }
            }
            _ => {}
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.state == State::New {
            return Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        }
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        if this.keeps(bytes) {
            for slice in slices {
                this.kept.extend_from_slice(slice);
            }
            return Poll::Ready(Ok(bytes));
        }
        ready!(this.poll_kept(cx))?;
        Pin::new(&mut this.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.state == State::Gathers {
            return Poll::Ready(Ok(()));
        }
        if this.state == State::Ended {
            ready!(this.poll_kept(cx))?;
        }
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_kept(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncWrite + Unpin> Drop for Gather<S> {
    /// A handshake that fails ends with an alert and nothing more.
    fn drop(&mut self) {
        let _ = self.poll_kept(&mut Context::from_waker(Waker::noop()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use line::{Line, Wire};
    use std::pin::pin;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// What a stream has been written, piece by piece, and what it gives when it is read.
    mod line {
        use super::*;
        use std::cell::RefCell;
        use std::collections::VecDeque;
        use std::rc::Rc;

        /// Shared with the test.
        #[derive(Default)]
        pub(super) struct Line {
            pub(super) to_read: VecDeque<&'static [u8]>,
            pub(super) written: Vec<Vec<u8>>,
            /// Takes that many bytes a write, then waits.
            pub(super) room: usize,
            pub(super) is_shut: bool,
        }

        #[derive(Clone)]
        pub(super) struct Wire(pub(super) Rc<RefCell<Line>>);

        impl AsyncRead for Wire {
            fn poll_read(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.0.borrow_mut().to_read.pop_front() {
                    Some(piece) => {
                        buffer.put_slice(piece);
                        Poll::Ready(Ok(()))
                    }
                    None => Poll::Pending,
                }
            }
        }

        impl AsyncWrite for Wire {
            fn poll_write(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                let mut line = self.0.borrow_mut();
                let count = bytes.len().min(line.room);
                if count == 0 {
                    return Poll::Pending;
                }
                line.room -= count;
                line.written.push(bytes[..count].to_vec());
                Poll::Ready(Ok(count))
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.0.borrow_mut().is_shut = true;
                Poll::Ready(Ok(()))
            }
        }
    }

    fn wire(to_read: &[&'static [u8]]) -> Wire {
        let line = Line {
            to_read: to_read.iter().copied().collect(),
            room: usize::MAX,
            ..Line::default()
        };
        Wire(std::rc::Rc::new(line.into()))
    }

    async fn say(gather: &mut Gather<Wire>, text: &[u8]) {
        gather.write_all(text).await.unwrap();
        gather.flush().await.unwrap();
    }

    /// Whether a read had to wait.
    fn waits(gather: &mut Gather<Wire>) -> bool {
        let mut byte = [0; 16];
        let read = pin!(gather.read(&mut byte));
        read.poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    }

    #[tokio::test]
    async fn answers_go_out_together_when_a_read_would_wait() {
        let wire = wire(&[b"finished", b"settings"]);
        let written = || wire.0.borrow().written.clone();
        let mut gather = Gather::new(wire.clone());
        say(&mut gather, b"first flight").await;
        assert_eq!(written(), [b"first flight"], "at once: nothing was read");
        assert!(!waits(&mut gather));
        say(&mut gather, b"ticket,").await;
        say(&mut gather, b"settings,").await;
        assert!(!waits(&mut gather));
        say(&mut gather, b"acknowledged").await;
        assert_eq!(written().len(), 1, "all is kept back");
        assert!(waits(&mut gather));
        assert_eq!(written()[1..], [b"ticket,settings,acknowledged"]);
        wire.0.borrow_mut().to_read.push_back(b"request");
        assert!(!waits(&mut gather));
        say(&mut gather, b"response").await;
        assert_eq!(written()[2..], [b"response"], "from then on at once");
    }

    #[tokio::test]
    async fn much_is_not_kept_back() {
        let wire = wire(&[b"finished"]);
        let mut gather = Gather::new(wire.clone());
        assert!(!waits(&mut gather));
        say(&mut gather, b"ticket").await;
        say(&mut gather, &[b'x'; MOST_BYTES]).await;
        let written = wire.0.borrow().written.clone();
        assert_eq!(written, [b"ticket".to_vec(), vec![b'x'; MOST_BYTES]]);
    }

    #[tokio::test]
    async fn what_is_kept_back_is_sent_before_the_end_and_when_dropped_and_when_told() {
        for how in ["shut down", "dropped", "told", "told, then flushed"] {
            let wire = wire(&[b"finished"]);
            let mut gather = Gather::new(wire.clone());
            assert!(!waits(&mut gather));
            say(&mut gather, b"alert").await;
            match how {
                "shut down" => gather.shutdown().await.unwrap(),
                "dropped" => drop(gather),
                "told" => {
                    gather.end();
                    say(&mut gather, b"").await;
                }
                _ => {
                    gather.end();
                    gather.flush().await.unwrap();
                }
            }
            assert_eq!(wire.0.borrow().written, [b"alert"], "{how}");
            assert_eq!(wire.0.borrow().is_shut, how == "shut down");
        }
    }

    #[tokio::test]
    async fn a_socket_that_is_full_gets_the_rest_later_and_in_order() {
        let wire = wire(&[b"finished"]);
        let mut gather = Gather::new(wire.clone());
        assert!(!waits(&mut gather));
        say(&mut gather, b"ticket").await;
        wire.0.borrow_mut().room = 2;
        assert!(waits(&mut gather), "two bytes went");
        wire.0.borrow_mut().room = 3;
        let mut context = Context::from_waker(Waker::noop());
        let flushed = Pin::new(&mut gather).poll_flush(&mut context);
        assert!(flushed.is_pending(), "three more");
        let written = Pin::new(&mut gather).poll_write(&mut context, b"more");
        assert!(written.is_pending(), "nothing overtakes");
        wire.0.borrow_mut().room = usize::MAX;
        say(&mut gather, b"more").await;
        assert_eq!(wire.0.borrow().written.concat(), b"ticketmore");
    }
}
