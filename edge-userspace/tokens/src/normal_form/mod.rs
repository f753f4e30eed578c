//! The normal form that a vocabulary has text brought into before it is cut (Unicode Standard
//! Annex 15), also of a text that is still arriving.
//!
//! Unicode 17, as Node 20 and 22 have it: the reference for Claude 2 leaves it to them.

use std::borrow::Cow;
use std::mem;
use unicode_normalization::UnicodeNormalization as _;

use crate::code_points::CodePoints;

mod bits;

static TABLE: CodePoints = CodePoints(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/normal_forms.bin"
)));

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
        if self == Self::None || self.unchanged(text).0 == text.len() {
            return Cow::Borrowed(text);
        }
        let mut whole = String::with_capacity(text.len());
        let mut normalizer = Normalizer::new(self);
        normalizer.push(text, |part| whole.push_str(part));
        normalizer.finish(|part| whole.push_str(part));
        Cow::Owned(whole)
    }

    /// How many bytes of `text` are characters that the form leaves as they are whatever
    /// precedes them, and where the last of them starts: what follows may still change it.
    fn unchanged(self, text: &str) -> (usize, usize) {
        let all = self.boundary() | self.itself();
        let mut end = 0;
        let mut last = 0;
        loop {
            let ascii = ascii_prefix(&text.as_bytes()[end..]);
            if ascii > 0 {
                end += ascii;
                last = end - 1;
            }
            let rest = text[end..].chars();
            for c in rest.take_while(|c| !c.is_ascii()) {
                if TABLE.get(c.into()) & all != all {
                    return (end, last);
                }
                last = end;
                end += c.len_utf8();
            }
            if end == text.len() {
                return (end, last);
            }
        }
    }

    fn is_boundary(self, c: char) -> bool {
        TABLE.get(c.into()) & self.boundary() != 0
    }

    fn boundary(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Nfc => bits::NFC_BOUNDARY,
            Self::Nfkc => bits::NFKC_BOUNDARY,
        }
    }

    fn itself(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Nfc => bits::NFC_ITSELF,
            Self::Nfkc => bits::NFKC_ITSELF,
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
        if self.form == NormalForm::None {
            out(part);
            return;
        }
        let mut rest = part;
        while !rest.is_empty() {
            rest = if self.open.is_empty() {
                self.open_at(rest, &mut out)
            } else {
                self.extend(rest, &mut out)
            };
        }
    }

    /// The end of the text.
    pub fn finish(mut self, mut out: impl FnMut(&str)) {
        self.close(&mut out);
    }

    /// Passes on what is unchanged; the character behind, or the last of it, is kept open.
    fn open_at<'a>(&mut self, text: &'a str, out: &mut impl FnMut(&str)) -> &'a str {
        let (end, last) = self.form.unchanged(text);
        if last > 0 {
            out(&text[..last]);
        }
        let kept = if last < end {
            end
        } else {
            next_char(text, end)
        };
        self.open.push_str(&text[last..kept]);
        self.open_chars = 1;
        &text[kept..]
    }

    /// Adds what combines with the open character; what does not closes it.
    fn extend<'a>(&mut self, text: &'a str, out: &mut impl FnMut(&str)) -> &'a str {
        for (at, c) in text.char_indices() {
            if self.form.is_boundary(c) || self.open_chars == NormalForm::MOST_COMBINING {
                self.close(out);
                return &text[at..];
            }
            self.open.push(c);
            self.open_chars += 1;
        }
        ""
    }

    fn close(&mut self, out: &mut impl FnMut(&str)) {
        let mut scratch = mem::take(&mut self.scratch);
        scratch.clear();
        match self.form {
            NormalForm::None => scratch.push_str(&self.open),
            NormalForm::Nfc => scratch.extend(self.open.nfc()),
            NormalForm::Nfkc => scratch.extend(self.open.nfkc()),
        }
        if !scratch.is_empty() {
            out(&scratch);
        }
        self.scratch = scratch;
        self.open.clear();
        self.open_chars = 0;
    }
}

/// Where the character at `at` ends.
fn next_char(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(0, char::len_utf8)
}

/// How many bytes at the start are ASCII.
fn ascii_prefix(bytes: &[u8]) -> usize {
    let whole = bytes.chunks_exact(64).take_while(|chunk| chunk.is_ascii());
    let start = whole.count() * 64;
    let rest = bytes[start..].iter().take_while(|byte| byte.is_ascii());
    start + rest.count()
}

#[cfg(test)]
mod tests;
