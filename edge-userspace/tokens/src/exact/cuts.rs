//! Places where a text can be cut in two and each part counted alone.
//!
//! A rule for two neighbouring characters only, so it holds wherever they stand: the second
//! starts a piece in every text, and no piece before it looks further. It is not every start of
//! a piece, but text has one every few words; what can go on without one, for any length, is a
//! run of one kind.

use crate::pattern::Pattern;
use crate::pattern::class::{self, LETTER, NUMBER, SPACE};

/// The last such place in `text` that is behind `from`. `text` is UTF-8.
pub(super) fn last(pattern: Pattern, text: &[u8], from: usize) -> Option<usize> {
    let mut at = text.len();
    while at > from + 1 {
        at -= 1;
        if text[at] & 0xc0 != 0x80 && is_cut(pattern, text, at) {
            return Some(at);
        }
    }
    None
}

fn is_cut(pattern: Pattern, text: &[u8], at: usize) -> bool {
    let before = (1..=at.min(4)).find(|back| text[at - back] & 0xc0 != 0x80);
    let Some(before) = before.map(|back| &text[at - back..]) else {
        return false;
    };
    let (left, next) = (before[0], text[at]);
    let (left_bits, next_bits) = (class::at(before, 0).0, class::at(text, at).0);
    let is = |bits: u8, class: u8| bits & class != 0;
    if is(left_bits, SPACE) {
        // Behind a line end; GPT-2 keeps white space together up to what is none.
        return is_newline(left)
            && !is(next_bits, SPACE)
            && next != b'/'
            && pattern != Pattern::Gpt2;
    }
    if is(next_bits, SPACE) {
        // A piece of the rest takes its line ends with it.
        return !is_newline(next) || is(left_bits, LETTER | NUMBER);
    }
    if is(next_bits, NUMBER) {
        return !is(left_bits, NUMBER);
    }
    if is(left_bits, NUMBER) {
        return is(next_bits, LETTER) || is_rest(next, next_bits);
    }
    is(left_bits, LETTER) && is_rest(next, next_bits)
}

/// Neither of a word nor what may go on with one.
fn is_rest(next: u8, bits: u8) -> bool {
    bits == 0 && next != b'\''
}

fn is_newline(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}
