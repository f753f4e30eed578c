//! What the demo asks of the demo model, and what the model tells of itself.

use super::row::{Act, Turn};
use anyhow::Context as _;

/// The request's body.
pub(super) fn body(act: Act) -> String {
    if let Act::Turn(turn) = act {
        return conversation(turn);
    }
    let stream = !matches!(act, Act::Ask);
    format!(
        r#"{{"model":"claude-demo","max_tokens":16,"stream":{stream},"messages":[{{"role":"user","content":"Say something."}}]}}"#
    )
}

/// A conversation about one text, with the answer that the demo model gave.
fn conversation(turn: Turn) -> String {
    let message = |role: &str, text: &str| format!(r#"{{"role":"{role}","content":"{text}"}}"#);
    let first = message("user", "How does a packet reach a program?");
    let messages = match turn {
        Turn::First => first,
        Turn::Next | Turn::OfAnotherKey => [
            first,
            message("assistant", "the 🦀 "),
            message("user", "And how does it come back?"),
        ]
        .join(","),
        Turn::Other => message("user", "What is a socket?"),
    };
    format!(
        r#"{{"model":"claude-demo","max_tokens":16,"stream":true,"system":"{}","messages":[{messages}]}}"#,
        "You explain networks to people who build them. ".repeat(20)
    )
}

/// Request headers that set the model's pace: what is to be interrupted must last.
pub(super) fn headers(act: Act) -> Vec<String> {
    let headers: &[&str] = match act {
        Act::LeaveBeforeFirstByte => &["x-demo-first-token-ms: 20000"],
        Act::LeaveMidStream | Act::CancelStream | Act::BeRevoked => {
            &["x-demo-inter-token-ms: 20", "x-demo-tokens: 1000"]
        }
        _ => &[],
    };
    headers.iter().map(|&header| header.to_owned()).collect()
}

/// What the model has counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stats {
    /// Requests being answered.
    pub(super) active: u64,
    /// Requests whose client left.
    pub(super) cancelled: u64,
    /// When it last noticed that one had left.
    pub(super) last_cancelled_unix_ns: u64,
}

impl Stats {
    /// From `/demo/stats`.
    ///
    /// # Errors
    /// When a figure is missing.
    pub(super) fn read(stats: &serde_json::Value) -> anyhow::Result<Self> {
        let figure = |name: &str| {
            let value = stats[name].as_u64();
            value.with_context(|| format!("/demo/stats has no {name}: {stats}"))
        };
        Ok(Self {
            active: figure("active")?,
            cancelled: figure("cancelled")?,
            last_cancelled_unix_ns: figure("last_cancelled_unix_ns")?,
        })
    }
}
