//! What one counter has learnt: bounded, and written while it counts.

use super::{KEY, hash_key, hash_long, hash_short, long};
use crate::arch::look_up as kernel;

/// Entries of the first table, which the fast look-up reads alone: tokens and what is none.
pub(crate) const FIRST_BITS: u32 = 15;
/// Lines behind it of what is no token, and of all that has eight to fifteen bytes.
const SHORT_BITS: u32 = 14;
const MEDIUM_BITS: u32 = 14;
/// Pairs of entries for pieces of up to thirty bytes.
const LONG_BITS: u32 = 14;
pub(crate) const LONG_BYTES: usize = 30;

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

    /// Where a piece of up to seven bytes of that hash is if it has been learnt, and its line had
    /// room for it.
    #[inline(always)]
    pub(crate) fn short_line(&self, hash: u64) -> &[u64; 8] {
        &self.short[lines_of(hash, SHORT_BITS)[0]]
    }

    /// The entry of a piece of up to seven bytes that is no token.
    #[inline(always)]
    pub(crate) fn learnt_short(&self, key: u64, hash: u64) -> Option<u64> {
        let same = |e: u64| if (e ^ key) & KEY == 0 { e } else { 0 };
        let find = |line: &[u64; 8]| line.iter().fold(0, |found, &e| found | same(e));
        let line = self.short_line(hash);
        let mut entry = find(line);
        if entry == 0 && line[7] != 0 {
            entry = find(&self.short[lines_of(hash, SHORT_BITS)[1]]);
        }
        (entry != 0).then_some(entry)
    }

    /// Keeps what merging has said of it.
    pub(crate) fn learn_short(&mut self, key: u64, count: u8) {
        let hash = hash_short(key);
        let entry = key | u64::from(count) << 56;
        self.first[Self::first_of(hash)] = entry;
        *self.turn = self.turn.wrapping_add(1);
        put(self.short, lines_of(hash, SHORT_BITS), [entry], *self.turn);
    }

    /// Where a piece of eight to fifteen bytes of that hash is if it is known, and its line had
    /// room for it.
    #[inline(always)]
    pub(crate) fn medium_line(&self, hash: u64) -> &[u64; 8] {
        &self.medium[lines_of(hash, MEDIUM_BITS)[0]]
    }

    /// Where it is if its first line had no room; `None` if that has some.
    #[inline(always)]
    pub(crate) fn second_medium_line(&self, hash: u64) -> Option<&[u64; 8]> {
        let is_full = self.medium_line(hash)[7] != 0;
        is_full.then(|| &self.medium[lines_of(hash, MEDIUM_BITS)[1]])
    }

    /// Keeps its tokens.
    pub(crate) fn learn_medium(&mut self, key: [u64; 2], hash: u64, count: u8) {
        let entry = [key[0], key[1] | u64::from(count) << 56];
        *self.turn = self.turn.wrapping_add(1);
        put(self.medium, lines_of(hash, MEDIUM_BITS), entry, *self.turn);
    }

    /// Has the line fetched where a piece of up to [`LONG_BYTES`] of that hash may be.
    #[inline(always)]
    pub(crate) fn prefetch_long(&self, hash: u64) {
        kernel::prefetch(&self.long[lines_of(hash, LONG_BITS)[0]]);
    }

    /// The tokens of a piece of up to [`LONG_BYTES`], if they are known.
    #[inline(always)]
    pub(crate) fn known_long(&self, key: [u64; 4], hash: u64) -> Option<u64> {
        let same = |e: &[u64; 4]| {
            let words = (e[0] ^ key[0]) | (e[1] ^ key[1]) | (e[2] ^ key[2]);
            words | ((e[3] ^ key[3]) & KEY) == 0
        };
        for line in lines_of(hash, LONG_BITS) {
            let entries = self.long[line].as_chunks::<4>().0;
            if let Some(entry) = entries.iter().find(|e| same(e)) {
                return Some(entry[3] >> 56);
            }
            if entries[1][3] == 0 {
                break;
            }
        }
        None
    }

    /// Keeps the tokens of a piece that is neither short nor medium, if it is not too long.
    pub(crate) fn learn_long(&mut self, piece: &[u8], tokens: u64) {
        *self.turn = self.turn.wrapping_add(1);
        if piece.len() > LONG_BYTES {
            let hash = hash_long(piece);
            self.longer.keep(piece, hash, tokens, *self.turn);
            return;
        }
        let mut key = key_long(piece, 0, piece.len());
        let lines = lines_of(hash_key(key), LONG_BITS);
        key[3] |= tokens << 56;
        put(self.long, lines, key, *self.turn);
    }
}

/// The two lines that an entry may be in: the second if the first was full. With a choice, few
/// find both full before the table is.
#[inline(always)]
fn lines_of(hash: u64, bits: u32) -> [usize; 2] {
    let second = hash << bits >> (64 - bits);
    [(hash >> (64 - bits)) as usize, second as usize]
}

/// Puts an entry where there is room, or it is already. Where there is none one of four is put
/// over another: of a text that comes again and again but is more than the table holds, each
/// would always be written over before it is asked for.
fn put<const N: usize>(table: &mut [[u64; 8]], lines: [usize; 2], entry: [u64; N], turn: u32) {
    let is_room = |e: &[u64; N]| e[N - 1] == 0 || *e == entry;
    for line in lines {
        let entries = table[line].as_chunks_mut::<N>().0;
        if let Some(room) = entries.iter_mut().find(|e| is_room(e)) {
            *room = entry;
            return;
        }
    }
    if turn.is_multiple_of(4) {
        let entries = table[lines[turn as usize / 4 % 2]].as_chunks_mut::<N>().0;
        entries[turn as usize / 8 % (8 / N)] = entry;
    }
}

/// The tokens of a piece of eight to fifteen bytes if a line has them, else 0.
#[inline(always)]
pub(crate) fn medium_in(line: &[u64; 8], key: [u64; 2]) -> u64 {
    line.as_chunks::<2>().0.iter().fold(0, |found, e| {
        let differ = (e[0] ^ key[0]) | ((e[1] ^ key[1]) & KEY);
        found | if differ == 0 { e[1] >> 56 } else { 0 }
    })
}

/// A piece of up to thirty bytes: its length stands behind them, so that a NUL is none of the
/// zeros, and the last byte is for its tokens.
#[inline(always)]
pub(crate) fn key_long(text: &[u8], start: usize, length: usize) -> [u64; 4] {
    const ALL: usize = 32;
    static KEPT: [u8; 2 * ALL] = {
        let mut kept = [0; 2 * ALL];
        let mut i = 0;
        while i < ALL {
            kept[i] = 0xff;
            i += 1;
        }
        kept
    };
    let mut last = [0; ALL];
    let bytes = text[start..].first_chunk().unwrap_or_else(|| {
        last[..length].copy_from_slice(&text[start..][..length]);
        &last
    });
    let kept = KEPT[ALL - length..].first_chunk().unwrap_or(&[0; ALL]);
    let word = |bytes: &[u8; ALL], i| u64::from_le_bytes(bytes.as_chunks().0[i]);
    let mut key = [0, 1, 2, 3].map(|i| word(bytes, i) & word(kept, i));
    key[3] |= (length as u64) << 48;
    key
}
