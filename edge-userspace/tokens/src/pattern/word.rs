//! The alternatives of the patterns for words, digits and the rest, in the order in which the
//! reference tries them: the first that matches decides. `None` leaves white space.

use super::class::{self, LETTER, LOWER, NUMBER, SPACE, UPPER};

/// `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+`
/// with so many digits.
pub(super) fn cl100k(bytes: &[u8], start: usize, digits: usize) -> Option<usize> {
    if let Some(end) = contraction(bytes, start, Case::Any) {
        return Some(end);
    }
    let (bits, length) = class::at(bytes, start);
    if bits & LETTER != 0 {
        return Some(run(bytes, start, LETTER));
    }
    if bits & NUMBER != 0 {
        return Some(numbers(bytes, start, digits));
    }
    if !is_newline(bytes[start]) && has(bytes, start + length, LETTER) {
        return Some(run(bytes, start + length, LETTER));
    }
    let end = rest(bytes, start)?;
    Some(ascii_run(bytes, end, b"\r\n"))
}

/// o200k_base's first five alternatives:
/// `P?U*L+C?|P?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*` with `P` = `[^\r\n\p{L}\p{N}]`,
/// `U` = [`UPPER`], `L` = [`LOWER`] and `C` a contraction in any case.
pub(super) fn o200k(bytes: &[u8], start: usize) -> Option<usize> {
    let (bits, length) = class::at(bytes, start);
    let after_prefix =
        (bits & (LETTER | NUMBER) == 0 && !is_newline(bytes[start])).then_some(start + length);
    let lower = after_prefix.and_then(|at| lower_word(bytes, at));
    let word = (lower.or_else(|| lower_word(bytes, start)))
        .or_else(|| after_prefix.and_then(|at| upper_word(bytes, at)))
        .or_else(|| upper_word(bytes, start));
    if let Some(end) = word {
        return Some(contraction(bytes, end, Case::Any).unwrap_or(end));
    }
    if bits & NUMBER != 0 {
        return Some(numbers(bytes, start, 3));
    }
    let end = rest(bytes, start)?;
    Some(ascii_run(bytes, end, b"\r\n/"))
}

/// `'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++`.
pub(super) fn gpt2(bytes: &[u8], start: usize) -> Option<usize> {
    if let Some(end) = contraction(bytes, start, Case::Lower) {
        return Some(end);
    }
    let first = start + usize::from(bytes[start] == b' ');
    let bits = [LETTER, NUMBER]
        .into_iter()
        .find(|&bits| has(bytes, first, bits));
    match bits {
        Some(bits) => Some(run(bytes, first, bits)),
        None => rest(bytes, start),
    }
}

/// `U*L+`: with a greedy first half that gives back what the second needs.
fn lower_word(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut last_both = None;
    while at < bytes.len() {
        let (bits, length) = class::at(bytes, at);
        if bits & UPPER == 0 {
            break;
        }
        at += length;
        if bits & LOWER != 0 {
            last_both = Some(at);
        }
    }
    if has(bytes, at, LOWER) {
        return Some(run(bytes, at, LOWER));
    }
    last_both
}

/// `U+L*`, where `U*L+` does not match: no `L` follows.
fn upper_word(bytes: &[u8], start: usize) -> Option<usize> {
    let end = run(bytes, start, UPPER);
    (end > start).then_some(end)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Lower,
    Any,
}

/// `'(?:[sdmt]|ll|ve|re)`. Without regard to case, U+017F is an `s`; U+212A would be a `k`.
fn contraction(bytes: &[u8], at: usize, case: Case) -> Option<usize> {
    if bytes.get(at) != Some(&b'\'') {
        return None;
    }
    let rest = &bytes[at + 1..];
    let fold = |byte: &u8| match case {
        Case::Any => byte.to_ascii_lowercase(),
        Case::Lower => *byte,
    };
    match (rest.first().map(fold)?, rest.get(1).map(fold)) {
        (b's' | b'd' | b'm' | b't', _) => Some(at + 2),
        (b'l', Some(b'l')) | (b'v' | b'r', Some(b'e')) => Some(at + 3),
        (0xc5, Some(0xbf)) if case == Case::Any => Some(at + 3),
        _ => None,
    }
}

/// `\p{N}{1,most}`, a number being at `start`.
fn numbers(bytes: &[u8], start: usize, most: usize) -> usize {
    let mut at = start;
    for _ in 0..most {
        if !has(bytes, at, NUMBER) {
            break;
        }
        at += class::at(bytes, at).1;
    }
    at
}

/// ` ?[^\s\p{L}\p{N}]+`.
fn rest(bytes: &[u8], start: usize) -> Option<usize> {
    let first = start + usize::from(bytes[start] == b' ');
    let mut at = first;
    while at < bytes.len() {
        let (bits, length) = class::at(bytes, at);
        if bits & (SPACE | LETTER | NUMBER) != 0 {
            break;
        }
        at += length;
    }
    (at > first).then_some(at)
}

/// The end of the run of characters with one of `bits` that starts at `start`.
fn run(bytes: &[u8], start: usize, bits: u8) -> usize {
    let mut at = start;
    while at < bytes.len() {
        let (of, length) = class::at(bytes, at);
        if of & bits == 0 {
            break;
        }
        at += length;
    }
    at
}

fn ascii_run(bytes: &[u8], start: usize, of: &[u8]) -> usize {
    let length = bytes[start..].iter().take_while(|b| of.contains(b)).count();
    start + length
}

fn has(bytes: &[u8], at: usize, bits: u8) -> bool {
    at < bytes.len() && class::at(bytes, at).0 & bits != 0
}

fn is_newline(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}
