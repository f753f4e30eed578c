//! The rate of all connections without a token together, and who gets what is left of it.
//!
//! The bucket is one of [`crate::rate`]. Up to half of it is anybody's. Beyond, a source prefix
//! must have waited since its last connection, the longer the fuller the bucket is: so what
//! there is goes round among prefixes, however often each asks, and who has had nothing for a
//! while is let in as long as there is any room.
//!
//! Not here: the prefix's own rate ([`crate::prefix`]), and how words are replaced atomically.

use crate::rate::{Level, Rate};
use core::sync::atomic::AtomicU64;

/// What a prefix has to wait when the bucket is full, nanoseconds. Longer than it takes to go
/// round thousands of prefixes.
pub const LONGEST_WAIT_NS: u64 = 8_000_000_000;
/// At least so many at once, however low the rate.
const LEAST_BURST: u32 = 16;

/// The bucket's words.
#[derive(Debug, Default)]
#[repr(C)]
pub struct TotalBucket {
    /// Accepted connections. Userspace writes it.
    pub accepted: AtomicU64,
    /// The same with what the kernel has let through and userspace has not accepted yet. The
    /// kernel writes it, while the former is not nearly empty ([`is_quiet`]).
    pub shed: AtomicU64,
}

/// Words of the bucket.
pub const WORDS: usize = size_of::<TotalBucket>() / 8;

/// `count` a second, 0 for no limit, and as many at once as come in half a second.
#[must_use]
pub const fn rate(count: u32) -> Rate {
    let half = count / 2;
    Rate::per_second(
        count,
        if half < LEAST_BURST {
            LEAST_BURST
        } else {
            half
        },
    )
}

/// How long a prefix must have waited to get one of the bucket whose word is `empty_at_ns`,
/// nanoseconds; nothing when there is no room for anyone.
#[inline(always)]
#[must_use]
pub const fn wait_ns(rate: Rate, empty_at_ns: u64, now_ns: u64) -> Option<u64> {
    match rate.level(empty_at_ns, now_ns) {
        Level::Free => Some(0),
        Level::Exhausted => None,
        Level::Pressed => {
            let half_ns = rate.burst_ns / 2;
            // Pressed: it is ahead by more than half.
            let over_ns = empty_at_ns.wrapping_sub(now_ns).wrapping_sub(half_ns);
            // In turns of 1,024 ns, so that the product fits.
            Some((over_ns >> 10).wrapping_mul(LONGEST_WAIT_NS) / ((half_ns >> 10) + 1))
        }
    }
}

/// Whether no more than a quarter of the bucket is used: then what is on its way to userspace is
/// not counted. Well below the half, where the bucket stays while more ask than there is: so
/// that, then, it always is.
#[inline(always)]
#[must_use]
pub const fn is_quiet(rate: Rate, empty_at_ns: u64, now_ns: u64) -> bool {
    empty_at_ns <= now_ns || empty_at_ns - now_ns <= rate.burst_ns / 4
}

/// How long ago the prefix whose bucket's word is `empty_at_ns` had its last connection,
/// nanoseconds; 0 when it has others to make up for yet.
#[inline(always)]
#[must_use]
#[expect(
    clippy::implicit_saturating_sub,
    reason = "saturating_sub becomes code that the BPF verifier does not follow"
)]
pub const fn waited_ns(prefix_rate: Rate, empty_at_ns: u64, now_ns: u64) -> u64 {
    let last_ns = empty_at_ns.wrapping_sub(prefix_rate.interval_ns);
    if empty_at_ns == 0 {
        u64::MAX
    } else if last_ns < now_ns {
        now_ns - last_ns
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const NOW: u64 = 1_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_fuller_the_longer() {
        for count in [1, 7, 1000, 1_000_000] {
            let rate = rate(count);
            let (mut word, mut waits) = (0, Vec::new());
            while let Some(wait) = wait_ns(rate, word, NOW) {
                waits.push(wait);
                word = rate.charge(word, NOW).unwrap();
            }
            assert_eq!(waits.len() as u64, rate.burst_ns / rate.interval_ns);
            assert!(waits.is_sorted(), "{count}");
            assert_eq!(waits[waits.len() / 2 - 1], 0, "{count}");
            let last = *waits.last().unwrap();
            assert!(last > 0 && last <= LONGEST_WAIT_NS, "{count}: {last}");
            assert_eq!(rate.charge(word, NOW), None, "there is room for nobody");
        }
        assert_eq!(wait_ns(rate(0), u64::MAX, NOW), Some(0), "no limit");
    }

    #[test]
    fn quiet_is_well_below_the_half() {
        for count in [1, 1000] {
            let rate = rate(count);
            assert!(is_quiet(rate, 0, NOW) && is_quiet(rate, NOW, NOW));
            assert!(is_quiet(rate, NOW + rate.burst_ns / 4, NOW));
            assert!(!is_quiet(rate, NOW + rate.burst_ns / 4 + 1, NOW));
            let word = NOW + rate.burst_ns / 2 - rate.interval_ns;
            assert!(!is_quiet(rate, word, NOW) && rate.level(word, NOW) == Level::Free);
        }
    }

    #[test]
    fn waiting_begins_with_the_last_connection() {
        let rate = Rate::per_second(10, 20);
        assert_eq!(waited_ns(rate, 0, NOW), u64::MAX);
        let after_one = rate.charge(0, NOW).unwrap();
        assert_eq!(waited_ns(rate, after_one, NOW), 0);
        assert_eq!(waited_ns(rate, after_one, NOW + SECOND), SECOND);
        let after_two = rate.charge(after_one, NOW).unwrap();
        assert_eq!(waited_ns(rate, after_two, NOW + SECOND / 10), 0);
    }

    /// Prefixes that ask far more than there is, and one that asks every other second: those who
    /// ask most get little more, and the one is never turned away.
    #[test]
    fn what_there_is_goes_round() {
        const PREFIXES: u64 = 200;
        let (total, own) = (rate(400), Rate::per_second(500, 1000));
        let (mut word, mut prefixes) = (0, HashMap::<u64, u64>::new());
        let (mut granted, mut asked) = (HashMap::<u64, u64>::new(), 0);
        let mut ask = |prefix: u64, now: u64| {
            let bucket = prefixes.entry(prefix).or_default();
            let waited = waited_ns(own, *bucket, now);
            let is_granted = wait_ns(total, word, now).is_some_and(|wait| waited >= wait);
            if is_granted {
                word = total.charge(word, now).unwrap();
                *bucket = own.charge(*bucket, now).unwrap();
                *granted.entry(prefix).or_default() += 1;
            }
            is_granted
        };
        for turn in 0..80_000 {
            // 4,000 a second, and of each prefix the more the higher its number.
            let now = NOW + turn * SECOND / 4000;
            let which = turn * 7919 % (PREFIXES * PREFIXES);
            ask(1 + which.isqrt(), now);
            if turn % 8000 == 0 {
                asked += 1;
                assert!(ask(1_000_000, now), "turned away after {turn}");
            }
        }
        assert_eq!(granted.remove(&1_000_000), Some(asked));
        let sum: u64 = granted.values().sum();
        assert!((7600..=8400).contains(&sum), "{sum} of 8,000 in 20 s");
        let busiest = granted[&PREFIXES];
        assert!(busiest <= 2 * sum / PREFIXES, "{busiest} of {sum}");
    }
}
