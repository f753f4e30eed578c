//! All upstreams as one thread sends to them.

use super::UpstreamId;
use super::burst::{self, Burst};
use super::choose::Random;
use super::connections::{Connections, Failed};
use super::{Answer, Error, Picked, Sendable, Upload, Upstreams};
use crate::message::{Head, Response};
use crate::telemetry::Metrics;
use std::hash::{BuildHasher as _, RandomState};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often idle connections are looked after, at most.
const REAP_EVERY: Duration = Duration::from_secs(5);
/// And at least.
const REAP_AT_MOST_EVERY: Duration = Duration::from_millis(100);

/// When more is to be dropped than in one go.
const REAP_ON: Duration = Duration::from_millis(5);

/// One thread's connections to all upstreams. `B` is the body of the requests.
pub struct Sender<B: Sendable> {
    upstreams: Arc<Upstreams>,
    /// In the configuration's order.
    connections: Vec<Connections<B>>,
    burst: Rc<Burst>,
    random: Random,
    reap_every: Duration,
}

impl<B: Sendable> Sender<B> {
    /// No connection is made yet.
    #[must_use]
    pub fn new(upstreams: Arc<Upstreams>, metrics: &Arc<Metrics>) -> Self {
        let keep_idle = (upstreams.ids()).map(|id| upstreams.target(id).keep_idle);
        let keep_idle = keep_idle.min();
        let burst = Rc::<Burst>::default();
        Self {
            connections: (upstreams.ids())
                .map(|id| {
                    let (upstreams, burst) = (Arc::clone(&upstreams), Rc::clone(&burst));
                    Connections::new(upstreams, id, burst, Arc::clone(metrics))
                })
                .collect(),
            // A seed of its own for each thread.
            burst,
            random: Random::new(RandomState::new().hash_one(0)),
            reap_every: (keep_idle.unwrap_or_default() / 4).clamp(REAP_AT_MOST_EVERY, REAP_EVERY),
            upstreams,
        }
    }

    /// Chooses an upstream for a request of that model. `affinity`: where its first
    /// `prefix_tokens` of `input_tokens` are cached. None when no upstream takes the model.
    #[must_use]
    pub fn pick(
        &self,
        model: Option<&[u8]>,
        affinity: Option<UpstreamId>,
        prefix_tokens: u32,
        input_tokens: u32,
    ) -> Option<Picked> {
        let random = &self.random;
        (self.upstreams).pick(model, affinity, prefix_tokens, input_tokens, random)
    }

    /// What all threads share.
    #[must_use]
    pub fn upstreams(&self) -> &Arc<Upstreams> {
        &self.upstreams
    }

    /// Has a connection to that upstream idle on this thread, unless there is one: for a
    /// request that is expected. Nothing is sent, and what fails is counted only.
    pub async fn open_ahead(&self, id: UpstreamId) {
        if let Some(connections) = self.connections.get(usize::from(id.0)) {
            connections.open_ahead().await;
        }
    }

    /// Writes small requests of several connections one right after the other. To be run beside the
    /// rest, and by itself, for it comes at each turn: without it each request is written by itself.
    /// Ends after this has been dropped.
    pub fn writing(&self) -> impl Future<Output = ()> + use<B> {
        burst::Writer::new(&self.burst)
    }

    /// Drops idle connections that are too old or dead, again and again. To be run beside the rest.
    /// Ends after this has been dropped.
    pub fn upkeep(&self) -> impl Future<Output = ()> + use<B> {
        let pools = self.connections.iter();
        let pools: Vec<_> = pools.map(|one| Rc::downgrade(one.pool())).collect();
        let every = self.reap_every;
        async move {
            let mut wait = every;
            loop {
                tokio::time::sleep(wait).await;
                wait = every;
                for pool in &pools {
                    match Weak::upgrade(pool) {
                        Some(pool) if pool.reap() => wait = REAP_ON,
                        Some(_) => {}
                        None => return,
                    }
                }
            }
        }
    }

    /// Sends a request to the upstream that was picked and waits for the head of its
    /// response. Dropping the future, or later the answer before its end, closes the upstream
    /// connection at once, and the request is outstanding no more.
    ///
    /// The request's head is the client's, which each upstream gets as it wants it; `upload`
    /// tells how its body comes on, when it has one. `now` is the moment of the call.
    ///
    /// # Errors
    /// See [`Error`]. A request that could not be sent for want of a connection is sent to
    /// another upstream, once, where another takes it.
    pub async fn send(
        &self,
        mut picked: Picked,
        head: &Head,
        mut body: B,
        upload: Option<&Upload>,
        mut now: Instant,
    ) -> Result<Response<Answer<B>>, Error> {
        let mut is_first = true;
        loop {
            let connections = &self.connections[usize::from(picked.id().0)];
            let sent = connections.send(&mut picked, head, body, upload, now);
            let failed = match sent.await {
                Ok((response, exchange)) => {
                    let answer = |()| Answer::new(exchange, connections.pool(), picked);
                    return Ok(response.map(answer));
                }
                Err(failed) => *failed,
            };
            let Failed { error, unsent } = failed;
            let Some(unsent) = unsent.filter(|_| is_first) else {
                return Err(error);
            };
            let Some(other) = self.upstreams.other(&picked, &self.random) else {
                return Err(error);
            };
            tracing::debug!(
                %error,
                upstream = picked.name(),
                other = other.name(),
                "asking another upstream"
            );
            is_first = false;
            body = unsent;
            picked = other;
            now = Instant::now();
        }
    }
}
