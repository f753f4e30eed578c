//! Calibration: for a model without a published vocabulary, how many tokens its upstream
//! counts for one that is estimated. Pure arithmetic: no clock, no I/O; one [`Ratio`] a model.
//!
//! Two windows of past requests, each a sum of actual over a sum of estimated tokens in which
//! older requests fade. The long one is the ratio; the short one only watches: when the two
//! differ by more than chance, the mix of texts has changed, and the long one starts anew
//! with what the short one holds.
//!
//! What an upstream says is believed within limits. A single answer counts as at most
//! [`MOST_STEP`] times the present ratio and as at least that part of it, and as at most
//! [`MOST_SHARE`] mean requests; the ratio itself never leaves [`LEAST`] to [`MOST`].

use super::Estimate;

/// The ratio is never less.
pub const LEAST: f64 = 0.25;
/// The ratio is never more.
pub const MOST: f64 = 4.0;
/// One answer is taken to be off by at most this factor.
pub const MOST_STEP: f64 = 3.0;
/// One answer weighs as much as so many mean ones at most.
pub const MOST_SHARE: f64 = 3.0;
/// The form of [`Ratio::state`].
pub const STATE_VERSION: f64 = 1.0;
/// Numbers in [`Ratio::state`].
pub const STATE_NUMBERS: usize = 16;

/// How many requests the windows reach back.
const LONG: f64 = 1000.0;
const SHORT: f64 = 40.0;
/// The short window says nothing before it has so many.
const ENOUGH: f64 = 15.0;
/// The windows differ when they do by so many standard errors, and by this part.
const STANDARD_ERRORS: f64 = 3.0;
const DIFFERENT: f64 = 0.02;
/// What the short window holds weighs so much when the long one starts anew.
const KEPT: f64 = 0.15;
/// For the short window an answer is off by at most so many standard deviations.
const ORDINARY: f64 = 3.0;
/// What the ratio starts from weighs as much as so many requests, and as so many tokens at
/// least: an answer to a word or two says little of texts.
const PRIOR_REQUESTS: f64 = 2.0;
const PRIOR_TOKENS: f64 = 2000.0;
/// The windows say nothing of a shift before the short one holds so many tokens.
const ENOUGH_TOKENS: f64 = 400.0;
/// Before so many answers the interval is the estimate's own, made wider.
const SPREAD_KNOWN: f64 = 50.0;
const WIDER: f64 = 2.0;
/// The interval reaches so many standard deviations each way.
const DEVIATIONS: f64 = 3.0;

/// Past requests, the older the fainter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Window {
    actual: f64,
    estimated: f64,
    /// Logarithms of actual over estimated, their squares, and their weights: a request's is
    /// the root of its size, so that no few decide whether windows differ.
    logs: f64,
    squares: f64,
    weights: f64,
    weight_squares: f64,
}

impl Window {
    /// A request of so many estimated tokens: the logarithm of its ratio for the sums, and
    /// that for the mean and the variance.
    fn add(&mut self, reach: f64, tokens: f64, for_sums: f64, log: f64, weight: f64) {
        let fade = 1.0 - 1.0 / reach;
        let add = |sum: &mut f64, new: f64, fade: f64| *sum = *sum * fade + new;
        add(&mut self.actual, tokens * for_sums.exp(), fade);
        add(&mut self.estimated, tokens, fade);
        add(&mut self.logs, weight * log, fade);
        add(&mut self.squares, weight * log * log, fade);
        add(&mut self.weights, weight, fade);
        add(&mut self.weight_squares, weight * weight, fade * fade);
    }

    /// The same with less of it.
    fn less(self, part: f64) -> Self {
        Self {
            actual: self.actual * part,
            estimated: self.estimated * part,
            logs: self.logs * part,
            squares: self.squares * part,
            weights: self.weights * part,
            weight_squares: self.weight_squares * part * part,
        }
    }

    fn mean(&self) -> f64 {
        self.logs / self.weights
    }

    fn variance(&self) -> f64 {
        (self.squares / self.weights - self.mean().powi(2)).max(0.0)
    }

    /// As many requests of equal weight tell as much.
    fn requests(&self) -> f64 {
        self.weights.powi(2) / self.weight_squares
    }
}

/// The running ratio of one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    prior: f64,
    observed: f64,
    mean_tokens: f64,
    long: Window,
    short: Window,
}

impl Ratio {
    /// Starts from what is believed before the upstream has said anything, within [`LEAST`]
    /// and [`MOST`].
    #[must_use]
    pub fn new(prior: f64) -> Self {
        Self {
            prior: if prior.is_finite() {
                prior.clamp(LEAST, MOST)
            } else {
                1.0
            },
            observed: 0.0,
            mean_tokens: 0.0,
            long: Window::default(),
            short: Window::default(),
        }
    }

    /// Tokens of the model for one that is estimated.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.observed == 0.0 {
            return self.prior;
        }
        (self.long.actual / self.long.estimated).clamp(LEAST, MOST)
    }

    /// How many answers it has learnt from.
    #[must_use]
    pub fn observed(&self) -> u64 {
        self.observed as u64
    }

    /// The standard deviation of the natural logarithm of a single request's ratio, once
    /// enough is known.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        (self.long.requests() >= SPREAD_KNOWN).then(|| self.long.variance().sqrt())
    }

    /// Learns from one answer: tokens that were estimated, uncalibrated, and those that the
    /// upstream says it counted. Nothing is learnt from nought.
    pub fn observe(&mut self, estimated: u64, actual: u64) {
        if estimated == 0 || actual == 0 {
            return;
        }
        let (estimated, actual) = (estimated as f64, actual as f64);
        let now = self.ratio();
        let said = actual / estimated;
        let believed = said
            .clamp(now / MOST_STEP, now * MOST_STEP)
            .clamp(LEAST, MOST);
        if self.observed == 0.0 {
            self.mean_tokens = estimated;
            let tokens = PRIOR_REQUESTS * estimated;
            for (window, reach, tokens) in [
                (&mut self.long, LONG, tokens.max(PRIOR_TOKENS)),
                (&mut self.short, SHORT, tokens),
            ] {
                let log = self.prior.ln();
                window.add(reach, tokens, log, log, PRIOR_REQUESTS);
            }
        }
        let most = MOST_SHARE * self.mean_tokens;
        let tokens = estimated.min(most);
        let weight = (tokens / self.mean_tokens).sqrt();
        let log = believed.ln();
        // Few answers that are far off are chance or lies, so they must not look like a shift.
        let deviations = ORDINARY * self.long.variance().sqrt().max(DIFFERENT);
        let mean = self.long.mean();
        let ordinary = log.clamp(mean - deviations, mean + deviations);
        self.long.add(LONG, tokens, log, log, weight);
        self.short.add(SHORT, tokens, log, ordinary, weight);
        // The first requests make the mean, later ones move it slowly.
        self.observed += 1.0;
        self.mean_tokens += (tokens - self.mean_tokens) / self.observed.min(LONG / 4.0);
        if self.windows_differ() {
            // Part of what the short one holds is from before the shift, so it weighs less
            // than what is to come.
            self.long = self.short.less(KEPT);
        }
    }

    fn windows_differ(&self) -> bool {
        let requests = self.short.requests();
        let apart = (self.short.mean() - self.long.mean()).abs();
        let variance = self.long.variance().min(self.short.variance());
        let chance = (variance / requests).sqrt();
        requests >= ENOUGH
            && self.short.estimated >= ENOUGH_TOKENS
            && apart > DIFFERENT
            && apart > STANDARD_ERRORS * chance
    }

    /// An estimate in this model's tokens. It stays an estimate.
    #[must_use]
    pub fn apply(&self, estimate: Estimate) -> Estimate {
        let ratio = self.ratio();
        let times = |tokens: u64, by: f64| (tokens as f64 * by).round() as u64;
        let tokens = times(estimate.tokens, ratio);
        let [low, high] = match self.spread() {
            Some(spread) => [-1.0, 1.0].map(|sign: f64| {
                times(estimate.tokens, ratio * (sign * DEVIATIONS * spread).exp())
            }),
            None => [
                times(estimate.low, ratio / WIDER),
                times(estimate.high, ratio * WIDER),
            ],
        };
        Estimate {
            tokens,
            low: low.min(tokens),
            high: high.max(tokens),
        }
    }

    /// All that it has learnt, to be kept over a restart; the first number is
    /// [`STATE_VERSION`].
    #[must_use]
    pub fn state(&self) -> [f64; STATE_NUMBERS] {
        let Self {
            prior,
            observed,
            mean_tokens,
            long,
            short,
        } = self;
        let mut state = [0.0; STATE_NUMBERS];
        state[..4].copy_from_slice(&[STATE_VERSION, *prior, *observed, *mean_tokens]);
        for (numbers, window) in state[4..].chunks_mut(6).zip([long, short]) {
            let all = [
                window.actual,
                window.estimated,
                window.logs,
                window.squares,
                window.weights,
                window.weight_squares,
            ];
            numbers.copy_from_slice(&all);
        }
        state
    }

    /// From what [`Self::state`] gave; `None` if it is of another version or cannot be.
    #[must_use]
    pub fn from_state(state: &[f64]) -> Option<Self> {
        let state: &[f64; STATE_NUMBERS] = state.try_into().ok()?;
        let [version, prior, observed, mean_tokens, ..] = *state;
        let window = |from: usize| Window {
            actual: state[from],
            estimated: state[from + 1],
            logs: state[from + 2],
            squares: state[from + 3],
            weights: state[from + 4],
            weight_squares: state[from + 5],
        };
        let ratio = Self {
            prior,
            observed,
            mean_tokens,
            long: window(4),
            short: window(10),
        };
        let within = |value: f64| (LEAST..=MOST).contains(&value);
        let sound = |window: &Window| {
            within(window.actual / window.estimated)
                && window.weights > 0.0
                && window.weight_squares > 0.0
                && within(window.mean().exp())
                // No two answers are further apart than the bounds.
                && window.variance() <= (MOST / LEAST).ln().powi(2)
        };
        let learnt = mean_tokens > 0.0 && sound(&ratio.long) && sound(&ratio.short);
        let proper = version == STATE_VERSION
            && state.iter().all(|number| number.is_finite())
            && within(prior)
            && (observed == 0.0 || observed >= 1.0 && learnt);
        proper.then_some(ratio)
    }
}

impl Default for Ratio {
    /// Starts from one token for one.
    fn default() -> Self {
        Self::new(1.0)
    }
}

#[cfg(test)]
#[path = "calibrate_tests.rs"]
mod tests;
