//! Rates of connections: the generic cell rate algorithm (ITU-T I.371, the virtual
//! scheduling form) on one word, the time at which the bucket will be empty again.
//!
//! A word in the past, 0 among them, is a bucket that nobody has used for a while. The
//! time is CLOCK_MONOTONIC, which both halves read.
//!
//! Not here: whose bucket it is ([`crate::prefix`], [`crate::policy::KeyPolicy`]), and how
//! the word is replaced atomically, which the two halves do each in its own way.

use core::sync::atomic::AtomicU64;

/// How often something may happen. All zero: as often as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Rate {
    /// Time between two in the long run, nanoseconds; 0 for no limit.
    pub interval_ns: u64,
    /// As many intervals as may be used at once, nanoseconds.
    pub burst_ns: u64,
}

/// How much of a bucket is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Half of it or less.
    Free,
    /// More than half.
    Pressed,
    /// So much that one more does not fit.
    Exhausted,
}

/// The words of one key's bucket.
#[derive(Debug, Default)]
#[repr(C)]
pub struct KeyBucket {
    /// Accepted connections against the hard rate. Userspace writes it.
    pub hard: AtomicU64,
    /// What the kernel let through while `hard` was pressed. The kernel writes it.
    pub shed: AtomicU64,
    /// Accepted connections against the soft rate. Userspace writes it.
    pub soft: AtomicU64,
    /// Always 0.
    pub padding: AtomicU64,
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<Rate>() == 16 && offset_of!(Rate, burst_ns) == 8);
    assert!(size_of::<KeyBucket>() == 32 && offset_of!(KeyBucket, soft) == 16);
};

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self {
        interval_ns: 0,
        burst_ns: 0,
    };

    /// `count` a second, and `burst` at once. Both at least 1, or there is no limit.
    #[must_use]
    pub const fn per_second(count: u32, burst: u32) -> Self {
        if count == 0 || burst == 0 {
            return Self::UNLIMITED;
        }
        let interval_ns = 1_000_000_000 / count as u64;
        Self {
            interval_ns,
            burst_ns: interval_ns * burst as u64,
        }
    }

    /// How much of the bucket whose word is `empty_at_ns` is used at `now_ns`.
    #[inline(always)]
    #[must_use]
    pub const fn level(&self, empty_at_ns: u64, now_ns: u64) -> Level {
        if self.interval_ns == 0 {
            return Level::Free;
        }
        let used = ahead(empty_at_ns, now_ns);
        if used + self.interval_ns > self.burst_ns {
            Level::Exhausted
        } else if used > self.burst_ns / 2 {
            Level::Pressed
        } else {
            Level::Free
        }
    }

    /// The word after one more, or nothing when it does not fit.
    #[inline(always)]
    #[must_use]
    pub const fn charge(&self, empty_at_ns: u64, now_ns: u64) -> Option<u64> {
        match self.level(empty_at_ns, now_ns) {
            Level::Exhausted => None,
            _ => Some(now_ns + ahead(empty_at_ns, now_ns) + self.interval_ns),
        }
    }
}

#[inline(always)]
#[expect(
    clippy::implicit_saturating_sub,
    reason = "saturating_sub becomes code that the BPF verifier does not follow"
)]
const fn ahead(empty_at_ns: u64, now_ns: u64) -> u64 {
    if empty_at_ns > now_ns {
        empty_at_ns - now_ns
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let rate = Rate::per_second(50, 10);
        let mut word = 0;
        let mut granted = Vec::new();
        // A thousand a second for four seconds.
        for turn in 0..4000u64 {
            let now = 7_000_000_000 + turn * 1_000_000;
            if let Some(next) = rate.charge(word, now) {
                word = next;
                granted.push(turn);
            }
        }
        assert_eq!(granted[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(
            (4 * 50 + 9..=4 * 50 + 10).contains(&granted.len()),
            "{}",
            granted.len()
        );
    }

    #[test]
    fn levels_in_their_order() {
        let rate = Rate::per_second(10, 4);
        let now = 1_000_000_000_000;
        let mut word = 5; // long ago
        let mut levels = Vec::new();
        for _ in 0..5 {
            levels.push(rate.level(word, now));
            word = rate.charge(word, now).unwrap_or(word);
        }
        use Level::{Exhausted, Free, Pressed};
        assert_eq!(levels, [Free, Free, Free, Pressed, Exhausted]);
        assert_eq!(rate.level(word, now + 400_000_000), Free);
    }

    #[test]
    fn no_rate_is_no_limit() {
        for rate in [
            Rate::default(),
            Rate::per_second(0, 1),
            Rate::per_second(1, 0),
        ] {
            assert_eq!(rate.level(u64::MAX, 1), Level::Free);
        }
    }
}
