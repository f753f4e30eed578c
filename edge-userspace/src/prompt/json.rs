//! JSON (RFC 8259) as it arrives: chunks of any size in, strings out in pieces, nothing kept.
//!
//! The whole text is checked as strictly as serde_json does. Named exceptions: a lone
//! surrogate (`"\ud800"`) is U+FFFD, as token counts have it; a number's magnitude is not
//! looked at, so `1e999` is one; a number of more than [`MAX_NUMBER_BYTES`] and a key of more
//! than [`MAX_KEY_BYTES`] are refused. Not here: what keys mean ([`super`]).

mod error;
mod number;
mod string;
#[cfg(test)]
mod tests;
pub(crate) mod utf8;

pub use error::{Duplicate, Error, Wrong};

use number::Number;
use string::Strings;
use utf8::Utf8;

/// Objects and arrays within each other, at most; as serde_json has it.
pub const MAX_DEPTH: u32 = 127;
/// Longest key, escapes decoded.
pub const MAX_KEY_BYTES: usize = 65_536;
/// Longest number.
pub const MAX_NUMBER_BYTES: usize = 4096;

/// Who is told what is read. All strings are UTF-8, but a piece may end within a character.
pub trait Visit {
    /// Where what comes next is said stands, bytes from the text's beginning: the first byte of
    /// an object, an array or a string, or the last one.
    fn at(&mut self, _offset: u64) {}
    /// `{`
    fn begin_object(&mut self) {}
    /// `}`
    fn end_object(&mut self) {}
    /// `[`
    fn begin_array(&mut self) {}
    /// `]`
    fn end_array(&mut self) {}
    /// The beginning of a key, or of a string that is a value.
    fn begin_string(&mut self, _is_key: bool) {}
    /// More of it, escapes decoded.
    fn string(&mut self, _piece: &[u8]) {}
    /// Its end.
    ///
    /// # Errors
    /// The name of a key that must not come again.
    fn end_string(&mut self) -> Result<(), Duplicate> {
        Ok(())
    }
    /// The beginning of a number.
    fn begin_number(&mut self) {}
    /// A part of it as it is written.
    fn number(&mut self, _piece: &[u8]) {}
    /// The number's end.
    fn end_number(&mut self) {}
    /// `true`, `false` or `null`.
    fn literal(&mut self, _literal: Literal) {}
}

/// A value that is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

impl Literal {
    /// The word.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Null => "null",
        }
    }
}

/// The reader of one text.
#[derive(Clone, Debug)]
pub struct Reader {
    state: State,
    /// Where it stands in a number.
    number: Number,
    /// The word that comes, and how many of its bytes have.
    word: (Literal, u8),
    /// Bytes of all chunks before this one.
    before: u64,
    /// Which of the open containers are objects, outermost highest.
    objects: u128,
    depth: u32,
    strings: Strings,
    utf8: Utf8,
    number_bytes: usize,
    failed: Option<Error>,
}

/// One byte: it is looked at for each string and each mark between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value has to come.
    Value,
    /// After `[`.
    ValueOrEnd,
    /// After `{`.
    KeyOrEnd,
    /// After a comma in an object.
    Key,
    /// After a key.
    Colon,
    /// After a value.
    After,
    /// In a string, which [`Strings`] follows.
    String,
    Number,
    Word,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// At the beginning of a text.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Value,
            number: Number::Minus,
            word: (Literal::Null, 0),
            before: 0,
            objects: 0,
            depth: 0,
            strings: Strings::default(),
            utf8: Utf8::default(),
            number_bytes: 0,
            failed: None,
        }
    }

    /// Reads on.
    ///
    /// # Errors
    /// Where the text is wrong. It stays so: nothing is read after the first error.
    pub fn push(&mut self, chunk: &[u8], visit: &mut impl Visit) -> Result<(), Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let invalid = self.utf8.check(chunk);
        let read = match invalid {
            None => self.read(chunk, 0, visit),
            Some(at) => self.read_to_invalid(chunk, at, visit),
        };
        self.before += chunk.len() as u64;
        self.failed = read.err();
        read
    }

    /// What is wrong before the place that is not UTF-8 is told first.
    fn read_to_invalid(
        &mut self,
        chunk: &[u8],
        invalid: isize,
        visit: &mut impl Visit,
    ) -> Result<(), Error> {
        if let Ok(good) = usize::try_from(invalid) {
            self.read(&chunk[..good], 0, visit)?;
            // Outside of strings, and after a backslash, no byte is good that is not ASCII.
            if !(self.state == State::String && self.strings.takes_any_character()) {
                self.read(&chunk[..=good], good, visit)?;
            }
        }
        Err(Error {
            at: self.before.saturating_add_signed(invalid as i64),
            what: Wrong::Utf8,
        })
    }

    /// Hands out what was read of an open string and kept to go out with more of it. Another
    /// one may listen from here on.
    pub fn flush(&mut self, visit: &mut impl Visit) {
        self.strings.flush(visit);
    }

    /// The text is over.
    ///
    /// # Errors
    /// When it should have gone on, or was wrong before.
    pub fn finish(&mut self, visit: &mut impl Visit) -> Result<(), Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.state == State::Number && self.number.may_end() {
            self.state = State::After;
            visit.end_number();
        }
        if self.state == State::After && self.depth == 0 {
            return Ok(());
        }
        let error = Error {
            at: self.before,
            what: Wrong::Ends,
        };
        self.failed = Some(error);
        Err(error)
    }

    /// What was wrong, and where, if anything was.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.failed
    }

    /// Bytes that have been read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.before
    }

    fn read(&mut self, chunk: &[u8], mut at: usize, visit: &mut impl Visit) -> Result<(), Error> {
        while at < chunk.len() {
            let step = match self.state {
                State::String => self.string(chunk, at, visit),
                State::Number => self.number(chunk, at, visit),
                State::Word => self.word(chunk, at, visit),
                _ => match chunk[at] {
                    b' ' | b'\n' | b'\t' | b'\r' => Ok(at + 1),
                    byte => self.structure(byte, at, visit).map(|()| {
                        // A number begins with the byte that was looked at.
                        at + usize::from(self.state != State::Number)
                    }),
                },
            };
            at = step.map_err(|(at, what)| Error {
                at: self.before + at as u64,
                what,
            })?;
        }
        Ok(())
    }

    fn structure(
        &mut self,
        byte: u8,
        at: usize,
        visit: &mut impl Visit,
    ) -> Result<(), (usize, Wrong)> {
        visit.at(self.before + at as u64);
        match (self.state, byte) {
            (State::KeyOrEnd, b'}') => self.close(visit),
            (State::KeyOrEnd | State::Key, b'"') => {
                self.state = State::String;
                self.strings.begin(true);
                visit.begin_string(true);
            }
            (State::KeyOrEnd, _) => return Err((at, Wrong::Expected("a key or }"))),
            (State::Key, _) => return Err((at, Wrong::Expected("a key"))),
            (State::Colon, b':') => self.state = State::Value,
            (State::Colon, _) => return Err((at, Wrong::Expected("a colon"))),
            (State::After, b',') if self.depth > 0 => {
                self.state = if self.in_object() {
                    State::Key
                } else {
                    State::Value
                };
            }
            (State::After, b'}') if self.in_object() => self.close(visit),
            (State::After, b']') if self.depth > 0 && !self.in_object() => self.close(visit),
            (State::After, _) => {
                return Err((
                    at,
                    match (self.depth, self.in_object()) {
                        (0, _) => Wrong::GoesOn,
                        (_, true) => Wrong::Expected("a comma or }"),
                        (_, false) => Wrong::Expected("a comma or ]"),
                    },
                ));
            }
            (State::ValueOrEnd, b']') => self.close(visit),
            (_, byte) => return self.value(byte, at, visit),
        }
        Ok(())
    }

    /// The first byte of a value.
    fn value(&mut self, byte: u8, at: usize, visit: &mut impl Visit) -> Result<(), (usize, Wrong)> {
        self.state = match byte {
            b'"' => {
                self.strings.begin(false);
                visit.begin_string(false);
                State::String
            }
            b'{' => {
                self.open(true, at)?;
                visit.begin_object();
                State::KeyOrEnd
            }
            b'[' => {
                self.open(false, at)?;
                visit.begin_array();
                State::ValueOrEnd
            }
            b'-' => self.begin_number(Number::Minus),
            b'0' => self.begin_number(Number::Zero),
            b'1'..=b'9' => self.begin_number(Number::Whole),
            b't' => self.begin_word(Literal::True),
            b'f' => self.begin_word(Literal::False),
            b'n' => self.begin_word(Literal::Null),
            _ if self.state == State::ValueOrEnd => {
                return Err((at, Wrong::Expected("a value or ]")));
            }
            _ => return Err((at, Wrong::Expected("a value"))),
        };
        Ok(())
    }

    fn begin_number(&mut self, number: Number) -> State {
        self.number = number;
        self.number_bytes = 0;
        State::Number
    }

    fn begin_word(&mut self, literal: Literal) -> State {
        self.word = (literal, 1);
        State::Word
    }

    fn string(
        &mut self,
        chunk: &[u8],
        at: usize,
        visit: &mut impl Visit,
    ) -> Result<usize, (usize, Wrong)> {
        let (at, ended) = self.strings.read(chunk, at, visit)?;
        if ended {
            let last = at - 1;
            visit.at(self.before + last as u64);
            visit
                .end_string()
                .map_err(|Duplicate(name)| (last, Wrong::Duplicate(name)))?;
            self.state = if self.strings.is_key() {
                State::Colon
            } else {
                State::After
            };
        }
        Ok(at)
    }

    fn number(
        &mut self,
        chunk: &[u8],
        from: usize,
        visit: &mut impl Visit,
    ) -> Result<usize, (usize, Wrong)> {
        let mut number = self.number;
        let mut at = from;
        let mut over = false;
        // Its first byte has been judged already.
        if self.number_bytes == 0 {
            visit.begin_number();
            at += 1;
        }
        while let Some(&byte) = chunk.get(at) {
            match number.next(byte) {
                Some(next) => number = next,
                None => {
                    over = true;
                    break;
                }
            }
            at += 1;
        }
        if over && !number.may_end() {
            return Err((at, Wrong::Expected("a digit")));
        }
        self.number_bytes += at - from;
        if self.number_bytes > MAX_NUMBER_BYTES {
            return Err((at, Wrong::NumberLength));
        }
        visit.number(&chunk[from..at]);
        self.number = number;
        if over {
            visit.end_number();
            self.state = State::After;
        }
        Ok(at)
    }

    fn word(
        &mut self,
        chunk: &[u8],
        at: usize,
        visit: &mut impl Visit,
    ) -> Result<usize, (usize, Wrong)> {
        let (literal, seen) = self.word;
        let text = literal.text().as_bytes();
        if text.get(usize::from(seen)) != Some(&chunk[at]) {
            return Err((at, Wrong::Expected("true, false or null")));
        }
        self.word.1 = seen + 1;
        if usize::from(seen) + 1 == text.len() {
            visit.literal(literal);
            self.state = State::After;
        }
        Ok(at + 1)
    }

    fn open(&mut self, is_object: bool, at: usize) -> Result<(), (usize, Wrong)> {
        if self.depth == MAX_DEPTH {
            return Err((at, Wrong::Depth));
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(is_object);
        Ok(())
    }

    fn close(&mut self, visit: &mut impl Visit) {
        if self.in_object() {
            visit.end_object();
        } else {
            visit.end_array();
        }
        self.depth -= 1;
        self.objects >>= 1;
        self.state = State::After;
    }

    fn in_object(&self) -> bool {
        self.depth > 0 && self.objects & 1 == 1
    }
}
