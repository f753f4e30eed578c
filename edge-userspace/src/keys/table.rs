//! The table of keys in memory: immutable snapshots, swapped whole.
//!
//! A snapshot is an array of shards behind `Arc`s. A batch of changes copies the shards
//! that it touches and shares the rest, so one change among a million keys copies one
//! shard of some 250 pointers and 4,096 shard pointers; a look-up is one index and one
//! probe. (A hash trie changes cheaper still, but each look-up then walks four or five
//! nodes, and look-ups are what the hot path does.)
//!
//! Not here: where changes come from ([`super::watch`]).

use super::{Change, KeyRecord, Observer, derive};
use crate::kernel;
use crate::secret::ApiKey;
use arc_swap::ArcSwap;
use edge_common::policy::{self, KeyPolicy};
use edge_common::token::KeyId;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Keys in a shard when the table is at its capacity, about.
const KEYS_PER_SHARD: usize = 256;

/// Shards whose keys are told of at once: some 4,096 keys.
const TOLD_SHARDS: usize = 16;

/// The keys, as they are now. Readers take a snapshot; one writer at a time swaps it.
pub struct Keyring {
    snapshot: ArcSwap<Snapshot>,
    /// Held while a batch is applied and told, so that observers see batches in order.
    observers: Mutex<Vec<Arc<dyn Observer>>>,
}

/// The keys at one moment. Judging a hello against it is one consistent decision.
#[derive(Clone)]
pub struct Snapshot {
    /// Their number is a power of two.
    shards: Box<[Arc<Shard>]>,
    keys: usize,
    /// Those of them that are for this edge's audience.
    for_audience: usize,
    capacity: usize,
    refused_for_capacity: u64,
    generation: u64,
    /// CLOCK_MONOTONIC, nanoseconds.
    published_ns: u64,
}

type Shard = IdMap<Arc<KeyRecord>>;

/// A map by key id, for many keys: nobody can choose ids that collide in it.
pub(crate) type IdMap<T> = HashMap<KeyId, T, BuildHasherDefault<IdHasher>>;

/// Why a key was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such key.
    #[error("no such key")]
    Unknown,
    /// Not found, but the table lacks keys: the store has more than `keys.capacity`.
    #[error("the key is not in the table, which overflowed its capacity")]
    NotLoaded,
    /// The key has been revoked.
    #[error("the key has been revoked")]
    Revoked,
    /// Its entry has no MAC key for this edge's audience.
    #[error("the key is not for the audience of this edge")]
    NotForAudience,
    /// Before the key's first day.
    #[error("the key is not valid yet")]
    NotYetValid,
    /// After the key's last day.
    #[error("the key has expired")]
    Expired,
}

/// One change to be made to the table.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Adds a key or replaces it. A revoked one stays revoked until it is removed.
    Put(KeyRecord),
    /// Marks a key as revoked; without effect when it is not in the table.
    Revoke(KeyId),
    /// Forgets a key; without effect when it is not in the table.
    Remove(KeyId),
}

impl Keyring {
    /// An empty table for `capacity` keys.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self {
            snapshot: ArcSwap::from_pointee(Snapshot::new(capacity)),
            observers: Mutex::default(),
        }
    }

    /// The keys as they are now, to keep for as long as one decision takes.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// See [`Snapshot::find`].
    #[must_use]
    pub fn find(&self, id: KeyId) -> Option<Arc<KeyRecord>> {
        self.snapshot.load().find(id).cloned()
    }

    /// See [`Snapshot::authenticate`].
    ///
    /// # Errors
    /// Why the key is refused.
    pub fn authenticate(&self, key: &ApiKey, now_s: u64) -> Result<Arc<KeyRecord>, Refused> {
        self.snapshot.load().authenticate(key, now_s).cloned()
    }

    /// Whether every key of the store is in the table.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.snapshot.load().complete()
    }

    /// `observer` is told of every batch from now on.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.writer().push(observer);
    }

    /// Tells `observer` of every key as if it had just come, in order with all other batches,
    /// which may come in between: a revocation does not wait until a million keys are told.
    pub fn tell(&self, observer: &dyn Observer) {
        // All snapshots of a table have as many.
        let shards = self.snapshot.load().shards.len();
        for first in (0..shards).step_by(TOLD_SHARDS) {
            let writer = self.writer();
            let snapshot = self.snapshot();
            let told = &snapshot.shards[first..shards.min(first + TOLD_SHARDS)];
            let records = told.iter().flat_map(|shard| shard.values());
            let changes: Vec<_> = records.cloned().map(Change::of).collect();
            observer.changed(&changes, snapshot.complete());
            drop(snapshot);
            drop(writer);
            // The lock is not fair: without this a waiting writer may never get in between.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Applies a batch as one change and tells the observers.
    pub fn apply(&self, edits: impl IntoIterator<Item = Edit>) {
        let observers = self.writer();
        let mut next = Snapshot::clone(&self.snapshot.load());
        let changes: Vec<_> = (edits.into_iter())
            .filter_map(|edit| next.edit(edit))
            .collect();
        self.publish(next, &changes, &observers);
    }

    /// Swaps the whole content and tells the observers how it differs. `next` was made by
    /// [`Snapshot::successor`].
    pub fn replace(&self, next: Snapshot) {
        let observers = self.writer();
        let changes = self.snapshot.load().difference(&next);
        self.publish(next, &changes, &observers);
    }

    fn publish(&self, mut next: Snapshot, changes: &[Change], observers: &[Arc<dyn Observer>]) {
        let before = self.snapshot.load();
        if changes.is_empty() && before.refused_for_capacity == next.refused_for_capacity {
            return;
        }
        next.generation = before.generation + 1;
        next.published_ns = kernel::monotonic_ns();
        drop(before);
        let complete = next.complete();
        let before = self.snapshot.swap(Arc::new(next));
        for observer in observers {
            // A revocation must reach the others, and the next one must reach all.
            let told = AssertUnwindSafe(|| observer.changed(changes, complete));
            if catch_unwind(told).is_err() {
                tracing::error!("one who acts on key changes panicked; it may have missed some");
            }
        }
        drop_last(before);
    }

    fn writer(&self) -> MutexGuard<'_, Vec<Arc<dyn Observer>>> {
        // An observer that panicked leaves the list as it was.
        (self.observers.lock()).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops a snapshot that has been replaced, when its last reader is done: to free a million
/// entries takes a while, which should be this thread's. Readers have it for one decision;
/// one that does not let go within a second frees it itself.
fn drop_last(snapshot: Arc<Snapshot>) {
    for _ in 0..1000 {
        if Arc::strong_count(&snapshot) == 1 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Snapshot {
    /// An empty one for `capacity` keys.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity as usize;
        let shards = capacity.div_ceil(KEYS_PER_SHARD).next_power_of_two();
        Self {
            shards: (0..shards).map(|_| Arc::default()).collect(),
            keys: 0,
            for_audience: 0,
            capacity,
            refused_for_capacity: 0,
            generation: 0,
            published_ns: 0,
        }
    }

    /// An empty one for the same capacity, to be filled anew with [`Snapshot::edit`].
    #[must_use]
    pub fn successor(&self) -> Self {
        Self::new(u32::try_from(self.capacity).unwrap_or(u32::MAX))
    }

    /// The key of that name, whatever its state.
    #[must_use]
    pub fn find(&self, id: KeyId) -> Option<&Arc<KeyRecord>> {
        self.shards[self.shard_of(id)].get(&id)
    }

    /// The record of an API key that came in a header, when it is good at `now_s` (Unix
    /// time, seconds).
    ///
    /// # Errors
    /// Why the key is refused. Only a holder of the key learns more than that it is unknown.
    pub fn authenticate(&self, key: &ApiKey, now_s: u64) -> Result<&Arc<KeyRecord>, Refused> {
        let record = (self.find(derive::key_id(key)))
            // Compared in constant time.
            .filter(|record| record.key_hash == derive::key_hash(key));
        let Some(record) = record else {
            return Err(if self.complete() {
                Refused::Unknown
            } else {
                Refused::NotLoaded
            });
        };
        record.usable(now_s)?;
        Ok(record)
    }

    /// Keys in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys
    }

    /// Keys in the table that are for this edge's audience, revoked and expired ones too. All
    /// others are refused.
    #[must_use]
    pub fn for_audience(&self) -> usize {
        self.for_audience
    }

    /// Whether there is no key at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Most keys that the table takes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Puts that were refused because the table was full.
    #[must_use]
    pub fn refused_for_capacity(&self) -> u64 {
        self.refused_for_capacity
    }

    /// Whether every key of the store is here.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.refused_for_capacity == 0
    }

    /// Counts the batches that changed the table.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// When it took the place of the one before, CLOCK_MONOTONIC, nanoseconds: not later than
    /// the observers were told. 0 for the first.
    #[must_use]
    pub fn published_ns(&self) -> u64 {
        self.published_ns
    }

    /// Every key, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<KeyRecord>> {
        self.shards.iter().flat_map(|shard| shard.values())
    }

    /// Makes one change. `None` when nothing differs, or the table is full.
    pub fn edit(&mut self, edit: Edit) -> Option<Change> {
        match edit {
            Edit::Put(record) => self.put(Arc::new(record)),
            Edit::Revoke(id) => {
                let revoked = self.find(id)?.to_revoked();
                self.put(Arc::new(revoked))
            }
            Edit::Remove(id) => {
                let shard = self.shard_of(id);
                self.shards[shard].get(&id)?;
                let removed = Arc::make_mut(&mut self.shards[shard]).remove(&id)?;
                self.keys -= 1;
                self.for_audience -= usize::from(removed.policy.is_some());
                Some(Change::Removed(id))
            }
        }
    }

    /// Like [`Edit::Put`], but keeps the allocation of `before` for a key that did not change.
    pub fn put_as_in(&mut self, before: &Self, record: KeyRecord) -> Option<Change> {
        let same = if before.is_empty() {
            None
        } else {
            before.find(record.id)
        };
        match same {
            Some(same) if **same == record => self.put(Arc::clone(same)),
            _ => self.put(Arc::new(record)),
        }
    }

    fn put(&mut self, mut record: Arc<KeyRecord>) -> Option<Change> {
        let present = self.find(record.id);
        if !record.revoked && present.is_some_and(|present| present.revoked) {
            record = Arc::new(record.to_revoked());
        }
        match present {
            Some(present) if *present == record => return None,
            Some(_) => {}
            None if self.keys >= self.capacity => {
                self.refused_for_capacity += 1;
                return None;
            }
            None => self.keys += 1,
        }
        let shard = self.shard_of(record.id);
        let shard = Arc::make_mut(&mut self.shards[shard]);
        let before = shard.insert(record.id, Arc::clone(&record));
        self.for_audience -= usize::from(before.is_some_and(|before| before.policy.is_some()));
        self.for_audience += usize::from(record.policy.is_some());
        Some(Change::of(record))
    }

    /// What makes `next` out of this; removals come first, so that room is made before it
    /// is filled.
    fn difference(&self, next: &Self) -> Vec<Change> {
        let removed = (self.iter())
            .filter(|record| next.find(record.id).is_none())
            .map(|record| Change::Removed(record.id));
        let put = (next.iter())
            .filter(|record| {
                (self.find(record.id))
                    .is_none_or(|before| !Arc::ptr_eq(before, record) && before != *record)
            })
            .map(|record| Change::of(Arc::clone(record)));
        removed.chain(put).collect()
    }

    fn shard_of(&self, id: KeyId) -> usize {
        // The map within the shard looks at the low bits and the highest ones.
        (spread(id.0) >> 32) as usize & (self.shards.len() - 1)
    }
}

/// A miss proves a key unknown only while the table is complete.
impl policy::Keys for Snapshot {
    fn policy(&self, id: KeyId) -> Option<&KeyPolicy> {
        self.find(id)?.policy.as_ref()
    }

    fn complete(&self) -> bool {
        Self::complete(self)
    }
}

impl KeyRecord {
    /// Whether the key is good at this edge and at `now_s` (Unix time, seconds).
    ///
    /// # Errors
    /// Why not.
    pub fn usable(&self, now_s: u64) -> Result<(), Refused> {
        if self.revoked {
            Err(Refused::Revoked)
        } else if self.policy.is_none() {
            Err(Refused::NotForAudience)
        } else if now_s < self.not_before_s {
            Err(Refused::NotYetValid)
        } else if now_s > self.not_after_s {
            Err(Refused::Expired)
        } else {
            Ok(())
        }
    }

    fn to_revoked(&self) -> Self {
        let mut record = self.clone();
        record.revoked = true;
        if let Some(policy) = &mut record.policy {
            policy.flags |= KeyPolicy::REVOKED;
        }
        record
    }
}

impl Change {
    fn of(record: Arc<KeyRecord>) -> Self {
        if record.revoked {
            Self::Revoked(record)
        } else {
            Self::Put(record)
        }
    }
}

/// Spreads a key id over all bits. Ids are output of SHA-256, but an entry that is imported
/// says its own, so a process's secret is mixed in: nobody can choose ids that collide.
/// (The finaliser of MurmurHash3, which is a bijection.)
fn spread(id: u64) -> u64 {
    static SECRET: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    let mut hash = id ^ *SECRET;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// [`spread`] as a map wants it.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = spread(id);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
