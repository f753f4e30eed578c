//! Requests that an upstream failed, as if they ran there for a while longer.
//!
//! One that fails each request at once has nothing outstanding, looks idle, and would get ever
//! more of them. So the tokens of a request that failed go on counting, less and less, until
//! some time is over. At a steady rate of failures this is what requests would have outstanding
//! that took half that time.

use std::sync::atomic::{AtomicU64, Ordering};

/// One upstream's.
#[derive(Debug, Default)]
pub struct Failures(AtomicU64);

/// Milliseconds of the step in which the time is kept: 2^32 of them are two years.
const STEP_MS: u64 = 16;

impl Failures {
    /// A request of so many tokens failed at `now_ms`; it counts for `keep_ms`.
    pub fn add(&self, tokens: u32, now_ms: u64, keep_ms: u64) {
        let now = step(now_ms);
        let more = |before| {
            let tokens = left(before, now, keep_ms).saturating_add(tokens.max(1).into());
            let tokens = tokens.min(u32::MAX.into());
            Some(u64::from(now) << 32 | tokens)
        };
        // It never refuses.
        let _ = (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// The tokens that still count at `now_ms`.
    #[inline]
    pub fn tokens(&self, now_ms: u64, keep_ms: u64) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => 0,
            some => left(some, step(now_ms), keep_ms),
        }
    }
}

/// The clock stands still after two years, and what failed then stays: a restart is due.
fn step(ms: u64) -> u32 {
    u32::try_from(ms / STEP_MS).unwrap_or(u32::MAX)
}

/// What is left of them: all at first, nothing after `keep_ms`.
fn left(before: u64, now: u32, keep_ms: u64) -> u64 {
    let (at, tokens) = ((before >> 32) as u32, before & u64::from(u32::MAX));
    let keep = (keep_ms / STEP_MS).max(1);
    let rest = keep.saturating_sub(now.saturating_sub(at).into());
    u64::try_from(u128::from(tokens) * u128::from(rest) / u128::from(keep)).unwrap_or(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_count_less_and_less() {
        let failures = Failures::default();
        let at = |ms| failures.tokens(ms, 4000);
        assert_eq!(at(0), 0);
        failures.add(1000, 16_000, 4000);
        assert_eq!(
            [16_000, 17_000, 18_000, 19_984].map(at),
            [1000, 752, 500, 4]
        );
        assert_eq!([20_000, 1 << 40].map(at), [0, 0]);
        failures.add(1000, 18_000, 4000);
        assert_eq!(at(18_000), 1500);
        failures.add(0, 60_000, 4000);
        assert_eq!(at(60_000), 1, "one without a prompt counts too");
        for _ in 0..3 {
            failures.add(u32::MAX, 60_000, 4000);
        }
        assert_eq!(at(60_000), u64::from(u32::MAX));
        // A clock that another thread has read a little later.
        assert_eq!(at(59_000), u64::from(u32::MAX));
    }
}
