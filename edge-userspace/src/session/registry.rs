//! Which connections a key has, on all threads.

use crate::keys::{Change, Observer};
use edge_common::token::KeyId;
use slab::Slab;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

const SHARDS: usize = 64;

type Shard = HashMap<KeyId, Slab<Signal>>;

/// The bound connections by key. As large as there are bound connections, which
/// `listen.max_connections` bounds; locked when a connection is bound and when it ends, not
/// by requests.
pub struct Sessions {
    shards: Box<[Mutex<Shard>]>,
}

/// Tells one connection that its key has ended, from any thread.
#[derive(Clone, Debug)]
pub(super) struct Signal {
    given: Arc<AtomicBool>,
    /// Rings for the connection's thread.
    bell: Arc<Notify>,
}

impl Signal {
    pub(super) fn new(bell: Arc<Notify>) -> Self {
        Self {
            given: Arc::default(),
            bell,
        }
    }

    pub(super) fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    fn give(&self) {
        self.given.store(true, Ordering::Release);
        self.bell.notify_one();
    }
}

/// A connection's entry; dropping it takes the entry out.
pub(super) struct Registration {
    sessions: Arc<Sessions>,
    id: KeyId,
    place: usize,
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new()
    }
}

impl Sessions {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Bound connections now.
    #[must_use]
    pub fn len(&self) -> usize {
        let of_shard = |shard| lock(shard).values().map(Slab::len).sum::<usize>();
        self.shards.iter().map(of_shard).sum()
    }

    /// Whether no connection is bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `signal` will be given when the key ends.
    pub(super) fn register(self: &Arc<Self>, id: KeyId, signal: Signal) -> Registration {
        let place = self.shard(id).entry(id).or_default().insert(signal);
        Registration {
            sessions: Arc::clone(self),
            id,
            place,
        }
    }

    fn end(&self, id: KeyId) {
        if let Some(connections) = self.shard(id).get(&id) {
            for (_, signal) in connections {
                signal.give();
            }
        }
    }

    fn shard(&self, id: KeyId) -> MutexGuard<'_, Shard> {
        lock(&self.shards[id.0 as usize % SHARDS])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Sessions {
    fn changed(&self, changes: &[Change], _complete: bool) {
        for change in changes {
            match change {
                // What a request may do is checked with each request.
                Change::Put(_) => {}
                Change::Revoked(key) => self.end(key.id),
                Change::Removed(id) => self.end(*id),
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut shard = self.sessions.shard(self.id);
        if let Some(connections) = shard.get_mut(&self.id) {
            connections.remove(self.place);
            if connections.is_empty() {
                shard.remove(&self.id);
            }
        }
    }
}
