//! The answer's text and its events.

use super::Fault;
use std::time::Duration;

/// Words of one, two, three and four bytes a character, so that chunks can split them.
const WORDS: [&str; 16] = [
    "the ", "model ", "says ", "that ", "água ", "über ", "naïve ", "日本 ", "語 ", "🦀 ", "and ",
    "so ", "on, ", "one ", "token ", "more. ",
];

/// The `n`th token of every answer.
pub(super) fn token(n: u64) -> &'static str {
    // Any fixed mixing will do; this is Knuth's multiplicative one.
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
    WORDS[usize::try_from(mixed).unwrap_or(0)]
}

/// Which API an event stream is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Messages,
    ChatCompletions,
}

/// What an event stream consists of and how fast it comes.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) shape: Shape,
    pub(super) model: String,
    pub(super) input_tokens: u64,
    /// Of them, those that were read from a cache and those that were written to it; none
    /// without one.
    pub(super) cached: Option<(u64, u64)>,
    pub(super) tokens: u64,
    /// What the first token is, if not always the same.
    pub(super) beginning: Option<String>,
    pub(super) stop_reason: &'static str,
    pub(super) inter_token: Duration,
    pub(super) chunk_bytes: Option<usize>,
    pub(super) fault: Option<Fault>,
}

/// Events before the first token and after the last, in the Messages API's order.
const BEFORE: u64 = 3;
const AFTER: u64 = 3;

impl Script {
    /// Number of events.
    pub(super) fn len(&self) -> u64 {
        match self.shape {
            Shape::Messages => BEFORE + self.tokens + AFTER,
            Shape::ChatCompletions => self.tokens + 2,
        }
    }

    /// The `n`th token.
    fn token(&self, n: u64) -> &str {
        match &self.beginning {
            Some(beginning) if n == 0 => beginning,
            _ => token(n),
        }
    }

    /// All of them.
    pub(super) fn text(&self) -> String {
        (0..self.tokens).map(|n| self.token(n)).collect()
    }

    /// The `n`th event as it goes over the wire.
    pub(super) fn event(&self, n: u64) -> String {
        match self.shape {
            Shape::Messages => self.messages_event(n),
            Shape::ChatCompletions => self.chat_event(n),
        }
    }

    /// What was counted of the prompt, as the Messages API says it: what a cache had to do
    /// with is not among `input_tokens`.
    pub(super) fn input_usage(&self) -> serde_json::Value {
        match self.cached {
            None => serde_json::json!({ "input_tokens": self.input_tokens }),
            Some((read, created)) => serde_json::json!({
                "input_tokens": self.input_tokens.saturating_sub(read + created),
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": created,
            }),
        }
    }

    fn messages_event(&self, n: u64) -> String {
        if n == 0 && self.fault == Some(Fault::ErrorEvent) {
            return event(
                "error",
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            );
        }
        let Self {
            model,
            tokens,
            stop_reason,
            ..
        } = self;
        let after_tokens = n.checked_sub(BEFORE + tokens);
        match (n, after_tokens) {
            (0, _) => event(
                "message_start",
                &format!(
                    r#"{{"type":"message_start","message":{{"id":"msg_demo","type":"message","role":"assistant","content":[],"model":{},"stop_reason":null,"stop_sequence":null,"usage":{}}}}}"#,
                    json(model),
                    with(self.input_usage(), "output_tokens", 1),
                ),
            ),
            (1, _) => event(
                "content_block_start",
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            ),
            (2, _) => event("ping", r#"{"type": "ping"}"#),
            (_, Some(0)) => event(
                "content_block_stop",
                r#"{"type":"content_block_stop","index":0}"#,
            ),
            (_, Some(1)) => event(
                "message_delta",
                &format!(
                    r#"{{"type":"message_delta","delta":{{"stop_reason":"{stop_reason}","stop_sequence":null}},"usage":{{"output_tokens":{tokens}}}}}"#
                ),
            ),
            (_, Some(_)) => event("message_stop", r#"{"type":"message_stop"}"#),
            (n, None) => event(
                "content_block_delta",
                &format!(
                    r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{}}}}}"#,
                    json(self.token(n - BEFORE))
                ),
            ),
        }
    }

    fn chat_event(&self, n: u64) -> String {
        let chunk = |delta: &str, finish: &str| {
            format!(
                "data: {{\"id\":\"chatcmpl_demo\",\"object\":\"chat.completion.chunk\",\"model\":{},\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n",
                json(&self.model)
            )
        };
        match n.checked_sub(self.tokens) {
            None => chunk(&format!(r#"{{"content":{}}}"#, json(self.token(n))), "null"),
            Some(0) => chunk("{}", r#""stop""#),
            Some(_) => "data: [DONE]\n\n".to_owned(),
        }
    }

    /// Where the middle is, in events, for faults that strike there.
    pub(super) fn middle(&self) -> u64 {
        self.len() / 2
    }
}

/// An object with one more number.
pub(super) fn with(mut object: serde_json::Value, name: &str, number: u64) -> serde_json::Value {
    object[name] = number.into();
    object
}

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
