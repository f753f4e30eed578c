//! Short texts of what tokenizers get wrong: the same ones at every run.

/// What is put together: the alternatives of the patterns and their traps.
const PARTS: &[&str] = &[
    "a",
    "b",
    "Z",
    "s",
    "S",
    "the",
    "ing",
    "Hello",
    "WORLD",
    "camelCase",
    " ",
    "  ",
    " a",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\u{b}",
    "\u{c}",
    "\u{85}",
    "\u{a0}",
    "\u{2028}",
    "\u{3000}",
    "\u{200b}",
    "\u{200d}",
    "\u{feff}",
    "'",
    "'s",
    "'S",
    "'re",
    "'LL",
    "'vE",
    "'\u{17f}",
    "\u{17f}",
    "\u{212a}",
    "\u{130}",
    "\u{1c5}",
    "\u{2019}",
    "0",
    "1",
    "12",
    "123",
    "٣",
    "३",
    "\u{ff11}",
    "\u{2160}",
    "\u{bd}",
    "\u{2082}",
    "\u{301}",
    "\u{308}",
    "e\u{301}",
    "é",
    "ß",
    "ñ",
    "Ж",
    "ж",
    "ب",
    "\u{64b}",
    "न",
    "\u{93f}",
    "ก",
    "\u{e31}",
    "中",
    "日本",
    "カ",
    "か",
    "\u{3099}",
    "\u{309a}",
    "\u{309b}",
    "\u{ff9e}",
    "\u{ac00}",
    "\u{1100}",
    "\u{1161}",
    "\u{11a8}",
    "\u{4dc0}",
    "\u{4dff}",
    "\u{4e00}",
    "\u{1f600}",
    "\u{1f468}\u{200d}\u{1f469}",
    "\u{1f1e9}",
    "\u{fe0f}",
    "\u{20e3}",
    "\u{2764}",
    ".",
    ",",
    "/",
    "//",
    "_",
    "^",
    "=",
    "==",
    "-",
    "(",
    ")",
    "\"",
    "{",
    "}",
    ":",
    "\\",
    "!",
    "#",
    "<|endoftext|>",
    "\0",
    "\u{7f}",
    "\u{1}",
    "\u{ad}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{e000}",
    "\u{10400}",
    "\u{10428}",
    "\u{1d400}",
    "\u{1d7d8}",
    "\u{fb01}",
    "\u{2b0}",
    "\u{aa}",
    "\u{e0100}",
    "\u{fdfa}",
    "\u{33a1}",
];

/// Calls `check` with that many texts as the variable says, else 20,000.
pub(crate) fn texts(seed: u64, mut check: impl FnMut(&str)) {
    let texts = std::env::var("EDGE_TOKENS_FUZZ_TEXTS").map_or(20_000, |texts| {
        texts.parse().expect("EDGE_TOKENS_FUZZ_TEXTS is a number")
    });
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut text = String::new();
    for _ in 0..texts {
        text.clear();
        // Few different parts in a text make their meetings and repetitions likely.
        let palette: [usize; 6] = std::array::from_fn(|_| random.below(PARTS.len()));
        for _ in 0..=random.below(14) {
            match random.below(8) {
                0 => text.push(random.character()),
                1 => text.push_str(PARTS[random.below(PARTS.len())]),
                _ => text.push_str(PARTS[palette[random.below(palette.len())]]),
            }
        }
        check(&text);
    }
}

/// Xorshift: good enough to choose parts, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % end as u64) as usize
    }

    fn character(&mut self) -> char {
        let end = [0x80, 0x800, 0x3100, 0x1_0000, 0x11_0000][self.below(5)];
        char::from_u32(self.below(end) as u32).unwrap_or('\u{fffd}')
    }
}
