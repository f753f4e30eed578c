//! Which class a byte is of, as the scan sees it: sets of bytes, one bit of a flag byte each.
//!
//! The scan never decodes characters. Bytes of ASCII are of the classes that patterns split
//! by; bytes above are told apart by their lead, which is the script, and for some leads by
//! what follows.

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
    /// `hwy`: twice as often in English as in most languages of its script.
    pub(crate) const ENGLISH: usize = 1;
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

/// The first flag byte of each byte of ASCII.
pub(crate) const RUNS: [u8; 128] = runs();
/// The second flag byte of each byte of ASCII; of others it is nought.
pub(crate) const SETS: [u8; 128] = sets();
/// The first flag byte of every byte above ASCII.
pub(crate) const HIGH_RUNS: u8 = 1 << run::WORD | 1 << run::HIGH;

/// The lead classes, three groups of eight: inclusive ranges of lead bytes.
pub(crate) const LEADS: [[(u8, u8); 8]; 3] = [
    [
        (0xE0, 0xE0), // Indic scripts, Thai, Lao, Tibetan
        (0xE1, 0xE1), // Georgian to Khmer, Vietnamese letters
        (0xE2, 0xE2), // punctuation, symbols
        (0xE3, 0xE3), // kana, CJK punctuation
        (0xC3, 0xC3), // Latin-1 letters
        (0xD0, 0xD0), // Cyrillic
        (0xEA, 0xEA), // Hangul, minor scripts
        (0xF0, 0xFF), // emoji, beyond the basic plane
    ],
    [
        (0xC0, 0xC2), // Latin-1 signs
        (0xC4, 0xC5), // Latin extended
        (0xC6, 0xCB), // more of it, phonetic letters
        (0xCC, 0xCF), // combining marks, Greek
        (0xDC, 0xDF), // Syriac, Thaana, N'Ko
        (0xD1, 0xD5), // Cyrillic, Armenian
        (0xD6, 0xD7), // Armenian, Hebrew
        (0xD8, 0xDB), // Arabic
    ],
    [
        (0xE4, 0xE4), // Han, from here
        (0xE5, 0xE5),
        (0xE6, 0xE6),
        (0xE7, 0xE7),
        (0xE8, 0xE8),
        (0xE9, 0xE9), // to here
        (0xEB, 0xED), // Hangul
        (0xEE, 0xEF), // compatibility forms, full width
    ],
];

/// For each lead class of the first group: second bytes that are counted apart, two sets.
pub(crate) const SECONDS: [[(u8, u8); 8]; 2] = [
    [
        (0xB8, 0xB9), // Thai
        (0xBA, 0xBB), // Vietnamese letters
        (0x80, 0x80), // dashes, quotation marks
        (0x80, 0x80), // CJK punctuation
        (0x80, 0x9E), // capitals
        (0x80, 0xAF), // capitals
        (0xB0, 0xBF), // Hangul
        (0x9F, 0x9F), // emoji
    ],
    [
        (0xA4, 0xA5), // Devanagari
        (0x80, 0x8E), // Burmese, Georgian, Ethiopic
        (0xB0, 0xBF), // Tifinagh and other minor scripts
        (0x83, 0x83), // katakana
        (0xA8, 0xAA), // accents of e
        (0xB0, 0xB5), // the first small letters
        (0x80, 0x93), // Yi
        (0x90, 0x96), // scripts beyond the basic plane
    ],
];

/// The lead group `group` as flags by the lead byte's low six bits.
pub(crate) const LEAD_FLAGS: [[u8; 64]; 3] = [
    ranges(LEADS[0], 0xC0),
    ranges(LEADS[1], 0xC0),
    ranges(LEADS[2], 0xC0),
];
/// [`SECONDS`] as flags by the second byte's low six bits.
pub(crate) const SECOND_FLAGS: [[u8; 64]; 2] = [ranges(SECONDS[0], 0x80), ranges(SECONDS[1], 0x80)];

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
            b'h' | b'w' | b'y' => 1 << set::ENGLISH | 1 << set::CONSONANT,
            b'a'..=b'z' => 1 << set::CONSONANT,
            b'_' | b'-' => 1 << set::JOINER,
            b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' => 1 << set::BRACKET,
            b'.' | b',' | b';' | b':' | b'!' | b'?' => 1 << set::STOP,
            b'\'' | b'"' | b'`' => 1 << set::QUOTE,
            _ => 0,
        };
        if !byte.is_ascii_alphabetic() && byte != b'\'' {
            flags |= 1 << set::BREAK;
        }
        table[byte as usize] = flags;
        byte += 1;
    }
    table
}

/// Flags of the bytes `base..base + 64` by their low six bits.
const fn ranges(of: [(u8, u8); 8], base: u8) -> [u8; 64] {
    let mut table = [0; 64];
    let mut low = 0;
    while low < 64 {
        let mut lane = 0;
        while lane < 8 {
            let (first, last) = of[lane];
            if first <= base + low && base + low <= last {
                table[low as usize] |= 1 << lane;
            }
            lane += 1;
        }
        low += 1;
    }
    table
}
