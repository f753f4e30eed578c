//! The normal form that a vocabulary has text brought into before it is cut (Unicode Standard
//! Annex 15), also of a text that is still arriving.
//!
//! Unicode 17, as Node 20.20 has it: the reference for Claude 2 leaves it to Node.

mod form;
mod kinds;

use std::borrow::Cow;
use std::mem;

use form::Tables;

/// What is done with text before it is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormalForm {
    /// Nothing.
    None,
    /// NFC, as Qwen 2 has it.
    Nfc,
    /// NFKC, as Claude 2 has it.
    Nfkc,
}

impl NormalForm {
    /// A character and what combines with it is brought into the form together, up to so many
    /// code points. A longer run, which no language has, is cut after every so many: then
    /// marks are not brought into order, nor composed, across the cut. So memory is bounded
    /// while a text is arriving, and the whole text is treated alike.
    pub const MOST_COMBINING: usize = 1024;

    /// A whole text in this form.
    #[must_use]
    pub fn whole(self, text: &str) -> Cow<'_, str> {
        let Some(tables) = self.tables() else {
            return Cow::Borrowed(text);
        };
        if tables.unchanged(text).end == text.len() {
            return Cow::Borrowed(text);
        }
        let mut whole = String::with_capacity(text.len());
        let mut normalizer = Normalizer::new(self);
        normalizer.push(text, |part| whole.push_str(part));
        normalizer.finish(|part| whole.push_str(part));
        Cow::Owned(whole)
    }

    fn tables(self) -> Option<&'static Tables> {
        match self {
            Self::None => None,
            Self::Nfc => Some(&form::NFC),
            Self::Nfkc => Some(&form::NFKC),
        }
    }
}

/// Brings a text that arrives in parts into a normal form. What it keeps is one character with
/// what combines with it: [`NormalForm::MOST_COMBINING`] code points, a few KiB.
#[derive(Clone, Debug)]
pub struct Normalizer {
    form: NormalForm,
    /// A character that more may combine with, and what does already.
    open: String,
    open_chars: usize,
    scratch: String,
}

impl Normalizer {
    /// One at the start of a text.
    #[must_use]
    pub fn new(form: NormalForm) -> Self {
        Self {
            form,
            open: String::new(),
            open_chars: 0,
            scratch: String::new(),
        }
    }

    /// The next part of the text. Calls `out` with the parts of the normal form that are
    /// certain, in order; they are cut anywhere between two characters.
    pub fn push(&mut self, part: &str, mut out: impl FnMut(&str)) {
        let Some(tables) = self.form.tables() else {
            out(part);
            return;
        };
        let mut rest = part;
        while !rest.is_empty() {
            rest = if self.open.is_empty() {
                self.open_at(tables, rest, &mut out)
            } else {
                self.extend(tables, rest, &mut out)
            };
        }
    }

    /// The end of the text.
    pub fn finish(mut self, mut out: impl FnMut(&str)) {
        if let Some(tables) = self.form.tables() {
            self.close(tables, &mut out);
        }
    }

    /// Passes on what is unchanged, but for its last character with its marks, which more may
    /// combine with; or takes one character that is not.
    fn open_at<'a>(
        &mut self,
        tables: &Tables,
        text: &'a str,
        out: &mut impl FnMut(&str),
    ) -> &'a str {
        let unchanged = tables.unchanged(text);
        if unchanged.last > 0 {
            out(&text[..unchanged.last]);
        }
        let mut kept = unchanged.end;
        self.open_chars = unchanged.last_chars;
        if self.open_chars == 0 {
            kept = text.chars().next().map_or(0, char::len_utf8);
            self.open_chars = 1;
        }
        self.open.push_str(&text[unchanged.last..kept]);
        &text[kept..]
    }

    /// Adds what combines with the open character; what does not closes it.
    fn extend<'a>(
        &mut self,
        tables: &Tables,
        text: &'a str,
        out: &mut impl FnMut(&str),
    ) -> &'a str {
        for (at, c) in text.char_indices() {
            if tables.starts(c) || self.open_chars == NormalForm::MOST_COMBINING {
                self.close(tables, out);
                return &text[at..];
            }
            self.open.push(c);
            self.open_chars += 1;
        }
        ""
    }

    fn close(&mut self, tables: &Tables, out: &mut impl FnMut(&str)) {
        if self.open.is_empty() {
            return;
        }
        let alone = self.open.chars().next().filter(|_| self.open_chars == 1);
        if let Some(alone) = alone.and_then(|c| tables.alone(c)) {
            out(alone);
        } else if tables.unchanged(&self.open).end == self.open.len() {
            out(&self.open);
        } else {
            let mut scratch = mem::take(&mut self.scratch);
            scratch.clear();
            tables.bring(&self.open, &mut scratch);
            out(&scratch);
            self.scratch = scratch;
        }
        self.open.clear();
        self.open_chars = 0;
    }
}

#[cfg(test)]
mod tests;
