//! Idle connections of one thread: last in, first out, bounded in number and age.

use super::Sendable;
use super::acks::Acks;
use super::exchange::Exchange;
use crate::clock;
use crate::telemetry::{Metrics, UpstreamConnection};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// So many are closed in one go.
const REAPED_AT_ONCE: i64 = 16;

/// The idle connections. When there are too many, the one that has been idle longest goes.
pub(super) struct Pool<B: Sendable> {
    idle: RefCell<VecDeque<Idle<B>>>,
    max_idle: usize,
    keep_idle: Duration,
    metrics: Arc<Metrics>,
    /// Of the streams that come over them.
    pub(super) acks: Acks,
}

struct Idle<B: Sendable> {
    exchange: Exchange<B>,
    /// By [`clock::monotonic`].
    since: Duration,
}

impl<B: Sendable> Pool<B> {
    pub(super) fn new(max_idle: usize, keep_idle: Duration, metrics: Arc<Metrics>) -> Self {
        Self {
            idle: RefCell::default(),
            max_idle,
            keep_idle,
            metrics,
            acks: Acks::default(),
        }
    }

    /// The connection that was used last and is still good; dead ones on the way are
    /// dropped.
    pub(super) fn take(&self) -> Option<Exchange<B>> {
        let counters = &self.metrics.upstream_connections;
        loop {
            let Idle { exchange, since } = self.idle.borrow_mut().pop_back()?;
            self.metrics.idle_upstream_connections.dec();
            if clock::monotonic().saturating_sub(since) > self.keep_idle {
                continue;
            }
            if exchange.is_usable() {
                counters.one(UpstreamConnection::Reused);
                return Some(exchange);
            }
            counters.one(UpstreamConnection::Stale);
        }
    }

    /// Whether no connection is idle.
    pub(super) fn is_empty(&self) -> bool {
        self.idle.borrow().is_empty()
    }

    pub(super) fn put(&self, exchange: Exchange<B>) {
        if self.max_idle == 0 {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.max_idle {
            idle.pop_front();
            self.metrics.idle_upstream_connections.dec();
        }
        idle.push_back(Idle {
            exchange,
            since: clock::monotonic(),
        });
        self.metrics.idle_upstream_connections.inc();
    }

    /// Drops what is too old or dead, but so many at a time: each costs some calls of the kernel's,
    /// and what runs on the thread waits meanwhile. Whether there may be more.
    pub(super) fn reap(&self) -> bool {
        let (mut gone, now) = (0, clock::monotonic());
        self.idle.borrow_mut().retain(|Idle { exchange, since }| {
            let is_good = gone == REAPED_AT_ONCE
                || (now.saturating_sub(*since) <= self.keep_idle && exchange.is_usable());
            gone += i64::from(!is_good);
            is_good
        });
        self.metrics.idle_upstream_connections.dec_by(gone);
        gone == REAPED_AT_ONCE
    }
}

impl<B: Sendable> Drop for Pool<B> {
    fn drop(&mut self) {
        let left = i64::try_from(self.idle.get_mut().len()).unwrap_or(i64::MAX);
        self.metrics.idle_upstream_connections.dec_by(left);
    }
}
