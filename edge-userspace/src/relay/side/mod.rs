//! Reads along while an answer is relayed: what it says of usage and errors, how much text it
//! has, and how that begins.
//!
//! Down: [`stream`] reads event streams, [`lines`] finds their events, [`event`] reads the JSON of
//! each (or the one that a whole answer is), [`place`] and [`usage`] know the two APIs' tables,
//! [`memo`] saves the reading of what all events have alike, [`waiting`] the counting of what need
//! not be counted, and [`unread`] says what could not be read. But for the text that waits nothing
//! of the answer is kept, and whatever it says, none of it is changed or held up. Not here: the
//! bytes' way ([`super::response`]), and what usage costs whom ([`crate::usage`]).

mod event;
mod lines;
mod memo;
mod opening;
mod place;
mod stream;
#[cfg(test)]
mod tests;
mod unread;
mod usage;
mod waiting;

pub use opening::Opening;
pub use stream::Ended;
pub use unread::BodyForm;

use crate::prompt::json::Reader;
use crate::prompt::{Learn, Output};
use crate::telemetry::UnreadAnswer;
use crate::usage::Observed;
use event::{Event, Hear, Reading, Said};
use opening::Beginning;
use stream::Events;
use unread::Unread;
use waiting::Waiting;

/// The text is counted anew when so much more of it has come: half of what is booked at a time.
const COUNT_EVERY_BYTES: u64 = 512;
/// The same where each event is to be counted, for events that are not known as pieces of content.
const COUNT_CLOSELY_BYTES: u64 = 64;

/// Reads one answer.
#[derive(Debug)]
pub struct Side {
    observed: Observed,
    form: Form,
    text: TextSide,
    reader: Reader,
    event: Event,
    /// Until the prompt's tokens are known.
    learn: Option<Learn>,
    /// Each event's end asks for the number of tokens.
    counts_each: bool,
    unread_events: u64,
    unread: Unread,
    is_of_error: bool,
    /// Of an event stream something was not read since its usage was said.
    unread_since_usage: bool,
    /// Of the whole body.
    bytes: u64,
}

/// Who hears the answer's text.
#[derive(Debug)]
struct TextSide {
    output: Output,
    /// Of a whole answer.
    waiting: Waiting,
    waits: bool,
    /// The block or choice whose text came last.
    index: Option<u64>,
    /// Not all of it was counted as it was written.
    is_approximate: bool,
    beginning: Option<Beginning>,
}

#[derive(Debug)]
enum Form {
    /// One JSON text.
    Whole,
    Events(Box<Events>),
    /// Nothing has come yet by which it could be known.
    Unsaid,
    Encoded,
}

impl Side {
    /// For a body of that form. `output` counts its text; `learn` and `opening` are told what
    /// they want to know. In a box: it is large.
    #[must_use]
    pub fn new(
        form: BodyForm,
        output: Output,
        learn: Option<Learn>,
        opening: Option<Opening>,
    ) -> Box<Self> {
        let (form, unread) = match form {
            BodyForm::Json => (Form::Whole, Unread::default()),
            BodyForm::Events => (Form::Events(Box::default()), Unread::default()),
            BodyForm::Unsaid => (Form::Unsaid, Unread::of(UnreadAnswer::ContentType)),
            BodyForm::Encoded => (Form::Encoded, Unread::of(UnreadAnswer::Encoded)),
        };
        let waits = matches!(form, Form::Whole);
        Box::new(Self {
            observed: Observed {
                relayed_exact: output.is_exact(),
                ..Observed::default()
            },
            form,
            text: TextSide {
                output,
                waiting: Waiting::default(),
                waits,
                index: None,
                is_approximate: false,
                beginning: opening.map(Beginning::new),
            },
            reader: Reader::new(),
            event: Event::default(),
            learn,
            counts_each: false,
            unread_events: 0,
            unread,
            is_of_error: false,
            unread_since_usage: false,
            bytes: 0,
        })
    }

    /// Counts the text at each event's end, not only now and then.
    #[must_use]
    pub fn counting_each(mut self: Box<Self>) -> Box<Self> {
        self.counts_each = true;
        self
    }

    /// So much new text is not counted yet at most.
    fn count_every_bytes(&self) -> u64 {
        if self.counts_each {
            COUNT_CLOSELY_BYTES
        } else {
            COUNT_EVERY_BYTES
        }
    }

    /// What has been seen so far.
    #[must_use]
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Events that were too long to be read to their end.
    #[must_use]
    pub fn unread_events(&self) -> u64 {
        self.unread_events
    }

    /// Whether this is a stream whose last event has not come, although it must.
    #[must_use]
    pub fn lacks_last_event(&self) -> bool {
        match &self.form {
            Form::Whole | Form::Unsaid | Form::Encoded => false,
            Form::Events(events) => events.lacks_last() && !self.observed.is_error,
        }
    }

    /// Reads on: to the end of the next event in `bytes`, or to their end. How many bytes
    /// that is, and the event, if one has ended.
    pub fn read(&mut self, bytes: &[u8]) -> (usize, Option<Ended>) {
        let mut form = std::mem::replace(&mut self.form, Form::Whole);
        if let (Form::Unsaid, Some(first)) = (&form, bytes.first()) {
            form = match first {
                b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' => {
                    self.text.waits = true;
                    Form::Whole
                }
                _ => Form::Events(Box::default()),
            };
        }
        let read = match &mut form {
            Form::Whole => {
                self.read_whole(bytes);
                (bytes.len(), None)
            }
            Form::Events(events) => self.read_event(events, bytes),
            Form::Unsaid | Form::Encoded => (bytes.len(), None),
        };
        self.form = form;
        self.bytes += read.0 as u64;
        read
    }

    /// The response came to its end. What it says of its text is known after [`Side::count`].
    pub fn end(&mut self) {
        self.flush();
        if let Form::Whole = self.form {
            let mut reading = Reading {
                event: &mut self.event,
                hear: &mut self.text,
            };
            let is_whole = match self.reader.finish(&mut reading) {
                Ok(()) => true,
                Err(error) => {
                    // Of one that ends too early all has been read; it is told all the same.
                    self.unread.add(unread::reason(error.what), 0);
                    false
                }
            };
            self.take_usage();
            self.observed.is_error |= self.event.is_error || self.event.kind() == b"error";
            self.observed.is_finished |= is_whole && self.event.said().is_said();
        }
        if self.observed.is_error {
            self.text.forget_beginning();
        }
        if let Some(beginning) = &mut self.text.beginning {
            beginning.end();
            beginning.tell();
        }
    }

    /// To be called before [`Side::observed`] is used for the last time: counts the text, unless
    /// the answer is whole and has said all of its usage, so that nobody asks for the count.
    pub fn settle(&mut self) {
        self.flush();
        let Observed {
            output,
            is_finished,
            ..
        } = self.observed;
        let says_all = is_finished && output.is_some() && self.observed.prompt().is_some();
        let is_read = self.all_unread().bytes() == 0;
        if matches!(self.form, Form::Whole) && says_all && is_read {
            self.text.waiting = Waiting::default();
        } else {
            self.count();
        }
    }

    /// Counts what has come of the text, the part of an event included whose end has not: to
    /// be called before [`Side::observed`] is used for the last time.
    pub fn count(&mut self) {
        self.flush();
        self.text.waiting.count(&mut self.text.output);
        let unread = self.all_unread();
        self.observed.is_unread =
            self.unread_since_usage || (unread.bytes() > 0 && self.observed.output.is_none());
        self.observed.relayed_output = (self.text.output.tokens()).saturating_add(unread.tokens());
        self.observed.relayed_exact =
            self.text.output.is_exact() && !self.text.is_approximate && unread.bytes() == 0;
    }

    /// Hears what the reader has and keeps of an open text.
    fn flush(&mut self) {
        self.reader.flush(&mut Reading {
            event: &mut self.event,
            hear: &mut self.text,
        });
    }

    fn read_whole(&mut self, bytes: &[u8]) {
        let mut reading = Reading {
            event: &mut self.event,
            hear: &mut self.text,
        };
        // What is no JSON is passed on all the same.
        let _ = self.reader.push(bytes, &mut reading);
        self.take_usage();
        self.observed.is_error |= self.event.is_error;
        self.tell_beginning();
    }

    fn take_usage(&mut self) {
        let usage = self.event.said();
        if !usage.is_said() {
            return;
        }
        usage.tell(&mut self.observed);
        self.unread_since_usage = false;
        if let Some(tokens) = self.observed.prompt()
            && let Some(learn) = self.learn.take()
        {
            learn.observe(tokens);
        }
    }

    fn tell_beginning(&mut self) {
        let told = (self.text.beginning.as_mut()).is_some_and(Beginning::tell);
        if told {
            self.text.beginning = None;
        }
    }
}

impl TextSide {
    fn forget_beginning(&mut self) {
        if let Some(beginning) = &mut self.beginning {
            beginning.forget();
        }
    }

    fn push(&mut self, piece: &[u8]) {
        if self.waits {
            self.waiting.push(&mut self.output, piece);
        } else {
            self.output.push(piece);
        }
    }

    fn end_block(&mut self) {
        if self.waits {
            self.waiting.end_block(&mut self.output);
        } else {
            self.output.end_block();
        }
    }
}

impl Hear for TextSide {
    fn begin_block(&mut self) {
        self.end_block();
        if let Some(beginning) = &mut self.beginning {
            beginning.end_block();
        }
    }

    fn text(&mut self, said: Said, piece: &[u8]) {
        if said.index != self.index {
            if self.index.is_some() {
                self.end_block();
            }
            // Choices that alternate are counted piece by piece.
            self.is_approximate |= said.index < self.index;
            self.index = said.index;
        }
        self.is_approximate |= said.is_input;
        self.push(piece);
        if said.is_shown
            && let Some(beginning) = &mut self.beginning
        {
            beginning.push(piece);
        }
    }

    fn end_blocks(&mut self) {
        if let Some(beginning) = &mut self.beginning {
            beginning.end();
        }
    }
}
