//! Walks through a request, and puts each value where it belongs.

use super::cell::{Cell, Kind};
use super::place::{self, Head, Place, key};
use super::tree::Value;
use super::{Canonical, Digests, Fault, LeftOut, MAX_MESSAGES, Message, Note, Where, number};
use crate::prompt::json::{Duplicate, Literal, Visit};

impl Canonical {
    #[inline]
    pub(super) fn place(&self) -> Option<Place> {
        self.tree.level().map(|level| level.place)
    }

    #[inline]
    pub(super) fn key(&self) -> Cell {
        self.tree.level().map_or(Cell::NONE, |level| level.key)
    }

    fn begin(&mut self, is_object: bool) {
        if self.skipped > 0 {
            self.skipped += 1;
            return;
        }
        let Some(place) = self.place() else {
            match is_object {
                true => self.tree.open(Place::Root, true),
                false => self.skipped = 1,
            }
            return;
        };
        let key = self.key();
        if place.has_cache_marks() && key == key::CACHE_CONTROL {
            self.note(LeftOut::CacheMark);
            (self.skipped, self.in_mark) = (1, true);
            return;
        }
        if place == Place::Root && key == key::CACHE_CONTROL {
            // As good as one at the last block; it names nothing by itself.
            (self.skipped, self.in_mark) = (1, true);
            return;
        }
        match place.inner(self.shape, key, is_object) {
            Some(inner) => {
                if inner == Place::Message {
                    self.begin_message();
                }
                self.tree.open(inner, is_object);
            }
            None => {
                if place == Place::Messages {
                    self.no_message();
                }
                self.skipped = 1;
            }
        }
    }

    fn end(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            self.in_mark &= self.skipped > 0;
            return;
        }
        let told_by = match self.place() {
            // Each of them has been told by itself.
            Some(Place::Messages) => return self.tree.leave(),
            Some(Place::Message) => self.tree.value_of(key::ROLE),
            Some(Place::Block(_)) => self.tree.value_of(key::TYPE),
            _ => None,
        };
        let is_free = self.place().is_some_and(Place::is_free);
        let Some((place, mut value)) = self.tree.close(is_free) else {
            return;
        };
        match place {
            Place::Root => {
                self.head_fault = self.head_fault.or(self.tree.fault.take());
                self.head = Digests::of(value, self.tree.key());
            }
            Place::Message => self.end_message(value, told_by),
            Place::Block(_) => {
                if told_by.is_some_and(|kind| place::THINKING.contains(&kind)) {
                    self.note(LeftOut::Thinking);
                    value.canonical = None;
                }
                // There was nothing but a line that goes.
                if std::mem::take(&mut self.strings.is_emptied) {
                    value.canonical = None;
                }
                self.add(value);
            }
            _ => self.add(value),
        }
    }

    /// A value is whole.
    pub(super) fn add(&mut self, mut value: Value) {
        let (Some(place), key) = (self.place(), self.key()) else {
            return;
        };
        match place {
            Place::Root => match place::head(self.shape, key) {
                Head::Model => {}
                Head::System | Head::Tools => self.has_head = true,
                Head::Counted => value.canonical = None,
                Head::Messages | Head::Nothing => return,
            },
            Place::Messages => return self.no_message(),
            Place::Block(_) if key == key::SIGNATURE => {
                self.note(LeftOut::Signature);
                value = Value::NOTHING;
            }
            _ if key == key::CACHE_CONTROL && place.has_cache_marks() => {
                self.note(LeftOut::CacheMark);
                // A text there may be counted.
                value.canonical = None;
            }
            _ if place::is_answers_only(self.shape, place, key) => {
                self.note(LeftOut::AnswersOnly);
                value.canonical = None;
            }
            _ => {}
        }
        self.tree.add(value);
    }

    /// Whether what comes is a field of the request that neither names nor counts anything.
    fn is_beside(&self) -> bool {
        let head = || place::head(self.shape, self.key());
        self.place() == Some(Place::Root) && matches!(head(), Head::Messages | Head::Nothing)
    }

    fn begin_message(&mut self) {
        // What is wrong so far is wrong with the head.
        self.head_fault = self.head_fault.or(self.tree.fault.take());
        self.opening.clear();
        if let Some(wire) = &mut self.wire {
            wire.begin_message();
        }
    }

    fn end_message(&mut self, value: Value, role: Option<Cell>) {
        const ASSISTANT: Cell = Cell::short("assistant");
        const USER: Cell = Cell::short("user");
        const SYSTEM: Cell = Cell::short("system");
        const DEVELOPER: Cell = Cell::short("developer");
        let fault = self.tree.fault.take();
        let Some(digests) = Digests::of(value, self.tree.key()) else {
            return;
        };
        if role == Some(USER) {
            self.user_opening = self.opening;
        }
        self.push_message(Message {
            digests,
            is_assistant: role == Some(ASSISTANT),
            is_system: role == Some(SYSTEM) || role == Some(DEVELOPER),
            fault,
        });
    }

    /// An element of the messages that is none.
    fn no_message(&mut self) {
        let none = Digests {
            canonical: [0; 2],
            exact: [0; 2],
        };
        self.push_message(Message {
            digests: none,
            is_assistant: false,
            is_system: false,
            fault: Some(Fault::NotAnObject),
        });
    }

    fn push_message(&mut self, message: Message) {
        self.message_count += 1;
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(message);
        }
    }

    pub(super) fn note(&mut self, what: LeftOut) {
        let Some(notes) = &mut self.notes else {
            return;
        };
        let (part, list) = match self.tree.place_at(1) {
            Some(Place::Messages) => (Where::Message(self.message_count as u32), 3),
            Some(Place::Tools) => (Where::Tools, 1),
            _ => (Where::System, 1),
        };
        let is_list = matches!(
            self.tree.place_at(list),
            Some(Place::Blocks(_) | Place::Tools)
        );
        notes.push(Note {
            part,
            block: is_list.then(|| self.tree.values_at(list)),
            what,
        });
    }
}

impl Digests {
    fn of(value: Value, key: &highway::Key) -> Option<Self> {
        Some(Self {
            canonical: value.canonical?.digest(key),
            exact: value.exact?.digest(key),
        })
    }
}

impl Visit for Canonical {
    fn begin_object(&mut self) {
        self.begin(true);
    }

    fn end_object(&mut self) {
        self.end();
    }

    fn begin_array(&mut self) {
        self.begin(false);
    }

    fn end_array(&mut self) {
        self.end();
    }

    fn begin_string(&mut self, is_key: bool) {
        self.begin_text(is_key);
    }

    fn string(&mut self, piece: &[u8]) {
        self.push_text(piece);
    }

    fn end_string(&mut self) -> Result<(), Duplicate> {
        self.end_text();
        Ok(())
    }

    fn whole_string(&mut self, is_key: bool, text: &[u8], _last: u64) -> Result<(), Duplicate> {
        self.whole_text(is_key, text);
        Ok(())
    }

    fn begin_number(&mut self) {
        self.number.clear();
    }

    fn number(&mut self, piece: &[u8]) {
        if self.skipped == 0 {
            self.number.extend_from_slice(piece);
        }
    }

    fn end_number(&mut self) {
        if self.skipped > 0 || self.place().is_none() || self.is_beside() {
            return;
        }
        let key = self.tree.key();
        let value = Value {
            canonical: Some(number::value(&self.number, key)),
            exact: Some(Cell::of(Kind::Spelled, &self.number, key)),
        };
        self.add(value);
    }

    fn literal(&mut self, literal: Literal) {
        if self.skipped > 0 {
            return;
        }
        let Some(place) = self.place() else {
            return;
        };
        let left_out = match literal {
            Literal::Null if place.drops_null() => Some(LeftOut::Null),
            Literal::False if matches!(place, Place::Block(_)) && self.key() == key::IS_ERROR => {
                Some(LeftOut::NoError)
            }
            _ => None,
        };
        match left_out {
            Some(what) => {
                if place != Place::Root {
                    self.note(what);
                }
                self.tree.add(Value::NOTHING);
            }
            None => self.add(Value::both(Cell::word(Kind::Literal, literal as u64))),
        }
    }
}
