//! The answer's text and its events.

mod chat;
mod messages;
mod usage;

pub(super) use usage::Said;

use super::Fault;
use crate::tokens::{Counter, Vocabulary};
use std::time::Duration;
use usage::Usage;

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

/// What a part of an answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Thinking,
    Text,
    Tool(Tool),
}

/// A call of one of the request's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// Its input, a JSON object.
    pub(super) input: serde_json::Value,
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
    /// Pieces in which the answer is told, all parts together.
    pub(super) tokens: u64,
    /// What the first piece of text is, if not always the same.
    pub(super) beginning: Option<String>,
    /// Its parts, one at least. Chat Completions tell only the last one.
    pub(super) parts: Vec<Kind>,
    /// Answers to one request, of Chat Completions.
    pub(super) choices: u64,
    /// Whether Chat Completions end with the usage.
    pub(super) tells_usage: bool,
    pub(super) said: Said,
    pub(super) stop_reason: &'static str,
    pub(super) inter_token: Duration,
    pub(super) chunk_bytes: Option<usize>,
    pub(super) fault: Option<Fault>,
    /// The event at which the fault strikes; none: the one in the middle.
    pub(super) fault_at: Option<u64>,
    /// By which the answer is counted; none: by its pieces.
    pub(super) vocabulary: Option<Vocabulary>,
}

impl Script {
    /// Number of events.
    pub(super) fn len(&self) -> u64 {
        match self.shape {
            Shape::Messages => self.messages_len(),
            Shape::ChatCompletions => self.chat_len(),
        }
    }

    /// The `n`th event as it goes over the wire.
    pub(super) fn event(&self, n: u64) -> String {
        match self.shape {
            Shape::Messages => self.messages_event(n),
            Shape::ChatCompletions => self.chat_event(n),
        }
    }

    /// The whole answer as one JSON text.
    pub(super) fn whole(&self) -> serde_json::Value {
        match self.shape {
            Shape::Messages => self.messages_whole(),
            Shape::ChatCompletions => self.chat_whole(),
        }
    }

    /// Tokens of what the first `events` events tell, and say that they tell.
    pub(super) fn output_tokens(&self, events: u64) -> u64 {
        let pieces = match self.shape {
            Shape::Messages => self.messages_pieces(events),
            Shape::ChatCompletions => self.chat_pieces(events),
        };
        // What is said as the stream begins.
        let least = u64::from(self.shape == Shape::Messages && events > 0);
        let Some(vocabulary) = &self.vocabulary else {
            return pieces.iter().sum::<u64>().max(least);
        };
        let mut counter = Counter::new(vocabulary);
        // Of Chat Completions each choice tells the same part.
        let last = self.parts.len() - 1;
        let told = pieces.iter().enumerate();
        let tokens =
            told.map(|(part, pieces)| counter.count(self.told(part.min(last), *pieces).as_bytes()));
        tokens.sum::<u64>().max(least)
    }

    /// Tokens of all of it.
    pub(super) fn all_output_tokens(&self) -> u64 {
        self.output_tokens(self.len())
    }

    /// Where a fault strikes, in events.
    pub(super) fn fault_at(&self) -> u64 {
        match (self.fault_at, self.fault) {
            (Some(at), _) => at,
            (None, Some(Fault::ErrorEvent)) => 0,
            (None, _) => self.len() / 2,
        }
    }

    /// Whether the `n`th event is an error instead of what it would be.
    fn errs_at(&self, n: u64) -> bool {
        let errs = matches!(
            self.fault,
            Some(Fault::ErrorEvent | Fault::ErrorEventMidStream)
        );
        errs && n == self.fault_at()
    }

    /// What usage is said to be.
    fn usage(&self) -> Usage {
        Usage {
            said: self.said,
            input_tokens: self.input_tokens,
            cached: self.cached,
        }
    }

    /// In how many pieces a part is told: equal shares, the last one takes the rest.
    fn pieces(&self, part: usize) -> u64 {
        let count = self.parts.len().max(1) as u64;
        match part + 1 == self.parts.len() {
            true => self.tokens - self.tokens / count * (count - 1),
            false => self.tokens / count,
        }
    }

    /// One piece of a part.
    fn piece(&self, part: usize, n: u64) -> String {
        match self.parts.get(part) {
            Some(Kind::Tool(tool)) => cut(&tool.input.to_string(), self.pieces(part), n),
            Some(Kind::Text) if n == 0 => match &self.beginning {
                Some(beginning) => beginning.clone(),
                None => token(0).to_owned(),
            },
            _ => token(n).to_owned(),
        }
    }

    /// The first pieces of a part.
    fn told(&self, part: usize, pieces: u64) -> String {
        (0..pieces).map(|n| self.piece(part, n)).collect()
    }

    /// All of a part.
    fn text(&self, part: usize) -> String {
        self.told(part, self.pieces(part))
    }

    /// All that the last part says.
    #[cfg(test)]
    pub(super) fn last_text(&self) -> String {
        self.text(self.parts.len() - 1)
    }
}

/// The `n`th of `pieces` equal parts of a text; characters stay whole.
fn cut(text: &str, pieces: u64, n: u64) -> String {
    let boundary = |n: u64| {
        let at = text.len() as u64 * n / pieces.max(1);
        let at = usize::try_from(at).unwrap_or(text.len());
        (at..text.len())
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(text.len())
    };
    text[boundary(n)..boundary(n + 1)].to_owned()
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_text_are_the_text_and_never_half_a_character() {
        let text = r#"{"city":"São Paulo 🦀","n":7}"#;
        for pieces in [1, 2, 3, 7, 40, 1000] {
            let told: String = (0..pieces).map(|n| cut(text, pieces, n)).collect();
            assert_eq!(told, text, "{pieces}");
        }
    }
}
