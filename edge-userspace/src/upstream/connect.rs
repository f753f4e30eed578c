//! From a host name to a connection: resolve, connect, TLS.

use super::addresses::Addresses;
use super::target::Target;
use socket2::{SockRef, TcpKeepalive};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

/// Why no connection could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("{host}: cannot be resolved: {source}; check the upstream's url and the resolver")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// No address took the connection; the last one's error.
    #[error("{address}: cannot connect: {source}")]
    Connect {
        /// The last address tried.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// This thread has as many connections as it may have.
    #[error(
        "all {0} connections of this thread to the upstream are in use; raise upstream.max_connections"
    )]
    Full(usize),
    /// Resolving, connecting and TLS took too long together.
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
    /// The TLS handshake failed.
    #[error("{host}: TLS failed: {source}")]
    Tls {
        /// The name that its certificate must carry.
        host: String,
        /// What was wrong.
        source: io::Error,
    },
}

/// What remains until `deadline` is shared out among the addresses of a name.
pub(super) async fn connect(
    target: &Target,
    addresses: &Addresses,
    deadline: Instant,
) -> Result<(Io, Socket), ConnectError> {
    let tcp = match target.host.parse::<IpAddr>() {
        Ok(address) => dial(SocketAddr::new(address, target.port)).await?,
        Err(_) => {
            let lookup = tokio::net::lookup_host((target.host.as_str(), target.port));
            let found = addresses.resolve(lookup).await;
            let found = found.map_err(|source| ConnectError::Resolve {
                host: target.host.clone(),
                source,
            })?;
            addresses.dial(&found, deadline).await?
        }
    };
    let socket = Socket::new(tcp);
    let Some((connector, name)) = &target.tls else {
        return Ok((Io::Plain(socket.clone()), socket));
    };
    let tls = connector.connect(name.clone(), socket.clone()).await;
    let tls = tls.map_err(|source| ConnectError::Tls {
        host: target.host.clone(),
        source,
    })?;
    Ok((Io::Tls(Box::new(tls)), socket))
}

pub(super) async fn dial(address: SocketAddr) -> Result<TcpStream, ConnectError> {
    let tcp = TcpStream::connect(address).await;
    // A model may think for minutes; whether its host is still there is known sooner.
    let keep_alive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    let tcp = tcp.and_then(|tcp| {
        // With Nagle's algorithm a request's last piece waits for a delayed ACK.
        tcp.set_nodelay(true)?;
        SockRef::from(&tcp).set_tcp_keepalive(&keep_alive)?;
        Ok(tcp)
    });
    tcp.map_err(|source| ConnectError::Connect { address, source })
}

/// A connection's bytes, with or without TLS.
pub(super) enum Io {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Io {
    /// Whether TLS holds nothing that has come and has not been read from here. Without this a
    /// second response in one record with the first would be the next request's.
    pub(super) fn is_empty(&mut self) -> bool {
        let Self::Tls(tls) = self else { return true };
        let state = tls.get_mut().1.process_new_packets();
        state.is_ok_and(|state| state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed())
    }
}

/// A TCP socket that the pool can look at below the stream.
#[derive(Clone)]
pub(super) struct Socket(Rc<RefCell<TcpStream>>);

impl Socket {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self(Rc::new(RefCell::new(tcp)))
    }

    /// Writes what the kernel takes at once.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow().try_write(bytes)
    }

    /// Has acknowledgements held back from now on (tcp(7), `TCP_QUICKACK`); whether that could
    /// be had.
    pub(super) fn hold_acks(&self) -> bool {
        rustix::net::sockopt::set_tcp_quickack(&*self.0.borrow(), false).is_ok()
    }

    /// Whether they are held back still.
    pub(super) fn holds_acks(&self) -> bool {
        rustix::net::sockopt::tcp_quickack(&*self.0.borrow()).is_ok_and(|at_once| !at_once)
    }

    /// Whether there is nothing to read: no byte, no end, no error. The runtime knows what came
    /// before its last look at all sockets; the kernel is asked only where it says that something
    /// did.
    pub(super) fn is_quiet(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        let tcp = self.0.borrow();
        let peeked = tcp.try_io(Interest::READABLE, || {
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            Ok(recv(&*tcp, &mut [0_u8; 1], flags)?)
        });
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

macro_rules! on_io {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Io::Plain($stream) => $call,
            Io::Tls(tls) => {
                let $stream = &mut **tls;
                $call
            }
        }
    };
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_io!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_io!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_io!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_io!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_io!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.borrow().is_write_vectored()
    }
}
