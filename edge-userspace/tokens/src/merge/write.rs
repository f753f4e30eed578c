//! Writes a merge section from the tokens of a vocabulary: slow, once, ahead of time.
//!
//! What it has to decide is whether the vocabulary is *proper*: whether each token arises from
//! exactly one pair of tokens of lower rank. Then merging has an order that two neighbours can
//! settle among themselves, and a prefix's encoding can be continued byte by byte. Tokens that
//! merging cannot reach are no harm: they never arise, and count one only as a whole piece.

use std::collections::HashMap;

use super::section::{
    EMPTY, HEADER_WORDS, ID_BITS, KEY, LINE, LONGEST_BYTES, MAGIC, NONE, PROBES, PROPER,
    SMALL_BYTE_IDS, WHOLE, key, line_of, words,
};

/// Two tokens and what they merge to, by ids.
#[derive(Clone, Copy)]
struct Pair {
    left: u32,
    right: u32,
    merged: u32,
}

/// The section for these tokens, the index being the rank; an empty one is a hole.
///
/// # Panics
/// With more than 2^20 - 257 tokens.
#[must_use]
pub fn write<T: AsRef<[u8]>>(tokens: &[T]) -> Vec<u64> {
    assert!(
        tokens.len() + 256 < NONE as usize,
        "too many tokens for ids of {ID_BITS} bits"
    );
    let by_bytes: HashMap<&[u8], u32> = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !token.as_ref().is_empty())
        .map(|(id, token)| (token.as_ref(), id as u32))
        .collect();
    // A byte without a token stays what it is: an id that no pair has.
    let byte_ids: Vec<u32> = (0..=255u8)
        .map(|byte| by_bytes.get(&[byte][..]).copied())
        .enumerate()
        .map(|(byte, id)| id.unwrap_or((tokens.len() + byte) as u32))
        .collect();
    let proper = proper_pairs(tokens, &by_bytes, &byte_ids);
    let pairs = match &proper {
        Some(pairs) => pairs.clone(),
        None => all_pairs(tokens, &by_bytes),
    };
    let longest = tokens.iter().map(|token| token.as_ref().len()).max();

    let small = byte_ids.iter().all(|&id| id < 256);
    let flags = u64::from(proper.is_some()) * PROPER + u64::from(small) * SMALL_BYTE_IDS;
    let ids = tokens.len() + 256;
    let table = pair_table(&pairs);
    let mut section = Vec::with_capacity(words(table.len() / LINE, ids));
    section.extend([
        MAGIC,
        (table.len() / LINE) as u64 | ((ids as u64) << 32),
        flags | ((longest.unwrap_or(0) as u64) << 32),
        words(table.len() / LINE, ids) as u64,
    ]);
    section.resize(HEADER_WORDS, 0);
    section.extend(table);
    push_u32(&mut section, &byte_pairs(&pairs, &byte_ids));
    push_u32(&mut section, &byte_ids);
    section.extend(
        byte_ids
            .as_chunks::<8>()
            .0
            .iter()
            .map(|eight| u64::from_ne_bytes(eight.map(|id| id as u8))),
    );
    push_u32(&mut section, &halves(tokens, &byte_ids, &pairs));
    section
}

/// The one pair of each token that merging reaches, or nothing if the vocabulary is not proper.
fn proper_pairs<T: AsRef<[u8]>>(
    tokens: &[T],
    by_bytes: &HashMap<&[u8], u32>,
    byte_ids: &[u32],
) -> Option<Vec<Pair>> {
    let mut ranks: HashMap<(u32, u32), u32> = HashMap::new();
    let mut pairs = Vec::new();
    let mut unreached = Vec::new();
    for (id, token) in tokens.iter().enumerate() {
        let (id, token) = (id as u32, token.as_ref());
        // A later token of the same bytes is what counts; an earlier one never arises.
        if token.len() < 2 || by_bytes[token] != id {
            continue;
        }
        // Only pairs of lower rank are in the table yet.
        match *merged(token, byte_ids, &ranks) {
            _ if token.len() > LONGEST_BYTES => return None,
            [left, right] if left.max(right) < id => {
                ranks.insert((left, right), id);
                pairs.push(Pair {
                    left,
                    right,
                    merged: id,
                });
            }
            [_, _] => return None,
            _ => unreached.push(token),
        }
    }
    // A token that is only reached by way of higher ranks would merge out of order.
    let in_order = unreached
        .iter()
        .all(|token| merged(token, byte_ids, &ranks).len() > 2)
        && pairs.iter().all(|pair| {
            let bytes = tokens[pair.merged as usize].as_ref().iter();
            bytes
                .map(|&byte| byte_ids[byte as usize])
                .all(|byte| byte < pair.merged)
        });
    in_order.then_some(pairs)
}

/// The tokens that these bytes merge to, stopping at two: by the definition, step by step.
fn merged(token: &[u8], byte_ids: &[u32], ranks: &HashMap<(u32, u32), u32>) -> Box<[u32]> {
    let mut ids: Vec<u32> = token.iter().map(|&byte| byte_ids[byte as usize]).collect();
    let rank = |left, right| ranks.get(&(left, right)).copied().unwrap_or(NONE);
    let mut of_pairs: Vec<u32> = ids.windows(2).map(|two| rank(two[0], two[1])).collect();
    while ids.len() > 2 {
        let least = *of_pairs.iter().min().unwrap_or(&NONE);
        let Some(at) = of_pairs
            .iter()
            .position(|&rank| rank == least && rank != NONE)
        else {
            break;
        };
        ids[at] = least;
        ids.remove(at + 1);
        of_pairs.remove(at);
        if at > 0 {
            of_pairs[at - 1] = rank(ids[at - 1], least);
        }
        if at < of_pairs.len() {
            of_pairs[at] = rank(least, ids[at + 1]);
        }
    }
    ids.into()
}

/// Every way in which a token can be put together from two, for a vocabulary of any kind.
fn all_pairs<T: AsRef<[u8]>>(tokens: &[T], by_bytes: &HashMap<&[u8], u32>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (id, token) in tokens.iter().enumerate() {
        let (id, token) = (id as u32, token.as_ref());
        if token.is_empty() || by_bytes[token] != id {
            continue;
        }
        for at in 1..token.len() {
            let halves = (by_bytes.get(&token[..at]), by_bytes.get(&token[at..]));
            if let (Some(&left), Some(&right)) = halves {
                pairs.push(Pair {
                    left,
                    right,
                    merged: id,
                });
            }
        }
    }
    pairs
}

/// Lines of entries; low ranks, which are asked for most, come first in a line.
fn pair_table(pairs: &[Pair]) -> Vec<u64> {
    let mut lines = (pairs.len() / 4).next_power_of_two().max(2);
    'larger: loop {
        let shift = 64 - lines.trailing_zeros();
        let mut table = vec![EMPTY; lines * LINE];
        for pair in pairs {
            let key = key(pair.left, pair.right);
            let first = line_of(key, shift);
            let probed = (0..PROBES).map(|probe| (first + probe) % lines * LINE);
            let free = |line: usize| (line..line + LINE).find(|&slot| table[slot] == EMPTY);
            let Some((beyond, slot)) = (0..)
                .zip(probed.clone().map(free))
                .find(|found| found.1.is_some())
            else {
                lines *= 2;
                continue 'larger;
            };
            for line in probed.take(beyond) {
                table[line + LINE - 1] &= !WHOLE;
            }
            table[slot.unwrap_or_default()] = WHOLE | (key & KEY) | u64::from(pair.merged);
        }
        return table;
    }
}

/// The merge of each two bytes, by their little-endian `u16`.
fn byte_pairs(pairs: &[Pair], byte_ids: &[u32]) -> Vec<u32> {
    let byte_of: HashMap<u32, usize> = byte_ids.iter().copied().zip(0..).collect();
    let mut of_bytes = vec![NONE; 65_536];
    for pair in pairs {
        if let (Some(left), Some(right)) = (byte_of.get(&pair.left), byte_of.get(&pair.right)) {
            of_bytes[left | right << 8] = pair.merged;
        }
    }
    of_bytes
}

/// For each id its right half and its length. A byte is its own half.
fn halves<T: AsRef<[u8]>>(tokens: &[T], byte_ids: &[u32], pairs: &[Pair]) -> Vec<u32> {
    let mut halves: Vec<u32> = (0..tokens.len() as u32 + 256).collect();
    for pair in pairs {
        let length = tokens[pair.merged as usize]
            .as_ref()
            .len()
            .min(LONGEST_BYTES);
        halves[pair.merged as usize] = pair.right | (length as u32) << ID_BITS;
    }
    for &id in byte_ids {
        halves[id as usize] = id | 1 << ID_BITS;
    }
    halves
}

/// Appends numbers of half a word, as the machine lays them out.
fn push_u32(section: &mut Vec<u64>, numbers: &[u32]) {
    section.extend(numbers.chunks(2).map(|two| {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&two[0].to_ne_bytes());
        bytes[4..].copy_from_slice(&two.get(1).copied().unwrap_or(0).to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }));
}
