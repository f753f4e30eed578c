//! Sees to it that nothing stays of refused connections. The kernel half answers a client at
//! once, and resets the server's side when the client acknowledges that. Of those that never
//! do, the server's socket or request socket is destroyed here.
//!
//! Request sockets stay of others too: when a listening socket has no room for a connection,
//! the stack throws the beginning of its hello away, and does not take the reset that comes
//! behind the end. So request sockets are looked through every now and then.
//!
//! Only a connection that the flow table says is refused when its socket has been found: the
//! addresses may be another connection's by now.

use super::flows::{Flow, FlowTable, Look};
use super::pulse::monotonic_ns;
use super::sockets::{BATCH, Found, Sockets};
use super::worker::{Worker, stopped};
use aya::maps::{MapData, RingBuf};
use edge_common::flow::{FlowKey, Rejected, state};
use serde::Serialize;
use std::collections::VecDeque;
use std::mem::{offset_of, size_of};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a client gets to acknowledge its answer. A slower one hears nothing of what is
/// destroyed: what it still sends is answered as before.
const PATIENCE_NS: u64 = 300_000_000;
/// Refused connections that wait for it. When there are more, the oldest wait no longer.
const QUEUE: usize = 65_536;
/// How often the thread looks by itself.
const TURN: Duration = Duration::from_millis(50);
/// How often request sockets are looked through. It costs the kernel a walk over its table.
const SWEEP_NS: u64 = 400_000_000;
/// Records taken from the ring at a time, so that a stop is noticed.
const TAKE: usize = 4096;

/// The refused connections that wait.
pub struct Reaper {
    flows: Arc<FlowTable>,
    sockets: Sockets,
    counts: Arc<Counts>,
    /// In the order in which they were refused.
    waiting: VecDeque<Rejected>,
    capacity: usize,
    /// When request sockets were last looked through, CLOCK_MONOTONIC, nanoseconds.
    swept_ns: u64,
    /// Said since it last went well.
    failing: bool,
}

/// What became of refused connections that the kernel half told of.
#[derive(Debug, Default)]
pub struct Counts {
    destroyed: AtomicU64,
    closed: AtomicU64,
    gone: AtomicU64,
    spared: AtomicU64,
    failed: AtomicU64,
    overflowed: AtomicU64,
    waiting: AtomicU64,
}

/// [`Counts`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reaped {
    /// The server's socket or request socket was destroyed.
    pub destroyed: u64,
    /// The client had acknowledged, or reset: the kernel half had reset the server's side, and
    /// there was no socket any more.
    pub closed: u64,
    /// There was no socket any more, for another cause.
    pub gone: u64,
    /// The flow table did not say that it is refused: the addresses are another connection's,
    /// or its entry had to make room. Nothing was touched.
    pub spared: u64,
    /// The kernel would not.
    pub failed: u64,
    /// Did not get the time to acknowledge, because too many waited. Counted above as well.
    pub overflowed: u64,
    /// Wait now.
    pub waiting: u64,
}

/// The thread that drains the ring. Dropping it stops it.
pub(super) struct Reaping {
    _worker: Worker,
}

impl Reaping {
    pub(super) fn start(
        mut reaper: Reaper,
        mut rejects: RingBuf<MapData>,
    ) -> std::io::Result<Self> {
        let worker = Worker::start("edge-reaper", move |wake| {
            while !stopped(wake, Some(rejects.as_fd()), TURN) {
                for _ in 0..TAKE {
                    let Some(record) = rejects.next() else { break };
                    if let Some(rejected) = decode(&record) {
                        reaper.push(rejected);
                    }
                }
                reaper.turn(monotonic_ns());
            }
        })?;
        Ok(Self { _worker: worker })
    }
}

impl Counts {
    /// The counts now.
    #[must_use]
    pub fn get(&self) -> Reaped {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Reaped {
            destroyed: get(&self.destroyed),
            closed: get(&self.closed),
            gone: get(&self.gone),
            spared: get(&self.spared),
            failed: get(&self.failed),
            overflowed: get(&self.overflowed),
            waiting: get(&self.waiting),
        }
    }
}

impl Reaper {
    /// With none waiting.
    #[must_use]
    pub fn new(flows: Arc<FlowTable>, sockets: Sockets, counts: Arc<Counts>) -> Self {
        Self {
            flows,
            sockets,
            counts,
            waiting: VecDeque::new(),
            capacity: QUEUE,
            swept_ns: 0,
            failing: false,
        }
    }

    /// Takes a record of the ring.
    pub fn push(&mut self, rejected: Rejected) {
        self.waiting.push_back(rejected);
        (self.counts.waiting).store(self.waiting.len() as u64, Ordering::Relaxed);
    }

    /// Handles those whose time is over at `now_ns` (CLOCK_MONOTONIC), and the oldest of too
    /// many.
    pub fn turn(&mut self, now_ns: u64) {
        loop {
            let too_many = self.waiting.len().saturating_sub(self.capacity);
            let due = self.waiting.iter().take(BATCH);
            let due = due.take_while(|rejected| is_due(rejected, now_ns)).count();
            let overflowed = too_many.min(BATCH).saturating_sub(due);
            let batch: Vec<_> = (self.waiting.drain(..due + overflowed))
                .map(|rejected| rejected.flow)
                .collect();
            if batch.is_empty() {
                break;
            }
            add(&self.counts.overflowed, overflowed);
            self.handle(batch);
        }
        (self.counts.waiting).store(self.waiting.len() as u64, Ordering::Relaxed);
        if now_ns >= self.swept_ns.saturating_add(SWEEP_NS) {
            self.swept_ns = now_ns;
            self.sweep(now_ns);
        }
    }

    /// Destroys the request sockets of connections that were refused a while ago. A new
    /// connection with the same addresses begins with a SYN, which empties the entry before
    /// there is a request for it.
    fn sweep(&mut self, now_ns: u64) {
        let mut requested = match self.sockets.requested() {
            Ok(requested) => requested,
            Err(error) => return self.failed(1, &error),
        };
        requested.retain(|found| match self.flows.find(&found.flow()) {
            Look::Found(flow) => {
                matches!(flow.state, state::REJECTED | state::CLOSED)
                    && now_ns >= flow.judged_ns.saturating_add(PATIENCE_NS)
            }
            Look::Absent | Look::Contended => false,
        });
        for some in requested.chunks(BATCH) {
            self.destroy(some);
        }
    }

    /// Looks at each connection, then its socket, then the connection again: when it is refused
    /// both before and after, the socket was the refused one's, for a new connection with the
    /// same addresses begins with a SYN, and that empties the entry.
    fn handle(&mut self, flows: Vec<FlowKey>) {
        let refused = flows.iter().filter_map(|flow| self.refused(flow));
        let (flows, states): (Vec<_>, Vec<_>) = refused.unzip();
        let found = match self.sockets.find(&flows) {
            Ok(found) => found,
            Err(error) => return self.failed(flows.len(), &error),
        };
        let mut still = Vec::with_capacity(found.len());
        for (found, state) in found.into_iter().zip(states) {
            match found {
                Some(found) => still.extend(self.refused(&found.flow()).map(|_| found)),
                None if state == state::CLOSED => add(&self.counts.closed, 1),
                None => add(&self.counts.gone, 1),
            }
        }
        self.destroy(&still);
    }

    fn destroy(&mut self, found: &[Found]) {
        match self.sockets.destroy(found) {
            Ok(outcomes) => {
                for outcome in outcomes {
                    match outcome {
                        Ok(true) => {
                            add(&self.counts.destroyed, 1);
                            self.failing = false;
                        }
                        Ok(false) => add(&self.counts.gone, 1),
                        Err(errno) => self.failed(1, &errno.into()),
                    }
                }
            }
            Err(error) => self.failed(found.len(), &error),
        }
    }

    /// The connection and its state, if the flow table says that it is refused; counted where
    /// it does not. One that the kernel half has closed has no socket any more, unless the
    /// reset was lost on the way up: then it goes like the others.
    fn refused(&self, flow: &FlowKey) -> Option<(FlowKey, u32)> {
        let count = match self.flows.find(flow) {
            Look::Found(Flow { state, .. }) if matches!(state, state::REJECTED | state::CLOSED) => {
                return Some((*flow, state));
            }
            Look::Found(_) | Look::Absent => &self.counts.spared,
            Look::Contended => &self.counts.failed,
        };
        add(count, 1);
        None
    }

    fn failed(&mut self, connections: usize, error: &std::io::Error) {
        add(&self.counts.failed, connections);
        if !std::mem::replace(&mut self.failing, true) {
            tracing::error!(%error, "sockets of refused connections cannot be destroyed");
        }
    }
}

fn is_due(rejected: &Rejected, now_ns: u64) -> bool {
    now_ns >= rejected.monotonic_ns.saturating_add(PATIENCE_NS)
}

fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Ordering::Relaxed);
}

/// A record from the bytes of a ring entry; nothing when their number is wrong.
fn decode(bytes: &[u8]) -> Option<Rejected> {
    let bytes: &[u8; size_of::<Rejected>()] = bytes.try_into().ok()?;
    let half = |at: usize| bytes[at..].first_chunk().map(|b| u32::from_ne_bytes(*b));
    let port = |at: usize| bytes[at..].first_chunk().map(|b| u16::from_ne_bytes(*b));
    let at = offset_of!(Rejected, flow);
    let address = |at: usize| Some([half(at)?, half(at + 4)?, half(at + 8)?, half(at + 12)?]);
    Some(Rejected {
        monotonic_ns: bytes.first_chunk().map(|b| u64::from_ne_bytes(*b))?,
        flow: FlowKey {
            client: address(at + offset_of!(FlowKey, client))?,
            server: address(at + offset_of!(FlowKey, server))?,
            client_port_be: port(at + offset_of!(FlowKey, client_port_be))?,
            server_port_be: port(at + offset_of!(FlowKey, server_port_be))?,
            padding: 0,
        },
    })
}
