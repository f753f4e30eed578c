//! The tokens of one UTC day, in one word: the day's number and the count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const COUNT_BITS: u32 = 44;
const MOST: u64 = (1 << COUNT_BITS) - 1;
const DAY_S: u64 = 86_400;

/// What was used today. Of a day that is over nothing is left.
#[derive(Debug, Default)]
pub(super) struct Day(AtomicU64);

/// The number of the day of that second, Unix time.
pub(super) fn number(unix_s: u64) -> u64 {
    unix_s / DAY_S
}

/// The second with which the next day begins, Unix time.
pub(super) fn next(unix_s: u64) -> u64 {
    (number(unix_s) + 1) * DAY_S
}

/// How long the day of that second still lasts.
pub(super) fn left(unix_s: u64) -> Duration {
    Duration::from_secs(next(unix_s).saturating_sub(unix_s))
}

impl Day {
    /// Tokens of today.
    pub(super) fn get(&self, today: u64) -> u64 {
        count(self.0.load(Ordering::Relaxed), today)
    }

    /// So many more or less; what they are then.
    pub(super) fn add(&self, today: u64, more: u64, less: u64) -> u64 {
        let sum = |word| (count(word, today).saturating_add(more).saturating_sub(less)).min(MOST);
        let changed = (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            Some(today << COUNT_BITS | sum(word))
        });
        // The closure never declines.
        sum(changed.unwrap_or_else(|word| word))
    }
}

fn count(word: u64, today: u64) -> u64 {
    if word >> COUNT_BITS == today {
        word & MOST
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_zero_and_never_goes_below() {
        let day = Day::default();
        let monday = number(1_800_000_000);
        assert_eq!(day.get(monday), 0);
        assert_eq!(day.add(monday, 70, 0), 70);
        assert_eq!(day.add(monday, 0, 20), 50);
        assert_eq!(day.get(monday + 1), 0);
        assert_eq!(day.add(monday + 1, 0, 20), 0, "given back of yesterday's");
        assert_eq!(day.add(monday + 1, u64::MAX, 0), MOST);
        assert_eq!(day.get(monday + 1), MOST);
        assert_eq!(next(1_800_000_000) % DAY_S, 0);
        assert_eq!(next(next(1_800_000_000)), next(1_800_000_000) + DAY_S);
    }
}
