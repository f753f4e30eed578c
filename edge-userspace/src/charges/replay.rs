//! Which tokens have been used: the writer of [`edge_common::replay`]'s table.
//!
//! A token is looked for and put in under the locks of both sets in which it may lie, so
//! that of many connections with one token exactly one is the first. The locks are ours;
//! the kernel half looks without, and for it an entry changes in an order in which a new
//! token never stands beside the connection of an old one.

use crate::kernel::memory::Memory;
use edge_common::replay::{Holder, SET_WORDS, Set, WAYS, holder, places};
use edge_common::siphash;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; sets share them.
const LOCKS: usize = 1024;
/// No token is good for longer than this: the widest window that a configuration may have,
/// both ways. What seems to live longer is of another round of the 16 bits that hold its
/// second.
const LONGEST_LIFE_S: u64 = 3600 + 600;

/// The table.
pub struct Replay {
    words: Memory,
    secret: siphash::Key,
    sets_mask: u32,
    locks: Box<[Mutex<()>]>,
    /// Entries that hold a token.
    used: AtomicU64,
    full: AtomicU64,
}

/// What the table knows of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Nothing: this is its first use, which is remembered now.
    First,
    /// This same connection used it before.
    Again,
    /// Another connection used it.
    Replayed,
    /// Nothing, and there is no room to remember it.
    Full,
}

impl Replay {
    /// Sets for that many live tokens: seven places for four tokens at most, so that both
    /// sets of a token are full about never. A power of two.
    #[must_use]
    pub const fn sets_for(tokens: u32) -> u32 {
        tokens.div_ceil(4).next_power_of_two()
    }

    /// Words for that many sets.
    #[must_use]
    pub const fn words_for(sets: u32) -> usize {
        sets as usize * SET_WORDS
    }

    /// A table in `words`, which must be zero and a power of two of sets.
    #[must_use]
    pub fn new(words: Memory, secret: siphash::Key) -> Self {
        let sets = words.as_chunks::<SET_WORDS>().0.len();
        assert!(sets.is_power_of_two(), "{sets} sets");
        let sets_mask = u32::try_from(sets - 1).expect("fewer than 2^32 sets");
        Self {
            words,
            secret,
            sets_mask,
            locks: (0..LOCKS.min(sets)).map(|_| Mutex::default()).collect(),
            used: AtomicU64::new(0),
            full: AtomicU64::new(0),
        }
    }

    /// The number of sets less one.
    #[must_use]
    pub fn sets_mask(&self) -> u32 {
        self.sets_mask
    }

    /// Entries that hold a token, live or not swept away yet.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Entries that there are.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        (u64::from(self.sets_mask) + 1) * WAYS as u64
    }

    /// Tokens for which there was no room.
    #[must_use]
    pub fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// The connection with this mark uses the token of this id, which is out of its window
    /// after `last_s`. Times are Unix seconds.
    pub fn use_token(&self, id: u64, mark: u64, last_s: u64, now_s: u64) -> Use {
        let [first, second] = places(id, self.secret, self.sets_mask);
        let _locked = self.lock(first, second);
        let sets = [self.set(first), self.set(second)];
        for set in sets {
            // Whether it still lives does not matter: its token is not a new one.
            if let Some(holder) = holder(set, id) {
                return if holder.is(mark) {
                    Use::Again
                } else {
                    Use::Replayed
                };
            }
        }
        // The emptier set, so that both fill alike.
        let [a, b] = sets.map(|set| room(set, now_s));
        let (set, room) = if b.free > a.free {
            (sets[1], b)
        } else {
            (sets[0], a)
        };
        let Some(entry) = room.entry else {
            self.full.fetch_add(1, Ordering::Relaxed);
            return Use::Full;
        };
        let before = put(set, entry, id, Holder::new(mark, last_s));
        if before == 0 {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
        Use::First
    }

    /// Takes out what no longer lives in `count` sets from number `from` on, so that the
    /// count of entries is true and no entry lies until its second seems to come again.
    pub fn sweep(&self, from: u32, count: u32, now_s: u64) {
        for number in from..from.saturating_add(count).min(self.sets_mask + 1) {
            let set = self.set(number);
            if (0..WAYS).all(|entry| !is_dead(set, entry, now_s)) {
                continue;
            }
            let _locked = self.lock(number, number);
            for entry in 0..WAYS {
                if is_dead(set, entry, now_s) {
                    set[2 * entry].store(0, Ordering::Release);
                    self.used.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn set(&self, number: u32) -> &Set {
        &self.words.as_chunks::<SET_WORDS>().0[number as usize]
    }

    /// Both sets' locks, always in the same order.
    fn lock(&self, first: u32, second: u32) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let lock = |number: usize| {
            self.locks[number]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let [first, second] = [first, second].map(|number| number as usize % self.locks.len());
        let (low, high) = (first.min(second), first.max(second));
        (lock(low), (low != high).then(|| lock(high)))
    }
}

/// Where a set has room.
#[derive(Clone, Copy)]
struct Room {
    free: usize,
    entry: Option<usize>,
}

fn room(set: &Set, now_s: u64) -> Room {
    let mut room = Room {
        free: 0,
        entry: None,
    };
    for entry in 0..WAYS {
        let empty = set[2 * entry].load(Ordering::Relaxed) == 0;
        if empty || is_dead(set, entry, now_s) {
            room.free += 1;
            room.entry.get_or_insert(entry);
        }
    }
    room
}

/// Whether the entry holds a token that is out of its window.
fn is_dead(set: &Set, entry: usize, now_s: u64) -> bool {
    let holder = Holder(set[2 * entry + 1].load(Ordering::Relaxed));
    set[2 * entry].load(Ordering::Relaxed) != 0
        && (!holder.is_live(now_s) || holder.is_live(now_s + LONGEST_LIFE_S + 1))
}

/// Writes an entry; gives the id that it had. Who reads without a lock the id, the holder
/// and the id again, and finds the new id both times, has read the new holder.
fn put(set: &Set, entry: usize, id: u64, holder: Holder) -> u64 {
    let before = set[2 * entry].swap(0, Ordering::Relaxed);
    fence(Ordering::Release);
    set[2 * entry + 1].store(holder.0, Ordering::Relaxed);
    set[2 * entry].store(id, Ordering::Release);
    before
}

#[cfg(test)]
mod tests;
