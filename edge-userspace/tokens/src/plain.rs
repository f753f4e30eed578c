//! The plain counter: the pattern one character at a time, a look-up of the whole piece, then
//! the merge as it is defined. It is what every faster way has to equal, and no more.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::vocabulary::Vocabulary;

/// The tokens of a text by that vocabulary. For the rules (special tokens, invalid UTF-8, the
/// normal form) see `text`.
#[must_use]
pub fn count(vocabulary: &Vocabulary, text: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(text);
    let text = vocabulary.normal_form().whole(&text);
    pieces(vocabulary, text.as_bytes())
        .map(|piece| count_piece(vocabulary, piece))
        .sum()
}

/// The pieces of a text that is in the vocabulary's normal form.
pub fn pieces<'a>(vocabulary: &Vocabulary, text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let pattern = vocabulary.pattern();
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = (start < text.len()).then(|| pattern.piece_end(text, start))?;
        let piece = &text[start..end];
        start = end;
        Some(piece)
    })
}

/// The tokens of one piece: one if it is a token, else what merging leaves.
#[must_use]
pub fn count_piece(vocabulary: &Vocabulary, piece: &[u8]) -> u64 {
    let by_token = vocabulary.by_token();
    match piece.len() {
        0 => 0,
        _ if by_token.contains_key(piece) => 1,
        _ => merge(by_token, piece),
    }
}

/// Where the left half ends of the last merge that makes this token; none if merging does not
/// make it.
pub(crate) fn last_merge(by_token: &HashMap<Box<[u8]>, u32>, token: &[u8]) -> Option<usize> {
    let (parts, left) = merge_down_to(2, by_token, token);
    (parts == 2 && by_token.contains_key(token)).then_some(left)
}

fn merge(by_token: &HashMap<Box<[u8]>, u32>, piece: &[u8]) -> u64 {
    merge_down_to(1, by_token, piece).0
}

/// Byte-pair merging: of all neighbours whose bytes together are a token, the two with the
/// lowest rank become one, the leftmost of equals first, until none are left, or no more parts
/// than `enough`. Returns how many parts are left, and where the first of them ends.
fn merge_down_to(enough: u64, by_token: &HashMap<Box<[u8]>, u32>, piece: &[u8]) -> (u64, usize) {
    let end = piece.len();
    // By where a part starts: where the part before it starts, where the next does.
    let mut previous: Vec<usize> = (0..=end).map(|i| i.wrapping_sub(1)).collect();
    let mut next: Vec<usize> = (1..=end + 1).collect();
    let mut live = vec![true; end];
    let mut candidates = BinaryHeap::new();
    let mut parts = end as u64;
    let offer = |candidates: &mut BinaryHeap<_>, left: usize, middle: usize, to: usize| {
        if let Some(&rank) = by_token.get(&piece[left..to]) {
            candidates.push(Reverse((rank, left, middle, to)));
        }
    };
    for left in 0..end - 1 {
        offer(&mut candidates, left, left + 1, left + 2);
    }
    while parts > enough {
        let Some(Reverse((_, left, middle, to))) = candidates.pop() else {
            break;
        };
        // One of the two may have been merged with another meanwhile.
        if !live[left] || next[left] != middle || middle >= end || next[middle] != to {
            continue;
        }
        live[middle] = false;
        next[left] = to;
        previous[to] = left;
        parts -= 1;
        if to < end {
            offer(&mut candidates, left, to, next[to]);
        }
        if left > 0 {
            offer(&mut candidates, previous[left], left, to);
        }
    }
    (parts, next[0])
}
