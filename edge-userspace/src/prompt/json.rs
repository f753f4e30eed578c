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
mod visit;

pub use error::{Duplicate, Error, Wrong};
pub use visit::{Literal, Visit};

use number::Number;
use string::{Strings, near_end};
use utf8::Utf8;

/// Objects and arrays within each other, at most; as serde_json has it.
pub const MAX_DEPTH: u32 = 127;
/// Longest key, escapes decoded.
pub const MAX_KEY_BYTES: usize = 65_536;
/// Longest number.
pub const MAX_NUMBER_BYTES: usize = 4096;

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

/// The text is wrong; what is, stands in the reader.
struct Failed;

/// Where it stands in the chunk afterwards.
type Step = Result<usize, Failed>;

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
        let _: Result<(), Failed> = match invalid {
            None => self.read(chunk, 0, visit),
            Some(at) => self.read_to_invalid(chunk, at, visit),
        };
        self.before += chunk.len() as u64;
        self.failed.map_or(Ok(()), Err)
    }

    /// What is wrong before the place that is not UTF-8 is told first.
    fn read_to_invalid(
        &mut self,
        chunk: &[u8],
        invalid: isize,
        visit: &mut impl Visit,
    ) -> Result<(), Failed> {
        if let Ok(good) = usize::try_from(invalid) {
            self.read(&chunk[..good], 0, visit)?;
            // Outside of strings, and after a backslash, no byte is good that is not ASCII.
            if !(self.state == State::String && self.strings.takes_any_character()) {
                self.read(&chunk[..=good], good, visit)?;
            }
        }
        self.failed = Some(Error {
            at: self.before.saturating_add_signed(invalid as i64),
            what: Wrong::Utf8,
        });
        Err(Failed)
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

    #[cold]
    fn fail(&mut self, at: usize, what: Wrong) -> Failed {
        let at = self.before + at as u64;
        self.failed = Some(Error { at, what });
        Failed
    }

    fn read(&mut self, chunk: &[u8], mut at: usize, visit: &mut impl Visit) -> Result<(), Failed> {
        while at < chunk.len() {
            at = match self.state {
                State::String => self.string(chunk, at, visit)?,
                State::Number => self.number(chunk, at, visit)?,
                State::Word => self.word(chunk, at, visit)?,
                _ => match chunk[at] {
                    b' ' | b'\n' | b'\t' | b'\r' => at + 1,
                    b'"' if self.takes_string() => self.begin_string(chunk, at, visit)?,
                    byte => self.structure(byte, chunk, at, visit)?,
                },
            };
        }
        Ok(())
    }

    fn structure(&mut self, byte: u8, chunk: &[u8], at: usize, visit: &mut impl Visit) -> Step {
        visit.at(self.before + at as u64);
        match (self.state, byte) {
            (State::KeyOrEnd, b'}') => self.close(visit),
            (State::KeyOrEnd, _) => return Err(self.fail(at, Wrong::Expected("a key or }"))),
            (State::Key, _) => return Err(self.fail(at, Wrong::Expected("a key"))),
            (State::Colon, b':') => self.state = State::Value,
            (State::Colon, _) => return Err(self.fail(at, Wrong::Expected("a colon"))),
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
                let what = match (self.depth, self.in_object()) {
                    (0, _) => Wrong::GoesOn,
                    (_, true) => Wrong::Expected("a comma or }"),
                    (_, false) => Wrong::Expected("a comma or ]"),
                };
                return Err(self.fail(at, what));
            }
            (State::ValueOrEnd, b']') => self.close(visit),
            (_, byte) => return self.value(byte, chunk, at, visit),
        }
        Ok(at + 1)
    }

    /// From the first byte of a value.
    fn value(&mut self, byte: u8, chunk: &[u8], at: usize, visit: &mut impl Visit) -> Step {
        match byte {
            b'{' => {
                self.open(true, at)?;
                visit.begin_object();
                self.state = State::KeyOrEnd;
            }
            b'[' => {
                self.open(false, at)?;
                visit.begin_array();
                self.state = State::ValueOrEnd;
            }
            b'-' => return self.begin_number(Number::Minus, chunk, at, visit),
            b'0' => return self.begin_number(Number::Zero, chunk, at, visit),
            b'1'..=b'9' => return self.begin_number(Number::Whole, chunk, at, visit),
            b't' => self.begin_word(Literal::True),
            b'f' => self.begin_word(Literal::False),
            b'n' => self.begin_word(Literal::Null),
            _ if self.state == State::ValueOrEnd => {
                return Err(self.fail(at, Wrong::Expected("a value or ]")));
            }
            _ => return Err(self.fail(at, Wrong::Expected("a value"))),
        }
        Ok(at + 1)
    }

    fn begin_number(
        &mut self,
        number: Number,
        chunk: &[u8],
        at: usize,
        visit: &mut impl Visit,
    ) -> Step {
        self.state = State::Number;
        self.number = number;
        self.number_bytes = 0;
        self.number(chunk, at, visit)
    }

    fn begin_word(&mut self, literal: Literal) {
        self.state = State::Word;
        self.word = (literal, 1);
    }

    /// From the quote before a string: all of it when its end is near, and the mark that follows
    /// it as a rule.
    #[inline]
    fn begin_string(&mut self, chunk: &[u8], at: usize, visit: &mut impl Visit) -> Step {
        let is_key = matches!(self.state, State::KeyOrEnd | State::Key);
        visit.at(self.before + at as u64);
        let rest = &chunk[at + 1..];
        let Some(length) = near_end(rest).filter(|length| rest[*length] == b'"') else {
            self.strings.begin(is_key);
            visit.begin_string(is_key);
            self.state = State::String;
            return Ok(at + 1);
        };
        let last = at + 1 + length;
        let told = visit.whole_string(is_key, &rest[..length], self.before + last as u64);
        if let Err(Duplicate(name)) = told {
            return Err(self.fail(last, Wrong::Duplicate(name)));
        }
        let (state, marks) = match (is_key, rest.get(length + 1)) {
            (true, Some(b':')) => (State::Value, 1),
            (true, _) => (State::Colon, 0),
            (false, Some(b',')) if self.in_object() => (State::Key, 1),
            (false, _) => (State::After, 0),
        };
        self.state = state;
        Ok(last + 1 + marks)
    }

    fn string(&mut self, chunk: &[u8], at: usize, visit: &mut impl Visit) -> Step {
        let (at, ended) = match self.strings.read(chunk, at, visit) {
            Ok(read) => read,
            Err((at, what)) => return Err(self.fail(at, what)),
        };
        if ended {
            let last = at - 1;
            visit.at(self.before + last as u64);
            if let Err(Duplicate(name)) = visit.end_string() {
                return Err(self.fail(last, Wrong::Duplicate(name)));
            }
            self.state = if self.strings.is_key() {
                State::Colon
            } else {
                State::After
            };
        }
        Ok(at)
    }

    fn number(&mut self, chunk: &[u8], from: usize, visit: &mut impl Visit) -> Step {
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
            return Err(self.fail(at, Wrong::Expected("a digit")));
        }
        self.number_bytes += at - from;
        if self.number_bytes > MAX_NUMBER_BYTES {
            return Err(self.fail(at, Wrong::NumberLength));
        }
        visit.number(&chunk[from..at]);
        self.number = number;
        if over {
            visit.end_number();
            self.state = State::After;
        }
        Ok(at)
    }

    fn word(&mut self, chunk: &[u8], at: usize, visit: &mut impl Visit) -> Step {
        let (literal, seen) = self.word;
        let rest = &literal.text().as_bytes()[usize::from(seen)..];
        let come = &chunk[at..chunk.len().min(at + rest.len())];
        let same = come.iter().zip(rest).take_while(|(a, b)| a == b).count();
        if same < come.len() {
            let what = Wrong::Expected("true, false or null");
            return Err(self.fail(at + same, what));
        }
        if same == rest.len() {
            visit.literal(literal);
            self.state = State::After;
        } else {
            self.word.1 += same as u8;
        }
        Ok(at + same)
    }

    #[inline]
    fn open(&mut self, is_object: bool, at: usize) -> Result<(), Failed> {
        if self.depth == MAX_DEPTH {
            return Err(self.fail(at, Wrong::Depth));
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

    #[inline]
    fn takes_string(&self) -> bool {
        use State::{Key, KeyOrEnd, Value, ValueOrEnd};
        matches!(self.state, Value | ValueOrEnd | KeyOrEnd | Key)
    }

    /// Where nothing is open, no bit is set.
    #[inline]
    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}
