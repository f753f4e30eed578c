//! The tokens of a vocabulary by rank. Used by the build script too, so it leans on nothing
//! else here.

use std::collections::HashMap;
use std::fmt;

/// The bytes of each token by its rank: the lower, the earlier two neighbours are merged into
/// it. Ranks may have holes. Special tokens are not in it: in a text they are plain text.
#[derive(Clone, PartialEq, Eq)]
pub struct Ranks {
    /// All tokens, one behind the other.
    bytes: Vec<u8>,
    /// Where the token of each rank ends in `bytes`; a hole is empty.
    ends: Vec<u32>,
    tokens: usize,
    longest_token_bytes: usize,
}

/// Why a list of tokens is no vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RanksError {
    /// A token's bytes have two ranks.
    Twice {
        /// The first of them.
        rank: u32,
        /// The second.
        again: u32,
    },
    /// No token for a single byte: a text with it could not be counted.
    NoByte(u8),
    /// More than [`Ranks::MOST`] ranks, or more bytes than [`Ranks::MOST_BYTES`].
    TooMany,
    /// Longer than [`Ranks::LONGEST_TOKEN_BYTES`].
    TooLong {
        /// Of the token.
        rank: u32,
        /// How long it is.
        bytes: usize,
    },
}

impl Ranks {
    /// So many ranks at most, holes included: five times what the largest vocabularies have.
    pub const MOST: usize = (1 << 20) - 512;
    /// So many bytes in all tokens at most.
    pub const MOST_BYTES: usize = 1 << 26;
    /// So long may a token be.
    pub const LONGEST_TOKEN_BYTES: usize = 4096;

    /// The tokens in the order of their ranks, which start at 0; an empty one is a hole.
    ///
    /// # Errors
    /// [`RanksError`]: each token has one rank, each byte is a token, and all have a bound.
    pub fn new<T: AsRef<[u8]>>(tokens: impl IntoIterator<Item = T>) -> Result<Self, RanksError> {
        let mut ranks = Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            tokens: 0,
            longest_token_bytes: 0,
        };
        for token in tokens {
            ranks.push(token.as_ref())?;
        }
        let by_token = ranks.by_token()?;
        match (0..=255).find(|&byte| !by_token.contains_key(&[byte][..])) {
            Some(byte) => Err(RanksError::NoByte(byte)),
            None => Ok(ranks),
        }
    }

    fn push(&mut self, token: &[u8]) -> Result<(), RanksError> {
        let rank = self.ends.len();
        if rank == Self::MOST || self.bytes.len() + token.len() > Self::MOST_BYTES {
            return Err(RanksError::TooMany);
        }
        if token.len() > Self::LONGEST_TOKEN_BYTES {
            return Err(RanksError::TooLong {
                rank: rank as u32,
                bytes: token.len(),
            });
        }
        self.bytes.extend_from_slice(token);
        self.ends.push(self.bytes.len() as u32);
        self.tokens += usize::from(!token.is_empty());
        self.longest_token_bytes = self.longest_token_bytes.max(token.len());
        Ok(())
    }

    fn by_token(&self) -> Result<HashMap<&[u8], u32>, RanksError> {
        let mut by_token = HashMap::with_capacity(self.tokens);
        for (again, token) in self.iter() {
            if let Some(rank) = by_token.insert(token, again) {
                return Err(RanksError::Twice { rank, again });
            }
        }
        Ok(by_token)
    }

    /// The bytes of the token of a rank; none if there is no such token.
    #[must_use]
    pub fn get(&self, rank: u32) -> Option<&[u8]> {
        let rank = rank as usize;
        let end = *self.ends.get(rank)? as usize;
        let start = rank.checked_sub(1).map_or(0, |i| self.ends[i] as usize);
        (start < end).then(|| &self.bytes[start..end])
    }

    /// Each token and its rank, the lowest first; holes are left out.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0..self.end()).filter_map(|rank| Some((rank, self.get(rank)?)))
    }

    /// One above the highest rank.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.ends.len() as u32
    }

    /// How many tokens there are.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The bytes of the longest token.
    #[must_use]
    pub fn longest_token_bytes(&self) -> usize {
        self.longest_token_bytes
    }
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranks")
            .field("tokens", &self.tokens)
            .field("end", &self.end())
            .field("longest_token_bytes", &self.longest_token_bytes)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for RanksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { rank, again } => {
                write!(f, "ranks {rank} and {again} are the same token")
            }
            Self::NoByte(byte) => write!(
                f,
                "no token for the single byte 0x{byte:02x}: not every text can be counted"
            ),
            Self::TooMany => write!(
                f,
                "more than {} ranks or {} bytes of tokens",
                Ranks::MOST,
                Ranks::MOST_BYTES
            ),
            Self::TooLong { rank, bytes } => write!(
                f,
                "the token of rank {rank} has {bytes} bytes, {} are allowed",
                Ranks::LONGEST_TOKEN_BYTES
            ),
        }
    }
}

impl std::error::Error for RanksError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> impl Iterator<Item = Vec<u8>> {
        (0..=255).map(|byte| vec![byte])
    }

    #[test]
    fn tokens_are_found_by_rank() {
        let more = [b"".to_vec(), b"ab".to_vec(), b"abc".to_vec()];
        let ranks = Ranks::new(bytes().chain(more)).unwrap();
        assert_eq!(ranks.get(0), Some(&[0][..]));
        assert_eq!(ranks.get(97), Some(&b"a"[..]));
        assert_eq!(ranks.get(256), None, "a hole");
        assert_eq!(ranks.get(258), Some(&b"abc"[..]));
        assert_eq!(ranks.get(259), None);
        assert_eq!((ranks.end(), ranks.tokens()), (259, 258));
        assert_eq!(ranks.longest_token_bytes(), 3);
        assert_eq!(ranks.iter().last(), Some((258, &b"abc"[..])));
    }

    #[test]
    fn what_is_no_vocabulary_is_refused() {
        let twice = bytes().chain([b"ab".to_vec(), b"ab".to_vec()]);
        let error = RanksError::Twice {
            rank: 256,
            again: 257,
        };
        assert_eq!(Ranks::new(twice), Err(error));
        assert_eq!(Ranks::new(bytes().skip(1)), Err(RanksError::NoByte(0)));
        let long = bytes().chain([vec![b'a'; 4097]]);
        let error = RanksError::TooLong {
            rank: 256,
            bytes: 4097,
        };
        assert_eq!(Ranks::new(long), Err(error));
        let many = bytes().chain(std::iter::repeat_n(Vec::new(), Ranks::MOST));
        assert_eq!(Ranks::new(many), Err(RanksError::TooMany));
    }
}
