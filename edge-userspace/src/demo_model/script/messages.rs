//! Answers of the Messages API.

use super::{Kind, Said, Script, json};
use serde_json::{Value, json as object};

/// One event.
enum Event {
    Start,
    BlockStart(usize),
    Ping,
    Delta(usize, u64),
    Signature(usize),
    BlockStop(usize),
    /// The usage so far: of that many pieces of the answer.
    Usage(u64),
    MessageDelta,
    Stop,
}

/// With usage that grows, it is said after this many pieces.
const PIECES_A_USAGE: u64 = 8;

impl Script {
    pub(super) fn messages_len(&self) -> u64 {
        let blocks: u64 = (0..self.parts.len()).map(|part| self.block_len(part)).sum();
        let twice = u64::from(self.said == Said::Twice);
        // Start and ping, the last usage and the stop.
        blocks + 4 + twice
    }

    /// Events of a block: its begin and end, its pieces, the usage in between.
    fn block_len(&self, part: usize) -> u64 {
        let signature = u64::from(self.parts[part] == Kind::Thinking);
        self.deltas_len(part) + 2 + signature
    }

    fn deltas_len(&self, part: usize) -> u64 {
        let pieces = self.pieces(part);
        match self.said {
            Said::Cumulative => pieces + pieces / PIECES_A_USAGE,
            _ => pieces,
        }
    }

    fn messages_nth(&self, n: u64) -> Event {
        let Some(mut at) = n.checked_sub(1) else {
            return Event::Start;
        };
        let mut before = 0;
        for part in 0..self.parts.len() {
            match at {
                0 => return Event::BlockStart(part),
                1 if part == 0 => return Event::Ping,
                _ => {}
            }
            // The first block has the ping within it.
            at -= 1 + u64::from(part == 0);
            let deltas = self.deltas_len(part);
            if at < deltas {
                return match self.said {
                    Said::Cumulative if at % (PIECES_A_USAGE + 1) == PIECES_A_USAGE => {
                        let said = (at + 1) / (PIECES_A_USAGE + 1) * PIECES_A_USAGE;
                        Event::Usage(before + said)
                    }
                    Said::Cumulative => Event::Delta(part, at - at / (PIECES_A_USAGE + 1)),
                    _ => Event::Delta(part, at),
                };
            }
            at -= deltas;
            if self.parts[part] == Kind::Thinking {
                if at == 0 {
                    return Event::Signature(part);
                }
                at -= 1;
            }
            if at == 0 {
                return Event::BlockStop(part);
            }
            at -= 1;
            before += self.pieces(part);
        }
        match (at, self.said) {
            (0, Said::Twice) => Event::Usage(self.tokens / 2),
            (0, _) | (1, Said::Twice) => Event::MessageDelta,
            _ => Event::Stop,
        }
    }

    /// Pieces of each part among the first `events` events.
    pub(super) fn messages_pieces(&self, events: u64) -> Vec<u64> {
        if events >= self.messages_len() {
            return (0..self.parts.len())
                .map(|part| self.pieces(part))
                .collect();
        }
        let mut pieces = vec![0; self.parts.len()];
        for n in (0..events).filter(|n| !self.errs_at(*n)) {
            if let Event::Delta(part, _) = self.messages_nth(n) {
                pieces[part] += 1;
            }
        }
        pieces
    }

    pub(super) fn messages_event(&self, n: u64) -> String {
        if self.errs_at(n) {
            let error =
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
            return event("error", error);
        }
        match self.messages_nth(n) {
            Event::Start => {
                let usage = self.usage_field(true, 1);
                event(
                    "message_start",
                    &format!(
                        r#"{{"type":"message_start","message":{{"id":"msg_demo","type":"message","role":"assistant","content":[],"model":{},"stop_reason":null,"stop_sequence":null{usage}}}}}"#,
                        json(&self.model),
                    ),
                )
            }
            Event::BlockStart(part) => event(
                "content_block_start",
                &format!(
                    r#"{{"type":"content_block_start","index":{part},"content_block":{}}}"#,
                    self.block(part, false)
                ),
            ),
            Event::Ping => event("ping", r#"{"type": "ping"}"#),
            Event::Delta(part, piece) => {
                let (kind, field) = match self.parts[part] {
                    Kind::Thinking => ("thinking_delta", "thinking"),
                    Kind::Text => ("text_delta", "text"),
                    Kind::Tool(_) => ("input_json_delta", "partial_json"),
                };
                event(
                    "content_block_delta",
                    &format!(
                        r#"{{"type":"content_block_delta","index":{part},"delta":{{"type":"{kind}","{field}":{}}}}}"#,
                        json(&self.piece(part, piece))
                    ),
                )
            }
            Event::Signature(part) => event(
                "content_block_delta",
                &format!(
                    r#"{{"type":"content_block_delta","index":{part},"delta":{{"type":"signature_delta","signature":"{SIGNATURE}"}}}}"#
                ),
            ),
            Event::BlockStop(part) => event(
                "content_block_stop",
                &format!(r#"{{"type":"content_block_stop","index":{part}}}"#),
            ),
            Event::Usage(pieces) => self.message_delta(Value::Null, self.counted_until(n, pieces)),
            Event::MessageDelta => {
                self.message_delta(self.stop_reason.into(), self.all_output_tokens())
            }
            Event::Stop => event("message_stop", r#"{"type":"message_stop"}"#),
        }
    }

    /// Tokens that are said so far where usage is said in between.
    fn counted_until(&self, n: u64, pieces: u64) -> u64 {
        match self.said {
            Said::Twice => pieces,
            _ => self.output_tokens(n),
        }
    }

    fn message_delta(&self, stop_reason: Value, output_tokens: u64) -> String {
        let usage = self.usage_field(false, output_tokens);
        event(
            "message_delta",
            &format!(
                r#"{{"type":"message_delta","delta":{{"stop_reason":{stop_reason},"stop_sequence":null}}{usage}}}"#
            ),
        )
    }

    /// `,"usage":…`, or nothing: in the API's order it comes last.
    fn usage_field(&self, input: bool, output_tokens: u64) -> String {
        let usage = self.usage().of_messages(input, output_tokens);
        usage.map_or_else(String::new, |usage| format!(r#","usage":{usage}"#))
    }

    /// A content block: whole, or as it begins.
    fn block(&self, part: usize, whole: bool) -> Value {
        let text = |is_whole: bool| {
            if is_whole {
                self.text(part)
            } else {
                String::new()
            }
        };
        match &self.parts[part] {
            Kind::Thinking => object!({
                "type": "thinking", "thinking": text(whole),
                "signature": if whole { SIGNATURE } else { "" },
            }),
            Kind::Text => object!({ "type": "text", "text": text(whole) }),
            Kind::Tool(tool) => object!({
                "type": "tool_use", "id": format!("toolu_demo_{part}"), "name": tool.name,
                "input": if whole { tool.input.clone() } else { object!({}) },
            }),
        }
    }

    pub(super) fn messages_whole(&self) -> Value {
        let blocks = (0..self.parts.len()).map(|part| self.block(part, true));
        let mut message = object!({
            "id": "msg_demo",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": blocks.collect::<Vec<_>>(),
            "stop_reason": self.stop_reason,
            "stop_sequence": null,
        });
        if let Some(usage) = self.usage().of_messages(true, self.all_output_tokens()) {
            message["usage"] = usage;
        }
        message
    }
}

const SIGNATURE: &str = "ZGVtbw==";

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
