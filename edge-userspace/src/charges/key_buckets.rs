//! A bucket for each key ([`edge_common::rate::KeyBucket`]): which place is whose, and what
//! is charged to it.
//!
//! A key keeps its place while it exists. When it goes, the place is emptied and free for
//! another. There are as many as keys that the table of keys takes.

use crate::kernel::memory::Memory;
use crate::keys::table::IdMap;
use edge_common::rate::{KeyBucket, Rate};
use edge_common::token::KeyId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Words of one bucket, and which of them is which.
const WORDS: usize = size_of::<KeyBucket>() / 8;
const HARD: usize = 0;
const SOFT: usize = 2;
/// Shards of the index.
const SHARDS: usize = 64;

/// The buckets of all keys.
pub struct KeyBuckets {
    words: Memory,
    places: Box<[Mutex<IdMap<u32>>]>,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    /// Places that keys have left.
    left: Vec<u32>,
    /// The first place that no key has had.
    next: u32,
}

/// What a connection of a key is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charged {
    /// Within both rates.
    Granted,
    /// Within the hard rate, over the soft one.
    OverSoft,
    /// Over the hard rate; nothing is charged.
    OverHard,
}

impl KeyBuckets {
    /// Words for that many keys.
    #[must_use]
    pub const fn words_for(keys: u32) -> usize {
        (if keys == 0 { 1 } else { keys as usize }) * WORDS
    }

    /// All places free. `words` must be zero.
    #[must_use]
    pub fn new(words: Memory) -> Self {
        Self {
            words,
            places: (0..SHARDS).map(|_| Mutex::default()).collect(),
            free: Mutex::default(),
        }
    }

    /// So many keys are about to come: room for them is made once, not as they come.
    pub fn expect(&self, keys: usize) {
        for shard in &self.places {
            lock(shard).reserve(keys.div_ceil(SHARDS));
        }
    }

    /// Places that keys have.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let free = lock(&self.free);
        u64::from(free.next) - free.left.len() as u64
    }

    /// Places that there are.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.words.as_chunks::<WORDS>().0.len() as u64
    }

    /// The place of a key, given to it now when it has none. None when the key does not
    /// exist (`exists` is asked while nobody can free its place) or all places are taken.
    pub fn place(&self, id: KeyId, exists: impl FnOnce() -> bool) -> Option<u32> {
        let mut shard = self.shard(id);
        if let Some(place) = shard.get(&id) {
            return Some(*place);
        }
        if !exists() {
            return None;
        }
        let mut free = lock(&self.free);
        let place = free.left.pop().or_else(|| {
            let next = free.next;
            (u64::from(next) < self.capacity()).then(|| {
                free.next += 1;
                next
            })
        })?;
        shard.insert(id, place);
        Some(place)
    }

    /// The key is gone.
    pub fn free(&self, id: KeyId) {
        let mut shard = self.shard(id);
        if let Some(place) = shard.remove(&id) {
            for word in &self.words.as_chunks::<WORDS>().0[place as usize] {
                word.store(0, Ordering::Relaxed);
            }
            lock(&self.free).left.push(place);
        }
    }

    /// One connection more of the key at that place. `now_ns` is CLOCK_MONOTONIC.
    #[must_use]
    pub fn charge(&self, place: u32, hard: Rate, soft: Rate, now_ns: u64) -> Charged {
        let words = &self.words.as_chunks::<WORDS>().0[place as usize];
        if !charge(&words[HARD], hard, now_ns) {
            Charged::OverHard
        } else if !charge(&words[SOFT], soft, now_ns) {
            Charged::OverSoft
        } else {
            Charged::Granted
        }
    }

    fn shard(&self, id: KeyId) -> MutexGuard<'_, IdMap<u32>> {
        lock(&self.places[id.0 as usize % SHARDS])
    }
}

fn charge(word: &AtomicU64, rate: Rate, now_ns: u64) -> bool {
    if rate.interval_ns == 0 {
        return true;
    }
    let charged = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |empty_at_ns| {
        rate.charge(empty_at_ns, now_ns)
    });
    charged.is_ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000_000;

    fn buckets(keys: u32) -> KeyBuckets {
        KeyBuckets::new(Memory::own(KeyBuckets::words_for(keys)))
    }

    fn place(buckets: &KeyBuckets, id: u64) -> Option<u32> {
        buckets.place(KeyId(id), || true)
    }

    #[test]
    fn a_key_keeps_its_place_and_leaves_it_empty() {
        let buckets = buckets(2);
        let (a, b) = (place(&buckets, 10).unwrap(), place(&buckets, 20).unwrap());
        assert_ne!(a, b);
        assert_eq!(place(&buckets, 10), Some(a));
        assert_eq!(place(&buckets, 30), None, "all are taken");
        let rate = Rate::per_second(1, 1);
        assert_eq!(buckets.charge(a, rate, rate, NOW), Charged::Granted);
        assert_eq!(buckets.charge(a, rate, rate, NOW), Charged::OverHard);
        assert_eq!(buckets.charge(b, rate, rate, NOW), Charged::Granted);
        buckets.free(KeyId(10));
        buckets.free(KeyId(10));
        assert_eq!((buckets.entries(), buckets.capacity()), (1, 2));
        assert_eq!(buckets.place(KeyId(30), || false), None, "no such key");
        assert_eq!(place(&buckets, 30), Some(a));
        assert_eq!(buckets.charge(a, rate, rate, NOW), Charged::Granted);
        assert_eq!(buckets.entries(), 2);
    }

    #[test]
    fn the_soft_rate_is_charged_within_the_hard_one_only() {
        let buckets = buckets(1);
        let place = place(&buckets, 1).unwrap();
        let (hard, soft) = (Rate::per_second(10, 5), Rate::per_second(2, 2));
        let charged: Vec<_> = (0..7)
            .map(|_| buckets.charge(place, hard, soft, NOW))
            .collect();
        use Charged::{Granted, OverHard, OverSoft};
        assert_eq!(
            charged,
            [
                Granted, Granted, OverSoft, OverSoft, OverSoft, OverHard, OverHard
            ]
        );
        let unlimited = buckets.charge(place, Rate::UNLIMITED, Rate::UNLIMITED, NOW);
        assert_eq!(unlimited, Granted);
    }

    #[test]
    fn many_threads_get_what_one_would() {
        let buckets = buckets(1);
        let place = place(&buckets, 1).unwrap();
        let hard = Rate::per_second(100, 500);
        let granted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let charged = buckets.charge(place, hard, Rate::UNLIMITED, NOW);
                        granted
                            .fetch_add(u64::from(charged == Charged::Granted), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(granted.into_inner(), 500);
    }
}
