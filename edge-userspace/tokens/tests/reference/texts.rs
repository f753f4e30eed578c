//! Texts that counters get wrong: known traps, random strings from an alphabet of such, and
//! endless runs.

/// Texts on which some tokenizer or other has been wrong.
pub(crate) const TRAPS: &[&str] = &[
    "",
    " ",
    "\n",
    "\r",
    "\0",
    "\0\0\0\0\0\0\0\0\0",
    "a\0",
    "\u{7f}",
    "hello world",
    // Contractions, and letters that are S and K without case.
    "it's they're we've I'm you'll he'd can't",
    "IT'S THEY'RE WE'VE I'M YOU'LL HE'D CAN'T",
    "'s'S't'T're'RE've'VE'm'M'll'LL'd'D",
    "it'\u{17f} it'\u{17f}x x'\u{212a} 'l\u{17f} '\u{17f}\u{17f}",
    "don''t ''s '''re 'r e 'v' 've's",
    "it\u{2019}s they\u{2019}re",
    "'sing 'tis 'llama 'reed 'verily 'mother 'dare",
    "a'sb A'sB a's's's 1's !'s \u{e9}'s \u{4e2d}'s",
    // Digits are by threes and take no space; digits of other scripts are digits.
    "1 12 123 1234 12345 123456 1234567",
    "   123   4567",
    "\u{661}\u{662}\u{663}\u{664} \u{ff11}\u{ff12}\u{ff13}\u{ff14} \u{2163}\u{bd}\u{b2}\u{2460}",
    "a1b22c333d4444 1,234,567.89 0x1F 1e-9",
    // Blanks that may prefix letters, and blanks that only look so.
    "\ta \u{a0}a \u{3000}a \u{2003}a \u{200b}a \u{feff}a \u{85}a \u{2028}a",
    "a\u{a0}\u{a0}b\u{3000}\u{3000}c\t\td",
    "a  b   c    d \n e \n\n f \n \n g",
    "end   ",
    "end \t \n",
    "  \n  \n  x",
    "x \r\n\r\n y \r \r\r z",
    "\u{85}\u{85}x\u{2028}\u{2029}y\u{b}\u{c}z\u{1c}\u{1d}\u{1e}\u{1f}",
    "\n   \n   \n   x",
    "a\n\n\n",
    "a \n",
    "a\u{2003}\nb\u{2003} \nc",
    // Punctuation that takes line ends, and slashes after them.
    ".\n/\n",
    ";\n\n\n//\r\n/\r/ /\n",
    "!\r\n!\r!\n !!!\n\n ...\n/// x",
    "http://a.b/c?d=e&f#g <a href=\"x\">/</a>\n/",
    "}\n\n\n\t}\n}  \n",
    "_a__b___c -a--b #define $x @y ^^^^ ~~~~ ****",
    // Marks, cases, letters that are no letters.
    "e\u{301}e\u{301}E\u{301} \u{301}a \u{301}\u{301}",
    "Ca\u{301}Sa CaSe CASEcase caseCASE \u{1c5}\u{1c5} \u{2b0}\u{aa}\u{ba}",
    "\u{130}\u{131}\u{df}\u{1e9e}\u{149}\u{fb01}",
    "\u{4dc0}\u{4dc1}\u{4e00} \u{309b}\u{309c}\u{3099}\u{309a} \u{30fc}\u{30fb} \u{3005}\u{3007}",
    "\u{915}\u{94d}\u{937}\u{93f} \u{e01}\u{e34}\u{e49} \u{631}\u{64e}\u{628}",
    "\u{1100}\u{1161}\u{11a8}\u{ac01} \u{ff76}\u{ff9e} \u{ff21}\u{ff41}",
    "\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{30c6}\u{30ad}\u{30b9}\u{30c8}\u{3002}\u{d55c}\u{ad6d}\u{c5b4}",
    "\u{10400}\u{10428}\u{1d400}\u{1d7d8}\u{20000}\u{2f800}\u{e0001}\u{10ffff}",
    // Emoji of several code points.
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466} \u{1f1e9}\u{1f1ea} \u{2764}\u{fe0f} 1\u{fe0f}\u{20e3}",
    "\u{1f44d}\u{1f3fd}\u{1f44d}\u{1f3fd}a\u{1f44d}",
    // What normal form KC changes.
    "\u{fb03}\u{2460}\u{2122}\u{33a5}\u{fdfa} \u{212b}\u{c5}A\u{30a} \u{1e9b}\u{323}",
    "\u{ff21}\u{ff22} \u{3000} \u{a0} \u{2026} \u{be} \u{2167} \u{fe4d}",
    "a\u{315}\u{300}\u{5ae}\u{62}",
    // Special tokens are text.
    "<|endoftext|>",
    "<|endoftext|><|fim_prefix|> <|endofprompt|> <EOT> <META> \n\nHuman: \n\nAssistant:",
    "<|im_start|>system<|im_sep|>x<|im_end|>",
    // Long pieces, near the sizes at which counters change their way.
    "aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaaa aaaaaaaaaaaaaaa",
    "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
    "SGVsbG8gV29ybGQhIFRoaXMgaXMgYmFzZTY0IHRleHQ=",
    "================================================================================",
    "                                                                                 x",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklm",
];

/// Bytes that are no UTF-8.
pub(crate) const BROKEN: &[&[u8]] = &[
    b"\xff",
    b"a\xffb",
    b"\x80\x80\x80",
    b"\xc0\xaf\xc1\x81",
    b"\xe4\xb8",
    b"\xe4\xb8a",
    b"\xe4\xb8\xad\xe4\xb8",
    b"\xf0\x9f\x91",
    b"\xf0\x9f\x91 \xf0\x9f \xf0",
    b"\xf4\x90\x80\x80\xf5\x80\x80\x80",
    b"\xed\xa0\x80\xed\xb0\x80",
    b"\xe0\x80\x80\xe0\x9f\xbf\xf0\x8f\xbf\xbf",
    b"x\xc3 \xc3\n\xc3'\xc3s",
    b"\xef\xbb\xbftext \xef\xbb",
];

/// A character by the million.
pub(crate) const RUNS: [(&str, &str); 9] = [
    ("a", "a"),
    ("space", " "),
    ("caret", "^"),
    ("newline", "\n"),
    ("underscore", "_"),
    ("emoji", "\u{1f600}"),
    ("combining_mark", "\u{301}"),
    ("zero_width_joiner", "\u{200d}"),
    ("digit", "7"),
];

/// What random strings are put together from.
const PARTS: &[&str] = &[
    "a",
    "b",
    "s",
    "t",
    "re",
    "ve",
    "ll",
    "m",
    "d",
    "S",
    "T",
    "LL",
    "K",
    "the",
    " the",
    "ing",
    "Hello",
    "world",
    "function",
    "return",
    "x",
    "XyZ",
    "\u{e9}",
    "\u{df}",
    "\u{17f}",
    "\u{212a}",
    "\u{130}",
    "\u{1c5}",
    "\u{2b0}",
    "'",
    "'s",
    "'T",
    "'re",
    "'",
    "\u{2019}",
    "0",
    "7",
    "42",
    "123",
    "99999",
    "\u{661}",
    "\u{ff11}",
    "\u{bd}",
    "\u{2163}",
    " ",
    " ",
    " ",
    "  ",
    "    ",
    "\t",
    "\n",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\u{b}",
    "\u{c}",
    "\u{85}",
    "\u{a0}",
    "\u{1680}",
    "\u{2003}",
    "\u{2028}",
    "\u{202f}",
    "\u{3000}",
    "\u{feff}",
    "\u{200b}",
    "\u{200d}",
    "\u{1c}",
    "\u{1f}",
    "\0",
    "\u{7f}",
    ".",
    ",",
    ";",
    "!",
    "/",
    "//",
    "/",
    "\\",
    "_",
    "-",
    "--",
    "=",
    "==",
    "(",
    "){",
    "}",
    "\"",
    "<",
    "/>",
    "#",
    "^",
    "~",
    "\u{3002}",
    "\u{ff0c}",
    "\u{2026}",
    "\u{301}",
    "\u{308}",
    "\u{94d}",
    "\u{e34}",
    "\u{3099}",
    "\u{309b}",
    "\u{20e3}",
    "\u{fe0f}",
    "\u{915}",
    "\u{937}\u{93f}",
    "\u{e01}",
    "\u{631}",
    "\u{64e}",
    "\u{5d0}",
    "\u{43f}\u{440}\u{438}",
    "\u{416}",
    "\u{4dc0}",
    "\u{4e2d}",
    "\u{6587}",
    "\u{65e5}\u{672c}",
    "\u{306e}",
    "\u{30ab}",
    "\u{30fc}",
    "\u{ac00}",
    "\u{d55c}\u{ad6d}",
    "\u{1100}",
    "\u{1161}",
    "\u{20000}",
    "\u{10400}",
    "\u{1d400}",
    "\u{1f600}",
    "\u{1f44d}",
    "\u{1f3fd}",
    "\u{1f468}\u{200d}\u{1f469}",
    "\u{1f1e9}",
    "\u{e0001}",
    "\u{10ffff}",
    "\u{fb01}",
    "\u{2460}",
    "<|endoftext|>",
    "<EOT>",
    "aaaaaaaaaaaaaaaaa",
    "QUJDRA",
    "deadbeef",
];

/// Random numbers that are the same in every run (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    /// Numbers of their own for each seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// One less than `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A string of the alphabet; one in sixteen is no UTF-8.
    pub(crate) fn text(&mut self) -> Vec<u8> {
        let parts = 1 + self.below(24);
        // Few different parts make long runs likely.
        let kinds = [2, 5, PARTS.len()][self.below(3)];
        let first = self.below(PARTS.len());
        let mut text = Vec::new();
        for _ in 0..parts {
            let stride = 1 + self.below(kinds);
            text.extend(PARTS[(first + stride * 37) % PARTS.len()].bytes());
        }
        if self.below(16) == 0 && !text.is_empty() {
            let at = self.below(text.len());
            text[at] = self.next() as u8;
            text.truncate(1 + self.below(text.len()));
        }
        text
    }
}

/// How many random strings a test takes: `EDGE_TOKENS_FUZZ_TEXTS`, or few enough for every
/// day.
pub(crate) fn fuzz_texts() -> usize {
    let said = std::env::var("EDGE_TOKENS_FUZZ_TEXTS").ok();
    said.map_or(20_000, |said| {
        said.parse().expect("EDGE_TOKENS_FUZZ_TEXTS: a number")
    })
}

/// Whether everything is to be compared that there is.
pub(crate) fn is_exhaustive() -> bool {
    fuzz_texts() >= 1_000_000
}

/// The start of a text, of at most so many bytes, cut between characters.
pub(crate) fn start(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
