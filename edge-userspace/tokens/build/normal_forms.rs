//! What each character is to a normal form, and what those become that change alone.

use std::iter;
use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::char::{decompose_canonical, decompose_compatible};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _};
use unicode_normalization::{is_nfc_quick, is_nfkc_quick};

use crate::normal_form_kinds::{CHANGES, COMBINES, LAST_CLASS, PLAIN};

/// A normal form of one character.
pub(crate) struct Form {
    whole: fn(char) -> String,
    /// The first character of the decomposition.
    first: fn(char) -> char,
    quick: fn(char) -> IsNormalized,
}

pub(crate) const NFC: Form = Form {
    whole: |c| iter::once(c).nfc().collect(),
    first: |c| first(c, |c, emit| decompose_canonical(c, emit)),
    quick: |c| is_nfc_quick(iter::once(c)),
};

pub(crate) const NFKC: Form = Form {
    whole: |c| iter::once(c).nfkc().collect(),
    first: |c| first(c, |c, emit| decompose_compatible(c, emit)),
    quick: |c| is_nfkc_quick(iter::once(c)),
};

impl Form {
    /// The kind of each code point; surrogates are plain, no text has them.
    pub(crate) fn kinds(&self) -> Vec<u8> {
        let kind = |code_point| char::from_u32(code_point).map_or(PLAIN, |c| self.kind(c));
        (0..0x11_0000).map(kind).collect()
    }

    fn kind(&self, c: char) -> u8 {
        let class = canonical_combining_class(c);
        let first = (self.first)(c);
        // A starter that composes with nothing before it: those that may are
        // `NFC_Quick_Check=Maybe` (UAX 15, section 9).
        let starts = canonical_combining_class(first) == 0
            && is_nfc_quick(iter::once(first)) != IsNormalized::Maybe;
        let stays = (self.whole)(c).chars().eq([c]);
        match (starts, stays) {
            (true, true) => PLAIN,
            (true, false) => CHANGES,
            (false, _) if class > 0 && (self.quick)(c) == IsNormalized::Yes => {
                assert!(class <= LAST_CLASS, "a new combining class");
                class
            }
            (false, _) => COMBINES,
        }
    }

    /// Rust source: what those of kind [`CHANGES`] become alone, one behind the other, and each
    /// with where its part ends, in order.
    pub(crate) fn alone(&self) -> String {
        let mut text = String::new();
        let mut ends = Vec::new();
        for c in (0..0x11_0000).filter_map(char::from_u32) {
            // Hangul syllables change in no form; those that do are a few thousand.
            if self.kind(c) == CHANGES {
                text += &(self.whole)(c);
                ends.push((u32::from(c), text.len() as u32));
            }
        }
        format!("({text:?}, &{ends:?})")
    }
}

fn first(c: char, decompose: fn(char, &mut dyn FnMut(char))) -> char {
    let mut first = None;
    decompose(c, &mut |part| first = first.or(Some(part)));
    first.unwrap_or(c)
}
