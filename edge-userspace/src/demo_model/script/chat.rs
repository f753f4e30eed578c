//! Answers of Chat Completions. Only the last part of an answer is told: a text or a call.

use super::{Kind, Script};
use serde_json::{Value, json};

impl Script {
    fn last(&self) -> usize {
        self.parts.len() - 1
    }

    /// Of each choice the pieces and the end; then the usage, and the mark.
    pub(super) fn chat_len(&self) -> u64 {
        self.choices * (self.tokens + 1) + u64::from(self.tells_usage) + 1
    }

    /// Pieces of each choice among the first `events` events.
    pub(super) fn chat_pieces(&self, events: u64) -> Vec<u64> {
        let erred = (0..events).any(|n| self.errs_at(n));
        let events = events - u64::from(erred);
        let told = |choice: u64| {
            let rounds = events.min(self.choices * self.tokens);
            (rounds + self.choices - 1 - choice) / self.choices
        };
        (0..self.choices).map(told).collect()
    }

    pub(super) fn chat_event(&self, n: u64) -> String {
        if self.errs_at(n) {
            let error = json!({ "error": { "type": "overloaded_error", "message": "Overloaded" } });
            return format!("data: {error}\n\n");
        }
        let (piece, choice) = (n / self.choices, n % self.choices);
        let chunk = if piece < self.tokens {
            self.chunk(choice, self.chat_delta(piece), Value::Null)
        } else if piece == self.tokens {
            self.chunk(choice, json!({}), self.finish_reason().into())
        } else if self.tells_usage && n + 2 == self.chat_len() {
            let mut chunk = self.chat_object("chat.completion.chunk");
            chunk["choices"] = json!([]);
            if let Some(usage) = self.usage().of_chat(self.all_output_tokens()) {
                chunk["usage"] = usage;
            }
            chunk
        } else {
            return "data: [DONE]\n\n".to_owned();
        };
        format!("data: {chunk}\n\n")
    }

    fn chunk(&self, choice: u64, delta: Value, finish: Value) -> Value {
        let mut chunk = self.chat_object("chat.completion.chunk");
        chunk["choices"] = json!([{ "index": choice, "delta": delta, "finish_reason": finish }]);
        if self.tells_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn chat_delta(&self, piece: u64) -> Value {
        let text = self.piece(self.last(), piece);
        let mut delta = match &self.parts[self.last()] {
            Kind::Tool(tool) if piece == 0 => json!({ "tool_calls": [{
                "index": 0, "id": "call_demo", "type": "function",
                "function": { "name": tool.name, "arguments": text },
            }] }),
            Kind::Tool(_) => json!({ "tool_calls": [{
                "index": 0, "function": { "arguments": text },
            }] }),
            _ => json!({ "content": text }),
        };
        if piece == 0 {
            delta["role"] = "assistant".into();
        }
        delta
    }

    pub(super) fn chat_whole(&self) -> Value {
        let message = match &self.parts[self.last()] {
            Kind::Tool(tool) => json!({
                "role": "assistant",
                "content": null,
                "tool_calls": [{
                    "id": "call_demo", "type": "function",
                    "function": { "name": tool.name, "arguments": tool.input.to_string() },
                }],
            }),
            _ => json!({ "role": "assistant", "content": self.text(self.last()) }),
        };
        let choices = (0..self.choices).map(|index| {
            json!({ "index": index, "message": message, "finish_reason": self.finish_reason() })
        });
        let mut answer = self.chat_object("chat.completion");
        answer["choices"] = choices.collect::<Vec<_>>().into();
        if let Some(usage) = self.usage().of_chat(self.all_output_tokens()) {
            answer["usage"] = usage;
        }
        answer
    }

    fn chat_object(&self, kind: &str) -> Value {
        json!({
            "id": "chatcmpl_demo", "object": kind, "created": 1_790_000_000, "model": self.model,
        })
    }

    fn finish_reason(&self) -> &'static str {
        match self.parts[self.last()] {
            Kind::Tool(_) => "tool_calls",
            _ => "stop",
        }
    }
}
