//! The edge's clock, as far as it is known from here.
//!
//! A token says when it was made, and the edge takes it within a window of its own clock. A client
//! whose clock is off learns by how much from the `date` that the edge answers with. The system's
//! clock itself is not touched.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An answer that took longer says too little about when it was written.
const LONGEST_EXCHANGE: Duration = Duration::from_secs(20);
/// A `date` has whole seconds, and servers keep it for one; less than that is no difference, ms.
const SLACK_MS: i64 = 1_000;

/// How far the edge's clock is ahead of the system's. Shared by all connections to it.
#[derive(Debug, Default)]
pub struct Clock {
    ahead_ms: AtomicI64,
}

impl Clock {
    /// One that agrees with the system's.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ahead_ms: AtomicI64::new(0),
        }
    }

    /// The edge's time now, Unix seconds.
    #[must_use]
    pub fn now_s(&self) -> u64 {
        let edge_ms = unix_ms(SystemTime::now()).saturating_add(self.ahead_ms());
        u64::try_from(edge_ms / 1000).unwrap_or(0)
    }

    /// How far the edge's clock is believed to be ahead of the system's, milliseconds; negative:
    /// behind.
    #[must_use]
    pub fn ahead_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::Relaxed)
    }

    /// The edge wrote `date_s`, Unix seconds, into an answer that was asked for at `asked` and
    /// came at `came`, both of the system's clock. Whether anything was learnt from it.
    pub fn learn(&self, date_s: u64, asked: SystemTime, came: SystemTime) -> bool {
        // A clock that was set meanwhile says nothing.
        if !(came.duration_since(asked)).is_ok_and(|took| took <= LONGEST_EXCHANGE) {
            return false;
        }
        let date_ms = i64::try_from(date_s)
            .unwrap_or(i64::MAX)
            .saturating_mul(1000);
        // It was written between the two, at some moment of that second.
        let least = date_ms.saturating_sub(unix_ms(came));
        let most = date_ms.saturating_add(999).saturating_sub(unix_ms(asked));
        let known = self.ahead_ms();
        let agrees = least.saturating_sub(SLACK_MS)..=most.saturating_add(SLACK_MS);
        if agrees.contains(&known) {
            return false;
        }
        let middle = least / 2 + most / 2;
        self.ahead_ms.store(middle, Ordering::Relaxed);
        true
    }
}

fn unix_ms(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    #[test]
    fn a_clock_that_agrees_is_left_alone() {
        let clock = Clock::new();
        for (date_s, asked_ms, came_ms) in [
            (1000, 1_000_000, 1_000_100),
            (1000, 1_000_900, 1_001_100),
            // Written late in its second, and kept for one.
            (1000, 1_001_900, 1_001_950),
            (1001, 1_000_100, 1_000_200),
        ] {
            assert!(!clock.learn(date_s, at(asked_ms), at(came_ms)), "{date_s}");
        }
        assert_eq!(clock.ahead_ms(), 0);
    }

    #[test]
    fn a_clock_that_is_off_is_put_right_in_both_directions() {
        for off_s in [-7200_i64, -40, 40, 7200] {
            let clock = Clock::new();
            let date_s = 1_800_000_000_u64.checked_add_signed(off_s).unwrap();
            let asked = 1_800_000_000_000;
            assert!(clock.learn(date_s, at(asked), at(asked + 80)), "{off_s}");
            let error = clock.ahead_ms() - off_s * 1000;
            assert!(error.abs() <= 1000, "{off_s}: {error} ms");
            assert!(
                !clock.learn(date_s, at(asked), at(asked + 80)),
                "it is steady"
            );
        }
    }

    #[test]
    fn what_took_too_long_or_ran_backwards_says_nothing() {
        let clock = Clock::new();
        assert!(!clock.learn(5000, at(1_000_000), at(1_060_000)));
        assert!(!clock.learn(5000, at(1_000_000), at(999_000)));
        assert_eq!(clock.ahead_ms(), 0);
        assert!(clock.learn(u64::MAX, at(1_000_000), at(1_000_001)));
        let _ = clock.now_s();
    }
}
