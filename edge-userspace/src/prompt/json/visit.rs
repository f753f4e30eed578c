//! Who is told what is read.

use super::Duplicate;

/// Who is told what is read. All strings are UTF-8, but a piece may end within a character.
pub trait Visit {
    /// Where what comes next is said stands, bytes from the text's beginning: the first byte of
    /// an object, an array or a string, or the last one.
    #[inline]
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
    /// All of a string that has no escape and lies in one chunk, as short ones do as a rule: told
    /// in place of the three above. Its last quote stands at `last`.
    ///
    /// # Errors
    /// The name of a key that must not come again.
    fn whole_string(&mut self, is_key: bool, text: &[u8], last: u64) -> Result<(), Duplicate> {
        self.begin_string(is_key);
        if !text.is_empty() {
            self.string(text);
        }
        self.at(last);
        self.end_string()
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
