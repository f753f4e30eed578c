//! The inside of a string: pieces without an escape go out as they lie in the chunk, short
//! ones among escapes are gathered first.

use super::{MAX_KEY_BYTES, Visit, Wrong};
use memchr::memchr2;

/// Decoded bytes that are gathered before they go out.
const GATHER_BYTES: usize = 4096;
/// From here on a piece among escapes goes out by itself.
const LONG_BYTES: usize = 512;
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Follows one string at a time.
#[derive(Debug, Default)]
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
    pub(super) fn begin(&mut self, is_key: bool) {
        self.is_key = is_key;
        self.bytes = 0;
        self.stage = Stage::Plain;
    }

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
                    let stop = memchr2(b'"', b'\\', rest);
                    let plain = &rest[..stop.unwrap_or(rest.len())];
                    if has_control(plain) {
                        let first = plain.iter().position(|byte| *byte < 0x20);
                        return Err((at + first.unwrap_or(0), Wrong::Control));
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
                            self.stage = Stage::Escape(None);
                            at += 1;
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
                    self.escape(high, chunk[at], visit)
                        .ok_or((at, Wrong::Escape))?;
                    at += 1;
                    self.check_length(at)?;
                }
                Stage::Hex {
                    high,
                    digits,
                    value,
                } => {
                    let digit = (char::from(chunk[at]).to_digit(16)).ok_or((at, Wrong::Escape))?;
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

    /// The byte after a backslash.
    fn escape(&mut self, high: Option<u16>, byte: u8, visit: &mut impl Visit) -> Option<()> {
        let character = match byte {
            b'u' => {
                self.stage = Stage::Hex {
                    high,
                    digits: 0,
                    value: 0,
                };
                return Some(());
            }
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            _ => return None,
        };
        if high.is_some() {
            self.character(REPLACEMENT, visit);
        }
        self.character(character, visit);
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

    fn flush(&mut self, visit: &mut impl Visit) {
        if !self.gathered.is_empty() {
            visit.string(&self.gathered);
            self.gathered.clear();
        }
    }

    fn check_length(&self, at: usize) -> Result<(), (usize, Wrong)> {
        if self.is_key && self.bytes > MAX_KEY_BYTES {
            return Err((at, Wrong::KeyLength));
        }
        Ok(())
    }
}

/// Without an early exit the compiler makes vector instructions of it.
#[inline]
fn has_control(piece: &[u8]) -> bool {
    (piece.iter()).fold(false, |any, byte| any | (*byte < 0x20))
}
