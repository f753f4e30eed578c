//! How often what happened. Each thread counts in a line of its own, so that counting a hit
//! costs no locked instruction and moves no line from core to core.

use super::set::Stored;
use super::table::Missed;
use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Threads that have a line of their own at a time; the others share one, with locked
/// instructions. A thread that ends leaves its line, and what it counted, to the next.
const THREADS: usize = u64::BITS as usize;

/// What happened since the start, and what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Look-ups that found something.
    pub hits: u64,
    /// Look-ups that did not, for this or for a reason below.
    pub misses: u64,
    /// Of the misses: it was there, its time was over.
    pub expired: u64,
    /// Of the misses: its upstream had been forgotten.
    pub forgotten: u64,
    /// Of the misses, and of the commits: another tenant's or context's slot had the same
    /// fingerprint.
    pub mismatched: u64,
    /// Of the misses: writers were at work all the time.
    pub busy: u64,
    /// Commits that stored something, anew or again.
    pub commits: u64,
    /// Of the commits: something still good had to go for it.
    pub evicted: u64,
    /// Of these: it had to be one of a tenant with more than its share.
    pub share_capped: u64,
    /// Slots that hold something, be its time over or not.
    pub occupied: u64,
    /// Slots that there are.
    pub capacity: u64,
}

/// What is counted.
#[derive(Clone, Copy)]
enum Event {
    Hit,
    Missed,
    Expired,
    Forgotten,
    Mismatched,
    Busy,
    Committed,
    Evicted,
    ShareCapped,
    Occupied,
}

const EVENTS: usize = Event::Occupied as usize + 1;

/// One thread's; two lines, which processors like to fetch together.
#[repr(align(128))]
#[derive(Default)]
struct OfThread([AtomicU64; EVENTS]);

pub(super) struct PerThread([OfThread; THREADS + 1]);

impl PerThread {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| OfThread::default()))
    }

    #[inline]
    pub(super) fn hit(&self) {
        self.count(Event::Hit);
    }

    #[inline]
    pub(super) fn missed(&self, why: Missed) {
        self.count(Event::Missed);
        if why != Missed::Absent {
            self.missed_because(why);
        }
    }

    #[cold]
    fn missed_because(&self, why: Missed) {
        match why {
            Missed::Absent => {}
            Missed::Foreign => self.count(Event::Mismatched),
            Missed::Expired => self.count(Event::Expired),
            Missed::Forgotten => self.count(Event::Forgotten),
            Missed::Busy => self.count(Event::Busy),
        }
    }

    pub(super) fn stored(&self, stored: Stored) {
        if stored == Stored::Foreign {
            return self.count(Event::Mismatched);
        }
        self.count(Event::Committed);
        match stored {
            Stored::New => self.count(Event::Occupied),
            Stored::Evicted => self.count(Event::Evicted),
            Stored::EvictedForShare => {
                self.count(Event::Evicted);
                self.count(Event::ShareCapped);
            }
            Stored::Reused | Stored::Again | Stored::Foreign => {}
        }
    }

    /// All threads' together.
    pub(super) fn sum(&self, capacity: usize) -> Counters {
        let sum = |event: Event| {
            let of_threads = self.0.iter().map(|of| of.0[event as usize].load(Relaxed));
            of_threads.fold(0, u64::wrapping_add)
        };
        Counters {
            hits: sum(Event::Hit),
            misses: sum(Event::Missed),
            expired: sum(Event::Expired),
            forgotten: sum(Event::Forgotten),
            mismatched: sum(Event::Mismatched),
            busy: sum(Event::Busy),
            commits: sum(Event::Committed),
            evicted: sum(Event::Evicted),
            share_capped: sum(Event::ShareCapped),
            occupied: sum(Event::Occupied),
            capacity: capacity as u64,
        }
    }

    #[inline]
    fn count(&self, event: Event) {
        let thread = THREAD.get();
        if thread < THREADS {
            // Nobody else writes here.
            let count = &self.0[thread].0[event as usize];
            count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        } else {
            self.count_shared(event);
        }
    }

    #[cold]
    fn count_shared(&self, event: Event) {
        let thread = number();
        self.0[thread].0[event as usize].fetch_add(1, Relaxed);
    }
}

thread_local! {
    /// The thread's line.
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Has it given back when the thread ends.
    static LEASE: Lease = Lease::take();
}

/// The lines that are some thread's, a bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

struct Lease(usize);

impl Lease {
    fn take() -> Self {
        let first = |taken: u64| Some(taken | taken.wrapping_add(1));
        // Acquire: what the one before counted there is counted on from.
        let before = TAKEN
            .fetch_update(AcqRel, Acquire, first)
            .unwrap_or(u64::MAX);
        Self(before.trailing_ones() as usize)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        THREAD.set(THREADS);
        if self.0 < THREADS {
            TAKEN.fetch_and(!(1 << self.0), AcqRel);
        }
    }
}

/// Gives this thread its line, when it has none yet.
#[cold]
fn number() -> usize {
    if THREAD.get() == usize::MAX {
        // A thread that is being ended has no lease any more, and the shared line.
        THREAD.set(LEASE.try_with(|lease| lease.0).unwrap_or(THREADS));
    }
    THREAD.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_lines() {
        let counters = PerThread::new();
        std::thread::scope(|threads| {
            for _ in 0..2 * THREADS {
                threads.spawn(|| {
                    for _ in 0..1000 {
                        counters.hit();
                        counters.missed(Missed::Expired);
                        counters.stored(Stored::EvictedForShare);
                    }
                });
            }
        });
        let sum = counters.sum(16);
        let all = 2000 * THREADS as u64;
        assert_eq!((sum.hits, sum.misses, sum.expired), (all, all, all));
        assert_eq!(
            (sum.commits, sum.evicted, sum.share_capped),
            (all, all, all)
        );
        assert_eq!((sum.occupied, sum.capacity), (0, 16));
    }

    #[test]
    fn a_thread_that_ends_leaves_its_line_to_the_next() {
        let counters = PerThread::new();
        for _ in 0..4 * THREADS {
            let counts = || {
                counters.hit();
                THREAD.get()
            };
            // Other tests of this process have some, for a while.
            let line = std::thread::scope(|threads| threads.spawn(counts).join());
            assert!(line.expect("a thread") <= THREADS);
        }
        assert_eq!(counters.sum(16).hits, 4 * THREADS as u64);
        let of_the_shared_one = counters.0[THREADS].0[Event::Hit as usize].load(Relaxed);
        // If none were left, all but the first threads would count there.
        assert!(of_the_shared_one < 3 * THREADS as u64);
    }
}
