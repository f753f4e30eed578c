//! The inside of a string: pieces without an escape go out as they lie in the chunk, short
//! ones among escapes are gathered first.

use super::{MAX_KEY_BYTES, Visit, Wrong};
use memchr::memchr2;

/// Decoded bytes that are gathered before they go out.
const GATHER_BYTES: usize = 4096;
/// From here on a piece among escapes goes out by itself.
const LONG_BYTES: usize = 512;
/// Plain pieces of up to so many words are looked at word by word.
const SHORT_WORDS: usize = 8;
/// A string, or the rest of one, that ends within so many bytes is found to end by looking at
/// them word by word.
const NEAR_BYTES: usize = 64;
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Follows one string at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Strings {
    is_key: bool,
    bytes: usize,
    stage: Stage,
    gathered: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Plain,
    /// After a backslash. The first half of a surrogate pair may stand before it.
    Escape(Option<u16>),
    /// After `\u` and so many of its four digits.
    Hex {
        high: Option<u16>,
        digits: u8,
        value: u16,
    },
    /// After the first half of a surrogate pair.
    Half(u16),
}

impl Strings {
    #[inline]
    pub(super) fn begin(&mut self, is_key: bool) {
        self.is_key = is_key;
        self.bytes = 0;
        self.stage = Stage::Plain;
    }

    #[inline]
    pub(super) fn is_key(&self) -> bool {
        self.is_key
    }

    /// Whether any character may come next.
    pub(super) fn takes_any_character(&self) -> bool {
        matches!(self.stage, Stage::Plain | Stage::Half(_))
    }

    /// Reads on from `at` to the closing quote or the chunk's end; where it stands then, and
    /// whether the quote has been read.
    pub(super) fn read(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        visit: &mut impl Visit,
    ) -> Result<(usize, bool), (usize, Wrong)> {
        while at < chunk.len() {
            match self.stage {
                Stage::Plain => {
                    let rest = &chunk[at..];
                    // Of one that began in this chunk it has been seen.
                    if at == 0
                        && self.gathered.is_empty()
                        && let Some(length) = near_end(rest)
                        && rest[length] == b'"'
                    {
                        self.bytes += length;
                        if length > 0 {
                            visit.string(&rest[..length]);
                        }
                        self.check_length(length)?;
                        return Ok((length + 1, true));
                    }
                    let stop = memchr2(b'"', b'\\', rest);
                    let plain = &rest[..stop.unwrap_or(rest.len())];
                    if has_control(plain) {
                        let first = plain.iter().position(|byte| *byte < 0x20);
                        let first = first.unwrap_or(0);
                        // Told as far as it is right, however it was cut.
                        self.plain(&plain[..first], visit);
                        self.flush(visit);
                        return Err((at + first, Wrong::Control));
                    }
                    self.plain(plain, visit);
                    at += plain.len();
                    self.check_length(at)?;
                    match stop {
                        Some(_) if chunk[at] == b'"' => {
                            self.flush(visit);
                            return Ok((at + 1, true));
                        }
                        Some(_) => {
                            at = self.among_escapes(chunk, at, visit);
                            self.check_length(at)?;
                            if chunk[at] == b'\\' {
                                self.stage = Stage::Escape(None);
                                at += 1;
                            }
                        }
                        None => {}
                    }
                }
                Stage::Half(high) => {
                    if chunk[at] == b'\\' {
                        self.stage = Stage::Escape(Some(high));
                        at += 1;
                    } else {
                        self.character(REPLACEMENT, visit);
                        self.stage = Stage::Plain;
                    }
                }
                Stage::Escape(high) => {
                    if self.escape(high, chunk[at], visit).is_none() {
                        self.flush(visit);
                        return Err((at, Wrong::Escape));
                    }
                    at += 1;
                    self.check_length(at)?;
                }
                Stage::Hex {
                    high,
                    digits,
                    value,
                } => {
                    let Some(digit) = char::from(chunk[at]).to_digit(16) else {
                        self.flush(visit);
                        return Err((at, Wrong::Escape));
                    };
                    let value = value << 4 | digit as u16;
                    at += 1;
                    if digits < 3 {
                        self.stage = Stage::Hex {
                            high,
                            digits: digits + 1,
                            value,
                        };
                    } else {
                        self.unit(high, value, visit);
                        self.check_length(at)?;
                    }
                }
            }
        }
        Ok((at, false))
    }

    /// From a backslash on: whole escapes and what is short between them, as long as it is
    /// easy. Where it stands then, which is before the chunk's end.
    fn among_escapes(&mut self, chunk: &[u8], mut at: usize, visit: &mut impl Visit) -> usize {
        while let Some(&[b'\\', escape, a, b, c, d, ..]) = chunk.get(at..at + 16) {
            if self.gathered.len() + 3 + SHORT_WORDS * 8 > GATHER_BYTES {
                self.flush(visit);
            }
            match SIMPLE[usize::from(escape)] {
                0 => {
                    // What is no escape, or half a pair, is for the one who looks closely.
                    let Some(character) = (escape == b'u').then(|| hex([a, b, c, d])).flatten()
                    else {
                        break;
                    };
                    self.character(character, visit);
                    at += 6;
                }
                byte => {
                    self.gather(&[byte], visit);
                    at += 2;
                }
            }
            let (length, ended) = self.short(&chunk[at..]);
            at += length;
            if !ended {
                break;
            }
        }
        at
    }

    /// Gathers a short plain piece by words; its length, and whether it ends there.
    #[inline]
    fn short(&mut self, rest: &[u8]) -> (usize, bool) {
        let mut length = 0;
        // The last byte stays: there is always one to look at.
        let words = rest[..rest.len() - 1].as_chunks::<8>().0;
        for word in words.iter().take(SHORT_WORDS) {
            let plain = plain_bytes(u64::from_le_bytes(*word));
            let before = self.gathered.len();
            self.gathered.extend_from_slice(word);
            self.gathered.truncate(before + plain);
            self.bytes += plain;
            length += plain;
            if plain < 8 {
                return (length, true);
            }
        }
        (length, false)
    }

    /// The byte after a backslash.
    fn escape(&mut self, high: Option<u16>, byte: u8, visit: &mut impl Visit) -> Option<()> {
        if byte == b'u' {
            self.stage = Stage::Hex {
                high,
                digits: 0,
                value: 0,
            };
            return Some(());
        }
        let decoded = SIMPLE[usize::from(byte)];
        if decoded == 0 {
            return None;
        }
        if high.is_some() {
            self.character(REPLACEMENT, visit);
        }
        self.gather(&[decoded], visit);
        self.stage = Stage::Plain;
        Some(())
    }

    /// A whole UTF-16 code unit.
    fn unit(&mut self, high: Option<u16>, unit: u16, visit: &mut impl Visit) {
        self.stage = Stage::Plain;
        if let Some(high) = high {
            let pair = char::decode_utf16([high, unit]).next();
            if let Some(Ok(character)) = pair {
                return self.character(character, visit);
            }
            self.character(REPLACEMENT, visit);
        }
        match unit {
            0xd800..=0xdbff => self.stage = Stage::Half(unit),
            unit => {
                let character = char::from_u32(u32::from(unit)).unwrap_or(REPLACEMENT);
                self.character(character, visit);
            }
        }
    }

    fn character(&mut self, character: char, visit: &mut impl Visit) {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).as_bytes();
        self.gather(bytes, visit);
    }

    #[inline]
    fn plain(&mut self, piece: &[u8], visit: &mut impl Visit) {
        if piece.is_empty() {
            return;
        }
        if piece.len() >= LONG_BYTES || self.gathered.is_empty() {
            self.flush(visit);
            self.bytes += piece.len();
            visit.string(piece);
        } else {
            self.gather(piece, visit);
        }
    }

    fn gather(&mut self, piece: &[u8], visit: &mut impl Visit) {
        if self.gathered.len() + piece.len() > GATHER_BYTES {
            self.flush(visit);
        }
        if self.gathered.capacity() == 0 {
            self.gathered.reserve_exact(GATHER_BYTES);
        }
        self.bytes += piece.len();
        self.gathered.extend_from_slice(piece);
    }

    pub(super) fn flush(&mut self, visit: &mut impl Visit) {
        if !self.gathered.is_empty() {
            visit.string(&self.gathered);
            self.gathered.clear();
        }
    }

    #[inline]
    fn check_length(&self, at: usize) -> Result<(), (usize, Wrong)> {
        if self.is_key && self.bytes > MAX_KEY_BYTES {
            return Err((at, Wrong::KeyLength));
        }
        Ok(())
    }
}

/// What a backslash and a byte stand for; 0: not by itself.
const SIMPLE: [u8; 256] = {
    let mut table = [0; 256];
    let pairs = *b"\"\"\\\\//b\x08f\x0cn\nr\rt\t";
    let mut at = 0;
    while at < pairs.len() {
        table[pairs[at] as usize] = pairs[at + 1];
        at += 2;
    }
    table
};

/// The value of a hex digit; 255: it is none.
const DIGIT: [u8; 256] = {
    let mut table = [255; 256];
    let mut value = 0;
    while value < 16 {
        table[b"0123456789abcdef"[value] as usize] = value as u8;
        table[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    table
};

/// The character of four hex digits; none when it is half a surrogate pair or they are not.
#[inline]
fn hex(digits: [u8; 4]) -> Option<char> {
    let [a, b, c, d] = digits.map(|digit| u32::from(DIGIT[usize::from(digit)]));
    if (a | b | c | d) > 15 {
        return None;
    }
    char::from_u32(a << 12 | b << 8 | c << 4 | d)
}

/// How many bytes of a little-endian word come before the first quote, backslash or control
/// character.
#[inline]
fn plain_bytes(word: u64) -> usize {
    const ONES: u64 = u64::MAX / 255;
    // The highest bit of each byte that is below `n`, exact up to the first one.
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & (ONES << 7);
    let quote = below(word ^ (ONES * u64::from(b'"')), 1);
    let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
    ((quote | backslash | below(word, 0x20)).trailing_zeros() / 8) as usize
}

/// Where the first quote, backslash or control character is, when it is near.
#[inline]
pub(super) fn near_end(rest: &[u8]) -> Option<usize> {
    let (words, tail) = rest[..rest.len().min(NEAR_BYTES)].as_chunks::<8>();
    let mut length = 0;
    for word in words {
        let plain = plain_bytes(u64::from_le_bytes(*word));
        length += plain;
        if plain < 8 {
            return Some(length);
        }
    }
    let end = (tail.iter()).position(|byte| matches!(*byte, b'"' | b'\\' | ..0x20))?;
    Some(length + end)
}

/// Without an early exit the compiler makes vector instructions of it.
#[inline]
fn has_control(piece: &[u8]) -> bool {
    (piece.iter()).fold(false, |any, byte| any | (*byte < 0x20))
}
