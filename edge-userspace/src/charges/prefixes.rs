//! How many connections without a token each source prefix has opened: the writer of
//! [`edge_common::prefix`]'s table.
//!
//! An idle bucket equals none, so its entry is free for another prefix. When a set has no
//! idle one, the least used goes, and is counted: its prefix begins anew.

use crate::kernel::memory::Memory;
use edge_common::prefix::{SET_WORDS, Set, WAYS, bucket, place};
use edge_common::rate::Rate;
use edge_common::siphash;
use edge_common::total::waited_ns;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// Locks; sets share them.
const LOCKS: usize = 1024;

/// The table.
pub struct Prefixes {
    words: Memory,
    secret: siphash::Key,
    sets_mask: u32,
    locks: Box<[Mutex<()>]>,
    used: AtomicU64,
    evicted: AtomicU64,
}

/// What came of a connection without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charged {
    /// It is let in.
    Granted,
    /// Its prefix is over its rate.
    OverRate,
    /// Its prefix is not, and it is not let in all the same.
    Otherwise,
}

impl Charged {
    const fn granted_if(granted: bool) -> Self {
        if granted {
            Self::Granted
        } else {
            Self::Otherwise
        }
    }
}

impl Prefixes {
    /// Sets for that many busy prefixes: five places for two prefixes at most. A power of two.
    #[must_use]
    pub const fn sets_for(prefixes: u32) -> u32 {
        prefixes.div_ceil(2).next_power_of_two()
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
        Self {
            words,
            secret,
            sets_mask: u32::try_from(sets - 1).expect("fewer than 2^32 sets"),
            locks: (0..LOCKS.min(sets)).map(|_| Mutex::default()).collect(),
            used: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    /// The number of sets less one.
    #[must_use]
    pub fn sets_mask(&self) -> u32 {
        self.sets_mask
    }

    /// Entries that hold a prefix, busy or not swept away yet.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Entries that there are.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        (u64::from(self.sets_mask) + 1) * WAYS as u64
    }

    /// Prefixes that lost a bucket in use to another.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// One connection more from a prefix ([`edge_common::prefix::of`]), if its rate allows it
    /// and `and` does, which is told how long ago it had its last one, nanoseconds (the most
    /// there is when that is not known: there is no rate, or it was forgotten). `now_ns` is
    /// CLOCK_MONOTONIC.
    pub fn charge(
        &self,
        prefix: u64,
        rate: Rate,
        now_ns: u64,
        and: impl FnOnce(u64) -> bool,
    ) -> Charged {
        if rate.interval_ns == 0 {
            return Charged::granted_if(and(u64::MAX));
        }
        let number = place(prefix, self.secret, self.sets_mask);
        let set = &self.words.as_chunks::<SET_WORDS>().0[number as usize];
        let lock = &self.locks[number as usize % self.locks.len()];
        let _locked = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((word, _)) = bucket(set, prefix) {
            let before = word.load(Ordering::Relaxed);
            let Some(next) = rate.charge(before, now_ns) else {
                return Charged::OverRate;
            };
            if !and(waited_ns(rate, before, now_ns)) {
                return Charged::Otherwise;
            }
            word.store(next, Ordering::Relaxed);
            return Charged::Granted;
        }
        if !and(u64::MAX) {
            return Charged::Otherwise;
        }
        // An empty bucket takes one connection whatever the rate.
        let next = rate.charge(0, now_ns).unwrap_or(now_ns);
        let (entry, busy_until_ns) = least_used(set);
        if busy_until_ns > now_ns {
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        if put(set, entry, prefix, next) == 0 {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
        Charged::Granted
    }

    /// Takes the idle ones out of `count` sets from number `from` on, so that the count of
    /// entries is true.
    pub fn sweep(&self, from: u32, count: u32, now_ns: u64) {
        for number in from..from.saturating_add(count).min(self.sets_mask + 1) {
            let set = &self.words.as_chunks::<SET_WORDS>().0[number as usize];
            let idle = |entry: usize| {
                set[3 * entry].load(Ordering::Relaxed) != 0 && busy_until(set, entry) <= now_ns
            };
            if !(0..WAYS).any(idle) {
                continue;
            }
            let lock = &self.locks[number as usize % self.locks.len()];
            let _locked = lock.lock().unwrap_or_else(PoisonError::into_inner);
            for entry in (0..WAYS).filter(|entry| idle(*entry)) {
                set[3 * entry].store(0, Ordering::Release);
                self.used.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// When the entry's bucket is empty again; at once when it has none.
fn busy_until(set: &Set, entry: usize) -> u64 {
    if set[3 * entry].load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let word = |at: usize| set[3 * entry + at].load(Ordering::Relaxed);
    word(1).max(word(2))
}

fn least_used(set: &Set) -> (usize, u64) {
    let entries = (0..WAYS).map(|entry| (entry, busy_until(set, entry)));
    entries.min_by_key(|(_, until)| *until).unwrap_or((0, 0))
}

/// Writes an entry, the prefix last: who reads without a lock never finds the prefix beside
/// another's bucket. Gives the prefix that it had.
fn put(set: &Set, entry: usize, prefix: u64, word: u64) -> u64 {
    let before = set[3 * entry].swap(0, Ordering::Relaxed);
    fence(Ordering::Release);
    set[3 * entry + 1].store(word, Ordering::Relaxed);
    set[3 * entry + 2].store(0, Ordering::Relaxed);
    set[3 * entry].store(prefix, Ordering::Release);
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: siphash::Key = [5, 6];
    const NOW: u64 = 1_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn table(sets: u32) -> Prefixes {
        let words = Memory::own(Prefixes::words_for(sets));
        Prefixes::new(words, SECRET)
    }

    fn charge(table: &Prefixes, prefix: u64, rate: Rate, now_ns: u64) -> bool {
        table.charge(prefix, rate, now_ns, |_| true) == Charged::Granted
    }

    #[test]
    fn who_is_turned_away_otherwise_is_charged_nothing_and_has_gone_on_waiting() {
        let table = table(16);
        let rate = Rate::per_second(10, 2);
        let ask = |now_ns, is_granted| {
            let mut told = None;
            let charged = table.charge(1, rate, now_ns, |waited_ns| {
                told = Some(waited_ns);
                is_granted
            });
            (charged, told)
        };
        assert_eq!(ask(NOW, false), (Charged::Otherwise, Some(u64::MAX)));
        assert_eq!(table.entries(), 0);
        assert_eq!(ask(NOW, true), (Charged::Granted, Some(u64::MAX)));
        assert_eq!(ask(NOW + SECOND, false), (Charged::Otherwise, Some(SECOND)));
        assert_eq!(
            ask(NOW + 2 * SECOND, true),
            (Charged::Granted, Some(2 * SECOND))
        );
        assert_eq!(ask(NOW + 2 * SECOND, true), (Charged::Granted, Some(0)));
        assert_eq!(ask(NOW + 2 * SECOND, true), (Charged::OverRate, None));
    }

    #[test]
    fn each_prefix_has_its_burst_and_then_its_rate() {
        let table = table(16);
        let rate = Rate::per_second(10, 20);
        let granted = |prefix: u64, from: u64| {
            (0..1000)
                .filter(|turn| charge(&table, prefix, rate, from + turn * SECOND / 1000))
                .count()
        };
        for prefix in [1, 2] {
            // A thousand within a second: the burst, and ten more as it passes.
            assert!((29..=30).contains(&granted(prefix, NOW)), "{prefix}");
        }
        assert!((9..=10).contains(&granted(1, NOW + SECOND)));
        assert_eq!(table.entries(), 2);
        assert_eq!(table.evicted(), 0);
    }

    #[test]
    fn no_rate_is_no_limit_and_takes_no_entry() {
        let table = table(1);
        for _ in 0..1000 {
            assert!(charge(&table, 7, Rate::UNLIMITED, NOW));
        }
        assert_eq!(table.entries(), 0);
    }

    #[test]
    fn idle_entries_are_used_again_and_else_the_least_used_goes() {
        let table = table(1);
        let rate = Rate::per_second(10, 20);
        for prefix in 1..=WAYS as u64 {
            for _ in 0..=prefix {
                assert!(charge(&table, prefix, rate, NOW));
            }
        }
        assert_eq!((table.entries(), table.evicted()), (5, 0));
        // The first is the least used: it goes, and no other.
        assert!(charge(&table, 100, rate, NOW));
        assert_eq!((table.entries(), table.evicted()), (5, 1));
        let word = |prefix| {
            bucket(&table.words.as_chunks().0[0], prefix)
                .map(|(word, _)| word.load(Ordering::Relaxed))
        };
        assert_eq!(word(1), None);
        assert_eq!(word(5), Some(NOW + 6 * SECOND / 10));
        assert_eq!(word(100), Some(NOW + SECOND / 10));
        // All idle: nobody is pushed out.
        let later = NOW + 10 * SECOND;
        for prefix in 200..205 {
            assert!(charge(&table, prefix, rate, later));
        }
        assert_eq!((table.entries(), table.evicted()), (5, 1));
        table.sweep(0, 1, later);
        assert_eq!(table.entries(), 5, "busy ones stay");
        table.sweep(0, 1, later + SECOND);
        assert_eq!(table.entries(), 0);
        assert_eq!(table.capacity(), 5);
    }

    #[test]
    fn what_the_kernel_shed_goes_with_the_entry() {
        let table = table(1);
        let rate = Rate::per_second(10, 20);
        assert!(charge(&table, 1, rate, NOW));
        let set = &table.words.as_chunks::<SET_WORDS>().0[0];
        let (_, shed) = bucket(set, 1).unwrap();
        shed.store(NOW + SECOND, Ordering::Relaxed);
        table.sweep(0, 1, NOW + SECOND / 2);
        assert_eq!(table.entries(), 1, "the kernel's word is in use");
        table.sweep(0, 1, NOW + SECOND);
        assert_eq!(table.entries(), 0);
        assert!(charge(&table, 2, rate, NOW + SECOND));
        let (_, shed) = bucket(set, 2).unwrap();
        assert_eq!(shed.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_threads_on_one_prefix_get_what_one_would() {
        let table = table(4);
        let rate = Rate::per_second(100, 500);
        let granted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if charge(&table, 9, rate, NOW) {
                            granted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(granted.into_inner(), 500);
    }
}
