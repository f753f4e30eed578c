//! Finds out that an HTTP/2 client is gone though its connection stands: it does not answer
//! pings (RFC 9113 section 6.7).
//!
//! The clock is not read for what comes: a timer that goes off asks whether anything has come
//! since it was set. So a client is asked after it was silent for [`PING_EVERY`] at least, and
//! for less than twice that.

use h2::{Ping, PingPong};
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// A client that is silent for so long is asked whether it is there.
pub(super) const PING_EVERY: Duration = Duration::from_secs(30);
/// How long it may take to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Looks after one connection.
pub(super) struct KeepAlive {
    pings: PingPong,
    /// Set by whoever reads from the client.
    heard: Rc<Cell<bool>>,
    timer: Pin<Box<Sleep>>,
    is_asked: bool,
}

impl KeepAlive {
    pub(super) fn new(pings: PingPong, heard: Rc<Cell<bool>>) -> Self {
        Self {
            pings,
            heard,
            timer: Box::pin(sleep(PING_EVERY)),
            is_asked: false,
        }
    }

    /// Ready when the client is gone. To be polled when its timer goes off.
    pub(super) fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.is_asked {
                return Poll::Ready(());
            }
            let mut wait = PING_EVERY;
            if !self.heard.take() {
                if let Err(error) = self.pings.send_ping(Ping::opaque()) {
                    tracing::debug!(%error, "no ping can be sent");
                }
                self.is_asked = true;
                wait = PING_TIMEOUT;
            }
            self.timer.as_mut().reset(Instant::now() + wait);
        }
        Poll::Pending
    }

    /// Whether an answer has come, so that the timer is to be polled. To be called when the
    /// connection has been read.
    pub(super) fn has_answer(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.is_asked || self.pings.poll_pong(cx).is_pending() {
            return false;
        }
        self.is_asked = false;
        self.timer.as_mut().reset(Instant::now() + PING_EVERY);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::future::poll_fn;
    use tokio::io::DuplexStream;

    type Server = h2::server::Connection<DuplexStream, Bytes>;
    type Client = h2::client::Connection<DuplexStream, Bytes>;

    async fn pair() -> (Server, Client) {
        let (one, other) = tokio::io::duplex(64 * 1024);
        let (server, client) =
            tokio::join!(h2::server::handshake(one), h2::client::handshake(other));
        // Dropped, the handle to send requests by would end the connection.
        let (sender, client) = client.unwrap();
        drop(tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(sender);
        }));
        (server.unwrap(), client)
    }

    /// How long it takes until the client is found to be gone, at most `limit`.
    async fn gone_after(
        server: &mut Server,
        mut client: Option<Client>,
        heard: &Rc<Cell<bool>>,
        limit: Duration,
    ) -> Option<Duration> {
        let begun = Instant::now();
        let mut keep_alive = KeepAlive::new(server.ping_pong().unwrap(), Rc::clone(heard));
        let gone = poll_fn(|cx| {
            let _ = server.poll_accept(cx);
            if let Some(client) = &mut client {
                let _ = Pin::new(client).poll(cx);
                let _ = server.poll_accept(cx);
            }
            keep_alive.has_answer(cx);
            keep_alive.poll_timer(cx)
        });
        let gone = tokio::time::timeout(limit, gone).await;
        gone.is_ok().then(|| begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn who_answers_no_ping_is_gone_and_who_answers_or_speaks_is_not() {
        let hour = Duration::from_secs(3600);
        let (silent, speaking) = (Rc::default(), Rc::new(Cell::new(true)));
        let (mut server, client) = pair().await;
        let gone = gone_after(&mut server, Some(client), &silent, hour).await;
        assert_eq!(gone, None, "it answers each ping");
        let (mut server, _client) = pair().await;
        let gone = gone_after(&mut server, None, &silent, hour).await;
        assert_eq!(gone, Some(PING_EVERY + PING_TIMEOUT));
        // It spoke once, before the first look.
        let (mut server, _client) = pair().await;
        let gone = gone_after(&mut server, None, &speaking, hour).await;
        assert_eq!(gone, Some(2 * PING_EVERY + PING_TIMEOUT));
    }
}
