//! The class of a code point, as far as a pattern asks for it, and UTF-8 read one character at
//! a time.
//!
//! The classes are pinned to those of tiktoken 0.14.0 (`tools/unicode_classes.py` writes them):
//! `\p{L}` is another set in another version of Unicode, and the reference decides. The
//! table is laid out by the build script from the runs.

use crate::code_points::CodePoints;

/// Bits of [`of`]: `\s`, the 25 code points of `White_Space`.
pub const SPACE: u8 = 1;
/// `\p{L}`.
pub const LETTER: u8 = 2;
/// `\p{N}`.
pub const NUMBER: u8 = 4;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`: what may stand in the first half of a word of o200k_base.
pub const UPPER: u8 = 8;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`: what may stand in its second half. `\p{M}` alone is
/// [`UPPER`] and `LOWER` without [`LETTER`].
pub const LOWER: u8 = 16;

const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.bin"));
static TABLE: CodePoints = CodePoints(BYTES);
/// What most text is needs one look.
static ASCII: [u8; 128] = CodePoints::ascii(BYTES);

/// The bits of a code point; of what is none, no bit.
#[must_use]
pub fn of(code_point: u32) -> u8 {
    TABLE.get(code_point)
}

/// The bits and the length in bytes of the character at `at`, which must be inside of `bytes`.
/// A maximal invalid part (Unicode 16, 3.9, table 3-8) counts as one U+FFFD.
#[inline]
#[must_use]
pub fn at(bytes: &[u8], at: usize) -> (u8, usize) {
    if let Some(bits) = ASCII.get(usize::from(bytes[at])) {
        return (*bits, 1);
    }
    let (code_point, length) = decode(&bytes[at..]);
    (of(code_point), length)
}

/// The first character of `bytes`, which must have one, and its length in bytes. U+FFFD for a
/// maximal invalid part, as `String::from_utf8_lossy` has it.
#[must_use]
pub fn decode(bytes: &[u8]) -> (u32, usize) {
    let first = bytes[0];
    // The second byte's range keeps out what is over-long, a surrogate or above U+10FFFF.
    let (length, second) = match first {
        0..=0x7f => return (u32::from(first), 1),
        0xc2..=0xdf => (2, 0x80..=0xbf),
        0xe0 => (3, 0xa0..=0xbf),
        0xed => (3, 0x80..=0x9f),
        0xe1..=0xef => (3, 0x80..=0xbf),
        0xf0 => (4, 0x90..=0xbf),
        0xf1..=0xf3 => (4, 0x80..=0xbf),
        0xf4 => (4, 0x80..=0x8f),
        _ => return (0xfffd, 1),
    };
    let mut code_point = u32::from(first) & (0x7f >> length);
    for i in 1..length {
        match bytes.get(i) {
            Some(byte) if (i == 1 && second.contains(byte)) || (i > 1 && byte & 0xc0 == 0x80) => {
                code_point = code_point << 6 | u32::from(byte & 0x3f);
            }
            _ => return (0xfffd, i),
        }
    }
    (code_point, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::runs::RUNS;

    #[test]
    fn the_table_says_what_the_runs_say() {
        let mut ends = RUNS.iter().skip(1).map(|&(start, _)| start);
        for &(start, bits) in RUNS {
            for code_point in start..ends.next().unwrap_or(0x11_0000) {
                assert_eq!(of(code_point), bits, "U+{code_point:04X}");
                if let Ok(ascii @ ..=0x7f) = u8::try_from(code_point) {
                    assert_eq!(at(&[b' ', ascii], 1), (bits, 1), "{code_point:#x}");
                }
            }
        }
        assert_eq!(of(0x11_0000), 0);
    }

    #[test]
    fn traps_of_the_classes() {
        assert_eq!((0..0x11_0000).filter(|&c| of(c) & SPACE != 0).count(), 25);
        for hexagram in 0x4dc0..=0x4dff {
            assert_eq!(of(hexagram), 0, "a hexagram is no letter");
        }
        assert_eq!(of(0x3099), UPPER | LOWER, "a voicing mark is a mark");
        assert_eq!(of(0x309b), 0, "a spacing voicing mark is none");
        assert_eq!(of(0x200b), 0, "a zero-width space is no space");
        assert_eq!(of(0x2160), NUMBER, "a Roman numeral is a number");
    }

    #[test]
    fn characters_and_invalid_parts_are_those_of_the_standard_library() {
        let mut bytes = Vec::new();
        for a in 0..=255_u8 {
            for b in [
                0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff,
            ] {
                for c in [0x41, 0x80, 0xbf, 0xe3] {
                    for d in [0x41, 0x80, 0xbf, 0xf0] {
                        bytes.clear();
                        bytes.extend([a, b, c, d]);
                        let mut ours = String::new();
                        let mut at = 0;
                        while at < bytes.len() {
                            let (code_point, length) = decode(&bytes[at..]);
                            ours.push(char::from_u32(code_point).unwrap());
                            at += length;
                        }
                        assert_eq!(ours, String::from_utf8_lossy(&bytes), "{bytes:x?}");
                    }
                }
            }
        }
    }
}
