//! Passive ejection: an upstream that cannot be connected to gets no requests for a while.
//!
//! After so many failed connects in a row it is ejected; when the time is over, one request
//! tries it. If that cannot connect either, the time doubles, up to a bound; the first
//! connection that is made ends it. Nothing is sent for the purpose: only requests tell. Who
//! asks brings the time, milliseconds of any clock that does not go back, from 1 on.

use crate::config::Choice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether an upstream takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Serving,
    /// For so many more milliseconds.
    Ejected(u64),
    /// One request may try it.
    Due,
}

/// One upstream's.
pub(super) struct Ejection {
    after: u32,
    first_ms: u64,
    longest_ms: u64,
    /// Until when it is ejected; 0: it is not.
    until_ms: AtomicU64,
    /// Connects that failed since the last that did not.
    failures: AtomicU32,
    ejections: AtomicU64,
    /// Changed under the lock only; so are the others, which are read without it.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How often it was ejected, or failed to come back, in a row.
    times: u32,
    is_probed: bool,
    returned_at_ms: Option<u64>,
}

impl Ejection {
    pub(super) fn new(choice: &Choice) -> Self {
        let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis());
        Self {
            after: choice.eject_after,
            first_ms: ms(choice.eject_for).unwrap_or(u64::MAX),
            longest_ms: ms(choice.eject_at_most).unwrap_or(u64::MAX),
            until_ms: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            ejections: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    pub(super) fn standing(&self, now_ms: u64) -> Standing {
        match self.until_ms.load(Ordering::Acquire) {
            0 => Standing::Serving,
            until_ms if now_ms < until_ms => Standing::Ejected(until_ms - now_ms),
            _ => Standing::Due,
        }
    }

    /// How often it was ejected since the start.
    pub(super) fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// Lets one request try, when it is time; that one must say what came of it.
    pub(super) fn take_probe(&self, now_ms: u64) -> bool {
        let mut state = self.lock();
        let is_free = self.standing(now_ms) == Standing::Due && !state.is_probed;
        state.is_probed |= is_free;
        is_free
    }

    /// The request that was to try has found out nothing.
    pub(super) fn give_probe_back(&self) {
        self.lock().is_probed = false;
    }

    /// A connection was made. None when that is nothing new; else whether it ended an
    /// ejection.
    pub(super) fn connected(&self, now_ms: u64) -> Option<bool> {
        let is_well = self.failures.load(Ordering::Relaxed) == 0
            && self.until_ms.load(Ordering::Relaxed) == 0;
        if is_well {
            return None;
        }
        let mut state = self.lock();
        self.failures.store(0, Ordering::Relaxed);
        let was_ejected = self.until_ms.swap(0, Ordering::Release) != 0;
        if was_ejected {
            state.is_probed = false;
            state.returned_at_ms = Some(now_ms);
        }
        Some(was_ejected)
    }

    /// A connect failed. For how many milliseconds it is ejected therefore, if it is;
    /// `is_probe`: of the request that was to try; `may_eject`: others take requests.
    pub(super) fn failed(&self, now_ms: u64, is_probe: bool, may_eject: bool) -> Option<u64> {
        let mut state = self.lock();
        if self.until_ms.load(Ordering::Relaxed) != 0 {
            // Requests that had begun before tell nothing new.
            if is_probe {
                state.is_probed = false;
                return Some(self.eject(&mut state, now_ms));
            }
            return None;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures < self.after || !may_eject {
            return None;
        }
        // One that has just come back goes on where it was.
        let is_back_for_long = |at_ms: u64| now_ms.saturating_sub(at_ms) > self.longest_ms;
        if state.returned_at_ms.is_none_or(is_back_for_long) {
            state.times = 0;
        }
        self.ejections.fetch_add(1, Ordering::Relaxed);
        Some(self.eject(&mut state, now_ms))
    }

    fn eject(&self, state: &mut State, now_ms: u64) -> u64 {
        let doubled = 1_u64.checked_shl(state.times).unwrap_or(u64::MAX);
        let for_ms = self.first_ms.saturating_mul(doubled).min(self.longest_ms);
        state.times = state.times.saturating_add(1).min(63);
        let until_ms = now_ms.saturating_add(for_ms).max(1);
        self.until_ms.store(until_ms, Ordering::Release);
        self.failures.store(0, Ordering::Relaxed);
        for_ms
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ejection() -> Ejection {
        Ejection::new(&Choice {
            cache_saving_percent: 90,
            cache_patience_percent: 400,
            running_percent: 10,
            failure_counts_for: Duration::from_secs(5),
            eject_after: 3,
            eject_for: Duration::from_secs(1),
            eject_at_most: Duration::from_secs(5),
        })
    }

    fn ejected_at(ejection: &Ejection, now_ms: u64) -> Option<u64> {
        (0..3)
            .filter_map(|_| ejection.failed(now_ms, false, true))
            .last()
    }

    #[test]
    fn three_failures_in_a_row_eject_and_fewer_do_not() {
        let ejection = ejection();
        for _ in 0..10 {
            assert_eq!(ejection.failed(1, false, true), None);
            assert_eq!(ejection.failed(1, false, true), None);
            assert_eq!(ejection.connected(1), Some(false));
            assert_eq!(ejection.connected(1), None);
        }
        assert_eq!(ejected_at(&ejection, 1), Some(1000));
        assert_eq!(ejection.standing(1000), Standing::Ejected(1));
        assert_eq!(ejection.standing(1001), Standing::Due);
        assert_eq!(ejection.ejections(), 1);
    }

    #[test]
    fn the_last_one_stays_and_goes_when_another_is_there() {
        let ejection = ejection();
        for _ in 0..100 {
            assert_eq!(ejection.failed(1, false, false), None);
            assert_eq!(ejection.standing(1), Standing::Serving);
        }
        assert_eq!(ejection.failed(1, false, true), Some(1000));
    }

    #[test]
    fn one_request_tries_and_the_time_doubles_to_its_bound() {
        let ejection = ejection();
        let mut now_ms = 1;
        let mut times = vec![ejected_at(&ejection, now_ms).unwrap()];
        for _ in 0..4 {
            assert!(!ejection.take_probe(now_ms), "too early");
            now_ms += times.last().unwrap();
            assert!(ejection.take_probe(now_ms));
            assert!(!ejection.take_probe(now_ms), "one at a time");
            // Others that had begun before change nothing.
            assert_eq!(ejection.failed(now_ms, false, true), None);
            times.push(ejection.failed(now_ms, true, true).unwrap());
        }
        assert_eq!(times, [1000, 2000, 4000, 5000, 5000]);
        assert_eq!(ejection.ejections(), 1);
        now_ms += 5000;
        assert!(ejection.take_probe(now_ms));
        ejection.give_probe_back();
        assert!(ejection.take_probe(now_ms), "the first found out nothing");
        assert_eq!(ejection.connected(now_ms), Some(true));
        assert_eq!(ejection.standing(now_ms), Standing::Serving);
        // Again within the bound it goes on where it was, later it begins anew.
        assert_eq!(ejected_at(&ejection, now_ms + 10), Some(5000));
        assert_eq!(ejection.connected(now_ms + 5010), Some(true));
        assert_eq!(ejected_at(&ejection, now_ms + 50_000), Some(1000));
    }
}
