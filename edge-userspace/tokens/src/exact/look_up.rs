//! From the pieces of a batch to their tokens: what is known at once, what the tables behind
//! know, and the rest by merging, many at a time.

use crate::arch::blocks::Sink;
use crate::arch::{Isa, look_up as kernel};
use crate::lookup::batch::{Batch, LONGS, MEDIUMS, ROOM, SHORTS};
use crate::lookup::memo::{LONG_BYTES, key_long, medium_in};
use crate::lookup::{First, Shared, Tables, hash_key, hash_long, hash_medium, hash_short};
use crate::merge;

/// All that a counter looks up in, and what it has found so far.
pub(crate) struct LookUp<'a> {
    pub(crate) shared: Shared<'a>,
    pub(crate) tables: Tables<'a>,
    pub(crate) merge: merge::Shared<'a>,
    pub(crate) scratch: &'a mut merge::Scratch,
    pub(crate) isa: Isa,
    pub(crate) tokens: u64,
}

impl Sink for LookUp<'_> {
    fn take(&mut self, text: &[u8], batch: &mut Batch) {
        kernel::take(self.isa, self, text, batch);
    }
}

impl LookUp<'_> {
    /// Takes a batch; `shorts` and `mediums` do what `kernel`'s say, by the best
    /// instructions, which the rest is compiled with too.
    #[inline(always)]
    pub(crate) fn take_with(
        &mut self,
        text: &[u8],
        batch: &mut Batch,
        shorts: impl FnOnce(&First, &mut Batch) -> (u64, usize),
        mediums: impl FnOnce(&Tables<'_>, &mut Batch) -> (u64, usize),
    ) {
        if batch.shorts > 0 {
            let (tokens, missed) = shorts(self.tables.first, batch);
            self.tokens += tokens;
            self.shorts(batch, missed);
        }
        if batch.mediums > 0 {
            let (tokens, missed) = mediums(&self.tables, batch);
            self.tokens += tokens;
            if missed > 0 {
                self.mediums(&mut batch.medium[..missed]);
            }
        }
        if batch.longs > 0 {
            self.longs(text, batch);
        }
        (batch.shorts, batch.mediums, batch.longs) = (0, 0, 0);
    }

    /// Those of up to seven bytes that the first table does not know.
    #[inline(always)]
    fn shorts(&mut self, batch: &mut Batch, missed: usize) {
        let keys = &mut batch.missed[..missed];
        for &key in &*keys {
            let hash = hash_short(key);
            kernel::prefetch(self.shared.short_line(hash));
            kernel::prefetch(self.tables.short_line(hash));
        }
        let mut unknown = 0;
        for i in 0..keys.len() {
            let key = keys[i];
            let hash = hash_short(key);
            let entry = if self.shared.has_short(key, hash) {
                key | 1 << 56
            } else if let Some(entry) = self.tables.learnt_short(key, hash) {
                entry
            } else {
                keys[unknown] = key;
                unknown += 1;
                continue;
            };
            self.tables.first[Tables::first_of(hash)] = entry;
            self.tokens += entry >> 56;
        }
        if unknown > 0 {
            let mut counts = [0; SHORTS + ROOM];
            let (keys, counts) = (&keys[..unknown], &mut counts[..unknown]);
            merge::count_keys8(&self.merge, self.isa, keys, counts);
            for (&key, &count) in keys.iter().zip(&*counts) {
                self.tables.learn_short(key, count);
                self.tokens += u64::from(count);
            }
        }
    }

    /// Those of eight to fifteen bytes that are not where the memo has most of them.
    fn mediums(&mut self, keys: &mut [[u64; 2]]) {
        for &key in &*keys {
            let hash = hash_medium(key);
            kernel::prefetch(self.shared.medium_line(hash));
            if let Some(line) = self.tables.second_medium_line(hash) {
                kernel::prefetch(line);
            }
        }
        let mut unknown = 0;
        for i in 0..keys.len() {
            let key = keys[i];
            let hash = hash_medium(key);
            let second = self.tables.second_medium_line(hash);
            let known = second.map_or(0, |line| medium_in(line, key));
            if known > 0 {
                self.tokens += known;
                continue;
            }
            if self.shared.has_medium(key, hash) {
                self.tables.learn_medium(key, hash, 1);
                self.tokens += 1;
            } else {
                keys[unknown] = key;
                unknown += 1;
            }
        }
        if unknown > 0 {
            let mut counts = [0; MEDIUMS + ROOM];
            let (keys, counts) = (&keys[..unknown], &mut counts[..unknown]);
            merge::count_keys16(&self.merge, self.isa, keys, counts);
            for (&key, &count) in keys.iter().zip(&*counts) {
                self.tables.learn_medium(key, hash_medium(key), count);
                self.tokens += u64::from(count);
            }
        }
    }

    /// All others: first those that the memo has as keys, then those of which it has the bytes.
    #[inline(always)]
    fn longs(&mut self, text: &[u8], batch: &mut Batch) {
        let (mut middles, mut longer) = (0, 0);
        for i in 0..batch.longs {
            let place = batch.long[i];
            let is_middle = place.1 as usize <= LONG_BYTES;
            batch.middle[middles] = place;
            batch.long[longer] = place;
            middles += usize::from(is_middle);
            longer += usize::from(!is_middle);
        }
        let unknown = self.middles(text, batch, middles);
        self.merged(text, &mut batch.middle[..unknown]);
        if longer > 0 {
            let unknown = self.longer(text, batch, longer);
            self.merged(text, &mut batch.long[..unknown]);
        }
    }

    /// Those of up to [`LONG_BYTES`]; how many are unknown, which are the first then.
    #[inline(always)]
    fn middles(&mut self, text: &[u8], batch: &mut Batch, count: usize) -> usize {
        let pieces = &mut batch.middle[..count];
        let (keys, hashes) = (&mut batch.keys[..count], &mut batch.found[..count]);
        for ((&(start, length), key), hash) in pieces.iter().zip(&mut *keys).zip(&mut *hashes) {
            *key = key_long(text, start as usize, length as usize);
            *hash = hash_key(*key);
            self.tables.prefetch_long(*hash);
        }
        let mut unknown = 0;
        for i in 0..count {
            match self.tables.known_long(keys[i], hashes[i]) {
                Some(tokens) => self.tokens += tokens,
                None => {
                    pieces[unknown] = pieces[i];
                    unknown += 1;
                }
            }
        }
        unknown
    }

    /// Those of more; how many are unknown, which are the first then.
    #[inline(always)]
    fn longer(&mut self, text: &[u8], batch: &mut Batch, count: usize) -> usize {
        let piece = |(start, length): (u32, u32)| &text[start as usize..][..length as usize];
        let pieces = &mut batch.long[..count];
        let (hashes, places) = (&mut batch.found[..count], &mut batch.missed[..count]);
        for (&place, hash) in pieces.iter().zip(&mut *hashes) {
            *hash = hash_long(piece(place));
            self.tables.longer.prefetch(*hash);
        }
        for (&hash, place) in hashes.iter().zip(&mut *places) {
            *place = self.tables.longer.place(hash);
        }
        let mut unknown = 0;
        for i in 0..count {
            match self.tables.longer.get(piece(pieces[i]), places[i]) {
                Some(tokens) => self.tokens += tokens,
                None => {
                    pieces[unknown] = pieces[i];
                    unknown += 1;
                }
            }
        }
        unknown
    }

    /// Those of any length that the memo does not know.
    fn merged(&mut self, text: &[u8], pieces: &mut [(u32, u32)]) {
        let piece = |(start, length): (u32, u32)| &text[start as usize..][..length as usize];
        let mut unknown = 0;
        for i in 0..pieces.len() {
            let place = pieces[i];
            if self.shared.has_long(piece(place), hash_long(piece(place))) {
                self.tables.learn_long(piece(place), 1);
                self.tokens += 1;
            } else {
                pieces[unknown] = place;
                unknown += 1;
            }
        }
        if unknown > 0 {
            let mut counts = [0; LONGS + ROOM];
            let (pieces, counts) = (&pieces[..unknown], &mut counts[..unknown]);
            merge::count_pieces(&self.merge, self.isa, text, pieces, counts, self.scratch);
            for (&place, &count) in pieces.iter().zip(&*counts) {
                self.tables.learn_long(piece(place), u64::from(count));
                self.tokens += u64::from(count);
            }
        }
    }
}
