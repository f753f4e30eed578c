//! A simulated KV cache: which beginnings of prompts the demo model still has, and when it
//! will have read the rest.
//!
//! A prompt is a chain of segments: what comes before the messages (model, tools, system),
//! then each message. A prompt finds as much in the cache as is there from its first segment
//! on without a gap. The segments used longest ago go first, later ones of a chain before
//! earlier ones. What is not cached is read one prompt after the other at a fixed rate, so
//! that a busy model makes its prompts wait. What the model answered is not kept.

use super::tokens;
use crate::tokens::Vocabulary;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// One demo model's.
#[derive(Debug)]
pub(super) struct KvCache {
    /// 0: nothing is kept.
    capacity_tokens: u64,
    /// 0: reading takes no time.
    tokens_per_ms: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    segments: HashMap<u64, Kept>,
    by_use: BTreeMap<u64, u64>,
    tokens: u64,
    uses: u64,
    /// When all prompts so far will have been read.
    read_at: Option<Instant>,
}

#[derive(Debug)]
struct Kept {
    tokens: u64,
    used: u64,
}

/// A part of a prompt, by all that comes before it too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    hash: u64,
    tokens: u64,
}

/// What became of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// Tokens that were in the cache.
    pub(super) cached: u64,
    /// Tokens that are in it from now on.
    pub(super) created: u64,
    /// When all of it will have been read.
    pub(super) at: Instant,
}

impl KvCache {
    pub(super) fn new(capacity_tokens: u64, tokens_per_ms: u64) -> Self {
        Self {
            capacity_tokens,
            tokens_per_ms,
            state: Mutex::default(),
        }
    }

    /// Whether anything is kept.
    pub(super) fn is_on(&self) -> bool {
        self.capacity_tokens > 0
    }

    /// Reads a prompt that comes at `now`.
    pub(super) fn read(&self, segments: &[Segment], now: Instant) -> Read {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<_> = (segments.iter())
            .map_while(|segment| Some(state.segments.get(&segment.hash)?.tokens))
            .collect();
        let (_, new) = segments.split_at(known.len());
        let cached = known.iter().sum();
        let missing: u64 = new.iter().map(|segment| segment.tokens).sum();
        // The last first, so that none is older than what comes after it.
        for segment in segments.iter().rev() {
            state.touch(*segment);
        }
        while state.tokens > self.capacity_tokens {
            state.forget_oldest();
        }
        let created = (new.iter())
            .filter(|segment| state.segments.contains_key(&segment.hash))
            .map(|segment| segment.tokens)
            .sum();
        let begins = state.read_at.map_or(now, |at| at.max(now));
        let us = (missing * 1000)
            .checked_div(self.tokens_per_ms)
            .unwrap_or(0);
        let at = begins + Duration::from_micros(us);
        state.read_at = Some(at);
        Read {
            cached,
            created,
            at,
        }
    }
}

impl State {
    fn touch(&mut self, segment: Segment) {
        self.uses += 1;
        let kept = self.segments.entry(segment.hash).or_insert_with(|| {
            self.tokens += segment.tokens;
            Kept {
                tokens: segment.tokens,
                used: 0,
            }
        });
        self.by_use.remove(&kept.used);
        kept.used = self.uses;
        self.by_use.insert(self.uses, segment.hash);
    }

    fn forget_oldest(&mut self) {
        let Some((_, hash)) = self.by_use.pop_first() else {
            return;
        };
        let gone = self.segments.remove(&hash);
        self.tokens -= gone.map_or(0, |kept| kept.tokens);
    }
}

/// The segments of a request that has `input_tokens`.
pub(super) fn segments(
    asked: &Value,
    input_tokens: u64,
    vocabulary: Option<&Vocabulary>,
) -> Vec<Segment> {
    let messages = asked["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let messages: Vec<_> = (messages.iter())
        .map(|message| {
            let text = json!([message["role"], plain(&message["content"])]).to_string();
            (text, tokens::message(message, vocabulary))
        })
        .collect();
    let in_messages: u64 = messages.iter().map(|(_, tokens)| tokens).sum();
    let before = json!([asked["model"], asked["tools"], plain(&asked["system"])]).to_string();
    let before = (before, input_tokens.saturating_sub(in_messages));
    let mut hash = 0;
    (std::iter::once(before).chain(messages))
        .map(|(text, tokens)| {
            let mut hasher = DefaultHasher::new();
            (hash, text).hash(&mut hasher);
            hash = hasher.finish();
            Segment { hash, tokens }
        })
        .collect()
}

/// A text is as one block of text, and where caching is asked for changes nothing.
fn plain(content: &Value) -> Value {
    match content {
        Value::String(text) => json!([{ "type": "text", "text": text }]),
        Value::Array(blocks) => blocks
            .iter()
            .map(|block| {
                let mut block = block.clone();
                if let Some(fields) = block.as_object_mut() {
                    fields.remove("cache_control");
                }
                block
            })
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[(&str, u64)]) -> Vec<Segment> {
        let mut chain = String::new();
        (texts.iter())
            .map(|(text, tokens)| {
                chain += text;
                let mut hasher = DefaultHasher::new();
                chain.hash(&mut hasher);
                Segment {
                    hash: hasher.finish(),
                    tokens: *tokens,
                }
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_turn_finds_what_was_read_and_pays_for_the_rest() {
        let cache = KvCache::new(10_000, 10);
        let now = Instant::now();
        let first = cache.read(&of(&[("s", 1000), ("u1", 200)]), now);
        let ms = Duration::from_millis;
        assert_eq!(
            (first.cached, first.created, first.at - now),
            (0, 1200, ms(120))
        );
        // It waits for the one before it.
        let next = [("s", 1000), ("u1", 200), ("a1", 50), ("u2", 50)];
        let second = cache.read(&of(&next), now + ms(20));
        assert_eq!(
            (second.cached, second.created, second.at - now),
            (1200, 100, ms(130))
        );
        let later = now + ms(500);
        let again = cache.read(&of(&next), later);
        assert_eq!((again.cached, again.created, again.at), (1300, 0, later));
        // A gap ends it.
        let gap = cache.read(&of(&[("s", 1000), ("x", 1), ("a1", 50)]), later);
        assert_eq!((gap.cached, gap.created), (1000, 51));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_used_longest_ago_goes_and_ends_go_before_beginnings() {
        let cache = KvCache::new(1000, 0);
        let now = Instant::now();
        let read = |texts: &[_]| cache.read(&of(texts), now).cached;
        assert_eq!(read(&[("a", 400), ("b", 300)]), 0);
        assert_eq!(read(&[("x", 500)]), 0);
        assert_eq!(
            read(&[("a", 400), ("b", 300)]),
            400,
            "b has gone, a is there"
        );
        assert_eq!(read(&[("x", 500)]), 0);
        // More than there is room for.
        let large = cache.read(&of(&[("l", 900), ("m", 900)]), now);
        assert_eq!((large.cached, large.created), (0, 900));
        assert_eq!(read(&[("l", 900), ("m", 900)]), 900);
        let off = KvCache::new(0, 0);
        for _ in 0..2 {
            let read = off.read(&of(&[("a", 400)]), now);
            assert_eq!((read.cached, read.created, read.at), (0, 0, now));
        }
    }

    #[test]
    fn strings_and_blocks_with_marks_are_the_same_prompt() {
        let hashes = |body: &str| -> Vec<u64> {
            let asked = serde_json::from_str(body).unwrap();
            let segments = segments(&asked, 100, None);
            segments.iter().map(|segment| segment.hash).collect()
        };
        let string = hashes(
            r#"{"model":"m","system":"s","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a"}]}"#,
        );
        let blocks = hashes(
            r#"{"messages":[{"content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}],"role":"user"}],"system":[{"type":"text","text":"s"}],"model":"m"}"#,
        );
        assert_eq!(string[..2], blocks[..]);
        let other =
            hashes(r#"{"model":"n","system":"s","messages":[{"role":"user","content":"hi"}]}"#);
        assert!(other[0] != string[0] && other[1] != string[1]);
    }
}
