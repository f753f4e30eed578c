//! Texts that are made to look like fewer tokens than they are.

use super::*;
use crate::{Counter, Vocabulary};

/// Bytes of each text: many blocks.
const BYTES: usize = 40_000;

/// Numbers without a pattern, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

fn repeated(part: &str) -> String {
    part.repeat(BYTES.div_ceil(part.len()))
}

/// Characters of `of`, at random.
fn soup(of: &str) -> String {
    let of: Vec<char> = of.chars().collect();
    let mut random = Random(7);
    (0..BYTES).map(|_| of[random.below(of.len())]).collect()
}

/// `most` with one of `few` at every so-many-th place.
fn sprinkled(most: &str, few: &str, every: usize) -> String {
    let few: Vec<char> = few.chars().collect();
    let most = most.chars().cycle().take(BYTES).enumerate();
    let put = |(i, c)| {
        if i % every == 0 {
            few[i / every % few.len()]
        } else {
            c
        }
    };
    most.map(put).collect()
}

fn texts() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let controls: String = (0..32_u8).chain([127]).map(char::from).collect();
    for control in controls
        .chars()
        .filter(|c| !"\t\n\r\u{B}\u{C}".contains(*c))
    {
        texts.push((format!("{control:?}"), repeated(&control.to_string())));
    }
    let punctuation: String = (0..128_u8)
        .map(char::from)
        .filter(char::is_ascii_punctuation)
        .collect();
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let english = "It was said that nobody had ever come back from there to tell of it. ";
    let mut put = |name: &str, text: String| texts.push((name.to_owned(), text));
    put("controls", soup(&controls));
    put("two controls", soup("\0\u{1}"));
    put("controls in turn", repeated(&controls));
    put("brackets", repeated("=={}[]();"));
    put("operators", repeated("!=+-*/&|^~<>?:%"));
    put("closing", repeated(")];}"));
    put("punctuation", soup(&punctuation));
    put("punctuation in turn", repeated(&punctuation));
    put("two marks", soup("=#"));
    put("three marks", soup("-_~"));
    put("dots and commas", soup(".,"));
    put(
        "punctuation and letters",
        soup(&format!("{punctuation}abc")),
    );
    put(
        "punctuation and digits",
        soup(&format!("{punctuation}0123456789")),
    );
    put("blanks", soup(" \t\r\n\u{B}\u{C}"));
    put("spaces and tabs", soup(" \t"));
    put("line ends", soup("\r\n"));
    put("letters", soup(letters));
    put(
        "letters of both cases",
        soup(&format!("{letters}{}", letters.to_uppercase())),
    );
    put("letters and spaces", soup(&format!("{letters}    ")));
    put("capitals", soup(&letters.to_uppercase()));
    put("consonants", soup("bcdfghjklmnpqrstvwxz "));
    put("digits", soup("0123456789"));
    put("digits and spaces", repeated("1 2 3 4 "));
    put("letters apart", repeated("a b c d "));
    put("marks apart", repeated(". , ; : "));
    put("letter, mark", repeated("a;b;c;"));
    put(
        "base64",
        soup(&format!("{letters}{}0123456789+/", letters.to_uppercase())),
    );
    for every in [2, 3, 5, 10, 20, 50] {
        put(&format!("NUL at {every}"), sprinkled(english, "\0", every));
        put(
            &format!("controls at {every}"),
            sprinkled(english, &controls, every),
        );
        put(
            &format!("marks at {every}"),
            sprinkled(english, &punctuation, every),
        );
        put(
            &format!("NUL in a run at {every}"),
            sprinkled("=", "\0", every),
        );
        put(
            &format!("marks in a run at {every}"),
            sprinkled("=", "#;}", every),
        );
        put(
            &format!("spaces, a mark at {every}"),
            sprinkled(" ", "#;}\t", every),
        );
    }
    let block = |part: &str, bytes: usize| part.repeat(bytes.div_ceil(part.len()));
    for share in [256, 512, 1024, 1536] {
        let mixed = |few: &str, most: &str| {
            (block(few, share) + &block(most, BLOCK_BYTES - share)).repeat(BYTES / BLOCK_BYTES)
        };
        put(&format!("NUL {share}"), mixed("\0", " "));
        put(&format!("NUL in prose {share}"), mixed("\0", english));
        put(&format!("brackets {share}"), mixed("=={}[]();", " "));
        put(
            &format!("brackets in prose {share}"),
            mixed("=={}[]();", english),
        );
    }
    put("rare Han", repeated("\u{9F98}\u{9750}\u{7228}\u{3400}"));
    put("private use", repeated("\u{E000}\u{E123}\u{F8FF}"));
    put(
        "beyond the basic plane",
        repeated("\u{20000}\u{2A6D6}\u{10330}\u{1D400}"),
    );
    put("combining marks", repeated("a\u{301}\u{302}\u{303}"));
    put("emoji", repeated("\u{1F469}\u{200D}\u{1F680}\u{1FAE8}"));
    put("invisible", repeated("\u{200B}\u{200C}\u{2060}\u{FEFF}"));
    put("cuneiform", repeated("\u{12000}\u{12345}"));
    put("Tibetan", repeated("\u{F40}\u{F0B}\u{F66}\u{F72}"));
    put("full width", repeated("\u{FF21}\u{FF42}\u{FF10}"));
    texts
}

#[test]
fn no_deceiving_text_is_estimated_at_less_than_half() {
    let mut low = Vec::new();
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        let mut counter = Counter::new(&vocabulary);
        let estimator = Estimator::new(&vocabulary);
        for (what, text) in texts() {
            let exact = counter.count(text.as_bytes());
            let estimate = estimator.estimate(&Features::of(text.as_bytes())).tokens;
            if estimate * 2 < exact {
                let ratio = estimate as f64 / exact as f64;
                low.push(format!("{name}, {what}: {estimate} of {exact}: {ratio:.2}"));
            }
        }
    }
    assert!(low.is_empty(), "{}", low.join("\n"));
}
