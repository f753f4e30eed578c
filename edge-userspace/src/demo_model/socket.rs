//! A connection that an answer can break in ways that HTTP libraries do not offer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

const RESETS: u8 = 1;
const CUTS: u8 = 2;

/// How a connection is going to end, 0 being the ordinary way; shared by it and the answers
/// on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending(Arc<AtomicU8>);

impl Ending {
    /// When it closes, by a TCP reset.
    pub(super) fn resets(&self) {
        self.0.store(RESETS, Ordering::Release);
    }

    /// What is written next lacks its last bytes, and nothing follows.
    pub(super) fn cuts(&self) {
        self.0.store(CUTS, Ordering::Release);
    }

    fn is(&self, kind: u8) -> bool {
        self.0.load(Ordering::Acquire) == kind
    }
}

/// The connection.
pub(super) struct Socket {
    tcp: TcpStream,
    ending: Ending,
    is_cut: bool,
}

/// Of what is cut: enough to take away the end of a chunk and a part of its data.
const CUT_BYTES: usize = 9;

impl Socket {
    pub(super) fn new(tcp: TcpStream, ending: Ending) -> Self {
        Self {
            tcp,
            ending,
            is_cut: false,
        }
    }

    /// Writes what is left of `bytes` when their end is taken away.
    fn poll_write_cut(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let kept = bytes.len().saturating_sub(CUT_BYTES);
        if self.is_cut || kept == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = Pin::new(&mut self.tcp).poll_write(cx, &bytes[..kept]);
        // Even where the system took less: nothing follows.
        self.is_cut = written.is_ready();
        written
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.ending.is(RESETS) {
            // Where it cannot be set the connection closes in the ordinary way.
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.ending.is(CUTS) {
            return self.poll_write_cut(cx, bytes);
        }
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.ending.is(CUTS) {
            let bytes: Vec<u8> = slices
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            return self.poll_write_cut(cx, &bytes);
        }
        Pin::new(&mut self.tcp).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ending.is(RESETS) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
