//! The clocks as of the kernel's last tick, some milliseconds ago.
//!
//! A request has a dozen things told in seconds, or counted by the minute, at each of which a
//! clock is read. To read these costs a fifth of what the exact ones take. Not here: what is
//! measured ([`std::time::Instant`]), and what both halves go by ([`crate::charges::Now`]).

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CLOCK_MONOTONIC: time since some moment, the same for all.
#[must_use]
pub fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(ClockId::MonotonicCoarse)).unwrap_or_default()
}

/// Unix time, seconds.
#[must_use]
pub fn unix_s() -> u64 {
    let now = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    u64::try_from(now).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    #[test]
    fn they_are_the_exact_ones_some_ticks_ago() {
        let unix_s = unix_s();
        let exact = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!((unix_s..=unix_s + 60).contains(&exact.as_secs()));
        let (begun, exact) = (monotonic(), Instant::now());
        while monotonic() == begun {
            std::thread::yield_now();
        }
        assert!(monotonic() - begun <= exact.elapsed() + Duration::from_secs(1));
    }
}
