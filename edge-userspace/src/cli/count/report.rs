//! What `edge count` prints: counts on standard output, how fast on standard error.

use crate::cli::output::{Outcome, print_json, print_line};
use crate::tokens::Isa;
use crate::tokens::estimate::Estimate;
use std::time::Duration;

/// What was counted, in the order asked for.
pub(super) struct Report {
    tokenizer: String,
    is_estimate: bool,
    pub(super) counted: Vec<Counted>,
    /// Texts that could not be read.
    pub(super) failed: usize,
    pub(super) took: Duration,
}

/// One text.
pub(super) struct Counted {
    pub(super) file: String,
    pub(super) bytes: u64,
    pub(super) count: Count,
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
    pub(super) fn new(tokenizer: &str, is_estimate: bool) -> Self {
        Self {
            tokenizer: tokenizer.to_owned(),
            is_estimate,
            counted: Vec::new(),
            failed: 0,
            took: Duration::ZERO,
        }
    }

    /// For people: of one text the number alone.
    pub(super) fn print(&self) -> Outcome {
        let texts: Vec<_> = self.counted.iter().map(|it| it.count.text()).collect();
        match (&texts[..], self.failed) {
            ([], _) => return Ok(()),
            ([count], 0) => print_line(count)?,
            _ => {
                let total = self.tokens().to_string();
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
            "{} by {}, {}, {}: {} in {:.3} s, {}",
            self.kind(),
            self.tokenizer,
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
            file["bytes"] = counted.bytes.into();
            file
        });
        let seconds = self.took.as_secs_f64();
        print_json(&serde_json::json!({
            "tokenizer": self.tokenizer,
            "kind": self.kind(),
            "isa": Isa::detect().name(),
            "tokens": self.tokens(),
            "bytes": self.bytes(),
            "seconds": seconds,
            "bytes_per_s": self.bytes() as f64 / seconds.max(f64::EPSILON),
            "failed": self.failed,
            "files": files.collect::<Vec<_>>(),
        }))
    }

    fn kind(&self) -> &'static str {
        match self.is_estimate {
            true => "estimate",
            false => "exact",
        }
    }

    fn tokens(&self) -> u64 {
        self.counted.iter().map(|it| it.count.tokens()).sum()
    }

    fn bytes(&self) -> u64 {
        self.counted.iter().map(|it| it.bytes).sum()
    }
}

fn per_token(bytes: u64, tokens: u64) -> String {
    match tokens {
        0 => "no token".to_owned(),
        _ => format!("{:.2} bytes a token", bytes as f64 / tokens as f64),
    }
}
