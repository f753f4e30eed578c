//! From the pieces of a batch to their tokens.

use crate::arch::Isa;
use crate::arch::blocks::Sink;
use crate::lookup::batch::Batch;
use crate::lookup::{KEY, Shared, Tables, hash_medium, hash_short};
use crate::merge;

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
        let mut tokens = 0;
        for &key in &batch.short[..batch.shorts] {
            let entry = self.tables.first[Tables::first_of(hash_short(key))];
            tokens += if (entry ^ key) & KEY == 0 {
                entry >> 56
            } else {
                self.tables.short(&self.shared, key, |piece| {
                    merge::count(&self.merge, piece, self.isa, self.scratch)
                })
            };
        }
        for &key in &batch.medium[..batch.mediums] {
            let entry = self.tables.first_medium[Tables::first_medium_of(hash_medium(key))];
            tokens += if (entry[0] == key[0]) & ((entry[1] ^ key[1]) & KEY == 0) {
                entry[1] >> 56
            } else {
                self.tables.medium(&self.shared, key, |piece| {
                    merge::count(&self.merge, piece, self.isa, self.scratch)
                })
            };
        }
        for &(start, length) in &batch.long[..batch.longs] {
            let piece = &text[start as usize..][..length as usize];
            tokens += self.tables.long(&self.shared, piece, |piece| {
                merge::count(&self.merge, piece, self.isa, self.scratch)
            });
        }
        self.tokens += tokens;
        (batch.shorts, batch.mediums, batch.longs) = (0, 0, 0);
    }
}
