//! A text that may itself be JSON: the arguments of a call in Chat Completions.

use super::cell::{Cell, Kind, Text};
use super::number;
use super::tree::{Tree, Value};
use crate::prompt::json::{Duplicate, Literal, Reader, Visit};
use highway::Key;

/// Reads such a text beside the one who takes it as text.
pub(super) struct Inner {
    reader: Reader,
    json: Json,
    is_good: bool,
}

impl Inner {
    pub(super) fn new(key: Key) -> Self {
        Self {
            reader: Reader::new(),
            json: Json {
                tree: Tree::new(key),
                text: Text::default(),
                number: Vec::new(),
                whole: None,
            },
            is_good: true,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.json.tree.memory_bytes() + self.json.number.capacity()
    }

    /// Another text begins.
    pub(super) fn begin(&mut self) {
        self.reader = Reader::new();
        self.json.tree.clear();
        self.json.whole = None;
        self.is_good = true;
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.is_good = self.is_good && self.reader.push(piece, &mut self.json).is_ok();
    }

    /// Its canonical form, when it was JSON that has one.
    pub(super) fn end(&mut self) -> Option<Cell> {
        let is_good = self.is_good && self.reader.finish(&mut self.json).is_ok();
        let is_good = is_good && self.json.tree.fault.is_none();
        self.json.whole.filter(|_| is_good)
    }
}

struct Json {
    tree: Tree<()>,
    text: Text,
    number: Vec<u8>,
    whole: Option<Cell>,
}

impl Json {
    fn value(&mut self, cell: Cell) {
        if self.tree.depth() == 0 {
            self.whole = Some(cell);
        } else {
            self.tree.add(Value::both(cell));
        }
    }

    fn close(&mut self) {
        if let Some((_, value)) = self.tree.close(false)
            && let Some(cell) = value.canonical
        {
            self.value(cell);
        }
    }
}

impl Visit for Json {
    fn begin_object(&mut self) {
        self.tree.open((), true);
    }

    fn end_object(&mut self) {
        self.close();
    }

    fn begin_array(&mut self) {
        self.tree.open((), false);
    }

    fn end_array(&mut self) {
        self.close();
    }

    fn begin_string(&mut self, is_key: bool) {
        self.text.begin(is_key);
    }

    fn string(&mut self, piece: &[u8]) {
        self.text.push(piece, self.tree.key());
    }

    fn end_string(&mut self) -> Result<(), Duplicate> {
        let (cell, is_key) = self.text.end();
        if is_key {
            self.tree.set_key(cell);
        } else {
            self.value(cell);
        }
        Ok(())
    }

    fn whole_string(&mut self, is_key: bool, text: &[u8], _last: u64) -> Result<(), Duplicate> {
        let cell = Cell::text(text, self.tree.key());
        if is_key {
            self.tree.set_key(cell);
        } else {
            self.value(cell);
        }
        Ok(())
    }

    fn begin_number(&mut self) {
        self.number.clear();
    }

    fn number(&mut self, piece: &[u8]) {
        self.number.extend_from_slice(piece);
    }

    fn end_number(&mut self) {
        let cell = number::value(&self.number, self.tree.key());
        self.value(cell);
    }

    fn literal(&mut self, literal: Literal) {
        self.value(Cell::word(Kind::Literal, literal as u64));
    }
}
