//! What one JSON text says: one event's data, or a whole answer.

use super::place::{Path, Place};
use super::usage::Usage;
use crate::prompt::json::{Duplicate, Visit};

/// Longest `type` that matters, and a little more.
const TYPE_BYTES: usize = 24;

/// The facts of one text. Whatever is read before its first text depends on the bytes alone,
/// so it may be remembered: see [`super::memo`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    path: Path,
    number: Option<u64>,
    string: What,
    kind: [u8; TYPE_BYTES],
    kind_length: usize,
    /// Of the block, or of the choice.
    index: Option<u64>,
    usage: Usage,
    /// The last usage that came to its end.
    said: Usage,
    /// It has a part of the answer's text.
    pub(super) has_text: bool,
    /// It says that an error came up.
    pub(super) is_error: bool,
    /// A content block begins in it.
    pub(super) begins_block: bool,
}

/// What the string is that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum What {
    #[default]
    Nothing,
    Key,
    /// The event's `type`.
    Kind,
    Text(Said),
}

/// A part of an answer's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The block or choice that it is of, if that has been said.
    pub(super) index: Option<u64>,
    /// It is what a reader of the answer sees first: neither thinking nor a call.
    pub(super) is_shown: bool,
    /// It is of a tool's input as JSON, of which the punctuation is not told.
    pub(super) is_input: bool,
}

/// Who is told an answer's texts.
pub(super) trait Hear {
    /// A content block begins.
    fn begin_block(&mut self) {}
    /// More of a text, escapes decoded.
    fn text(&mut self, _said: Said, _piece: &[u8]) {}
    /// The last content block has ended.
    fn end_blocks(&mut self) {}
}

/// Reads one text for one hearer.
pub(super) struct Reading<'a, H> {
    pub(super) event: &'a mut Event,
    pub(super) hear: &'a mut H,
}

impl Event {
    /// Its `type`; empty when it says none or one that does not matter.
    pub(super) fn kind(&self) -> &[u8] {
        self.kind.get(..self.kind_length).unwrap_or_default()
    }

    /// The block or choice that it is of.
    pub(super) fn index(&self) -> Option<u64> {
        self.index
    }

    /// What it says of usage.
    pub(super) fn said(&self) -> &Usage {
        &self.said
    }

    /// Whether a text is being read.
    pub(super) fn is_in_text(&self) -> bool {
        matches!(self.string, What::Text(_))
    }
}

impl<H: Hear> Visit for Reading<'_, H> {
    fn begin_object(&mut self) {
        let event = &mut *self.event;
        match event.path.open_object() {
            Place::Usage => event.usage = Usage::default(),
            Place::Error => event.is_error = true,
            Place::Choice => event.index = None,
            Place::Block => {
                event.begins_block = true;
                self.hear.begin_block();
            }
            _ => {}
        }
    }

    fn end_object(&mut self) {
        let event = &mut *self.event;
        if event.path.close() == Place::Usage && event.usage.is_said() {
            event.said = event.usage;
        }
    }

    fn begin_array(&mut self) {
        self.event.path.open_array();
    }

    fn end_array(&mut self) {
        if self.event.path.close() == Place::Blocks {
            self.hear.end_blocks();
        }
    }

    fn begin_string(&mut self, is_key: bool) {
        let event = &mut *self.event;
        let (place, key) = (event.path.place(), event.path.key());
        event.string = if is_key {
            if place == Place::Input {
                // A key of a tool's input is written by the model too.
                event.has_text = true;
            }
            What::Key
        } else if place == Place::Root && key == b"type" {
            event.kind_length = 0;
            What::Kind
        } else if place.has_text(key) {
            event.has_text = true;
            What::Text(Said {
                index: event.index,
                is_shown: matches!(key, b"text" | b"content")
                    && place != Place::Input
                    && event.index_of_choice() == 0,
                is_input: place == Place::Input,
            })
        } else {
            event.is_error |= place == Place::Root && key == b"error";
            What::Nothing
        };
        if is_key {
            event.path.begin_key();
        }
    }

    fn string(&mut self, piece: &[u8]) {
        let event = &mut *self.event;
        match event.string {
            What::Nothing => {}
            What::Key => {
                event.path.push_key(piece);
                if event.path.place() == Place::Input {
                    let said = Said {
                        index: event.index,
                        is_shown: false,
                        is_input: true,
                    };
                    self.hear.text(said, piece);
                }
            }
            What::Kind => {
                let from = event.kind_length.min(TYPE_BYTES);
                let taken = piece.len().min(TYPE_BYTES - from);
                event.kind[from..from + taken].copy_from_slice(&piece[..taken]);
                event.kind_length += piece.len();
            }
            What::Text(said) => self.hear.text(said, piece),
        }
    }

    fn end_string(&mut self) -> Result<(), Duplicate> {
        self.event.string = What::Nothing;
        Ok(())
    }

    fn whole_string(&mut self, is_key: bool, text: &[u8], _last: u64) -> Result<(), Duplicate> {
        // Of a tool's input the keys are heard too.
        if is_key && self.event.path.place() != Place::Input {
            self.event.path.set_key(text);
            return Ok(());
        }
        self.begin_string(is_key);
        if !text.is_empty() {
            self.string(text);
        }
        self.end_string()
    }

    fn begin_number(&mut self) {
        let event = &mut *self.event;
        let (place, key) = (event.path.place(), event.path.key());
        let counts = match place {
            Place::Usage | Place::Details => {
                event.usage.field(key, place == Place::Details).is_some()
            }
            Place::Root | Place::Choice => key == b"index",
            _ => false,
        };
        event.number = counts.then_some(0);
    }

    fn number(&mut self, piece: &[u8]) {
        let event = &mut *self.event;
        for byte in piece {
            let digit = char::from(*byte).to_digit(10).map(u64::from);
            event.number = (event.number.zip(digit))
                .and_then(|(number, digit)| number.checked_mul(10)?.checked_add(digit));
        }
    }

    fn end_number(&mut self) {
        let event = &mut *self.event;
        let Some(number) = event.number.take() else {
            return;
        };
        let (place, key) = (event.path.place(), event.path.key());
        match place {
            Place::Root | Place::Choice => event.index = Some(number),
            _ => {
                if let Some(field) = event.usage.field(key, place == Place::Details) {
                    *field = Some(number);
                }
            }
        }
    }
}

impl Event {
    /// 0 for what is no choice's.
    fn index_of_choice(&self) -> u64 {
        if self.path.is_in_choice() {
            self.index.unwrap_or(0)
        } else {
            0
        }
    }
}
