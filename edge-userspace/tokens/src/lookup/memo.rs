//! What one counter has learnt: bounded, and written while it counts.

use super::shared::Shared;
use super::{KEY, hash_long, hash_medium, hash_short, unpadded};

/// Entries of the first table, which the fast look-up reads alone: tokens and what is none.
pub(crate) const FIRST_BITS: u32 = 15;
pub(crate) const FIRST_MEDIUM_BITS: u32 = 13;
/// Lines of what is no token, behind it.
const SHORT_BITS: u32 = 12;
const MEDIUM_BITS: u32 = 13;
/// Pairs of entries for up to thirty bytes, and for more.
const LONG_BITS: u32 = 14;
const LONGER_BITS: u32 = 12;
/// The longest piece that is remembered.
const LONGEST: usize = 8 * 15;

const FIRST: usize = 1 << FIRST_BITS;
const FIRST_MEDIUM: usize = 2 << FIRST_MEDIUM_BITS;
const SHORT: usize = 8 << SHORT_BITS;
const MEDIUM: usize = 8 << MEDIUM_BITS;
const LONG: usize = 8 << LONG_BITS;
const LONGER: usize = 32 << LONGER_BITS;
const WORDS: usize = FIRST + FIRST_MEDIUM + SHORT + MEDIUM + LONG + LONGER;

/// The memory of the memo, all that it ever takes.
pub(crate) const BYTES: usize = (WORDS + 8) * 8;

/// The memory, untouched until something is learnt.
pub(crate) struct Memo {
    words: Vec<u64>,
    start: usize,
    turn: u32,
}

/// Its tables, at their places.
pub(crate) struct Tables<'a> {
    pub(crate) first: &'a mut [u64; FIRST],
    pub(crate) first_medium: &'a mut [[u64; 2]; FIRST_MEDIUM / 2],
    short: &'a mut [[u64; 8]; SHORT / 8],
    medium: &'a mut [[u64; 8]; MEDIUM / 8],
    long: &'a mut [[u64; 8]; LONG / 8],
    longer: &'a mut [[[u64; 16]; 2]; LONGER / 32],
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
            first_medium: table(words, FIRST_MEDIUM, |w| {
                w.as_chunks_mut().0.try_into().expect("its size")
            }),
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
                w.as_chunks_mut()
                    .0
                    .as_chunks_mut()
                    .0
                    .try_into()
                    .expect("its size")
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

    /// The place in the first table of longer keys.
    #[inline(always)]
    pub(crate) fn first_medium_of(hash: u64) -> usize {
        (hash >> (64 - FIRST_MEDIUM_BITS)) as usize
    }

    /// The tokens of a piece of up to seven bytes, known or not.
    #[inline]
    pub(crate) fn short(
        &mut self,
        shared: &Shared<'_>,
        key: u64,
        merge: impl FnOnce(&[u8]) -> u64,
    ) -> u64 {
        let hash = hash_short(key);
        let entry = if shared.has_short(key, hash) {
            key | 1 << 56
        } else {
            self.learnt_short(key, hash, merge)
        };
        self.first[Self::first_of(hash)] = entry;
        entry >> 56
    }

    fn learnt_short(&mut self, key: u64, hash: u64, merge: impl FnOnce(&[u8]) -> u64) -> u64 {
        let line = &mut self.short[(hash >> (64 - SHORT_BITS)) as usize];
        if let Some(entry) = line.iter().find(|entry| (*entry ^ key) & KEY == 0) {
            return *entry;
        }
        let (bytes, length) = unpadded([key, 0]);
        let entry = key | merge(&bytes[..length]) << 56;
        *self.turn = self.turn.wrapping_add(1);
        let place = line.iter().position(|&entry| entry == 0);
        line[place.unwrap_or(*self.turn as usize % 8)] = entry;
        entry
    }

    /// The tokens of a piece of eight to fifteen bytes, known or not.
    #[inline]
    pub(crate) fn medium(
        &mut self,
        shared: &Shared<'_>,
        key: [u64; 2],
        merge: impl FnOnce(&[u8]) -> u64,
    ) -> u64 {
        let hash = hash_medium(key);
        let last = if shared.has_medium(key, hash) {
            key[1] | 1 << 56
        } else {
            self.learnt_medium(key, hash, merge)
        };
        self.first_medium[Self::first_medium_of(hash)] = [key[0], last];
        last >> 56
    }

    fn learnt_medium(&mut self, key: [u64; 2], hash: u64, merge: impl FnOnce(&[u8]) -> u64) -> u64 {
        let line = &mut self.medium[(hash >> (64 - MEDIUM_BITS)) as usize];
        let entries = line.as_chunks_mut::<2>().0;
        let same = |e: &&mut [u64; 2]| (e[0] == key[0]) & ((e[1] ^ key[1]) & KEY == 0);
        if let Some(entry) = entries.iter_mut().find(same) {
            return entry[1];
        }
        let (bytes, length) = unpadded(key);
        let last = key[1] | merge(&bytes[..length]) << 56;
        *self.turn = self.turn.wrapping_add(1);
        let place = entries.iter().position(|entry| entry[1] == 0);
        entries[place.unwrap_or(*self.turn as usize % 4)] = [key[0], last];
        last
    }

    /// The tokens of any other piece, known or not.
    #[inline]
    pub(crate) fn long(
        &mut self,
        shared: &Shared<'_>,
        piece: &[u8],
        merge: impl FnOnce(&[u8]) -> u64,
    ) -> u64 {
        let hash = hash_long(piece);
        let tokens = |merge: &mut dyn FnMut(&[u8]) -> u64| {
            if shared.has_long(piece, hash) {
                1
            } else {
                merge(piece)
            }
        };
        let mut merge = Some(merge);
        let mut merge = |piece: &[u8]| merge.take().expect("asked once")(piece);
        *self.turn = self.turn.wrapping_add(1);
        let turn = *self.turn as usize % 2;
        match piece.len() {
            0..=30 => {
                let key = padded_long(piece);
                let line = &mut self.long[(hash >> (64 - LONG_BITS)) as usize];
                let entries = line.as_chunks_mut::<4>().0;
                let same = |e: &[u64; 4]| {
                    (e[0] == key[0])
                        & (e[1] == key[1])
                        & (e[2] == key[2])
                        & ((e[3] ^ key[3]) & KEY == 0)
                };
                if let Some(entry) = entries.iter().find(|e| same(e)) {
                    return entry[3] >> 56;
                }
                let tokens = tokens(&mut merge);
                let place = entries
                    .iter()
                    .position(|entry| entry[3] == 0)
                    .unwrap_or(turn);
                entries[place] = [key[0], key[1], key[2], key[3] | tokens << 56];
                tokens
            }
            length @ 31..=LONGEST => {
                let entries = &mut self.longer[(hash >> (64 - LONGER_BITS)) as usize];
                let head = hash << 16 | (length as u64) << 8;
                for entry in entries.iter() {
                    if (entry[0] ^ head) >> 8 == 0 && is_same(piece, entry) {
                        return entry[0] & 0xff;
                    }
                }
                let tokens = tokens(&mut merge);
                let place = entries
                    .iter()
                    .position(|entry| entry[0] == 0)
                    .unwrap_or(turn);
                let entry = &mut entries[place];
                entry[0] = head | tokens;
                let (words, rest) = piece.as_chunks::<8>();
                for (to, word) in entry[1..].iter_mut().zip(words) {
                    *to = u64::from_le_bytes(*word);
                }
                if !rest.is_empty() {
                    entry[1 + words.len()] = super::padded(rest)[0];
                }
                tokens
            }
            _ => tokens(&mut merge),
        }
    }
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

/// A piece of up to thirty bytes; its length stands behind them, so that a NUL is none of the
/// zeros.
#[inline(always)]
fn padded_long(piece: &[u8]) -> [u64; 4] {
    let mut bytes = [0; 32];
    bytes[..piece.len()].copy_from_slice(piece);
    bytes[30] = piece.len() as u8;
    let words = bytes.as_chunks::<8>().0;
    [0, 1, 2, 3].map(|i| u64::from_le_bytes(words[i]))
}
