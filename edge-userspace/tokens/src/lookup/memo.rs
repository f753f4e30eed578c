//! What one counter has learnt: bounded, and written while it counts.

use super::{KEY, hash_short};
use crate::arch::look_up as kernel;

/// Entries of the first table, which the fast look-up reads alone: tokens and what is none.
pub(crate) const FIRST_BITS: u32 = 15;
/// Lines behind it of what is no token, and of all that has eight to fifteen bytes.
const SHORT_BITS: u32 = 13;
const MEDIUM_BITS: u32 = 14;
/// Pairs of entries for pieces of up to 30, 62 and 120 bytes.
const LONG_BITS: u32 = 14;
const LONGER_BITS: u32 = 14;
const LONGEST_BITS: u32 = 10;
const LONG_BYTES: usize = 30;
const LONGER_BYTES: usize = 62;
const LONGEST_BYTES: usize = 8 * 15;

const FIRST: usize = 1 << FIRST_BITS;
const SHORT: usize = 8 << SHORT_BITS;
const MEDIUM: usize = 8 << MEDIUM_BITS;
const LONG: usize = 8 << LONG_BITS;
const LONGER: usize = 16 << LONGER_BITS;
const LONGEST: usize = 32 << LONGEST_BITS;
const WORDS: usize = FIRST + SHORT + MEDIUM + LONG + LONGER + LONGEST;

/// The memory of the memo, all that it ever takes.
pub(crate) const BYTES: usize = (WORDS + 8) * 8;

/// The memory, untouched until something is learnt.
pub(crate) struct Memo {
    words: Vec<u64>,
    start: usize,
    turn: u32,
}

/// The first table: a key of up to seven bytes with its count.
pub(crate) type First = [u64; FIRST];

/// Its tables, at their places.
pub(crate) struct Tables<'a> {
    pub(crate) first: &'a mut First,
    short: &'a mut [[u64; 8]; SHORT / 8],
    medium: &'a mut [[u64; 8]; MEDIUM / 8],
    long: &'a mut [[u64; 8]; LONG / 8],
    longer: &'a mut [[[u64; 8]; 2]; LONGER / 16],
    longest: &'a mut [[[u64; 16]; 2]; LONGEST / 32],
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
        }
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
            longer: table(words, LONGER, |w| {
                let pairs = w.as_chunks_mut().0.as_chunks_mut().0;
                pairs.try_into().expect("its size")
            }),
            longest: table(words, LONGEST, |w| {
                let pairs = w.as_chunks_mut().0.as_chunks_mut().0;
                pairs.try_into().expect("its size")
            }),
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
        } else if length <= LONGER_BYTES {
            let [first, second] = &self.longer[(hash >> (64 - LONGER_BITS)) as usize];
            kernel::prefetch(first);
            kernel::prefetch(second);
        } else if length <= LONGEST_BYTES {
            let [first, second] = &self.longest[(hash >> (64 - LONGEST_BITS)) as usize];
            for entry in [first, second] {
                let (head, tail) = entry.split_at(8);
                kernel::prefetch(head);
                kernel::prefetch(tail);
            }
        }
    }

    /// The tokens of any other piece, if they are known.
    #[inline(always)]
    pub(crate) fn learnt_long(&self, piece: &[u8], hash: u64) -> Option<u64> {
        match piece.len() {
            length if length <= LONG_BYTES => {
                let entries = self.long[(hash >> (64 - LONG_BITS)) as usize]
                    .as_chunks::<4>()
                    .0;
                find(&padded_long::<4>(piece), entries)
            }
            length if length <= LONGER_BYTES => {
                let entries = &self.longer[(hash >> (64 - LONGER_BITS)) as usize];
                find(&padded_long::<8>(piece), entries)
            }
            length if length <= LONGEST_BYTES => {
                let entries = &self.longest[(hash >> (64 - LONGEST_BITS)) as usize];
                let head = hash << 16 | (length as u64) << 8;
                let same = |e: &[u64; 16]| (e[0] ^ head) >> 8 == 0 && is_same(piece, e);
                entries.iter().find(|e| same(e)).map(|e| e[0] & 0xff)
            }
            _ => None,
        }
    }

    /// Keeps what merging has said of it, if it is not too long.
    pub(crate) fn learn_long(&mut self, piece: &[u8], hash: u64, tokens: u64) {
        *self.turn = self.turn.wrapping_add(1);
        let turn = *self.turn as usize % 2;
        match piece.len() {
            length if length <= LONG_BYTES => {
                let line = &mut self.long[(hash >> (64 - LONG_BITS)) as usize];
                keep(
                    padded_long::<4>(piece),
                    tokens,
                    line.as_chunks_mut::<4>().0,
                    turn,
                );
            }
            length if length <= LONGER_BYTES => {
                let entries = &mut self.longer[(hash >> (64 - LONGER_BITS)) as usize];
                keep(padded_long::<8>(piece), tokens, entries, turn);
            }
            length if length <= LONGEST_BYTES => {
                let entries = &mut self.longest[(hash >> (64 - LONGEST_BITS)) as usize];
                let place = entries.iter().position(|e| e[0] == 0).unwrap_or(turn);
                let entry = &mut entries[place];
                entry[0] = hash << 16 | (length as u64) << 8 | tokens;
                let (words, rest) = piece.as_chunks::<8>();
                for (to, word) in entry[1..].iter_mut().zip(words) {
                    *to = u64::from_le_bytes(*word);
                }
                if !rest.is_empty() {
                    entry[1 + words.len()] = super::padded(rest)[0];
                }
            }
            _ => {}
        }
    }
}

/// The tokens of a padded piece that one of the entries is of.
#[inline(always)]
fn find<const WORDS: usize>(key: &[u64; WORDS], entries: &[[u64; WORDS]]) -> Option<u64> {
    let same = |e: &[u64; WORDS]| {
        let words = e.iter().zip(key).take(WORDS - 1);
        let words = words.fold(0, |differ, (e, key)| differ | (e ^ key));
        words | ((e[WORDS - 1] ^ key[WORDS - 1]) & KEY) == 0
    };
    entries.iter().find(|e| same(e)).map(|e| e[WORDS - 1] >> 56)
}

/// Keeps a padded piece with its tokens in a free entry, or in that whose turn it is.
fn keep<const WORDS: usize>(
    mut key: [u64; WORDS],
    tokens: u64,
    entries: &mut [[u64; WORDS]],
    turn: usize,
) {
    key[WORDS - 1] |= tokens << 56;
    let place = entries.iter().position(|e| e[WORDS - 1] == 0 || *e == key);
    entries[place.unwrap_or(turn)] = key;
}

#[inline(always)]
fn is_same(piece: &[u8], entry: &[u64; 16]) -> bool {
    let (words, rest) = piece.as_chunks::<8>();
    let mut differ = 0;
    for (known, word) in entry[1..].iter().zip(words) {
        differ |= known ^ u64::from_le_bytes(*word);
    }
    differ == 0 && (rest.is_empty() || entry[1 + words.len()] == super::padded(rest)[0])
}

/// A piece that leaves two bytes of so many words: its length stands in the first of them, so
/// that a NUL is none of the zeros, and the other is for its tokens.
#[inline(always)]
fn padded_long<const WORDS: usize>(piece: &[u8]) -> [u64; WORDS] {
    let mut key = [[0; 8]; WORDS];
    let bytes = key.as_flattened_mut();
    bytes[..piece.len()].copy_from_slice(piece);
    bytes[WORDS * 8 - 2] = piece.len() as u8;
    key.map(u64::from_le_bytes)
}
