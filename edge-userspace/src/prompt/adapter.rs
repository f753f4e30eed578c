//! Stands in for what the token package does not have yet.
use crate::tokens::Vocabulary;

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Features(u64);
impl std::ops::AddAssign<&Self> for Features {
    fn add_assign(&mut self, other: &Self) {
        self.0 += other.0;
    }
}
#[derive(Clone, Default)]
pub(crate) struct Scan(u64);
impl Scan {
    pub(crate) fn new() -> Self {
        Self::default()
    }
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.0 += chunk.len() as u64;
    }
    pub(crate) fn finish(self) -> Features {
        Features(self.0)
    }
    pub(crate) fn at_least(&self) -> u64 {
        self.0 / 1024
    }
}
#[derive(Clone, Debug)]
pub(crate) struct Estimator(());
pub(crate) struct Estimate {
    pub(crate) tokens: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
}
impl Estimator {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Vocabulary::EMBEDDED.contains(&name).then_some(Self(()))
    }
    pub(crate) fn estimate(&self, features: &Features) -> Estimate {
        let tokens = features.0.div_ceil(4);
        Estimate {
            tokens,
            low: tokens / 2,
            high: tokens * 2,
        }
    }
}

/// The factor between estimates of a model and what its upstream counts.
#[derive(Clone, Debug)]
pub(crate) struct Ratio {
    log: f64,
    weight: f64,
}
impl Ratio {
    pub(crate) fn new() -> Self {
        Self {
            log: 0.0,
            weight: 0.0,
        }
    }
    pub(crate) fn observe(&mut self, estimated: u64, actual: u64) {
        let weight = estimated as f64;
        let ratio = (actual as f64 / estimated as f64).clamp(0.5, 2.0).ln();
        self.weight = (self.weight + weight).min(100_000.0);
        self.log += (ratio - self.log) * weight / self.weight.max(weight);
    }
    pub(crate) fn ratio(&self) -> f64 {
        self.log.exp()
    }
    pub(crate) fn state(&self) -> Vec<f64> {
        vec![self.log, self.weight]
    }
    pub(crate) fn from_state(state: &[f64]) -> Option<Self> {
        let [log, weight] = *state else { return None };
        Some(Self { log, weight })
    }
}
