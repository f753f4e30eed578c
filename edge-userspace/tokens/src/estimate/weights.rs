//! Weights: tokens for each feature of each segment, and how far off an estimate can be.
//!
//! They are data, written by the fit (`cargo xtask bench tokens --fit`) and read here once.

use std::str::FromStr;

use thiserror::Error;

use super::algebra::FEATURES;
use super::segment::Segment;

/// For so many sizes of text is the interval's width known: texts with an estimate of less
/// than so many tokens, and the rest.
pub const SIZE_LIMITS: [f64; 3] = [128.0, 512.0, 2048.0];

/// What a file of weights says.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The vocabulary.
    pub vocabulary: String,
    /// The day of the fit, year first.
    pub date: String,
    /// The sha256 of the corpora's list of texts.
    pub corpora_sha256: String,
    /// For each segment, tokens for one of each feature.
    pub tokens: Vec<[f32; FEATURES]>,
    /// For each segment and size class, natural logarithms of the ratio of the true count to
    /// the estimate, between which 99 of 100 texts were.
    pub spread: Vec<[(f32, f32); SIZE_LIMITS.len() + 1]>,
}

/// A file of weights that is damaged.
#[derive(Debug, Error)]
#[error("the weights' line {line} is not {expected}")]
pub struct WeightsError {
    line: usize,
    expected: &'static str,
}

const HEAD: &str = "edge-tokens weights 1";

impl FromStr for Weights {
    type Err = WeightsError;

    fn from_str(text: &str) -> Result<Self, WeightsError> {
        let mut lines = text.lines().zip(1..);
        let mut next = |expected: &'static str| {
            let (text, line) = lines.next().unwrap_or(("", 0));
            let fault = WeightsError { line, expected };
            text.strip_prefix(expected)
                .ok_or(fault)
                .map(|rest| (rest.trim(), line))
        };
        next(HEAD)?;
        let vocabulary = next("vocabulary")?.0.to_owned();
        let date = next("date")?.0.to_owned();
        let corpora_sha256 = next("corpora")?.0.to_owned();
        let mut tokens = Vec::new();
        let mut spread = Vec::new();
        for segment in Segment::ALL {
            let (name, line) = next("segment")?;
            if name != segment.name() {
                return Err(WeightsError {
                    line,
                    expected: segment.name(),
                });
            }
            let low: [f32; SIZE_LIMITS.len() + 1] = numbers(next("low")?)?;
            let high: [f32; SIZE_LIMITS.len() + 1] = numbers(next("high")?)?;
            spread.push(std::array::from_fn(|i| (low[i], high[i])));
            tokens.push(numbers(next("tokens")?)?);
        }
        Ok(Self {
            vocabulary,
            date,
            corpora_sha256,
            tokens,
            spread,
        })
    }
}

/// `N` finite numbers.
fn numbers<const N: usize>((text, line): (&str, usize)) -> Result<[f32; N], WeightsError> {
    let fault = || WeightsError {
        line,
        expected: "as many finite numbers as it should have",
    };
    let read = text
        .split_ascii_whitespace()
        .map(|word| word.parse::<f32>().ok());
    let numbers: Option<Vec<f32>> = read.collect();
    let finite = numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite()));
    finite
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(fault)
}

impl std::fmt::Display for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{HEAD}\nvocabulary {}", self.vocabulary)?;
        writeln!(f, "date {}\ncorpora {}", self.date, self.corpora_sha256)?;
        for ((segment, tokens), spread) in Segment::ALL.iter().zip(&self.tokens).zip(&self.spread) {
            let list = |numbers: &mut dyn Iterator<Item = f32>| {
                numbers
                    .map(|number| format!(" {number}"))
                    .collect::<String>()
            };
            writeln!(f, "segment {}", segment.name())?;
            writeln!(f, "low{}", list(&mut spread.iter().map(|spread| spread.0)))?;
            writeln!(f, "high{}", list(&mut spread.iter().map(|spread| spread.1)))?;
            writeln!(f, "tokens{}", list(&mut tokens.iter().copied()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Estimator;
    use crate::vocabulary::Vocabulary;

    #[test]
    fn the_built_in_weights_are_proper_and_say_what_they_are_of() {
        for name in Vocabulary::EMBEDDED {
            let weights = Estimator::named(name).unwrap().weights();
            assert_eq!(weights.vocabulary, name);
            assert_eq!(weights.date.len(), "2026-11-29".len(), "{name}");
            assert_eq!(weights.corpora_sha256.len(), 64, "{name}");
            assert_eq!(weights.tokens.len(), Segment::ALL.len());
            for (segment, spread) in Segment::ALL.iter().zip(&weights.spread) {
                for (low, high) in spread {
                    assert!(low <= high, "{name} {}", segment.name());
                }
            }
            assert_eq!(weights.to_string().parse::<Weights>().unwrap(), *weights);
        }
        assert!(Estimator::named("cl100k").is_none());
    }

    #[test]
    fn damaged_weights_are_refused_with_the_line() {
        let proper = Estimator::named("cl100k_base")
            .unwrap()
            .weights()
            .to_string();
        let tokens = proper
            .lines()
            .find(|line| line.starts_with("tokens "))
            .unwrap();
        let one_fewer = tokens.rsplit_once(' ').unwrap().0;
        for (damaged, line) in [
            (proper.replacen("edge-tokens", "edge", 1), 1),
            (proper.replacen("segment prose", "segment verse", 1), 5),
            (proper.replacen(tokens, one_fewer, 1), 8),
            (proper.replacen(tokens, &format!("{one_fewer} inf"), 1), 8),
            (proper.lines().take(30).collect::<Vec<_>>().join("\n"), 0),
        ] {
            let error = damaged.parse::<Weights>().unwrap_err();
            assert_eq!(error.line, line, "{error}");
        }
    }
}
