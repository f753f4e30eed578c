//! What is known of a request when its body has been read.

use super::{Reading, Texts, prefixes};
use crate::config::{Model, Tokenizer};
use crate::prompt::count::{Count, Kind, Parts};
use crate::prompt::learn::Learn;
use crate::prompt::output::Output;
use crate::prompt::prefixes::Prefixes;
use bytes::Bytes;
use std::sync::Arc;

/// What is known of a request whose body has been read.
#[derive(Debug)]
pub struct Counted {
    /// Its prompt's tokens.
    pub count: Count,
    /// Its model, as it is written; empty when none is, or when its name is too long.
    pub model: Box<[u8]>,
    /// Whether it has messages.
    pub has_messages: bool,
    /// The longest answer that it asks for, tokens; none when it does not say.
    pub max_tokens: Option<u64>,
    /// How many answers (`n`), 1 when it does not say.
    pub choices: u64,
    /// Whether it asks for an event stream.
    pub is_stream: bool,
    /// For the one who hears what the upstream counted.
    pub learn: Option<Learn>,
    /// What its prefixes count.
    pub prefixes: Prefixes,
    /// For the one who relays the answer: counts its text.
    pub output: Output,
}

impl Reading {
    /// What has been counted, and the body, byte for byte as it came; once.
    #[must_use]
    pub fn counted(&mut self) -> (Counted, Vec<Bytes>) {
        let done = self.done.take();
        let number = self.walk.rule();
        let model: Box<[u8]> = self.walk.model.take().unwrap_or_default().into();
        let rule = self.rules.models.rule(number);
        let (count, texts) = done.unwrap_or_else(|| {
            let texts = self.walk.tally.texts();
            (self.count(rule, &texts), texts)
        });
        let framing = rule.framing;
        let seen = self.walk.seen;
        let is_learnt = matches!(rule.tokenizer, Tokenizer::Estimate(_));
        // Of a picture it is not known what it counted, so nothing is learnt beside one.
        let learn = (is_learnt && seen.pictures[2] == 0 && !model.is_empty()).then(|| {
            Learn::new(
                Arc::clone(&self.rules.calibration),
                model.clone(),
                texts.uncalibrated,
                count.parts.framing,
            )
        });
        let output = Output::new(self.rules.method(number, &model));
        let counted = Counted {
            count,
            output,
            model,
            has_messages: seen.has_messages,
            max_tokens: self.walk.asked.max_tokens,
            choices: self.walk.asked.choices.unwrap_or(1),
            is_stream: self.walk.asked.is_stream,
            learn,
            prefixes: Prefixes::new(framing, &texts, &mut self.walk, self.known),
        };
        (counted, std::mem::take(&mut self.held).into_all())
    }

    pub(super) fn framing(&self, rule: &Model) -> u64 {
        let (framing, seen) = (&rule.framing, &self.walk.seen);
        if !seen.has_messages {
            return 0;
        }
        framing.per_request + prefixes::framing(framing, seen, seen.messages, seen.names)
    }

    pub(super) fn is_estimate(&self, rule: &Model) -> bool {
        matches!(rule.tokenizer, Tokenizer::Estimate(_))
            || !rule.framing.is_published
            || self.walk.seen.estimated
    }

    pub(super) fn count(&self, rule: &Model, texts: &Texts) -> Count {
        let framing = self.framing(rule);
        let [pictures_low, pictures, pictures_high] = self.walk.seen.pictures;
        let kind = if self.is_estimate(rule) {
            Kind::Estimate
        } else {
            Kind::Exact
        };
        Count {
            tokens: texts.tokens + pictures + framing,
            kind,
            low: texts.low + pictures_low + framing,
            high: texts.high + pictures_high + framing,
            parts: Parts {
                texts: texts.parts,
                pictures,
                framing,
            },
        }
    }
}
