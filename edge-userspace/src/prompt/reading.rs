//! One request's body: read and counted while it arrives, and held until it is sent on.
//!
//! The model may be named after the texts, as the official SDKs do. Until it is known a number
//! decides below which no vocabulary can be; then the texts of the body, which is held anyhow,
//! are read once more and counted by the model's own way. Of a conversation whose prefixes are
//! named the texts are counted at its end too: what is remembered of a prefix need not be.

mod names;
mod replay;
mod result;

use super::calibration::Calibration;
use super::count::{Count, Kind};
use super::counters::{Counters, Rules};
use super::decode::{self, Decoder, Encoding};
use super::guard::{Limits, TooLong};
use super::json::{self, Reader};
use super::listen::Both;
use super::pieces::Pieces;
use super::prefixes;
use super::tally::{Method, Texts};
use super::walk::{Shape, Walk};
use crate::config::{Model, Models, Tokenizer};
use crate::context::canonical::Canonical;
use bytes::{Buf as _, Bytes};
use replay::Replay;

pub use result::Counted;
use std::rc::Rc;
use std::sync::Arc;

/// About what is read in one turn, decoded: few milliseconds of the slowest text.
const TURN_BYTES: usize = 256 * 1024;
/// Of a body that is longer, the texts before the model's name are read again at its end.
const AGAIN_BYTES: u64 = 1 << 20;

/// One body.
pub struct Reading {
    shape: Shape,
    rules: Rc<Rules>,
    limits: Limits,
    /// None: the body is not encoded.
    decoder: Option<Decoder>,
    encoding: Encoding,
    most_bytes: u64,
    /// What is left to read of the piece that has come, or of the one that is read again.
    unread: Bytes,
    /// What may still be read of it in this turn, decoded.
    left: usize,
    reader: Reader,
    walk: Walk,
    /// Hears each part of the body once.
    canonical: Option<Box<Canonical>>,
    /// One of another body.
    spare: Option<Box<Canonical>>,
    /// Prefixes are named.
    is_chained: bool,
    /// What has been heard already is read again.
    repeats: bool,
    /// How many messages with what comes before them are known, and their tokens.
    known: Option<(u64, u64)>,
    held: Pieces,
    /// While it is read again: the next piece.
    again: Option<usize>,
    /// While its texts are counted where they lie.
    replay: Option<Replay>,
    /// When all is done.
    done: Option<(Count, Texts)>,
    /// Whether the body has come to its end.
    is_whole: bool,
}

/// Why a request is not sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its body cannot be decoded, or is too large decoded.
    Decoding(decode::Error),
    /// Its body is no JSON, or names something twice.
    Json(json::Error),
    /// Its prompt is too long.
    TooLong(TooLong),
}

impl From<decode::Error> for Refusal {
    fn from(error: decode::Error) -> Self {
        Self::Decoding(error)
    }
}

impl Reading {
    /// Nothing has come yet.
    #[must_use]
    pub fn new(
        shape: Shape,
        models: Arc<Models>,
        counters: Rc<Counters>,
        calibration: Arc<Calibration>,
        limits: Limits,
    ) -> Box<Self> {
        Self::of(counters.rules(&models, &calibration), shape, limits)
    }

    pub(super) fn of(rules: Rc<Rules>, shape: Shape, limits: Limits) -> Box<Self> {
        Box::new(Self {
            shape,
            rules: Rc::clone(&rules),
            limits,
            decoder: None,
            encoding: Encoding::Identity,
            most_bytes: 0,
            unread: Bytes::new(),
            left: TURN_BYTES,
            reader: Reader::new(),
            walk: Walk::new(shape, None, unknown(limits), rules),
            canonical: None,
            spare: None,
            is_chained: false,
            repeats: false,
            known: None,
            held: Pieces::default(),
            again: None,
            replay: None,
            done: None,
            is_whole: false,
        })
    }

    /// Another body, with what was made for the last one, of which nothing has stayed.
    pub(super) fn begin(&mut self, rules: Rc<Rules>, shape: Shape, limits: Limits) {
        self.shape = shape;
        self.limits = limits;
        self.walk
            .begin_body(shape, unknown(limits), Rc::clone(&rules));
        self.rules = rules;
    }

    /// Nothing of the body stays.
    pub(super) fn clear(&mut self) {
        self.decoder = None;
        self.encoding = Encoding::Identity;
        self.most_bytes = 0;
        self.unread = Bytes::new();
        self.left = TURN_BYTES;
        self.reader = Reader::new();
        self.walk.clear();
        self.erase_names();
        self.is_chained = false;
        self.repeats = false;
        self.known = None;
        self.held = Pieces::default();
        (self.again, self.replay) = (None, None);
        self.done = None;
        self.is_whole = false;
    }

    /// What it has taken besides itself and the body, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let spare = self.spare.as_ref();
        self.names_bytes() + self.decoder_bytes() + spare.map_or(0, |it| it.memory_bytes())
    }

    /// The body comes encoded so; decoded it may have so many bytes. It is held as it comes.
    #[must_use]
    pub fn encoded(mut self: Box<Self>, encoding: Encoding, most_bytes: u64) -> Box<Self> {
        self.encoding = encoding;
        self.most_bytes = most_bytes;
        self.decoder = Decoder::new(encoding, most_bytes);
        self
    }

    /// A piece of the body came; whether all of it has been read. What is left to read is for
    /// [`Reading::go_on`], before the next piece and after others had their turn: pieces may
    /// come one after the other at once, so all of them share what one turn may read.
    ///
    /// # Errors
    /// When the request is refused already.
    pub fn push(&mut self, piece: Bytes) -> Result<bool, Refusal> {
        if self.decoder.is_none() && piece.len() <= self.left {
            self.read_decoded(&piece)?;
            self.left -= piece.len();
            self.held.push(piece);
        } else {
            self.unread = piece.clone();
            self.held.push(piece);
        }
        self.advance()
    }

    /// The body is whole. What is left to do is for [`Reading::go_on`].
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn finish(&mut self) -> Result<(), Refusal> {
        self.is_whole = true;
        self.end()?;
        if self.walk.tally.is_bound() {
            self.count_again();
        }
        Ok(())
    }

    /// A new turn: does a part of what is left; whether nothing is.
    ///
    /// # Errors
    /// When the request is refused.
    pub fn go_on(&mut self) -> Result<bool, Refusal> {
        self.left = TURN_BYTES;
        self.advance()
    }

    fn advance(&mut self) -> Result<bool, Refusal> {
        if !self.read_on()? {
            return Ok(false);
        }
        if !self.is_whole {
            // The model's name came after some text.
            if self.walk.model.is_some()
                && self.walk.tally.is_bound()
                && self.held.bytes() <= AGAIN_BYTES
                && !self.waits()
            {
                self.begin_again();
                return self.read_on();
            }
            return Ok(true);
        }
        let Some(texts) = self.texts() else {
            // What was said of a prefix cannot be.
            self.known = None;
            self.count_again();
            return Ok(false);
        };
        let rule = self.rule();
        let count = self.count(rule, &texts);
        let is_estimate = count.kind == Kind::Estimate;
        (self.limits)
            .check(count.tokens, is_estimate, rule.context_tokens)
            .map_err(Refusal::TooLong)?;
        self.done = Some((count, texts));
        Ok(true)
    }

    /// What decoding holds in memory now, bytes.
    #[must_use]
    pub fn decoder_bytes(&self) -> usize {
        (self.decoder.as_ref()).map_or(0, Decoder::memory_bytes)
    }

    /// Reads this turn's part of what has come, or is read again; whether nothing is left.
    fn read_on(&mut self) -> Result<bool, Refusal> {
        if self.replay.is_some() {
            return self.replay_on();
        }
        loop {
            if !self.read_piece()? {
                return Ok(false);
            }
            let Some(at) = self.again else {
                return Ok(true);
            };
            let Some(piece) = self.held.all().get(at) else {
                self.again = None;
                if self.is_whole {
                    self.end()?;
                } else {
                    // What follows is new to everybody.
                    self.reader.flush(&mut self.walk);
                    self.repeats = false;
                }
                return Ok(true);
            };
            self.unread = piece.clone();
            self.again = Some(at + 1);
        }
    }

    /// Reads what is left of a piece, as far as this turn goes; whether that was all.
    fn read_piece(&mut self) -> Result<bool, Refusal> {
        let mut unread = std::mem::take(&mut self.unread);
        while !unread.is_empty() && self.left > 0 {
            let read = match self.decoder.take() {
                None => {
                    let part = unread.split_to(unread.len().min(self.left));
                    self.read_decoded(&part)?;
                    part.len()
                }
                Some(mut decoder) => {
                    let mut rest = &unread[..];
                    let decoded = decoder.step(&mut rest)?;
                    self.read_decoded(decoded)?;
                    let taken = unread.len() - rest.len();
                    let read = taken.max(decoded.len());
                    unread.advance(taken);
                    self.decoder = Some(decoder);
                    read
                }
            };
            self.left = self.left.saturating_sub(read);
        }
        self.unread = unread;
        Ok(self.unread.is_empty())
    }

    fn read_decoded(&mut self, text: &[u8]) -> Result<(), Refusal> {
        let read = match self.canonical.as_deref_mut().filter(|_| !self.repeats) {
            None => self.reader.push(text, &mut self.walk),
            Some(canonical) => {
                let mut both = Both(&mut self.walk, canonical);
                self.reader.push(text, &mut both)
            }
        };
        read.map_err(Refusal::Json)?;
        self.check()
    }

    /// All of the text has been read.
    fn end(&mut self) -> Result<(), Refusal> {
        if let Some(mut decoder) = self.decoder.take() {
            loop {
                let decoded = decoder.finish()?;
                if decoded.is_empty() {
                    break;
                }
                self.read_decoded(decoded)?;
            }
        }
        let finished = match self.canonical.as_deref_mut().filter(|_| !self.repeats) {
            None => self.reader.finish(&mut self.walk),
            Some(canonical) => self.reader.finish(&mut Both(&mut self.walk, canonical)),
        };
        finished.map_err(Refusal::Json)
    }

    /// Whether what has come so far is too long already.
    fn check(&self) -> Result<(), Refusal> {
        if self.walk.tally.is_bound() {
            if self.limits.is_none() {
                return Ok(());
            }
            let tokens = self.walk.tally.at_least();
            return (self.limits.check(tokens, false, None)).map_err(Refusal::TooLong);
        }
        let rule = self.rule();
        if self.limits.is_none() && rule.context_tokens.is_none() {
            return Ok(());
        }
        // What is known is counted at the end.
        if self.known.is_some() {
            return Ok(());
        }
        let is_estimate = self.is_estimate(rule);
        // What is not written as it is counted may be less in the end.
        let others = if is_estimate {
            self.walk.seen.pictures[1]
        } else {
            self.walk.seen.pictures[0]
        };
        let tokens = self.walk.tally.at_least() + others + self.framing(rule);
        (self.limits)
            .check(tokens, is_estimate, rule.context_tokens)
            .map_err(Refusal::TooLong)
    }

    /// The body being whole.
    fn count_again(&mut self) {
        if !self.begin_replay() {
            self.begin_again();
        }
    }

    fn begin_again(&mut self) {
        if let Some(canonical) = self.canonical.as_deref_mut().filter(|_| !self.repeats) {
            // It has to hear on from here.
            self.reader.flush(canonical);
        }
        self.repeats = true;
        // Without a name it is nobody's model, for which there is a rule too.
        let model = Some(self.walk.model.take().unwrap_or_default());
        let rules = Rc::clone(&self.rules);
        self.walk = Walk::new(self.shape, model, Method::Later, rules);
        // Where they lie is not noted of texts that are counted at once.
        self.walk.spans.lose();
        self.reader = Reader::new();
        self.decoder = Decoder::new(self.encoding, self.most_bytes);
        self.again = Some(0);
    }

    fn rule(&self) -> &Model {
        self.rules.models.rule(self.walk.rule())
    }
}

/// How texts are counted until the model is known.
fn unknown(limits: Limits) -> Method {
    match limits.is_none() {
        true => Method::Later,
        false => Method::Bound,
    }
}
