//! The upstream: connections to it, and one request over one of them.
//!
//! One [`Upstream`] a serving thread, with connections of its own, so nothing is locked. A
//! connection is a hyper HTTP/1.1 client connection that has no task: whoever waits for
//! the response drives it ([`Answer`]), so dropping the response closes the connection at
//! once, and a chunk costs no switch between tasks. Not here: what a request must look
//! like ([`crate::api`]) and what becomes of a response that breaks off
//! ([`crate::relay`]).

mod addresses;
mod connect;
mod exchange;
mod headers;
mod id;
mod places;
mod pool;
mod target;
mod upload;

pub use connect::ConnectError;
pub use exchange::Answer;
pub use headers::strip_hop_by_hop;
pub use id::UpstreamId;
pub use target::{Target, TargetError};
pub use upload::{CLIENT_SILENCE, Fault, Upload};

use crate::telemetry::{Metrics, UpstreamConnection};
use addresses::Addresses;
use bytes::Bytes;
use exchange::Exchange;
use http::{Method, Request, Response};
use http_body::Body;
use places::Places;
use pool::Pool;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often idle connections are looked after, at most.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// A body that can be sent upstream; its default is the empty one.
pub trait Sendable:
    Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Default + Unpin + 'static
{
    /// Takes in a bounded part while there is no connection to send it on. Besides saving
    /// time this is how a client is noticed that leaves meanwhile: HTTP/1.1 shows it only
    /// to someone who reads.
    fn read_ahead(&mut self, cx: &mut Context<'_>);
}

/// The upstream as one thread sees it. `B` is the body of the requests.
pub struct Upstream<B: Sendable> {
    target: Arc<Target>,
    pool: Rc<Pool<B>>,
    places: Rc<Places>,
    addresses: Addresses,
    metrics: Arc<Metrics>,
}

/// Why there is no response. Nothing of one has been seen in any of these cases.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection to be had.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The upstream did not begin to answer in time.
    #[error("no response within {0:?}")]
    FirstByte(Duration),
    /// The client's body failed.
    #[error("the request's body failed: {0:?}")]
    Body(Fault),
    /// The connection broke, or what came was no HTTP.
    #[error("the connection broke before the response: {0}")]
    Broken(#[source] hyper::Error),
}

impl<B: Sendable> Upstream<B> {
    /// No connection is made yet.
    #[must_use]
    pub fn new(target: Arc<Target>, metrics: Arc<Metrics>) -> Self {
        let pool = Pool::new(target.max_idle, target.keep_idle, Arc::clone(&metrics));
        Self {
            places: Places::new(target.max_connections),
            addresses: Addresses::default(),
            target,
            pool: Rc::new(pool),
            metrics,
        }
    }

    /// What the upstream wants in every request.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Drops idle connections that are too old or dead, again and again. To be run beside
    /// the rest; ends after the upstream has been dropped.
    pub fn reap(&self) -> impl Future<Output = ()> + use<B> {
        let pool = Rc::downgrade(&self.pool);
        let every = (self.target.keep_idle / 4).clamp(Duration::from_millis(100), REAP_EVERY);
        async move {
            loop {
                tokio::time::sleep(every).await;
                match pool.upgrade() {
                    Some(pool) => pool.reap(),
                    None => break,
                }
            }
        }
    }

    /// Sends one request and waits for the head of its response. Dropping the future, or
    /// later the answer before its end, closes the upstream connection at once.
    ///
    /// The request's URI is a path with its query; `upload` tells how its body comes on,
    /// when it has one.
    ///
    /// # Errors
    /// See [`Error`]. A request whose reused connection turns out to be dead is sent again,
    /// once and on a new connection, when nothing of it was sent or it is a bodiless GET.
    pub async fn send(
        &self,
        mut request: Request<B>,
        upload: Option<&Upload>,
    ) -> Result<Response<Answer<B>>, Error> {
        let mut idle = self.pool.take();
        loop {
            let reused = idle.is_some();
            let mut exchange = match idle.take() {
                Some(exchange) => exchange,
                None => self.connect_for(&mut request).await?,
            };
            let repeat = (reused && is_repeatable(&request)).then(|| copy_head(&request));
            let asked = {
                let asked = pin!(exchange.ask(request));
                before(self.target.first_byte_timeout, upload, asked).await?
            };
            let asked = match asked {
                Ok(response) => {
                    let answer = |body| Answer::new(body, exchange, &self.pool);
                    return Ok(response.map(answer));
                }
                Err(asked) => asked,
            };
            if let Some(fault) = upload.and_then(Upload::fault) {
                return Err(Error::Body(fault));
            }
            // On a new connection this is how it is; a reused one may have been dead.
            match asked.unsent.filter(|_| reused).or(repeat) {
                Some(again) => request = again,
                None => return Err(Error::Broken(asked.error)),
            }
            tracing::debug!(error = %asked.error, "a reused connection was dead; asking again");
            self.metrics
                .upstream_connections
                .one(UpstreamConnection::Retried);
        }
    }

    /// Connects, and has the request read ahead meanwhile. In a box: it is rare and large,
    /// and every request's future would have room for it.
    async fn connect_for(&self, request: &mut Request<B>) -> Result<Exchange<B>, ConnectError> {
        let mut connect: Pin<Box<dyn Future<Output = _>>> = Box::pin(self.connect());
        poll_fn(|cx| {
            request.body_mut().read_ahead(cx);
            connect.as_mut().poll(cx)
        })
        .await
    }

    async fn connect(&self) -> Result<Exchange<B>, ConnectError> {
        let counters = &self.metrics.upstream_connections;
        let Some(place) = self.places.take() else {
            counters.one(UpstreamConnection::Full);
            return Err(ConnectError::Full(self.target.max_connections));
        };
        let limit = self.target.connect_timeout;
        let deadline = Instant::now() + limit;
        let connected = connect::connect(&self.target, &self.addresses, deadline);
        let connected = tokio::time::timeout_at(deadline, connected)
            .await
            .unwrap_or(Err(ConnectError::TimedOut(limit)));
        match connected {
            Ok((io, socket)) => {
                counters.one(UpstreamConnection::Opened);
                Exchange::new(io, socket, place).await
            }
            Err(error) => {
                counters.one(UpstreamConnection::Failed);
                Err(error)
            }
        }
    }
}

/// Runs `asked` until the request has been sent and `limit` has gone by since. While the
/// body still comes in, each piece of it begins the limit anew.
async fn before<T>(
    limit: Duration,
    upload: Option<&Upload>,
    mut asked: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Error> {
    let begun = Instant::now();
    let mut timer = pin!(sleep_until(begun + limit));
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(answered) = asked.as_mut().poll(cx) {
                return Poll::Ready(Ok(answered));
            }
            ready!(timer.as_mut().poll(cx));
            let (since, limit, fault) = match upload {
                Some(upload) => upload.waiting(limit),
                None => (begun, limit, None),
            };
            if since + limit <= Instant::now() {
                return Poll::Ready(Err(fault.map_or(Error::FirstByte(limit), Error::Body)));
            }
            timer.as_mut().reset(since + limit);
        }
    })
    .await
}

fn is_repeatable<B: Body>(request: &Request<B>) -> bool {
    request.method() == Method::GET && request.body().is_end_stream()
}

fn copy_head<B: Default>(request: &Request<B>) -> Request<B> {
    let mut copy = Request::new(B::default());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}
