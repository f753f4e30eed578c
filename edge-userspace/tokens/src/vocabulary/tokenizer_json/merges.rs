//! The ranks of a model whose merges are listed as pairs.
//!
//! There a pair merges only if it is listed, by its place in the list; here two neighbours
//! merge if their bytes are a token, by the token's rank. Both are the same if the last merge
//! of each token, alone, is listed, in the order of the ranks. For what happens inside a
//! token's bytes in a text, up to the merge that makes it, is what happens in the token alone:
//! merges that cross its border would keep it from arising, and among those inside, the
//! lowest and leftmost of all is the lowest and leftmost of them. So a token only ever arises
//! from one pair, and its other pairs, listed or not, are never neighbours.

use std::collections::{HashMap, HashSet};

use super::{AddedToken, Merge, Model, Problem, Result, alphabet};
use crate::plain;
use crate::vocabulary::ranks::Ranks;

/// The 256 bytes, then what each merge makes, in the order of the list.
pub(super) fn ranks(model: &Model, added: &[AddedToken]) -> Result<Ranks> {
    let mut tokens: Vec<Box<[u8]>> = (0..=255_u8).map(|byte| Box::from([byte])).collect();
    check_bytes(model)?;
    let mut by_token: HashMap<Box<[u8]>, u32> = tokens.iter().cloned().zip(0..).collect();
    // Where in the list, by the token and the length of its left half.
    let mut listed: HashMap<(u32, usize), usize> = HashMap::new();
    for (at, merge) in model.merges.iter().enumerate() {
        let (left, right) = halves(model, at, merge)?;
        let token: Box<[u8]> = [&left[..], &right[..]].concat().into();
        let rank = *by_token.entry(token).or_insert_with_key(|token| {
            tokens.push(token.clone());
            tokens.len() as u32 - 1
        });
        listed.entry((rank, left.len())).or_insert(at);
    }
    check_vocab(model, added, &by_token)?;
    let mut last = None;
    let mut unreached = HashSet::new();
    for (rank, token) in (0..).zip(&tokens).skip(256) {
        let Some(left) = plain::last_merge(&by_token, token) else {
            unreached.insert(rank);
            continue;
        };
        let text = String::from_utf8_lossy(token);
        let Some(&at) = listed.get(&(rank, left)) else {
            let reason = format!("merging ends with a pair that is not listed for {text:?}");
            return Err(Problem::Unsupported("the order of the merges", reason));
        };
        if last.is_some_and(|last| last > at) {
            let reason = format!("merge {at} ({text:?}) is listed after a later token's");
            return Err(Problem::Unsupported("the order of the merges", reason));
        }
        last = Some(at);
    }
    // What merging cannot reach counts as one only where a whole piece is looked up first.
    if !model.ignore_merges {
        let mut rank = 0..;
        tokens.retain(|_| rank.next().is_none_or(|rank| !unreached.contains(&rank)));
    }
    Ranks::new(tokens).map_err(|error| Problem::Damaged(error.to_string()))
}

fn check_bytes(model: &Model) -> Result<()> {
    let bytes: HashSet<u8> = (model.vocab.keys())
        .filter_map(|token| alphabet::bytes(token))
        .filter_map(|bytes| <[u8; 1]>::try_from(bytes).ok())
        .map(|[byte]| byte)
        .collect();
    match (0..=255).find(|byte| !bytes.contains(byte)) {
        Some(byte) => Err(Problem::Unsupported(
            "a vocabulary without a token for each byte",
            format!("none for 0x{byte:02x}"),
        )),
        None => Ok(()),
    }
}

/// The bytes of the two tokens of a merge, which must be there with what they make.
fn halves(model: &Model, at: usize, merge: &Merge) -> Result<(Vec<u8>, Vec<u8>)> {
    let damaged = |reason: &str| Problem::Damaged(format!("merge {at}: {reason}"));
    let (left, right) = match merge {
        Merge::Pair([left, right]) => (&left[..], &right[..]),
        Merge::Line(line) => line
            .split_once(' ')
            .ok_or_else(|| damaged("no two tokens"))?,
    };
    for token in [left, right, &format!("{left}{right}")] {
        if !model.vocab.contains_key(token) {
            return Err(damaged(&format!("{token:?} is not in the vocabulary")));
        }
    }
    let bytes = |token: &str| {
        alphabet::bytes(token)
            .filter(|bytes| !bytes.is_empty())
            .ok_or_else(|| damaged(&format!("{token:?} is not written in bytes")))
    };
    Ok((bytes(left)?, bytes(right)?))
}

/// A token that no merge makes is found only as a whole piece, if at all: those that are
/// added tokens are plain text here; another one would be missed.
fn check_vocab(
    model: &Model,
    added: &[AddedToken],
    by_token: &HashMap<Box<[u8]>, u32>,
) -> Result<()> {
    if !model.ignore_merges {
        return Ok(());
    }
    let added: HashSet<&str> = added.iter().map(|token| &token.content[..]).collect();
    let unmade = model.vocab.keys().find(|token| {
        !added.contains(&token[..])
            && alphabet::bytes(token).is_none_or(|bytes| !by_token.contains_key(&bytes[..]))
    });
    match unmade {
        Some(token) => Err(Problem::Unsupported(
            "a token that no merge makes",
            format!("{token:?}"),
        )),
        None => Ok(()),
    }
}
