//! A bucket that fills continuously: so many a minute, and a minute's worth at once.
//!
//! It is one word, the time at which nothing of it will be used any more (the generic cell rate
//! algorithm, as [`edge_common::rate`] has it for connections). Unlike there one may take many
//! at a time, give some back, and go into debt.

use super::Until;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much of the future may be taken, nanoseconds: a minute's worth.
const MINUTE_NS: u64 = 60_000_000_000;
/// The deepest debt, nanoseconds: a day's worth. What is charged beyond it is forgiven.
const MOST_DEBT_NS: u64 = 24 * 60 * MINUTE_NS;

/// One bucket. Times are CLOCK_MONOTONIC, nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Bucket(AtomicU64);

/// How full a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// What it holds when it is full.
    pub limit: u64,
    /// What is in it; 0 while it is in debt.
    pub remaining: u64,
    /// In how long it will be full.
    pub full_in: Duration,
    /// The second at which it will be, Unix time, where that is known so exactly.
    pub full_at_s: Option<u64>,
}

impl Bucket {
    /// Takes `amount` when it is there, or when the bucket is full: then it may take more than
    /// there is. Without a limit (0) there is always enough.
    ///
    /// # Errors
    /// When it will be there.
    pub(super) fn take(&self, amount: u64, limit: u64, now_ns: u64) -> Result<(), Until> {
        if limit == 0 {
            return Ok(());
        }
        let cost_ns = cost_ns(amount, limit);
        let most_ns = MINUTE_NS - cost_ns.min(MINUTE_NS);
        let take = |used_ns| (used_ns <= most_ns).then(|| used_ns + cost_ns);
        self.change(take, now_ns).map_err(|used_ns| {
            let after = Duration::from_nanos(used_ns.saturating_sub(most_ns));
            if amount > limit {
                Until::Full {
                    needed: amount,
                    after,
                }
            } else {
                Until::Filled {
                    needed: amount,
                    left: amount_of(MINUTE_NS.saturating_sub(used_ns), limit),
                    owed: amount_of(used_ns.saturating_sub(MINUTE_NS), limit),
                    after,
                }
            }
        })
    }

    /// Takes `amount` whether it is there or not.
    pub(super) fn charge(&self, amount: u64, limit: u64, now_ns: u64) {
        if limit != 0 && amount != 0 {
            let cost_ns = cost_ns(amount, limit);
            let _ = self.change(|used_ns| Some(used_ns + cost_ns), now_ns);
        }
    }

    /// Puts back what was taken under the same limit.
    pub(super) fn give_back(&self, amount: u64, limit: u64, now_ns: u64) {
        if limit != 0 && amount != 0 {
            let cost_ns = cost_ns(amount, limit);
            let _ = self.change(|used_ns| Some(used_ns.saturating_sub(cost_ns)), now_ns);
        }
    }

    /// Makes what was taken `taken` into `used`.
    pub(super) fn settle(&self, taken: u64, used: u64, limit: u64, now_ns: u64) {
        self.charge(used.saturating_sub(taken), limit, now_ns);
        self.give_back(taken.saturating_sub(used), limit, now_ns);
    }

    pub(super) fn level(&self, limit: u64, now_ns: u64) -> Level {
        let used_ns = self.debt_ns(now_ns);
        Level {
            limit,
            remaining: amount_of(MINUTE_NS.saturating_sub(used_ns), limit),
            full_in: Duration::from_nanos(used_ns),
            full_at_s: None,
        }
    }

    /// In how long it will be full, nanoseconds.
    pub(super) fn debt_ns(&self, now_ns: u64) -> u64 {
        self.0.load(Ordering::Relaxed).saturating_sub(now_ns)
    }

    /// It will be full in `debt_ns`.
    pub(super) fn set_debt_ns(&self, debt_ns: u64, now_ns: u64) {
        (self.0).store(now_ns + debt_ns.min(MOST_DEBT_NS), Ordering::Relaxed);
    }

    /// Fails with what is used, nanoseconds, where that is not to be changed.
    fn change(&self, change: impl Fn(u64) -> Option<u64>, now_ns: u64) -> Result<(), u64> {
        let changed = (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at_ns| {
            let used_ns = change(full_at_ns.saturating_sub(now_ns))?;
            Some(now_ns + used_ns.min(MOST_DEBT_NS))
        });
        (changed.map(drop)).map_err(|full_at_ns| full_at_ns.saturating_sub(now_ns))
    }
}

fn cost_ns(amount: u64, limit: u64) -> u64 {
    let cost = u128::from(amount) * u128::from(MINUTE_NS) / u128::from(limit);
    u64::try_from(cost).unwrap_or(u64::MAX).min(MOST_DEBT_NS)
}

/// What costs so much, to the nearest: costs are rounded down to the nanosecond.
fn amount_of(cost_ns: u64, limit: u64) -> u64 {
    let amount = u128::from(cost_ns) * u128::from(limit) + u128::from(MINUTE_NS / 2);
    u64::try_from(amount / u128::from(MINUTE_NS)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 5_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn remaining(bucket: &Bucket, limit: u64, now_ns: u64) -> u64 {
        bucket.level(limit, now_ns).remaining
    }

    #[test]
    fn a_minutes_worth_at_once_then_the_rate() {
        let bucket = Bucket::default();
        assert_eq!(
            bucket.level(60, NOW),
            Level {
                limit: 60,
                remaining: 60,
                full_in: Duration::ZERO,
                full_at_s: None,
            }
        );
        for left in (0..60).rev() {
            bucket.take(1, 60, NOW).unwrap();
            assert_eq!(remaining(&bucket, 60, NOW), left);
        }
        assert!(bucket.take(1, 60, NOW).is_err());
        assert!(bucket.take(1, 60, NOW + SECOND - 1).is_err());
        bucket.take(1, 60, NOW + SECOND).unwrap();
        assert!(bucket.take(1, 60, NOW + SECOND).is_err());
        let level = bucket.level(60, NOW + 31 * SECOND);
        assert_eq!(
            (level.remaining, level.full_in),
            (30, Duration::from_secs(30))
        );
        assert_eq!(remaining(&bucket, 60, NOW + 600 * SECOND), 60);
    }

    #[test]
    fn what_is_settled_is_what_was_used() {
        for (taken, used) in [
            (0, 0),
            (0, 500),
            (400, 0),
            (400, 400),
            (400, 70),
            (70, 400),
            (1000, 1),
        ] {
            for limit in [1000, 7_777, 1_000_000_007, 4_000_000_000] {
                let bucket = Bucket::default();
                bucket.take(taken, limit, NOW).unwrap();
                bucket.settle(taken, used, limit, NOW);
                assert_eq!(
                    remaining(&bucket, limit, NOW),
                    limit - used,
                    "{taken} {used} {limit}"
                );
            }
        }
    }

    #[test]
    fn what_filled_again_is_not_given_back_twice() {
        let bucket = Bucket::default();
        bucket.take(600, 600, NOW).unwrap();
        bucket.give_back(600, 600, NOW + 45 * SECOND);
        assert_eq!(remaining(&bucket, 600, NOW + 45 * SECOND), 600);
        bucket.take(600, 600, NOW + 45 * SECOND).unwrap();
        assert!(bucket.take(1, 600, NOW + 45 * SECOND).is_err());
    }

    #[test]
    fn more_than_it_holds_is_taken_from_a_full_one_and_owed() {
        let bucket = Bucket::default();
        bucket.take(300, 100, NOW).unwrap();
        assert_eq!(remaining(&bucket, 100, NOW), 0);
        assert!(bucket.take(1, 100, NOW + 120 * SECOND).is_err());
        bucket.take(1, 100, NOW + 121 * SECOND).unwrap();
        assert!(
            bucket.take(101, 100, NOW + 180 * SECOND).is_err(),
            "it is not full"
        );
        bucket.charge(u64::MAX, 1, NOW + 200 * SECOND);
        let level = bucket.level(1, NOW + 200 * SECOND);
        assert_eq!(level.full_in, Duration::from_nanos(MOST_DEBT_NS));
    }

    #[test]
    fn who_is_refused_is_told_when_it_fits_and_then_it_does() {
        for (amount, used, wait_s) in [
            (30, 60, 30),
            (30, 50, 20),
            (1, 60, 1),
            (90, 12, 12),
            (30, 80, 50),
        ] {
            let bucket = Bucket::default();
            bucket.charge(used, 60, NOW);
            let after = Duration::from_secs(wait_s);
            let until = bucket.take(amount, 60, NOW).unwrap_err();
            let expected = if amount > 60 {
                Until::Full {
                    needed: amount,
                    after,
                }
            } else {
                Until::Filled {
                    needed: amount,
                    left: 60_u64.saturating_sub(used),
                    owed: used.saturating_sub(60),
                    after,
                }
            };
            assert_eq!(until, expected, "{amount} {used}");
            let then = NOW + wait_s * SECOND;
            assert!(bucket.take(amount, 60, then - 1).is_err());
            bucket.take(amount, 60, then).unwrap();
        }
    }

    #[test]
    fn without_a_limit_there_is_always_enough() {
        let bucket = Bucket::default();
        bucket.take(u64::MAX, 0, NOW).unwrap();
        bucket.charge(u64::MAX, 0, NOW);
        bucket.settle(9, 1, 0, NOW);
        assert_eq!(bucket.debt_ns(NOW), 0);
    }

    #[test]
    fn many_threads_get_what_one_would() {
        let bucket = Bucket::default();
        let granted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let taken = bucket.take(2, 1000, NOW);
                        granted.fetch_add(u64::from(taken.is_ok()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(granted.into_inner(), 500);
    }
}
