//! What one counter has learnt: bounded, and written while it counts.

use super::{KEY, hash_short, long};
use crate::arch::look_up as kernel;

/// Entries of the first table, which the fast look-up reads alone: tokens and what is none.
pub(crate) const FIRST_BITS: u32 = 15;
/// Lines behind it of what is no token, and of all that has eight to fifteen bytes.
const SHORT_BITS: u32 = 13;
const MEDIUM_BITS: u32 = 14;
/// Pairs of entries for pieces of up to thirty bytes.
const LONG_BITS: u32 = 14;
const LONG_BYTES: usize = 30;

const FIRST: usize = 1 << FIRST_BITS;
const SHORT: usize = 8 << SHORT_BITS;
const MEDIUM: usize = 8 << MEDIUM_BITS;
const LONG: usize = 8 << LONG_BITS;
const WORDS: usize = FIRST + SHORT + MEDIUM + LONG + long::INDEX + long::WORDS;

/// The memory of the memo, all that it ever takes.
pub(crate) const BYTES: usize = (WORDS + 8) * 8;

/// The memory, untouched until something is learnt.
pub(crate) struct Memo {
    words: Vec<u64>,
    start: usize,
    turn: u32,
    next: u64,
}

/// The first table: a key of up to seven bytes with its count.
pub(crate) type First = [u64; FIRST];

/// Its tables, at their places.
pub(crate) struct Tables<'a> {
    pub(crate) first: &'a mut First,
    short: &'a mut [[u64; 8]; SHORT / 8],
    medium: &'a mut [[u64; 8]; MEDIUM / 8],
    long: &'a mut [[u64; 8]; LONG / 8],
    pub(crate) longer: long::Pieces<'a>,
    turn: &'a mut u32,
}

impl Memo {
    pub(crate) fn new() -> Self {
        // Zeroed pages of the system: only what is touched becomes memory.
        let words = vec![0; WORDS + 8];
        let start = words.as_ptr().align_offset(64);
        let start = if start < 8 { start } else { 0 };
        Self {
            words,
            start,
            turn: 0,
            next: 1,
        }
    }

    /// What it takes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }

    pub(crate) fn tables(&mut self) -> Tables<'_> {
        fn table<'a, T>(
            words: &mut &'a mut [u64],
            size: usize,
            of: impl Fn(&'a mut [u64]) -> T,
        ) -> T {
            let (table, rest) = std::mem::take(words).split_at_mut(size);
            *words = rest;
            of(table)
        }
        let mut words = &mut self.words[self.start..];
        let words = &mut words;
        Tables {
            first: table(words, FIRST, |w| w.try_into().expect("its size")),
            short: table(words, SHORT, |w| {
                w.as_chunks_mut().0.try_into().expect("its size")
            }),
            medium: table(words, MEDIUM, |w| {
                w.as_chunks_mut().0.try_into().expect("its size")
            }),
            long: table(words, LONG, |w| {
                w.as_chunks_mut().0.try_into().expect("its size")
            }),
            longer: long::Pieces {
                index: table(words, long::INDEX, |w| {
                    w.as_chunks_mut().0.try_into().expect("its size")
                }),
                ring: table(words, long::WORDS, |w| w.try_into().expect("its size")),
                next: &mut self.next,
            },
            turn: &mut self.turn,
        }
    }
}

impl Tables<'_> {
    /// The place in the first table.
    #[inline(always)]
    pub(crate) fn first_of(hash: u64) -> usize {
        (hash >> (64 - FIRST_BITS)) as usize
    }

    /// Where a piece of up to seven bytes of that hash is if it has been learnt.
    #[inline(always)]
    pub(crate) fn short_line(&self, hash: u64) -> &[u64; 8] {
        &self.short[(hash >> (64 - SHORT_BITS)) as usize]
    }

    /// The entry of a piece of up to seven bytes that is no token.
    #[inline(always)]
    pub(crate) fn learnt_short(&self, key: u64, hash: u64) -> Option<u64> {
        let same = |e: u64| if (e ^ key) & KEY == 0 { e } else { 0 };
        let entry = self
            .short_line(hash)
            .iter()
            .fold(0, |found, &e| found | same(e));
        (entry != 0).then_some(entry)
    }

    /// Keeps what merging has said of it.
    pub(crate) fn learn_short(&mut self, key: u64, count: u8) {
        let hash = hash_short(key);
        let entry = key | u64::from(count) << 56;
        self.first[Self::first_of(hash)] = entry;
        let line = &mut self.short[(hash >> (64 - SHORT_BITS)) as usize];
        *self.turn = self.turn.wrapping_add(1);
        let place = line.iter().position(|&e| e == 0 || e == entry);
        line[place.unwrap_or(*self.turn as usize % 8)] = entry;
    }

    /// Where a piece of eight to fifteen bytes of that hash is if it is known.
    #[inline(always)]
    pub(crate) fn medium_line(&self, hash: u64) -> &[u64; 8] {
        &self.medium[(hash >> (64 - MEDIUM_BITS)) as usize]
    }

    /// The tokens of a piece of eight to fifteen bytes if they are known, else 0.
    #[inline(always)]
    pub(crate) fn known_medium(&self, key: [u64; 2], hash: u64) -> u64 {
        let entries = self.medium_line(hash).as_chunks::<2>().0;
        entries.iter().fold(0, |found, e| {
            let differ = (e[0] ^ key[0]) | ((e[1] ^ key[1]) & KEY);
            found | if differ == 0 { e[1] >> 56 } else { 0 }
        })
    }

    /// Keeps its tokens.
    pub(crate) fn learn_medium(&mut self, key: [u64; 2], hash: u64, count: u8) {
        let entry = [key[0], key[1] | u64::from(count) << 56];
        let line = &mut self.medium[(hash >> (64 - MEDIUM_BITS)) as usize];
        *self.turn = self.turn.wrapping_add(1);
        let entries = line.as_chunks_mut::<2>().0;
        let place = entries.iter().position(|e| e[1] == 0 || *e == entry);
        entries[place.unwrap_or(*self.turn as usize % 4)] = entry;
    }

    /// Has what may be known of a piece of any other size fetched.
    #[inline(always)]
    pub(crate) fn prefetch_long(&self, hash: u64, length: usize) {
        if length <= LONG_BYTES {
            kernel::prefetch(&self.long[(hash >> (64 - LONG_BITS)) as usize]);
        } else {
            self.longer.prefetch(hash);
        }
    }

    /// Where such a piece may be: 0 for one that is not in the ring.
    #[inline(always)]
    pub(crate) fn place_of_long(&self, hash: u64, length: usize) -> u64 {
        if length <= LONG_BYTES {
            0
        } else {
            self.longer.place(hash)
        }
    }

    /// The tokens of any other piece, if they are known.
    #[inline(always)]
    pub(crate) fn learnt_long(&self, piece: &[u8], hash: u64, place: u64) -> Option<u64> {
        if piece.len() > LONG_BYTES {
            return self.longer.get(piece, place);
        }
        let key = padded_long(piece);
        let entries = self.long[(hash >> (64 - LONG_BITS)) as usize]
            .as_chunks::<4>()
            .0;
        let same = |e: &[u64; 4]| {
            let words = (e[0] ^ key[0]) | (e[1] ^ key[1]) | (e[2] ^ key[2]);
            words | ((e[3] ^ key[3]) & KEY) == 0
        };
        entries.iter().find(|e| same(e)).map(|e| e[3] >> 56)
    }

    /// Keeps what merging has said of it, if it is not too long.
    pub(crate) fn learn_long(&mut self, piece: &[u8], hash: u64, tokens: u64) {
        *self.turn = self.turn.wrapping_add(1);
        if piece.len() > LONG_BYTES {
            self.longer.keep(piece, hash, tokens, *self.turn);
            return;
        }
        let mut key = padded_long(piece);
        key[3] |= tokens << 56;
        let line = &mut self.long[(hash >> (64 - LONG_BITS)) as usize];
        let entries = line.as_chunks_mut::<4>().0;
        let place = entries.iter().position(|e| e[3] == 0 || *e == key);
        entries[place.unwrap_or(*self.turn as usize % 2)] = key;
    }
}

/// A piece of up to thirty bytes: its length stands behind them, so that a NUL is none of the
/// zeros, and the last byte is for its tokens.
#[inline(always)]
fn padded_long(piece: &[u8]) -> [u64; 4] {
    let mut key = [[0; 8]; 4];
    let bytes = key.as_flattened_mut();
    bytes[..piece.len()].copy_from_slice(piece);
    bytes[30] = piece.len() as u8;
    key.map(u64::from_le_bytes)
}
