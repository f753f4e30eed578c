//! Which class a byte is of, as the scan sees it: sets of bytes, one bit of a flag byte each.
//!
//! Bytes of ASCII are of the classes that patterns split by, and of sets that tell languages
//! and sorts of data apart. Of bytes above ASCII only that is said here; the characters that
//! they make are counted apart, see [`characters`](super::characters).

/// Lanes of the first flag byte: the classes whose runs are measured.
pub(crate) mod run {
    /// ASCII letters.
    pub(crate) const LETTER: usize = 0;
    /// ASCII capitals.
    pub(crate) const UPPER: usize = 1;
    /// ASCII digits.
    pub(crate) const DIGIT: usize = 2;
    /// Space, tab, vertical tab, form feed.
    pub(crate) const SPACE: usize = 3;
    /// Line feed, carriage return.
    pub(crate) const NEWLINE: usize = 4;
    /// Every other byte of ASCII, control characters included.
    pub(crate) const PUNCTUATION: usize = 5;
    /// ASCII letters and all bytes above ASCII.
    pub(crate) const WORD: usize = 6;
    /// Bytes above ASCII.
    pub(crate) const HIGH: usize = 7;
}

/// Lanes of the second flag byte: sets within ASCII.
pub(crate) mod set {
    /// `aeiou`.
    pub(crate) const VOWEL: usize = 0;
    /// Letters, digits, blanks: what punctuation behind it cannot be one piece with, but for a
    /// space.
    pub(crate) const SOFT: usize = 1;
    /// Small letters that are no vowels.
    pub(crate) const CONSONANT: usize = 2;
    /// `_`, `-`.
    pub(crate) const JOINER: usize = 3;
    /// ASCII that is neither a letter nor an apostrophe: what ends a piece of letters under
    /// every pattern.
    pub(crate) const BREAK: usize = 4;
    /// `()[]{}<>`.
    pub(crate) const BRACKET: usize = 5;
    /// `.,;:!?`.
    pub(crate) const STOP: usize = 6;
    /// `'`, `"`, `` ` ``.
    pub(crate) const QUOTE: usize = 7;
}

/// Lanes of the third and the fourth flag byte, together: bytes that are only counted.
pub(crate) mod kind {
    /// Control characters, but for those that are blanks or line ends.
    pub(crate) const CONTROL: usize = 0;
    /// `AEIOU`.
    pub(crate) const CAPITAL_VOWEL: usize = 9;
    /// `hwy`: twice as often in English as in most languages of its script.
    pub(crate) const ENGLISH: usize = 15;
}

/// What is of each lane of [`kind`].
const KIND_BYTES: [&[u8]; 16] = [
    b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x0E\x0F\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1A\x1B\x1C\x1D\x1E\x1F\x7F",
    b"abcdef",
    b"jqxz",
    b"etaoins",
    b"\t",
    b"=+*/%&|^~",
    b"\\/",
    b"\0",
    b"kvbpg",
    b"AEIOU",
    b"ABCDEF",
    b"@#$",
    b"lrdm",
    b"tsn",
    b"e",
    b"hwy",
];

/// The first flag byte of each byte of ASCII.
pub(crate) const RUNS: [u8; 128] = runs();
/// The second flag byte of each byte of ASCII; of others it is nought.
pub(crate) const SETS: [u8; 128] = sets();
/// The first flag byte of every byte above ASCII.
pub(crate) const HIGH_RUNS: u8 = 1 << run::WORD | 1 << run::HIGH;

/// The third and the fourth flag byte of each byte of ASCII; of others they are nought.
pub(crate) const KINDS: [[u8; 128]; 2] = [kinds(0), kinds(8)];

const fn runs() -> [u8; 128] {
    let mut table = [0; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        let letter = 1 << run::LETTER | 1 << run::WORD;
        table[byte as usize] = match byte {
            b'a'..=b'z' => letter,
            b'A'..=b'Z' => letter | 1 << run::UPPER,
            b'0'..=b'9' => 1 << run::DIGIT,
            b' ' | b'\t' | 0x0B | 0x0C => 1 << run::SPACE,
            b'\n' | b'\r' => 1 << run::NEWLINE,
            _ => 1 << run::PUNCTUATION,
        };
        byte += 1;
    }
    table
}

const fn sets() -> [u8; 128] {
    let mut table = [0; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        let mut flags = match byte {
            b'a' | b'e' | b'i' | b'o' | b'u' => 1 << set::VOWEL,
            b'a'..=b'z' => 1 << set::CONSONANT,
            b'_' | b'-' => 1 << set::JOINER,
            b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' => 1 << set::BRACKET,
            b'.' | b',' | b';' | b':' | b'!' | b'?' => 1 << set::STOP,
            b'\'' | b'"' | b'`' => 1 << set::QUOTE,
            _ => 0,
        };
        if byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'\t' | 0x0B | 0x0C) {
            flags |= 1 << set::SOFT;
        }
        if !byte.is_ascii_alphabetic() && byte != b'\'' {
            flags |= 1 << set::BREAK;
        }
        table[byte as usize] = flags;
        byte += 1;
    }
    table
}

const fn kinds(first: usize) -> [u8; 128] {
    let mut table = [0; 128];
    let mut lane = 0;
    while lane < 8 {
        let bytes = KIND_BYTES[first + lane];
        let mut i = 0;
        while i < bytes.len() {
            table[bytes[i] as usize] |= 1 << lane;
            i += 1;
        }
        lane += 1;
    }
    table
}
