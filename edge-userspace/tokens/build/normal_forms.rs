//! Which characters a normal form can be cut before, and which it leaves as they are.

use std::iter;
use unicode_normalization::char::decompose_compatible;
use unicode_normalization::char::{canonical_combining_class, decompose_canonical};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use crate::normal_form_bits::{NFC_BOUNDARY, NFC_ITSELF, NFKC_BOUNDARY, NFKC_ITSELF};

/// The bits of each code point; surrogates have none.
pub(crate) fn table() -> Vec<u8> {
    let bits = |code_point| char::from_u32(code_point).map_or(0, bits);
    (0..0x11_0000).map(bits).collect()
}

fn bits(c: char) -> u8 {
    let first_of = |decompose: fn(char, &mut dyn FnMut(char))| {
        let mut first = None;
        decompose(c, &mut |part| first = first.or(Some(part)));
        first.unwrap_or(c)
    };
    let canonical = first_of(|c, emit| decompose_canonical(c, emit));
    let compatible = first_of(|c, emit| decompose_compatible(c, emit));
    [
        (NFC_BOUNDARY, is_boundary(canonical)),
        (NFC_ITSELF, iter::once(c).nfc().eq(iter::once(c))),
        (NFKC_BOUNDARY, is_boundary(compatible)),
        (NFKC_ITSELF, iter::once(c).nfkc().eq(iter::once(c))),
    ]
    .into_iter()
    .filter_map(|(bit, has)| has.then_some(bit))
    .sum()
}

/// Of the first character of a decomposition: it is a starter, and composes with none before
/// it (those that may are `NFC_Quick_Check=Maybe`, UAX 15, section 9).
fn is_boundary(first: char) -> bool {
    canonical_combining_class(first) == 0 && is_nfc_quick(iter::once(first)) != IsNormalized::Maybe
}
