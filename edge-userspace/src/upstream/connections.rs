//! The connections of one thread to one upstream, and one request over one of them.

use super::addresses::Addresses;
use super::burst::Burst;
use super::connect;
use super::exchange::{Exchange, Unanswered};
use super::patience::Limit;
use super::picked::Picked;
use super::places::Places;
use super::pool::Pool;
use super::{ConnectError, Error, Sendable, Target, Upload, UpstreamId, Upstreams};
use crate::message::{Head, Response};
use crate::telemetry::{Metrics, UpstreamConnection};
use http::{Method, StatusCode};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// The connections to one upstream. `B` is the body of the requests.
pub(super) struct Connections<B: Sendable> {
    upstreams: Arc<Upstreams>,
    id: UpstreamId,
    pool: Rc<Pool<B>>,
    burst: Rc<Burst>,
    places: Rc<Places>,
    addresses: Addresses,
    metrics: Arc<Metrics>,
    /// One is being opened ahead.
    is_opening: Cell<bool>,
}

/// Why there is no response, and the request's body when nothing of it was sent.
pub(super) struct Failed<B> {
    pub(super) error: Error,
    pub(super) unsent: Option<B>,
}

impl<B> Failed<B> {
    /// In a box: it is rare and large.
    fn new(error: Error, unsent: Option<B>) -> Box<Self> {
        Box::new(Self { error, unsent })
    }
}

impl<B: Sendable> Connections<B> {
    /// No connection is made yet.
    pub(super) fn new(
        upstreams: Arc<Upstreams>,
        id: UpstreamId,
        burst: Rc<Burst>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let target = upstreams.target(id);
        let pool = Pool::new(target.max_idle, target.keep_idle, Arc::clone(&metrics));
        Self {
            places: Places::new(target.max_connections),
            addresses: Addresses::default(),
            pool: Rc::new(pool),
            burst,
            metrics,
            is_opening: Cell::new(false),
            upstreams,
            id,
        }
    }

    /// Its idle connections, to be looked after.
    pub(super) fn pool(&self) -> &Rc<Pool<B>> {
        &self.pool
    }

    /// Sends one request and waits for the head of its response; gives that, and the connection on
    /// which the rest of it comes. Dropping the future closes the connection at once. `now` is the
    /// moment of the call.
    ///
    /// A bodiless GET whose reused connection turns out to be dead is sent again, once and on
    /// a new connection. Of any other request something may have been begun.
    pub(super) async fn send(
        &self,
        picked: &mut Picked,
        head: &Head,
        mut body: B,
        upload: Option<&Upload>,
        now: Instant,
    ) -> Result<(Response<()>, Exchange<B>), Box<Failed<B>>> {
        let mut idle = self.pool.take();
        loop {
            let reused = idle.is_some();
            let (mut exchange, begun) = match idle.take() {
                Some(exchange) => (exchange, now),
                None => match self.connect_for(picked, &mut body).await {
                    Ok(exchange) => (exchange, Instant::now()),
                    Err(error) => return Err(Failed::new(error.into(), Some(body))),
                },
            };
            let repeats = reused && head.method == Method::GET && body.is_end_stream();
            exchange.ask(&picked.target().own, head, body);
            let limit = Limit {
                begun,
                limit: picked.target().first_byte_timeout,
                upload,
            };
            let answered = {
                let _aside = upload.map(|upload| exchange.aside(upload));
                exchange.answered(limit).await
            };
            let broken = match answered {
                Ok(response) => {
                    if response.status.is_server_error() {
                        picked.failed();
                    } else if refuses(response.status) {
                        picked.refused();
                    }
                    picked.answered();
                    return Ok((response, exchange));
                }
                Err(Unanswered::Broken(broken)) => broken,
                Err(Unanswered::GivenUp(error)) => {
                    if let Error::FirstByte(_) = error {
                        picked.failed();
                    }
                    return Err(Failed::new(error, None));
                }
            };
            if let Some(fault) = upload.and_then(Upload::fault) {
                return Err(Failed::new(Error::Body(fault), None));
            }
            if !repeats {
                picked.failed();
                return Err(Failed::new(Error::Broken(broken), None));
            }
            body = B::default();
            tracing::debug!(error = %broken, "a reused connection was dead; asking again");
            self.metrics
                .upstream_connections
                .one(UpstreamConnection::Retried);
        }
    }

    /// Has a connection idle, unless there is one. A failure counts as any other does.
    pub(super) async fn open_ahead(&self) {
        if !self.pool.is_empty() || self.is_opening.replace(true) {
            return;
        }
        let opened = self.connect().await;
        self.is_opening.set(false);
        match opened {
            Ok(exchange) => {
                self.upstreams.connected(self.id);
                self.pool.put(exchange);
            }
            Err(ConnectError::Full(_)) => {}
            Err(error) => {
                self.upstreams.connect_failed(self.id, false, &error);
                tracing::debug!(%error, "no connection could be opened ahead");
            }
        }
    }

    fn target(&self) -> &Target {
        self.upstreams.target(self.id)
    }

    /// Connects, and has the body read ahead meanwhile. In a box: it is rare and large,
    /// and every request's future would have room for it.
    async fn connect_for(
        &self,
        picked: &mut Picked,
        body: &mut B,
    ) -> Result<Exchange<B>, ConnectError> {
        let mut unsent = Unsent(Some(&self.upstreams), self.id);
        let mut connect: Pin<Box<dyn Future<Output = _>>> = Box::pin(self.connect());
        let connected = poll_fn(|cx| {
            body.read_ahead(cx);
            connect.as_mut().poll(cx)
        })
        .await;
        match &connected {
            Ok(_) => {
                unsent.0 = None;
                picked.connected();
            }
            // That says nothing of the upstream.
            Err(ConnectError::Full(_)) => {}
            Err(error) => picked.connect_failed(error),
        }
        connected
    }

    async fn connect(&self) -> Result<Exchange<B>, ConnectError> {
        let counters = &self.metrics.upstream_connections;
        let Some(place) = self.places.take() else {
            counters.one(UpstreamConnection::Full);
            return Err(ConnectError::Full(self.target().max_connections));
        };
        let target = self.target();
        let limit = target.connect_timeout;
        let deadline = Instant::now() + limit;
        let connected = connect::connect(target, &self.addresses, deadline);
        let connected = tokio::time::timeout_at(deadline, connected)
            .await
            .unwrap_or(Err(ConnectError::TimedOut(limit)));
        match connected {
            Ok((io, socket)) => {
                counters.one(UpstreamConnection::Opened);
                Ok(Exchange::new(io, socket, place, &self.burst))
            }
            Err(error) => {
                counters.one(UpstreamConnection::Failed);
                Err(error)
            }
        }
    }
}

/// A request that waits for a connection: counted if it has none in the end, also when its client
/// leaves before that.
struct Unsent<'a>(Option<&'a Upstreams>, UpstreamId);

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(upstreams) = self.0 {
            upstreams.unsent(self.1);
        }
    }
}

/// Whether it may be the upstream's own doing that it does not answer: too much to do, a
/// credential or a model that it does not have.
fn refuses(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 404 | 408 | 429)
}
