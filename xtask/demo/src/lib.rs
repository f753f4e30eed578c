//! How a demo client reports what it saw: lines of JSON on stdout, and what they mean.
//!
//! Shared by the client (the `edge-demo` binary) and by `cargo xtask run`, which starts it
//! and compares. The other clients' output is brought into the same shape.

mod answer;

pub use answer::Answer;

use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milestones printed as they happen, one JSON line each; `Done` is the last.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Milestone {
    /// The request is on its way (when leaving before the first byte), or the first events of
    /// the answer are here. Whoever steers may now say when to leave.
    Ready,
    /// The connection (by exiting) or the stream is given up, at this Unix time.
    Left {
        /// Nanoseconds.
        unix_ns: u64,
    },
    /// The end.
    Done(Report),
}

/// What one client saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// What the TLS library or the socket said when there was no connection, word for word.
    pub error: Option<String>,
    /// The ALPN name that the server chose.
    pub protocol: Option<String>,
    /// The key exchange group that was agreed on.
    pub group: Option<String>,
    /// Answers, in order; a failed request has its error.
    pub answers: Vec<Answer>,
}

/// Now, in nanoseconds of Unix time.
#[must_use]
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}
