//! A text that is still arriving.
//!
//! What has arrived is counted up to the last place where it can be cut ([`super::cuts`]); what
//! is behind it waits, at most [`Text::CARRY_BYTES`] of it. Text without such a place for longer
//! than that is taken apart piece by piece, and a piece that is longer still goes through the
//! merging that needs no more than its state ([`super::endless`]).

use super::endless::LongPiece;
use super::{Counter, cuts};
use crate::normal_form::Normalizer;
use crate::pattern::Pattern;
use crate::pattern::class::{self, LETTER, NUMBER, SPACE, UPPER};
use crate::text::Decoder;

/// One text in parts. It borrows nothing: it can wait for its next part anywhere.
pub struct Text {
    decoder: Decoder,
    normalizer: Normalizer,
    open: Open,
}

impl Text {
    /// So many bytes of it wait at most until they can be counted.
    pub const CARRY_BYTES: usize = 4096 + STEP;

    /// One of which nothing has arrived. `counter` is one of its vocabulary.
    #[must_use]
    pub fn new(counter: &Counter) -> Self {
        Self {
            decoder: Decoder::new(),
            normalizer: Normalizer::new(counter.vocabulary().normal_form()),
            open: Open {
                pattern: counter.vocabulary().pattern(),
                carry: Vec::new(),
                long: None,
                tokens: 0,
            },
        }
    }

    /// The next part, cut anywhere, also inside of a character.
    ///
    /// `counter` must be of the same vocabulary in all calls.
    pub fn push(&mut self, counter: &mut Counter, part: &[u8]) {
        let Self {
            decoder,
            normalizer,
            open,
        } = self;
        decoder.push(part, |text| {
            normalizer.push(text, |text| open.push(counter, text.as_bytes()));
        });
    }

    /// The text has at least so many tokens already, whatever follows.
    #[must_use]
    pub fn at_least(&self) -> u64 {
        self.open.tokens
    }

    /// The tokens of what has arrived, as if the text ended here; but for a character whose end
    /// has not arrived, and for what a long piece comes to.
    #[must_use]
    pub fn so_far(&self, counter: &mut Counter) -> u64 {
        self.open.tokens + counter.count_normal(&self.open.carry)
    }

    /// Bytes that wait.
    #[cfg(test)]
    pub(super) fn open_bytes(&self) -> usize {
        self.open.carry.len()
    }

    /// The tokens of the whole text, which ends here.
    pub fn finish(self, counter: &mut Counter) -> u64 {
        let Self {
            decoder,
            mut normalizer,
            mut open,
        } = self;
        decoder.finish(|text| normalizer.push(text, |text| open.push(counter, text.as_bytes())));
        normalizer.finish(|text| open.push(counter, text.as_bytes()));
        open.finish(counter)
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Text")
            .field("tokens", &self.open.tokens)
            .field("carry_bytes", &self.open.carry.len())
            .finish_non_exhaustive()
    }
}

/// So much is taken at a time when something waits, and so much waits before it is tried.
const STEP: usize = 256;

/// What a piece that ends may look at behind it, at most.
const LOOK_AHEAD: usize = 8;

/// A text in its normal form.
struct Open {
    pattern: Pattern,
    carry: Vec<u8>,
    long: Option<Box<LongPiece>>,
    tokens: u64,
}

impl Open {
    fn push(&mut self, counter: &mut Counter, mut text: &[u8]) {
        while !text.is_empty() {
            if let Some(long) = &mut self.long {
                let (taken, has_ended) = long.push(&counter.merge(), text);
                text = &text[taken..];
                if has_ended {
                    self.end_long(counter, false);
                }
            } else if self.carry.is_empty() {
                let cut = cuts::last(self.pattern, text, 0).unwrap_or(0);
                self.tokens += counter.count_normal(&text[..cut]);
                let step = characters(&text[cut..], STEP);
                self.carry.extend_from_slice(&text[cut..cut + step]);
                text = &text[cut + step..];
                self.relieve(counter);
            } else {
                let waited = self.carry.len();
                let step = characters(text, STEP);
                self.carry.extend_from_slice(&text[..step]);
                if self.carry.len() < STEP && step == text.len() {
                    return;
                }
                // What has waited for long was searched when it came.
                let searched = if waited < STEP {
                    0
                } else {
                    waited - LOOK_AHEAD
                };
                match cuts::last(self.pattern, &self.carry, searched) {
                    Some(cut) if cut >= waited => {
                        self.tokens += counter.count_normal(&self.carry[..cut]);
                        self.carry.clear();
                        text = &text[cut - waited..];
                        continue;
                    }
                    Some(cut) => {
                        self.tokens += counter.count_normal(&self.carry[..cut]);
                        self.carry.drain(..cut);
                    }
                    None => self.relieve(counter),
                }
                text = &text[step..];
            }
        }
    }

    /// If too much waits, counts the pieces whose ends are certain; if the first has no end, it
    /// becomes a long piece.
    fn relieve(&mut self, counter: &mut Counter) {
        if self.carry.len() <= Text::CARRY_BYTES - STEP {
            return;
        }
        let mut start = 0;
        let ends = std::iter::from_fn(|| {
            start = self.certain_end(start)?;
            Some(start)
        });
        let tokens = counter.count_pieces(&self.carry, ends);
        self.tokens += tokens;
        self.carry.drain(..start);
        if self.carry.len() > Text::CARRY_BYTES / 2 {
            let (mut long, taken) = LongPiece::new(self.pattern, &counter.merge(), &self.carry);
            let carry = std::mem::take(&mut self.carry);
            let (more, has_ended) = long.push(&counter.merge(), &carry[taken..]);
            self.long = Some(Box::new(long));
            if has_ended {
                self.end_long(counter, false);
            }
            // Not much: what a contraction may be made of.
            self.push(counter, &carry[taken + more..]);
        }
    }

    fn end_long(&mut self, counter: &mut Counter, text_ends: bool) {
        if let Some(long) = self.long.take() {
            let ended = long.end(&counter.merge(), text_ends);
            self.tokens += ended.tokens;
            self.carry = ended.given_back;
        }
    }

    /// The end of the piece that starts at `start` of what waits, if no more text can move it.
    fn certain_end(&self, start: usize) -> Option<usize> {
        let waiting = &self.carry[start..];
        if waiting.is_empty() {
            return None;
        }
        let run = |mut at: usize, bits: u8| {
            while at < waiting.len() && class::at(waiting, at).0 & bits != 0 {
                at += class::at(waiting, at).1;
            }
            at
        };
        if run(0, SPACE) == waiting.len() {
            return None;
        }
        if self.pattern == Pattern::O200k {
            let (bits, length) = class::at(waiting, 0);
            let takes_word = bits & (LETTER | NUMBER) == 0 && !matches!(waiting[0], b'\r' | b'\n');
            let word = if takes_word { length } else { 0 };
            if run(0, UPPER) == waiting.len() || run(word, UPPER) == waiting.len() {
                return None;
            }
        }
        let end = self.pattern.piece_end(waiting, 0);
        (end + LOOK_AHEAD <= waiting.len()).then_some(start + end)
    }

    fn finish(mut self, counter: &mut Counter) -> u64 {
        self.end_long(counter, true);
        self.tokens + counter.count_normal(&self.carry)
    }
}

/// The bytes of whole characters at the start of `text`, as many as `most` or a little fewer.
fn characters(text: &[u8], most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    let mut places = (0..=most).rev();
    places.find(|&at| text[at] & 0xc0 != 0x80).unwrap_or(most)
}
