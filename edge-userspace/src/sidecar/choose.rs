//! Which of several edges requests go to: what is known of each, and the rules by which one is
//! left for another.
//!
//! Requests stay at one edge, where their conversations are known, until there is a reason to go:
//! it is slow three times in a row, it refuses, it cannot be reached, it is full, or another is
//! steadily much nearer. Not here: how any of this is found out ([`super::watch`]), and whether a
//! request may be sent again ([`super::forward`]). No clock and no I/O.

use std::time::{Duration, Instant};

/// Health round trips and edge-added times beyond this are slow.
pub const SLOW: Duration = Duration::from_millis(100);
/// So many slow ones in a row are a reason to go.
const SLOW_IN_A_ROW: u32 = 3;
/// An edge that uses more of itself than this is taken when there is no other.
const FULL_PERCENT: f64 = 80.0;
/// How long a slow edge is not gone back to.
const SLOW_AWAY: Duration = Duration::from_secs(30);
/// How long one that refused is not asked, at least and at most, whatever `retry-after` says.
const REFUSED_AWAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How long one that could not be reached is not asked: at first, and at most.
const FAILED_AWAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Another one is much nearer when its round trip is half as long, and shorter by this.
const NEARER_BY: Duration = Duration::from_millis(5);
/// And steadily, when it is so in so many looks.
const NEARER_IN_A_ROW: u32 = 3;

/// Why an edge is not asked for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Three slow round trips or answers in a row.
    Slow,
    /// It answered 429 or 529.
    Refused,
    /// No connection could be made, or it broke.
    Unreachable,
    /// It refused the token.
    TokenRefused,
    /// It uses more than 80 % of itself, and another one does not.
    Full,
    /// Another one is steadily much nearer.
    Farther,
}

/// Requests go elsewhere from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// From this one.
    pub from: usize,
    /// To that one.
    pub to: usize,
    /// For this reason.
    pub why: Why,
}

/// What is known of one edge.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Smoothed over health checks.
    pub round_trip: Option<Duration>,
    /// How much of itself it uses, as it says.
    pub capacity_percent: Option<f64>,
    /// Why it is not asked, and until when.
    pub away: Option<(Why, Instant)>,
    slow_checks: u32,
    slow_answers: u32,
    failures: u32,
}

/// All edges, and the one that requests go to.
#[derive(Debug, Default)]
pub struct Chooser {
    known: Vec<Known>,
    current: usize,
    nearer: u32,
}

impl Chooser {
    /// One more edge, of which nothing is known. Gives its number.
    pub fn add(&mut self) -> usize {
        self.known.push(Known::default());
        self.known.len() - 1
    }

    /// Where requests go.
    #[must_use]
    pub fn current(&self) -> usize {
        self.current
    }

    /// What is known of each.
    #[must_use]
    pub fn known(&self) -> &[Known] {
        &self.known
    }

    /// The edge for a request that those in `tried` have not taken. None when there is no other
    /// that could be asked with hope; a request that nobody was asked for always has one, unless
    /// all have refused the token a moment ago.
    #[must_use]
    pub fn choose(&self, tried: &[usize], now: Instant) -> Option<usize> {
        let here = self.current;
        if !tried.contains(&here) && self.is_here(here, now) {
            return Some(here);
        }
        let untried = || (0..self.known.len()).filter(|number| !tried.contains(number));
        let ready = untried().filter(|number| self.is_here(*number, now));
        if let Some(best) = self.best(ready) {
            return Some(best);
        }
        let why = |number: &usize| self.known[*number].away;
        // A slow one serves. Others are asked when nobody else was: what they said may be over.
        let slow = untried().filter(|number| why(number).is_some_and(|(why, _)| why == Why::Slow));
        if let Some(slow) = self.best(slow) {
            return Some(slow);
        }
        if !tried.is_empty() {
            return None;
        }
        (0..self.known.len())
            .filter(|number| why(number).is_none_or(|(why, _)| why != Why::TokenRefused))
            .min_by_key(why)
    }

    /// A health check went round in that time.
    pub fn checked(&mut self, number: usize, round_trip: Duration, now: Instant) -> Option<Switch> {
        let known = self.known.get_mut(number)?;
        known.round_trip = Some(match known.round_trip {
            // Three quarters of what was known.
            Some(before) => (before * 3 + round_trip) / 4,
            None => round_trip,
        });
        known.failures = 0;
        if (known.away).is_some_and(|(why, _)| why > Why::Refused) {
            known.away = None;
        }
        known.slow_checks = next(known.slow_checks, round_trip > SLOW);
        (known.slow_checks >= SLOW_IN_A_ROW)
            .then(|| self.leave(number, Why::Slow, SLOW_AWAY, now))?
    }

    /// An answer says that the edge itself took that long over it.
    pub fn answered(&mut self, number: usize, added: Duration, now: Instant) -> Option<Switch> {
        let known = self.known.get_mut(number)?;
        known.slow_answers = next(known.slow_answers, added > SLOW);
        (known.slow_answers >= SLOW_IN_A_ROW)
            .then(|| self.leave(number, Why::Slow, SLOW_AWAY, now))?
    }

    /// It answered 429 or 529, and that it wants to be left alone for so long.
    pub fn refused(
        &mut self,
        number: usize,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> Option<Switch> {
        let (least, most) = REFUSED_AWAY;
        let away = retry_after.unwrap_or(least).clamp(least, most);
        self.leave(number, Why::Refused, away, now)
    }

    /// It could not be reached, or the connection broke. `random` is from 0 to 1.
    pub fn failed(&mut self, number: usize, random: f64, now: Instant) -> Option<Switch> {
        self.fail(number, Why::Unreachable, random, now)
    }

    /// It refused the token. `random` is from 0 to 1.
    pub fn refused_token(&mut self, number: usize, random: f64, now: Instant) -> Option<Switch> {
        self.fail(number, Why::TokenRefused, random, now)
    }

    /// It says how much of itself it uses.
    pub fn uses(&mut self, number: usize, percent: Option<f64>) {
        if let Some(known) = self.known.get_mut(number) {
            known.capacity_percent = percent.filter(|percent| percent.is_finite());
        }
    }

    /// Looks at all that is known, after a round of checks.
    pub fn review(&mut self, now: Instant) -> Option<Switch> {
        let ready = (0..self.known.len()).filter(|number| self.is_here(*number, now));
        let best = self.best(ready)?;
        let here = self.current;
        if best == here {
            self.nearer = 0;
            return None;
        }
        if self.is_full(here) && !self.is_full(best) {
            return Some(self.switch(best, Why::Full));
        }
        let trip = |number: usize| self.known[number].round_trip;
        let is_nearer = match (trip(best), trip(here)) {
            (Some(best), Some(here)) => best * 2 <= here && best + NEARER_BY <= here,
            _ => false,
        };
        self.nearer = next(self.nearer, is_nearer);
        (self.nearer >= NEARER_IN_A_ROW).then(|| self.switch(best, Why::Farther))
    }

    /// Takes the best to begin with, once the first round of checks is over.
    pub fn begin(&mut self, now: Instant) {
        let ready = (0..self.known.len()).filter(|number| self.is_here(*number, now));
        if let Some(best) = self.best(ready) {
            self.current = best;
        }
    }

    fn fail(&mut self, number: usize, why: Why, random: f64, now: Instant) -> Option<Switch> {
        let known = self.known.get_mut(number)?;
        let (least, most) = FAILED_AWAY;
        // Twice as long each time, with a random part.
        let longer = least * (1 << known.failures.min(6));
        known.failures = known.failures.saturating_add(1);
        let away = longer.min(most).mul_f64(1.0 + random.clamp(0.0, 1.0) / 2.0);
        self.leave(number, why, away, now)
    }

    fn leave(&mut self, number: usize, why: Why, away: Duration, now: Instant) -> Option<Switch> {
        let known = self.known.get_mut(number)?;
        (known.slow_checks, known.slow_answers) = (0, 0);
        known.away = Some((why, now + away));
        if number != self.current {
            return None;
        }
        let others = (0..self.known.len()).filter(|other| *other != number);
        let ready = others.filter(|other| self.is_here(*other, now));
        let to = self.best(ready)?;
        Some(self.switch(to, why))
    }

    fn switch(&mut self, to: usize, why: Why) -> Switch {
        let from = std::mem::replace(&mut self.current, to);
        self.nearer = 0;
        Switch { from, to, why }
    }

    /// Less than 80 % used, then the nearest; what is not known is the farthest.
    fn best(&self, numbers: impl Iterator<Item = usize>) -> Option<usize> {
        numbers.min_by_key(|number| {
            let trip = self.known[*number].round_trip.unwrap_or(Duration::MAX);
            (self.is_full(*number), trip)
        })
    }

    fn is_full(&self, number: usize) -> bool {
        let percent = self.known[number].capacity_percent;
        percent.is_some_and(|percent| percent >= FULL_PERCENT)
    }

    fn is_here(&self, number: usize, now: Instant) -> bool {
        let known = self.known.get(number);
        known.is_some_and(|known| known.away.is_none_or(|(_, until)| until <= now))
    }
}

fn next(in_a_row: u32, is_so: bool) -> u32 {
    if is_so { in_a_row.saturating_add(1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_millis(10);
    const LATE: Duration = Duration::from_millis(101);

    fn of(number: usize) -> (Chooser, Instant) {
        let mut chooser = Chooser::default();
        for _ in 0..number {
            chooser.add();
        }
        (chooser, Instant::now())
    }

    fn after(now: Instant, seconds: u64) -> Instant {
        now + Duration::from_secs(seconds)
    }

    #[test]
    fn begins_with_what_is_not_full_then_with_the_nearest() {
        let (mut chooser, now) = of(4);
        for (number, (trip_ms, percent)) in [(5, Some(80.0)), (30, Some(79.9)), (20, None)]
            .into_iter()
            .enumerate()
        {
            chooser.checked(number, Duration::from_millis(trip_ms), now);
            chooser.uses(number, percent);
        }
        chooser.begin(now);
        assert_eq!(chooser.current(), 2, "not full, and nearer than 1");
        chooser.uses(2, Some(100.0));
        chooser.begin(now);
        assert_eq!(chooser.current(), 1);
        chooser.uses(1, Some(95.0));
        chooser.begin(now);
        assert_eq!(
            chooser.current(),
            3,
            "the one that is not known is not full"
        );
        chooser.uses(3, Some(95.0));
        chooser.begin(now);
        assert_eq!(chooser.current(), 0, "all are full: the nearest");
    }

    #[test]
    fn three_slow_checks_in_a_row_and_not_two() {
        let (mut chooser, now) = of(2);
        chooser.checked(1, FAST, now);
        assert_eq!(chooser.checked(0, LATE, now), None);
        assert_eq!(chooser.checked(0, LATE, now), None);
        assert_eq!(chooser.checked(0, FAST, now), None, "one that is not slow");
        assert_eq!(chooser.checked(0, LATE, now), None);
        assert_eq!(chooser.checked(0, LATE, now), None);
        let switch = Switch {
            from: 0,
            to: 1,
            why: Why::Slow,
        };
        assert_eq!(chooser.checked(0, LATE, now), Some(switch));
        assert_eq!(chooser.choose(&[], now), Some(1));
    }

    #[test]
    fn three_slow_answers_in_a_row_whatever_the_checks_say() {
        let (mut chooser, now) = of(2);
        for _ in 0..2 {
            assert_eq!(chooser.answered(0, LATE, now), None);
            chooser.checked(0, FAST, now);
        }
        assert!(
            chooser
                .answered(0, Duration::from_millis(100), now)
                .is_none()
        );
        for _ in 0..2 {
            assert_eq!(chooser.answered(0, LATE, now), None);
        }
        let switch = chooser.answered(0, LATE, now).unwrap();
        assert_eq!((switch.to, switch.why), (1, Why::Slow));
    }

    #[test]
    fn a_refusal_moves_requests_at_once_and_ends() {
        let (mut chooser, now) = of(2);
        let switch = chooser
            .refused(0, Some(Duration::from_secs(5)), now)
            .unwrap();
        assert_eq!((switch.from, switch.to, switch.why), (0, 1, Why::Refused));
        assert_eq!(chooser.choose(&[], now), Some(1));
        assert_eq!(chooser.choose(&[1], now), None, "it has just refused");
        assert_eq!(chooser.choose(&[1], after(now, 6)), Some(0));
        assert_eq!(chooser.choose(&[], after(now, 6)), Some(1), "no going back");
        // However long it is said to last.
        chooser.refused(1, Some(Duration::from_secs(86_400)), now);
        assert_eq!(chooser.choose(&[0], after(now, 61)), Some(1));
    }

    #[test]
    fn when_all_are_away_a_slow_one_serves_and_then_who_has_refused() {
        let (mut chooser, now) = of(3);
        chooser.failed(0, 0.0, now);
        chooser.refused(1, None, now);
        for _ in 0..3 {
            chooser.checked(2, LATE, now);
        }
        assert_eq!(chooser.choose(&[], now), Some(2), "slow");
        assert_eq!(chooser.choose(&[2], now), None);
        chooser.failed(2, 0.0, now);
        assert_eq!(chooser.choose(&[], now), Some(1), "refused");
        for number in 0..3 {
            chooser.refused_token(number, 0.0, now);
        }
        assert_eq!(
            chooser.choose(&[], now),
            None,
            "no token is thrown after another"
        );
        assert!(chooser.choose(&[], after(now, 300)).is_some());
    }

    #[test]
    fn one_edge_alone_is_asked_whatever_it_did_before() {
        let (mut chooser, now) = of(1);
        assert_eq!(chooser.refused(0, None, now), None);
        assert_eq!(chooser.choose(&[], now), Some(0));
        assert_eq!(chooser.failed(0, 0.5, now), None);
        assert_eq!(chooser.choose(&[], now), Some(0));
        assert_eq!(chooser.choose(&[0], now), None);
    }

    #[test]
    fn failures_keep_it_away_longer_each_time_up_to_a_bound_until_a_check_comes_back() {
        let (mut chooser, now) = of(2);
        let mut spans = Vec::new();
        for _ in 0..9 {
            chooser.failed(0, 0.0, now);
            let (_, until) = chooser.known()[0].away.unwrap();
            spans.push((until - now).as_secs());
        }
        assert_eq!(spans, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        chooser.failed(0, 1.0, now);
        let (_, until) = chooser.known()[0].away.unwrap();
        assert_eq!((until - now).as_secs(), 90, "the random part");
        chooser.checked(0, FAST, now);
        assert_eq!(chooser.known()[0].away, None);
        chooser.refused(0, None, now);
        chooser.checked(0, FAST, now);
        assert!(
            chooser.known()[0].away.is_some(),
            "a 429 is not over with that"
        );
    }

    #[test]
    fn a_full_edge_is_left_for_one_that_is_not() {
        let (mut chooser, now) = of(2);
        chooser.checked(0, FAST, now);
        chooser.checked(1, FAST * 5, now);
        assert_eq!(chooser.review(now), None);
        chooser.uses(0, Some(80.0));
        let switch = chooser.review(now).unwrap();
        assert_eq!((switch.to, switch.why), (1, Why::Full));
        chooser.uses(1, Some(90.0));
        assert_eq!(chooser.review(now), None, "both are full: stay");
        chooser.uses(0, Some(f64::NAN));
        assert_eq!(chooser.known()[0].capacity_percent, None);
    }

    #[test]
    fn another_must_be_much_nearer_and_steadily() {
        let (mut chooser, now) = of(2);
        chooser.checked(0, Duration::from_millis(40), now);
        chooser.checked(1, Duration::from_millis(25), now);
        for _ in 0..5 {
            assert_eq!(chooser.review(now), None, "nearer, but not by half");
        }
        let (mut chooser, now) = of(2);
        chooser.checked(0, Duration::from_millis(40), now);
        chooser.checked(1, Duration::from_millis(15), now);
        assert_eq!(chooser.review(now), None);
        assert_eq!(chooser.review(now), None);
        let switch = chooser.review(now).unwrap();
        assert_eq!((switch.to, switch.why), (1, Why::Farther));
        let (mut chooser, now) = of(2);
        chooser.checked(0, Duration::from_millis(2), now);
        chooser.checked(1, Duration::from_micros(200), now);
        for _ in 0..5 {
            assert_eq!(chooser.review(now), None, "ten times nearer, and no matter");
        }
    }
}
