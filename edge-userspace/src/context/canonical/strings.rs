//! Texts of a request, and what each of them is.

use super::billing::Lines;
use super::cell::{Cell, Kind, Text};
use super::json::Inner;
use super::place::{self, Head, Place, Whose, key};
use super::tree::Value;
use super::{Canonical, LeftOut, OPENING_BYTES};

/// The text that is being read.
#[derive(Default)]
pub(super) struct Strings {
    text: Text,
    used: Use,
    heard: Heard,
    /// Where it may hold a line that goes: what stays of it.
    billing: Option<(Lines, Text)>,
    has_billing: bool,
    /// Nothing stays of a block's text.
    pub(super) is_emptied: bool,
    /// It may be JSON itself.
    is_arguments: bool,
    /// Made with the first that may be.
    arguments: Option<Box<Inner>>,
}

/// What a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Use {
    /// A key, or a value that counts as it is.
    Plain,
    /// A content, which is as good as one block of text.
    Content,
    /// One of the blocks of a content, and as good as a block of text.
    Block,
    /// In a mark for caches.
    Mark,
    /// Passed over.
    #[default]
    Nothing,
}

/// Whose plain text it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Heard {
    System,
    Message,
    Model,
    #[default]
    Nobody,
}

/// The beginning of a text.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    bytes: [u8; OPENING_BYTES],
    length: usize,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            bytes: [0; OPENING_BYTES],
            length: 0,
        }
    }
}

impl Opening {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Nothing of it stays in memory.
    pub(super) fn erase(&mut self) {
        self.bytes.fill(0);
        self.length = 0;
    }

    fn push(&mut self, piece: &[u8]) {
        let room = &mut self.bytes[self.length..];
        let taken = room.len().min(piece.len());
        room[..taken].copy_from_slice(&piece[..taken]);
        self.length += taken;
    }
}

impl Strings {
    /// Nothing of a text stays.
    pub(super) fn erase(&mut self) {
        self.text.begin(false);
        (self.used, self.heard) = (Use::Nothing, Heard::Nobody);
        self.billing = None;
        (self.has_billing, self.is_emptied) = (false, false);
        self.is_arguments = false;
        self.arguments = None;
    }

    /// What a text that may be JSON has taken, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.arguments.as_ref().map_or(0, |it| it.memory_bytes())
    }
}

impl Canonical {
    pub(super) fn begin_text(&mut self, is_key: bool) {
        self.begin_use(is_key);
        if self.strings.used != Use::Nothing {
            self.strings.text.begin(is_key);
        }
    }

    pub(super) fn push_text(&mut self, piece: &[u8]) {
        if self.strings.used != Use::Nothing {
            self.strings.text.push(piece, self.tree.key());
            self.hear(piece);
        }
    }

    pub(super) fn end_text(&mut self) {
        if self.strings.used != Use::Nothing {
            let (cell, is_key) = self.strings.text.end();
            self.end_use(cell, is_key);
        }
    }

    /// One that is told at once.
    pub(super) fn whole_text(&mut self, is_key: bool, text: &[u8]) {
        if is_key && !self.in_mark {
            if self.skipped == 0 {
                self.tree.set_key(Cell::text(text, self.tree.key()));
            }
            return;
        }
        self.begin_use(is_key);
        if self.strings.used == Use::Nothing {
            return;
        }
        let cell = Cell::text(text, self.tree.key());
        if !is_key {
            self.hear(text);
        }
        self.end_use(cell, is_key);
    }

    fn begin_use(&mut self, is_key: bool) {
        self.strings.used = match is_key {
            _ if self.in_mark => Use::Mark,
            _ if self.skipped > 0 => Use::Nothing,
            true => Use::Plain,
            false => self.used(),
        };
        self.strings.heard = Heard::Nobody;
        if is_key || self.in_mark || self.strings.used == Use::Nothing {
            return;
        }
        self.strings.heard = self.heard();
        if self.strings.heard == Heard::System && self.is_first_of_system() {
            self.strings.billing = Some((Lines::START, Text::default()));
            self.strings.has_billing = false;
        }
        let is_arguments = self.place() == Some(Place::Function) && self.key() == key::ARGUMENTS;
        self.strings.is_arguments = is_arguments;
        if is_arguments {
            let key = self.tree.key();
            let new = || Box::new(Inner::new(highway::Key(key.0)));
            self.strings.arguments.get_or_insert_with(new).begin();
        }
    }

    /// Who hears a text besides the one who makes a cell of it.
    fn hear(&mut self, piece: &[u8]) {
        let strings = &mut self.strings;
        if let Some((lines, stays)) = &mut strings.billing {
            let key = self.tree.key();
            strings.has_billing |= lines.push(piece, |line| stays.push(line, key));
        }
        if strings.is_arguments
            && let Some(arguments) = &mut strings.arguments
        {
            arguments.push(piece);
        }
        if strings.heard == Heard::Message {
            self.opening.push(piece);
        }
        if let Some(wire) = &mut self.wire {
            match strings.heard {
                Heard::System => wire.system(piece),
                Heard::Message => wire.content(piece),
                Heard::Model => wire.model(piece),
                Heard::Nobody => {}
            }
        }
    }

    fn end_use(&mut self, cell: Cell, is_key: bool) {
        if self.in_mark {
            const HOUR: Cell = Cell::short("1h");
            self.is_long |= cell == HOUR;
            return;
        }
        if is_key {
            return self.tree.set_key(cell);
        }
        let mut value = Value::both(cell);
        let billing = self.strings.billing.take();
        if let Some((mut lines, mut stays)) = billing
            && self.strings.has_billing
        {
            lines.end(|line| stays.push(line, self.tree.key()));
            self.strings.is_emptied = stays.is_empty() && self.strings.used == Use::Plain;
            value.canonical = Some(stays.end().0);
            if stays.is_empty() && self.strings.used != Use::Plain {
                value.canonical = None;
            }
            self.note(LeftOut::BillingLine);
        }
        if std::mem::take(&mut self.strings.is_arguments)
            && let Some(arguments) = &mut self.strings.arguments
            && let Some(json) = arguments.end()
        {
            value.canonical = Some(json);
        }
        let value = match self.strings.used {
            Use::Content => self.list(self.text_block(value)),
            Use::Block => self.text_block(value),
            Use::Plain | Use::Mark | Use::Nothing => value,
        };
        self.add(value);
    }

    fn text_block(&self, text: Value) -> Value {
        text.map(|cell| Cell::text_block(cell, self.tree.key()))
    }

    /// A list of one block, or of none.
    fn list(&self, block: Value) -> Value {
        let one = block.map(|cell| Cell::list_of(cell, self.tree.key()));
        let none = || Cell::container(Kind::Array, 0, &[], self.tree.key());
        Value {
            canonical: one.canonical.or_else(|| Some(none())),
            exact: one.exact,
        }
    }

    fn used(&self) -> Use {
        let (Some(place), key) = (self.place(), self.key()) else {
            return Use::Nothing;
        };
        match place {
            Place::Root => match place::head(self.shape, key) {
                Head::System => Use::Content,
                Head::Messages | Head::Nothing => Use::Nothing,
                Head::Model | Head::Tools | Head::Counted => Use::Plain,
            },
            Place::Message | Place::Block(_) | Place::Source(_) if key == key::CONTENT => {
                Use::Content
            }
            Place::Blocks(_) => Use::Block,
            _ => Use::Plain,
        }
    }

    /// Whose plain text begins, by how deep it stands: that of nested blocks is nobody's.
    fn heard(&self) -> Heard {
        let Some(level) = self.tree.level() else {
            return Heard::Nobody;
        };
        match (level.place, level.key, self.tree.depth()) {
            (Place::Message, key::CONTENT, 3)
            | (Place::Blocks(Whose::Message), _, 4)
            | (Place::Block(Whose::Message), key::TEXT, 5) => Heard::Message,
            (Place::Blocks(Whose::System), _, 2) | (Place::Block(Whose::System), key::TEXT, 3) => {
                Heard::System
            }
            (Place::Root, key, _) => match place::head(self.shape, key) {
                Head::System => Heard::System,
                Head::Model => Heard::Model,
                _ => Heard::Nobody,
            },
            _ => Heard::Nobody,
        }
    }

    /// Whether a text of the system prompt is in its first block, or is all of it.
    fn is_first_of_system(&self) -> bool {
        self.tree.depth() == 1 || self.tree.values_at(1) == 0
    }
}
