//! How many connections without a token all clients have opened together: the writer of
//! [`edge_common::total`]'s bucket.

use crate::kernel::memory::Memory;
use edge_common::rate::Rate;
use edge_common::total::{WORDS, wait_ns};
use std::sync::atomic::Ordering;

/// The bucket.
pub struct Total(Memory);

impl Total {
    /// A bucket in `words`, at least [`WORDS`] of them.
    #[must_use]
    pub fn new(words: Memory) -> Self {
        assert!(words.len() >= WORDS, "{} words", words.len());
        Self(words)
    }

    /// One connection more, of a prefix that had its last one `waited_ns` ago; whether there is
    /// one for it. `now_ns` is CLOCK_MONOTONIC.
    pub fn charge(&self, rate: Rate, waited_ns: u64, now_ns: u64) -> bool {
        if rate.interval_ns == 0 {
            return true;
        }
        let charged = |word| match wait_ns(rate, word, now_ns) {
            Some(wait_ns) if wait_ns <= waited_ns => rate.charge(word, now_ns),
            _ => None,
        };
        let accepted = &self.0[0];
        let update = accepted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged);
        update.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_common::total::rate;

    const NOW: u64 = 1_000_000_000_000;

    #[test]
    fn half_is_anybodys_and_the_rest_for_who_has_waited() {
        let total = Total::new(Memory::own(WORDS));
        let take = |waited_ns| {
            (0..1000)
                .filter(|_| total.charge(rate(200), waited_ns, NOW))
                .count()
        };
        assert_eq!(take(0), 51);
        assert_eq!(take(0), 0);
        assert_eq!(take(u64::MAX), 49);
        assert_eq!(take(u64::MAX), 0);
        assert!(total.charge(rate(0), 0, NOW), "no limit");
    }

    #[test]
    fn many_threads_get_what_one_would() {
        let total = Total::new(Memory::own(WORDS));
        let granted = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if total.charge(rate(1000), u64::MAX, NOW) {
                            granted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(granted.into_inner(), 500);
    }
}
