//! The form in which vocabularies lie in the repository and in the program: each token as the
//! two that it is merged from, a fifth of a rank file. Used by the build script too.
//!
//! Behind the magic a zlib stream (its Adler-32 tells a damaged one) of u24 numbers, all their
//! high bytes first, then all middle ones, then all low ones: the end of the ranks; the ranks
//! of the 256 bytes; how many holes there are and their ranks; the left halves of all other
//! tokens in the order of their ranks; the right halves.

use std::collections::HashMap;
use std::fmt;

use super::ranks::{Ranks, RanksError};

const MAGIC: &[u8; 8] = b"EDGEVOC1";

/// Why a compact vocabulary cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactError {
    /// It is something else, or damaged.
    Damaged,
    /// What it holds is no vocabulary.
    Ranks(RanksError),
}

/// Why a vocabulary has no compact form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotMerged {
    /// The token that merging does not end with.
    pub rank: u32,
}

impl Ranks {
    /// The compact form.
    ///
    /// # Errors
    /// [`NotMerged`] if a token is none that merging lower ranks ends with.
    pub fn to_compact(&self) -> Result<Vec<u8>, NotMerged> {
        let by_token: HashMap<&[u8], u32> =
            self.iter().map(|(rank, token)| (token, rank)).collect();
        let mut numbers = vec![self.end()];
        numbers.extend((0..=255).map(|byte| by_token[&[byte][..]]));
        let holes: Vec<u32> = (0..self.end())
            .filter(|&rank| self.get(rank).is_none())
            .collect();
        numbers.push(holes.len() as u32);
        numbers.extend(holes);
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (rank, token) in self.iter().filter(|(_, token)| token.len() > 1) {
            let halves = halves(&by_token, rank, token).ok_or(NotMerged { rank })?;
            left.push(halves.0);
            right.push(halves.1);
        }
        numbers.extend(left.iter().chain(&right));
        let planes: Vec<u8> = [16, 8, 0]
            .into_iter()
            .flat_map(|shift| numbers.iter().map(move |number| (number >> shift) as u8))
            .collect();
        let mut compact = MAGIC.to_vec();
        compact.extend(miniz_oxide::deflate::compress_to_vec_zlib(&planes, 10));
        Ok(compact)
    }

    /// The vocabulary of a compact form.
    ///
    /// # Errors
    /// [`CompactError`].
    pub fn from_compact(compact: &[u8]) -> Result<Self, CompactError> {
        let zlib = compact.strip_prefix(MAGIC).ok_or(CompactError::Damaged)?;
        let most = 3 * (3 * Self::MOST + 258);
        let planes = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(zlib, most)
            .map_err(|_| CompactError::Damaged)?;
        let (high, rest) = planes.split_at(planes.len() / 3);
        let (middle, low) = rest.split_at(rest.len() / 2);
        if middle.len() != low.len() || high.len() != low.len() {
            return Err(CompactError::Damaged);
        }
        let number = |i: usize| {
            Some(u32::from(*high.get(i)?) << 16 | u32::from(middle[i]) << 8 | u32::from(low[i]))
        };
        let tokens = tokens(low.len(), number).ok_or(CompactError::Damaged)?;
        Self::new(tokens).map_err(CompactError::Ranks)
    }
}

fn tokens(count: usize, number: impl Fn(usize) -> Option<u32>) -> Option<Vec<Vec<u8>>> {
    let end = number(0)? as usize;
    let holes = number(257)? as usize;
    let merged = end.checked_sub(256)?.checked_sub(holes)?;
    if count != 258 + holes + 2 * merged {
        return None;
    }
    let mut tokens = vec![None; end];
    for byte in 0..=255_u8 {
        *tokens.get_mut(number(1 + usize::from(byte))? as usize)? = Some(vec![byte]);
    }
    for hole in 0..holes {
        *tokens.get_mut(number(258 + hole)? as usize)? = Some(Vec::new());
    }
    let left = 258 + holes;
    let mut next = 0;
    for rank in 0..end {
        if tokens[rank].is_some() {
            continue;
        }
        let mut token = tokens.get(number(left + next)? as usize)?.clone()?;
        token.extend(
            tokens
                .get(number(left + merged + next)? as usize)?
                .as_ref()?,
        );
        if token.len() > Ranks::LONGEST_TOKEN_BYTES {
            return None;
        }
        tokens[rank] = Some(token);
        next += 1;
    }
    (next == merged).then(|| tokens.into_iter().flatten().collect())
}

/// The two tokens that merging with ranks below `rank` leaves of `token`.
fn halves(by_token: &HashMap<&[u8], u32>, rank: u32, token: &[u8]) -> Option<(u32, u32)> {
    let mut ends: Vec<usize> = (0..=token.len()).collect();
    let rank_of =
        |ends: &[usize], i: usize, of: usize| by_token.get(&token[ends[i]..ends[i + of]]).copied();
    while ends.len() > 3 {
        let lowest = (0..ends.len() - 2)
            .filter_map(|i| Some((rank_of(&ends, i, 2)?, i)))
            .filter(|&(pair, _)| pair < rank)
            .min()?;
        ends.remove(lowest.1 + 1);
    }
    Some((rank_of(&ends, 0, 1)?, rank_of(&ends, 1, 1)?))
}

impl fmt::Display for CompactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => f.write_str("no compact vocabulary, or a damaged one"),
            Self::Ranks(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CompactError {}

impl fmt::Display for NotMerged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self.rank;
        write!(
            f,
            "the token of rank {rank} is not what merging lower ranks ends with"
        )
    }
}

impl std::error::Error for NotMerged {}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(more: &[&[u8]]) -> Ranks {
        let bytes = (0..=255_u8).rev().map(|byte| vec![byte]);
        let hole = [Vec::new()];
        Ranks::new(
            hole.into_iter()
                .chain(bytes)
                .chain(more.iter().map(|t| t.to_vec())),
        )
        .unwrap()
    }

    #[test]
    fn what_was_written_is_read_back() {
        let ranks = ranks(&[b"ab", b"abab", b"", b"cab", b"ababcab"]);
        assert_eq!(Ranks::from_compact(&ranks.to_compact().unwrap()), Ok(ranks));
    }

    #[test]
    fn a_token_that_merging_does_not_reach_has_no_compact_form() {
        let rank = 258;
        assert_eq!(
            ranks(&[b"ab", b"xyz"]).to_compact(),
            Err(NotMerged { rank })
        );
    }

    #[test]
    fn a_damaged_one_is_refused() {
        let good = ranks(&[b"ab", b"abab", b"cab"]).to_compact().unwrap();
        for i in 0..good.len() {
            assert_eq!(Ranks::from_compact(&good[..i]), Err(CompactError::Damaged));
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[i] ^= 1 << bit;
                // Two bits of the zlib header may change without a meaning.
                if let Ok(read) = Ranks::from_compact(&bad) {
                    assert_eq!(read, Ranks::from_compact(&good).unwrap());
                }
            }
        }
    }
}
