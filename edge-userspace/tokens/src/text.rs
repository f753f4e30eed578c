//! What counts as the text of some bytes. The rules, in one place:
//!
//! - The name of a special token in a text (`<|endoftext|>`) is plain text. Who sends it means
//!   the characters; a count that took it as one token could be lowered by writing it.
//! - Invalid UTF-8 is as `String::from_utf8_lossy` reads it: each maximal invalid part is one
//!   U+FFFD (Unicode 16, 3.9, "Best Practices for Using U+FFFD"), also where a text that
//!   arrives in parts is cut.
//! - A lone surrogate, which only escapes in JSON can bring, is U+FFFD: whoever reads the JSON
//!   puts it there.
//! - The normal form of the vocabulary comes next: [`crate::NormalForm`].
//! - Nothing is cut off, trimmed or added: an empty text has no tokens.

use std::str;

/// Reads bytes that arrive in parts as text.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// The start of a character whose end has not arrived.
    held: [u8; 4],
    held_bytes: usize,
}

impl Decoder {
    /// One at the start of a text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next bytes, cut anywhere. Calls `out` with the text that they complete, in order.
    pub fn push(&mut self, bytes: &[u8], mut out: impl FnMut(&str)) {
        let mut rest = self.complete(bytes, &mut out);
        while !rest.is_empty() {
            rest = match str::from_utf8(rest) {
                Ok(text) => {
                    out(text);
                    &[]
                }
                Err(error) => {
                    let (valid, invalid) = rest.split_at(error.valid_up_to());
                    if let (false, Ok(valid)) = (valid.is_empty(), str::from_utf8(valid)) {
                        out(valid);
                    }
                    self.invalid(invalid, error.error_len(), &mut out)
                }
            };
        }
    }

    /// The end of the text: a character without its end is invalid.
    pub fn finish(self, mut out: impl FnMut(&str)) {
        if self.held_bytes > 0 {
            out("\u{fffd}");
        }
    }

    /// An invalid part of known length, or one that more bytes may make valid.
    fn invalid<'a>(
        &mut self,
        bytes: &'a [u8],
        length: Option<usize>,
        out: &mut impl FnMut(&str),
    ) -> &'a [u8] {
        match length {
            Some(length) => {
                out("\u{fffd}");
                &bytes[length..]
            }
            None => {
                self.held[..bytes.len()].copy_from_slice(bytes);
                self.held_bytes = bytes.len();
                &[]
            }
        }
    }

    /// Adds bytes to what is held until it is a character or cannot become one.
    fn complete<'a>(&mut self, bytes: &'a [u8], out: &mut impl FnMut(&str)) -> &'a [u8] {
        let mut rest = bytes;
        while let (true, [next, after @ ..]) = (self.held_bytes > 0, rest) {
            self.held[self.held_bytes] = *next;
            match str::from_utf8(&self.held[..=self.held_bytes]) {
                Ok(character) => {
                    out(character);
                    self.held_bytes = 0;
                    rest = after;
                }
                Err(error) if error.error_len().is_none() => {
                    self.held_bytes += 1;
                    rest = after;
                }
                // What was held is the maximal part; the byte behind it starts afresh.
                Err(_) => {
                    out("\u{fffd}");
                    self.held_bytes = 0;
                }
            }
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut text = String::new();
        let mut decoder = Decoder::new();
        for part in parts {
            decoder.push(part, |part| text.push_str(part));
        }
        decoder.finish(|part| text.push_str(part));
        text
    }

    #[test]
    fn every_split_is_the_whole_of_the_standard_library() {
        let pieces: [&[u8]; 16] = [
            b"a",
            b"\x80",
            b"\xbf",
            b"\xc3",
            b"\xc3\xa9",
            b"\xe4\xb8",
            b"\xe4\xb8\xad",
            b"\xe0",
            b"\x9f",
            b"\xed\xa0\x80",
            b"\xf0\x9f\x98\x80",
            b"\xf0\x9f\x98",
            b"\xf4\x90",
            b"\xff",
            b"\xc0\xaf",
            b"",
        ];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    let bytes = [a, b, c, b"z", a].concat();
                    let whole = String::from_utf8_lossy(&bytes);
                    for at in 0..=bytes.len() {
                        assert_eq!(in_parts([&bytes[..at], &bytes[at..]]), whole);
                    }
                    assert_eq!(in_parts(bytes.chunks(1)), whole, "{bytes:x?}");
                }
            }
        }
    }
}
