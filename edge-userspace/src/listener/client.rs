//! The client's socket: gives the bytes that were read ahead again, and closes so that the
//! client can read what it was told.

use super::gather::Gather;
use super::outbox::{Outbox, Outgoing};
use bytes::{Buf as _, BytesMut};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long the client may take to close its side after ours is closed.
const LINGER: Duration = Duration::from_secs(1);
/// Most bytes that are read and thrown away meanwhile: as much as may be on its way, but no flood.
const LINGER_BYTES: usize = 4 << 20;

/// A client's TCP stream below TLS.
pub(super) struct Client {
    tcp: Gather<Outgoing>,
    /// Read already, to be read again.
    ahead: BytesMut,
    closing: Closing,
    /// There was no room for what was to be written last, or the client may not have read it.
    held_up: Rc<Cell<bool>>,
}

enum Closing {
    No,
    /// Our side is closed.
    Lingering {
        timeout: Pin<Box<Sleep>>,
        drained_bytes: usize,
    },
    Done,
}

impl Client {
    /// `ahead` comes before what `tcp` has.
    pub(super) fn new(tcp: TcpStream, ahead: BytesMut) -> Self {
        Self {
            tcp: Gather::new(Outgoing::new(tcp)),
            ahead,
            closing: Closing::No,
            held_up: Rc::default(),
        }
    }

    /// Whether something waits to be written for want of room, or the client is waited for to
    /// close its side: it reads slowly.
    pub(super) fn held_up(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.held_up)
    }

    /// The socket.
    pub(super) fn tcp(&self) -> impl Deref<Target = TcpStream> {
        self.tcp.get_ref().tcp()
    }

    /// What is written goes out together with what other connections write, from now on.
    pub(super) fn write_with(&mut self, outbox: &Rc<Outbox>) {
        self.tcp.get_mut().write_with(outbox);
    }

    /// What is written goes out at once from now on. Not before HTTP/2 has begun, which reads
    /// until it would wait; HTTP/1.1 may not.
    pub(super) fn end_gathering(&mut self) {
        self.tcp.end();
    }

    /// Closes our side, then waits for the client's, within bounds. Closing a socket with
    /// unread data in it resets the connection, and a reset may overtake what was sent.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.closing {
                Closing::No => {
                    ready!(Pin::new(&mut self.tcp).poll_shutdown(cx))?;
                    self.closing = Closing::Lingering {
                        timeout: Box::pin(sleep(LINGER)),
                        drained_bytes: 0,
                    };
                }
                Closing::Lingering {
                    timeout,
                    drained_bytes,
                } => {
                    let mut scratch = [0; 4096];
                    let mut buffer = ReadBuf::new(&mut scratch);
                    let read = Pin::new(&mut self.tcp).poll_read(cx, &mut buffer);
                    let more = match &read {
                        Poll::Pending if timeout.as_mut().poll(cx).is_pending() => {
                            return Poll::Pending;
                        }
                        Poll::Ready(Ok(())) => !buffer.filled().is_empty(),
                        Poll::Pending | Poll::Ready(Err(_)) => false,
                    };
                    *drained_bytes += buffer.filled().len();
                    if !more || *drained_bytes > LINGER_BYTES {
                        self.closing = Closing::Done;
                    }
                }
                Closing::Done => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.tcp).poll_read(cx, buffer);
        }
        let count = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead[..count]);
        self.ahead.advance(count);
        if self.ahead.is_empty() {
            // The hello's memory is not needed any more.
            self.ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(cx, bytes);
        self.held_up.set(written.is_pending());
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.tcp).poll_flush(cx);
        self.held_up.set(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let closed = this.poll_close(cx);
        this.held_up.set(closed.is_pending());
        closed
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, slices);
        self.held_up.set(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}
