//! What `edge count` prints: counts on standard output, how fast on standard error.

use super::input::Read;
use crate::cli::output::{Outcome, print_json, print_line};
use crate::tokens::Isa;
use crate::tokens::estimate::Estimate;
use std::time::Duration;

/// What was counted, in the order asked for.
pub(super) struct Report {
    tokenizer: String,
    /// Of an estimate, the built-in vocabulary whose weights it has.
    pub(super) weights: Option<&'static str>,
    pub(super) counted: Vec<Counted>,
    pub(super) unread: Vec<Unread>,
    pub(super) took: Duration,
}

/// One text.
pub(super) struct Counted {
    pub(super) file: String,
    pub(super) read: Read,
    pub(super) count: Count,
}

/// A text that could not be read.
pub(super) struct Unread {
    pub(super) file: String,
    pub(super) error: String,
}

/// Its tokens.
#[derive(Clone, Copy)]
pub(super) enum Count {
    Exact(u64),
    Estimate(Estimate),
}

impl Count {
    fn tokens(self) -> u64 {
        match self {
            Self::Exact(tokens) => tokens,
            Self::Estimate(estimate) => estimate.tokens,
        }
    }

    /// What it says of itself in text.
    fn text(self) -> String {
        match self {
            Self::Exact(tokens) => tokens.to_string(),
            Self::Estimate(Estimate { tokens, low, high }) => {
                format!("{tokens} ({low} to {high})")
            }
        }
    }

    fn json(self) -> serde_json::Value {
        match self {
            Self::Exact(tokens) => serde_json::json!({ "tokens": tokens }),
            Self::Estimate(Estimate { tokens, low, high }) => {
                serde_json::json!({ "tokens": tokens, "low": low, "high": high })
            }
        }
    }
}

impl Report {
    pub(super) fn new(tokenizer: &str) -> Self {
        Self {
            tokenizer: tokenizer.to_owned(),
            weights: None,
            counted: Vec::new(),
            unread: Vec::new(),
            took: Duration::ZERO,
        }
    }

    /// For people: of one text the number alone.
    pub(super) fn print(&self) -> Outcome {
        let texts: Vec<_> = self.counted.iter().map(|it| it.count.text()).collect();
        match (&texts[..], self.unread.len()) {
            ([], _) => return Ok(()),
            ([count], 0) => print_line(count)?,
            _ => {
                let total = self.total().text();
                let width = texts.iter().map(String::len).max().unwrap_or(0);
                let width = width.max(total.len());
                for (text, counted) in texts.iter().zip(&self.counted) {
                    print_line(format_args!("{text:>width$}  {}", counted.file))?;
                }
                print_line(format_args!("{total:>width$}  total"))?;
            }
        }
        let bytes = self.bytes();
        eprintln!(
            "{} by {}{}, {}, {}: {} in {:.3} s, {}",
            self.kind(),
            self.tokenizer,
            match self.weights.filter(|weights| *weights != self.tokenizer) {
                Some(weights) => format!(" with the weights of {weights}"),
                None => String::new(),
            },
            Isa::detect(),
            per_token(bytes, self.tokens()),
            super::size(bytes as f64),
            self.took.as_secs_f64(),
            super::per_second(bytes, self.took),
        );
        Ok(())
    }

    /// For programs.
    pub(super) fn print_json(&self) -> Outcome {
        let files = self.counted.iter().map(|counted| {
            let mut file = counted.count.json();
            file["file"] = counted.file.as_str().into();
            file["bytes"] = counted.read.bytes.into();
            file["not_utf8_at"] = counted.read.not_utf8_at.into();
            file
        });
        let failures = (self.unread.iter())
            .map(|unread| serde_json::json!({ "file": unread.file, "error": unread.error }));
        let seconds = self.took.as_secs_f64();
        let mut report = self.total().json();
        let more = serde_json::json!({
            "tokenizer": self.tokenizer,
            "kind": self.kind(),
            "weights": self.weights,
            "isa": Isa::detect().name(),
            "bytes": self.bytes(),
            "seconds": seconds,
            "bytes_per_s": self.bytes() as f64 / seconds.max(f64::EPSILON),
            "failed": self.unread.len(),
            "failures": failures.collect::<Vec<_>>(),
            "files": files.collect::<Vec<_>>(),
        });
        if let (Some(report), serde_json::Value::Object(more)) = (report.as_object_mut(), more) {
            report.extend(more);
        }
        print_json(&report)
    }

    fn kind(&self) -> &'static str {
        match self.weights {
            Some(_) => "estimate",
            None => "exact",
        }
    }

    /// All texts together. An estimate's bounds are the sums of theirs: wider than need be.
    fn total(&self) -> Count {
        let counts = self.counted.iter().map(|it| it.count);
        let sum = |of: fn(Estimate) -> u64| {
            let estimates = counts.clone().filter_map(|count| match count {
                Count::Exact(_) => None,
                Count::Estimate(estimate) => Some(of(estimate)),
            });
            estimates.sum()
        };
        match self.weights {
            None => Count::Exact(self.tokens()),
            Some(_) => Count::Estimate(Estimate {
                tokens: self.tokens(),
                low: sum(|estimate| estimate.low),
                high: sum(|estimate| estimate.high),
            }),
        }
    }

    fn tokens(&self) -> u64 {
        self.counted.iter().map(|it| it.count.tokens()).sum()
    }

    fn bytes(&self) -> u64 {
        self.counted.iter().map(|it| it.read.bytes).sum()
    }
}

fn per_token(bytes: u64, tokens: u64) -> String {
    match tokens {
        0 => "no token".to_owned(),
        _ => format!("{:.2} bytes a token", bytes as f64 / tokens as f64),
    }
}
