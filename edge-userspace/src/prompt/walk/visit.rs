//! What is heard of a request's JSON, said on to whom it belongs.

use super::asked::Number;
use super::{OWNED, Reading, Walk};
use crate::prompt::json::{Duplicate, Literal, Visit};
use crate::prompt::place::Use;

impl Visit for Walk {
    #[inline]
    fn at(&mut self, offset: u64) {
        self.at = offset;
    }

    fn begin_object(&mut self) {
        self.begin(true);
    }

    fn end_object(&mut self) {
        self.end(true);
    }

    fn begin_array(&mut self) {
        self.begin(false);
    }

    fn end_array(&mut self) {
        self.end(false);
    }

    fn begin_string(&mut self, is_key: bool) {
        if self.in_json() {
            self.json_string();
            self.json_value(b"\"");
            // A key's value has no comma before it.
            self.commas = self.commas & !1 | u128::from(!is_key);
            self.reading = Reading::Json;
            self.key.clear();
        } else if is_key {
            self.key.clear();
            self.reading = Reading::Key;
        } else {
            let used = self.meaning().string;
            self.reading = Reading::String(used);
            self.text_at = self.at;
            self.begin_use(used);
        }
    }

    fn string(&mut self, piece: &[u8]) {
        match self.reading {
            Reading::Key => self.key.push(piece),
            Reading::String(used) => self.push_use(used, piece),
            Reading::Json => {
                self.json_bytes += piece.len() as u64;
                self.tally.push(piece);
            }
        }
    }

    fn end_string(&mut self) -> Result<(), Duplicate> {
        match self.reading {
            Reading::Key => self.end_key(),
            Reading::String(used) => self.end_use(used),
            Reading::Json => {
                let is_key = self.commas & 1 == 0;
                self.json_mark(if is_key { b"\":" } else { b"\"" });
                self.json_string();
                Ok(())
            }
        }
    }

    fn whole_string(&mut self, is_key: bool, text: &[u8], last: u64) -> Result<(), Duplicate> {
        if self.in_json() {
            self.begin_string(is_key);
            if !text.is_empty() {
                self.string(text);
            }
            self.at = last;
            return self.end_string();
        }
        if is_key {
            self.key.set(text);
            return self.end_key();
        }
        let used = self.meaning().string;
        if used == Use::Nothing {
            return Ok(());
        }
        self.text_at = self.at;
        self.begin_use(used);
        if !text.is_empty() {
            self.push_use(used, text);
        }
        self.at = last;
        self.end_use(used)
    }

    fn begin_number(&mut self) {
        if self.in_json() {
            self.json_value(b"");
        } else if self.places.len() == 1 {
            self.number = Number::of(self.key.bytes());
        }
    }

    fn number(&mut self, piece: &[u8]) {
        if self.in_json() {
            self.json_mark(piece);
        } else {
            self.push_number(piece);
        }
    }

    fn end_number(&mut self) {
        if let Some(number) = self.number.take() {
            self.asked.hear(number);
        }
    }

    fn literal(&mut self, literal: Literal) {
        if self.in_json() {
            self.json_value(literal.text().as_bytes());
        } else if self.places.len() == 1 && self.key.bytes() == b"stream" {
            self.asked.is_stream = literal == Literal::True;
        }
    }
}

impl Walk {
    /// A key outside of JSON that the model reads has come to its end.
    fn end_key(&mut self) -> Result<(), Duplicate> {
        if self.places.len() != 1 {
            return Ok(());
        }
        let key = self.key.bytes();
        let Some(at) = OWNED.iter().position(|name| name.as_bytes() == key) else {
            return Ok(());
        };
        let bit = 1 << at;
        if self.owned_seen & bit != 0 {
            return Err(Duplicate(OWNED[at]));
        }
        self.owned_seen |= bit;
        Ok(())
    }
}
