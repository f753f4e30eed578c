//! One normal form: what each character is to it, by tables that the build script made.

use unicode_normalization::UnicodeNormalization as _;

use super::NormalForm;
use super::kinds::{CHANGES, COMBINES, LAST_CLASS, PLAIN};
use crate::code_points::CodePoints;

/// A normal form's tables.
pub(super) struct Tables {
    kinds: CodePoints,
    /// What characters of the kind `CHANGES` become alone: all texts, and for each character
    /// where its own ends.
    alone: (&'static str, &'static [(u32, u32)]),
    whole: fn(&str, &mut String),
}

pub(super) static NFC: Tables = Tables {
    kinds: CodePoints(include_bytes!(concat!(env!("OUT_DIR"), "/nfc.bin"))),
    alone: include!(concat!(env!("OUT_DIR"), "/nfc.rs")),
    whole: |text, out| out.extend(text.nfc()),
};

pub(super) static NFKC: Tables = Tables {
    kinds: CodePoints(include_bytes!(concat!(env!("OUT_DIR"), "/nfkc.bin"))),
    alone: include!(concat!(env!("OUT_DIR"), "/nfkc.rs")),
    whole: |text, out| out.extend(text.nfkc()),
};

/// The start of a text that a form leaves as it is, whatever precedes it.
#[derive(Clone, Copy, Default)]
pub(super) struct Unchanged {
    /// Where it ends.
    pub(super) end: usize,
    /// Where its last character starts, of which marks that follow are a part: what comes next
    /// may still change it.
    pub(super) last: usize,
    /// How many code points that is.
    pub(super) last_chars: usize,
}

impl Tables {
    pub(super) fn unchanged(&self, text: &str) -> Unchanged {
        let mut unchanged = Unchanged::default();
        let mut last_class = PLAIN;
        while unchanged.end < text.len() {
            let ascii = ascii_prefix(&text.as_bytes()[unchanged.end..]);
            if ascii > 0 {
                unchanged.end += ascii;
                unchanged.last = unchanged.end - 1;
                unchanged.last_chars = 1;
                last_class = PLAIN;
            }
            let rest = &text[unchanged.end..];
            for c in rest.chars().take_while(|c| !c.is_ascii()) {
                let kind = self.kinds.get(c.into());
                // Where the normalizer cuts a run, the next starts with a mark.
                let is_cut = matches!(unchanged.last_chars, 0 | NormalForm::MOST_COMBINING);
                if kind == PLAIN || (is_cut && kind <= LAST_CLASS) {
                    unchanged.last = unchanged.end;
                    unchanged.last_chars = 0;
                } else if kind < last_class || matches!(kind, COMBINES | CHANGES) || is_cut {
                    return unchanged;
                }
                last_class = kind;
                unchanged.last_chars += 1;
                unchanged.end += c.len_utf8();
            }
        }
        unchanged
    }

    /// Whether a character has nothing to do with what precedes it.
    pub(super) fn starts(&self, c: char) -> bool {
        matches!(self.kinds.get(c.into()), PLAIN | CHANGES)
    }

    /// What a character becomes if nothing combines with it, for those that change.
    pub(super) fn alone(&self, c: char) -> Option<&'static str> {
        let (text, ends) = self.alone;
        let at = ends.binary_search_by_key(&u32::from(c), |end| end.0).ok()?;
        let start = at.checked_sub(1).map_or(0, |before| ends[before].1);
        Some(&text[start as usize..ends[at].1 as usize])
    }

    /// Appends the form of a text to `out`.
    pub(super) fn bring(&self, text: &str, out: &mut String) {
        (self.whole)(text, out);
    }
}

/// How many bytes at the start are ASCII.
fn ascii_prefix(bytes: &[u8]) -> usize {
    let whole = bytes.chunks_exact(64).take_while(|chunk| chunk.is_ascii());
    let start = whole.count() * 64;
    let rest = bytes[start..].iter().take_while(|byte| byte.is_ascii());
    start + rest.count()
}
