//! The tokens of the last five minutes, to notice a burst once.

/// One step of the window, seconds.
const STEP_S: u64 = 30;
/// Steps in five minutes.
const STEPS: usize = 10;

/// Tokens by steps, the one that runs among them: the last 4.5 to 5 minutes.
#[derive(Debug, Default)]
pub(super) struct Window {
    steps: [u64; STEPS],
    /// The number of the step that runs.
    newest: u64,
    sum: u64,
    /// This burst has been told.
    is_told: bool,
}

impl Window {
    /// So many tokens more or less at that second; how many they are when a burst begins.
    /// `burst` is how many a burst has more than; 0: nothing is one.
    pub(super) fn add(&mut self, now_s: u64, more: u64, less: u64, burst: u64) -> Option<u64> {
        self.advance(now_s / STEP_S);
        if self.sum <= burst / 2 {
            self.is_told = false;
        }
        let step = &mut self.steps[self.newest as usize % STEPS];
        let before = *step;
        *step = before.saturating_add(more).saturating_sub(less);
        self.sum = self.sum.saturating_sub(before).saturating_add(*step);
        if burst == 0 || self.sum <= burst || self.is_told {
            return None;
        }
        self.is_told = true;
        Some(self.sum)
    }

    /// The steps that are over by now are empty.
    fn advance(&mut self, now: u64) {
        // A clock that was set back adds to the newest.
        let passed = now.saturating_sub(self.newest);
        if passed == 0 {
            return;
        }
        for step in 1..=passed.min(STEPS as u64) {
            let at = (self.newest + step) as usize % STEPS;
            self.sum = self.sum.saturating_sub(self.steps[at]);
            self.steps[at] = 0;
        }
        self.newest = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_told_once_and_again_after_it_was_over() {
        let mut window = Window::default();
        let at = |step: u64| 1_800_000_000 + step * STEP_S;
        assert_eq!(window.add(at(0), 600, 0, 1000), None);
        assert_eq!(window.add(at(1), 400, 0, 1000), None, "not more than");
        assert_eq!(window.add(at(2), 1, 0, 1000), Some(1001));
        assert_eq!(window.add(at(3), 5000, 0, 1000), None, "the same burst");
        assert_eq!(window.add(at(12), 1, 0, 1000), None, "it goes on");
        // Its large step has left the window.
        assert_eq!(window.add(at(13), 1, 0, 1000), None);
        assert_eq!(window.add(at(13), 1500, 0, 1000), Some(1502));
        assert_eq!(
            window.add(at(500), 1001, 0, 1000),
            Some(1001),
            "after a long time"
        );
    }

    #[test]
    fn what_is_given_back_counts_no_more_and_zero_is_never_a_burst() {
        let mut window = Window::default();
        assert_eq!(window.add(90, 1000, 0, 1000), None);
        assert_eq!(window.add(90, 0, 900, 1000), None);
        assert_eq!(window.add(95, 900, 0, 1000), None);
        assert_eq!(window.add(95, 1, 0, 1000), Some(1001));
        let mut window = Window::default();
        assert_eq!(window.add(90, u64::MAX, 0, 0), None);
        assert_eq!(window.add(30, 5, 0, 0), None, "a clock that was set back");
    }
}
