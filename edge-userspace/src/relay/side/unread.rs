//! What of an answer could not be read, and how many tokens that counts for.

use super::stream::{Events, MAX_EVENT_BYTES};
use super::{Form, Side};
use crate::prompt::json::Wrong;
use crate::telemetry::UnreadAnswer;

/// Bytes of text or JSON that count for a token: prose has about four, and there is nothing
/// better to go by.
const BYTES_A_TOKEN: u64 = 4;
/// The same of what is compressed: whole answers of some kilobytes come to about two.
const ENCODED_BYTES_A_TOKEN: u64 = 2;

/// What a body is by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// One JSON text.
    Json,
    /// An event stream.
    Events,
    /// It says neither; what it is is seen by its first byte.
    Unsaid,
    /// Compressed: bytes, and no more.
    Encoded,
}

/// Sums it up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unread {
    why: Option<UnreadAnswer>,
    bytes: u64,
}

impl Unread {
    /// From the beginning on, for what the head says.
    pub(super) fn of(why: UnreadAnswer) -> Self {
        Self {
            why: Some(why),
            bytes: 0,
        }
    }

    /// So much more, for that reason; the first one is the one that is told.
    pub(super) fn add(&mut self, why: UnreadAnswer, bytes: u64) {
        self.why.get_or_insert(why);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The same with so many bytes more that are not read so far.
    pub(super) fn with(mut self, why: UnreadAnswer, bytes: u64) -> Self {
        self.add(why, bytes);
        self
    }

    /// Why, if anything was.
    pub(super) fn why(&self) -> Option<UnreadAnswer> {
        self.why
    }

    /// How many bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many tokens they count for.
    pub(super) fn tokens(&self) -> u64 {
        self.bytes.div_ceil(match self.why {
            Some(UnreadAnswer::Encoded) => ENCODED_BYTES_A_TOKEN,
            _ => BYTES_A_TOKEN,
        })
    }
}

/// By what a JSON text could not be read on.
pub(super) fn reason(wrong: Wrong) -> UnreadAnswer {
    match wrong {
        Wrong::Depth => UnreadAnswer::Depth,
        Wrong::Utf8 => UnreadAnswer::Utf8,
        _ => UnreadAnswer::Json,
    }
}

impl Side {
    /// For an error's body, of which nothing is charged: whether it can be read matters to
    /// nobody.
    #[must_use]
    pub fn of_error(mut self: Box<Self>) -> Box<Self> {
        self.is_of_error = true;
        self
    }

    /// Why not all of it could be read, and how many bytes were not; none when all could.
    #[must_use]
    pub fn unread(&self) -> Option<(UnreadAnswer, u64)> {
        let unread = self.all_unread();
        let why = unread.why().filter(|_| !self.is_of_error)?;
        Some((why, unread.bytes()))
    }

    /// With what is not read of a body that goes on.
    pub(super) fn all_unread(&self) -> Unread {
        match &self.form {
            Form::Whole => match self.reader.error() {
                Some(error) => {
                    let bytes = self.bytes.saturating_sub(error.at);
                    self.unread.with(reason(error.what), bytes)
                }
                None => self.unread,
            },
            // It was taken for one, for want of anything better.
            Form::Events(_) if self.unread.why().is_some() && self.observed.events == 0 => {
                self.unread.with(UnreadAnswer::ContentType, self.bytes)
            }
            Form::Encoded => self.unread.with(UnreadAnswer::Encoded, self.bytes),
            Form::Events(_) | Form::Unsaid => self.unread,
        }
    }

    /// Of an event that is no JSON text: what was not read of it. `[DONE]` is none, and what
    /// ends too early has been read.
    pub(super) fn note_unread(&mut self, events: &Events) {
        let (why, read) = match self.reader.error() {
            Some(error) => (reason(error.what), error.at),
            None => (UnreadAnswer::Length, MAX_EVENT_BYTES as u64),
        };
        let unread = (events.data_bytes() as u64).saturating_sub(read);
        if unread > 0 && !events.is_done() {
            self.unread.add(why, unread);
            self.unread_since_usage = true;
        }
    }
}
