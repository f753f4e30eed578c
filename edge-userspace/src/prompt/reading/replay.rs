//! Counts the texts of a body that has come to its end, where they were seen to lie.
//!
//! Not here: what reads the whole body once more, where that is not known
//! ([`super::Reading::begin_again`]).

use super::{Encoding, Reader, Reading, Refusal};
use crate::prompt::json::{Duplicate, Literal, Visit};
use crate::prompt::place::Part;
use crate::prompt::tally::Sort;
use crate::prompt::walk::Walk;

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replay {
    /// The text.
    span: usize,
    /// Bytes of it that have been counted.
    done: u64,
    /// The piece of the body in which it was, and where that piece begins.
    piece: usize,
    begins: u64,
}

impl Reading {
    /// Begins, where it is known where all texts lie; whether it is.
    pub(super) fn begin_replay(&mut self) -> bool {
        // What is encoded lies nowhere.
        if self.encoding != Encoding::Identity || self.walk.spans.all().is_none() {
            return false;
        }
        let rule = self.walk.rule();
        let model = self.walk.model.get_or_insert_default();
        let method = self.rules.method(rule, model);
        self.walk.tally.begin_again(method);
        self.walk.marks.begin_again();
        self.replay = Some(Replay::default());
        true
    }

    /// Whether it has begun and nothing more.
    pub(in crate::prompt) fn replay_begins(&self) -> bool {
        self.replay == Some(Replay::default())
    }

    /// This turn's part of it; whether nothing is left.
    pub(super) fn replay_on(&mut self) -> Result<bool, Refusal> {
        let Some(mut at) = self.replay.take() else {
            return Ok(true);
        };
        let pieces = self.held.all();
        while let Some(&span) = self.walk.spans.all().and_then(|all| all.get(at.span)) {
            if at.done == 0 {
                // Those before its own have ended.
                let ended = span.messages.saturating_sub(1);
                self.walk.marks.counted_to(ended, &self.walk.tally);
                let known = self.known.map(|(messages, _)| messages);
                if known.is_some_and(|messages| span.is_within(messages)) {
                    (self.walk.tally).pass_known(span.json_bytes.unwrap_or(0));
                    at.span += 1;
                    continue;
                }
                self.reader = Reader::new();
            }
            if self.left == 0 {
                self.replay = Some(at);
                self.check()?;
                return Ok(false);
            }
            let from = span.from + at.done;
            while let Some(piece) = pieces.get(at.piece)
                && from - at.begins >= piece.len() as u64
            {
                at.begins += piece.len() as u64;
                at.piece += 1;
            }
            let Some(piece) = pieces.get(at.piece) else {
                // It has all been read before, so it is there.
                break;
            };
            let rest = &piece[(from - at.begins) as usize..];
            let most = usize::try_from(span.to - from).unwrap_or(usize::MAX);
            let part = &rest[..rest.len().min(most).min(self.left)];
            let mut once_more = OnceMore {
                walk: &mut self.walk,
                part: span.part,
                is_json: span.json_bytes.is_some(),
            };
            let read = self.reader.push(part, &mut once_more);
            read.map_err(Refusal::Json)?;
            self.left -= part.len();
            at.done += part.len() as u64;
            if from + part.len() as u64 == span.to {
                (at.span, at.done) = (at.span + 1, 0);
            }
        }
        self.walk.marks.counted_to(u64::MAX, &self.walk.tally);
        self.check()?;
        Ok(true)
    }
}

/// Hears one text, which is all that is read.
struct OnceMore<'a> {
    walk: &'a mut Walk,
    part: Part,
    is_json: bool,
}

impl OnceMore<'_> {
    fn begin(&mut self, is_object: bool) {
        if self.walk.in_json() {
            match is_object {
                true => self.walk.begin_object(),
                false => self.walk.begin_array(),
            }
        } else {
            self.walk.begin_json(self.part, is_object);
        }
    }
}

impl Visit for OnceMore<'_> {
    fn begin_object(&mut self) {
        self.begin(true);
    }

    fn end_object(&mut self) {
        self.walk.end_object();
    }

    fn begin_array(&mut self) {
        self.begin(false);
    }

    fn end_array(&mut self) {
        self.walk.end_array();
    }

    fn begin_string(&mut self, is_key: bool) {
        match self.is_json {
            true => self.walk.begin_string(is_key),
            false => self.walk.tally.begin(self.part, Sort::Plain),
        }
    }

    fn string(&mut self, piece: &[u8]) {
        self.walk.tally.push(piece);
    }

    fn end_string(&mut self) -> Result<(), Duplicate> {
        match self.is_json {
            true => self.walk.end_string(),
            false => {
                self.walk.tally.end();
                Ok(())
            }
        }
    }

    fn begin_number(&mut self) {
        self.walk.begin_number();
    }

    fn number(&mut self, piece: &[u8]) {
        self.walk.number(piece);
    }

    fn literal(&mut self, literal: Literal) {
        self.walk.literal(literal);
    }
}
