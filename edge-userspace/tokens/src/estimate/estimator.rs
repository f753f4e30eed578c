//! From features to tokens: the weights of a vocabulary, and the interval.

use std::sync::OnceLock;

use super::algebra::{Counts, FEATURES};
use super::weights::{SIZE_LIMITS, Weights};
use super::{Features, bytes_of, lower_bound};
use crate::pattern::Pattern;
use crate::vocabulary::Vocabulary;

/// About so many tokens: a number to be shown as an estimate, never as a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The most likely number.
    pub tokens: u64,
    /// With `high`, the interval that held 99 of 100 texts that weights were fitted on.
    pub low: u64,
    /// See `low`.
    pub high: u64,
}

/// Estimates for one vocabulary. A copy costs nothing.
#[derive(Clone, Copy, Debug)]
pub struct Estimator {
    weights: &'static Weights,
}

static CL100K_BASE: OnceLock<Weights> = OnceLock::new();
static O200K_BASE: OnceLock<Weights> = OnceLock::new();
static CLAUDE_2: OnceLock<Weights> = OnceLock::new();

impl Estimator {
    /// Of that built-in vocabulary ([`Vocabulary::EMBEDDED`]). The first call for each reads
    /// its weights, which takes a fraction of a millisecond.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (weights, file) = match name {
            "cl100k_base" => (&CL100K_BASE, include_str!("../../weights/cl100k_base.txt")),
            "o200k_base" => (&O200K_BASE, include_str!("../../weights/o200k_base.txt")),
            "claude-2" => (&CLAUDE_2, include_str!("../../weights/claude-2.txt")),
            _ => return None,
        };
        let read = || {
            file.parse()
                .expect("the built-in weights are proper, a test says so")
        };
        Some(Self {
            weights: weights.get_or_init(read),
        })
    }

    /// Of a vocabulary; of one that is not built in, the built-in one with the nearest
    /// pattern stands in, and the interval is that one's.
    #[must_use]
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let nearest = match vocabulary.pattern() {
            Pattern::O200k => "o200k_base",
            Pattern::Gpt2 => "claude-2",
            Pattern::Cl100k | Pattern::Llama3 | Pattern::Qwen2 => "cl100k_base",
        };
        let of = Self::named(vocabulary.name()).or_else(|| Self::named(nearest));
        of.expect("each of these is built in")
    }

    /// The vocabulary whose weights these are.
    #[must_use]
    pub fn vocabulary(&self) -> &'static str {
        &self.weights.vocabulary
    }

    /// The weights.
    #[must_use]
    pub fn weights(&self) -> &'static Weights {
        self.weights
    }

    /// About how many tokens texts with these features have.
    #[must_use]
    pub fn estimate(&self, features: &Features) -> Estimate {
        estimate(self.weights, features)
    }
}

/// As [`Estimator::estimate`], by weights that are not built in: the fit tests its own.
#[doc(hidden)]
#[must_use]
pub fn estimate(weights: &Weights, features: &Features) -> Estimate {
    let mut tokens = 0.0;
    let (mut below, mut above) = (0.0, 0.0);
    let parts = || {
        let of = |(segment, counts): (super::Segment, _)| {
            (
                segment as usize,
                sum(&weights.tokens[segment as usize], counts),
            )
        };
        features.parts().map(of)
    };
    for (_, part) in parts() {
        tokens += part;
    }
    let size = SIZE_LIMITS.iter().filter(|limit| tokens >= **limit).count();
    for (segment, part) in parts() {
        // Parts are taken to be off in the same direction: the interval is rather too wide.
        let (low, high) = weights.spread[segment][size];
        below += part * f64::from(low).exp();
        above += part * f64::from(high).exp();
    }
    let (least, most) = (lower_bound(features), features.bytes());
    let within = |tokens: f64| (tokens.round() as u64).clamp(least.min(most), most);
    let [low, tokens, high] = [below, tokens, above].map(within);
    Estimate {
        tokens,
        low: low.min(tokens),
        high: high.max(tokens),
    }
}

/// Tokens of one segment's features: at least none, at most one for each byte.
fn sum(weights: &[f32; FEATURES], counts: &Counts) -> f64 {
    let products = weights
        .iter()
        .zip(counts)
        .map(|(weight, count)| f64::from(*weight) * *count as f64);
    products.sum::<f64>().clamp(0.0, bytes_of(counts) as f64)
}
