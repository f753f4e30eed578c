//! Notices that an HTTP/1.1 client has left while nothing of it is read.
//!
//! While a request runs hyper reads on, and so sees the connection's end, only as long as nothing
//! lies unread: another request behind the first, or any byte, hides the end. Then the socket is
//! asked. The kernel knows of the end as soon as it has come, whatever lies before it (EPOLLRDHUP,
//! Linux 2.6.17).
//!
//! A client that closes its sending side while its request runs counts as gone, with bytes unread
//! as without: HTTP has no way to tell it from one that was killed (RFC 9112 section 9.6), and an
//! answer that nobody waits for is paid for. nginx and HAProxy (`abortonclose`) take it so too.
//! Not here: HTTP/2, whose connection is always read.

use super::client::Client;
use super::unreadable::Wire;
use crate::session::Session;
use std::cell::RefCell;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Ready when the client has closed its side.
type End = Pin<Box<dyn Future<Output = ()>>>;

/// One connection's client.
pub(super) struct Leaving {
    stream: Rc<RefCell<TlsStream<Client>>>,
    wire: Rc<Wire>,
    session: Rc<Session>,
    /// Watched while a request runs behind which something lay unread; the socket once more.
    end: Option<End>,
}

impl Leaving {
    pub(super) fn new(
        stream: &Rc<RefCell<TlsStream<Client>>>,
        wire: &Rc<Wire>,
        session: &Rc<Session>,
    ) -> Self {
        Self {
            stream: Rc::clone(stream),
            wire: Rc::clone(wire),
            session: Rc::clone(session),
            end: None,
        }
    }

    /// Ready when the client has left the request that runs, or reads nothing of it. To be asked
    /// when the connection has nothing to do.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.session.has_unread() {
            return Poll::Ready(());
        }
        if self.session.running() == 0 {
            self.end = None;
            return Poll::Pending;
        }
        if self.wire.is_awaited.get() {
            // hyper will see it. The watch stays: who pauses once while it sends a body
            // does so again.
            return Poll::Pending;
        }
        if self.end.is_none() {
            self.end = self.watch();
        }
        match &mut self.end {
            Some(end) => end.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }

    /// None when the system has no descriptor for it: then the end is seen when hyper reads on.
    fn watch(&self) -> Option<End> {
        let socket = self
            .stream
            .borrow()
            .get_ref()
            .0
            .tcp()
            .as_fd()
            .try_clone_to_owned();
        let socket = socket.and_then(|socket| TcpStream::from_std(socket.into()));
        let socket = socket
            .inspect_err(|error| tracing::debug!(%error, "a client is not watched"))
            .ok()?;
        Some(Box::pin(async move {
            // Of this interest are urgent data, which are not asked for here, and the end; what
            // comes to be read wakes nobody.
            while let Ok(ready) = socket.ready(Interest::PRIORITY).await {
                if ready.is_read_closed() {
                    break;
                }
            }
        }))
    }
}
