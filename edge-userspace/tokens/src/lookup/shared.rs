//! The vocabulary's tokens, read from the section that `write` lays out.

use super::KEY;
use super::keys::{HEADER, MAGIC, line_of};

/// The tables of one vocabulary. Cheap to copy: it borrows the section.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    short: &'a [[u64; 8]],
    medium: &'a [[u64; 8]],
    long: &'a [u64],
    bytes: &'a [u64],
}

impl<'a> Shared<'a> {
    /// Reads a section; `None` if it is none or damaged in its sizes.
    pub(crate) fn read(section: &'a [u64]) -> Option<Self> {
        let (header, rest) = section.split_at_checked(HEADER)?;
        let size = |i: usize| {
            let size = usize::try_from(header[i]).ok();
            size.filter(|size| (1..1 << 31).contains(size))
        };
        let (short_lines, medium_lines, long_slots) = (size(1)?, size(2)?, size(3)?);
        if header[0] != MAGIC {
            return None;
        }
        let (short, rest) = rest.split_at_checked(8 * short_lines)?;
        let (medium, rest) = rest.split_at_checked(8 * medium_lines)?;
        let (long, rest) = rest.split_at_checked(long_slots)?;
        let bytes = rest.get(..usize::try_from(header[4]).ok()?)?;
        Some(Self {
            short: short.as_chunks().0,
            medium: medium.as_chunks().0,
            long,
            bytes,
        })
    }

    /// Where a piece of up to seven bytes of that hash is.
    #[inline(always)]
    pub(crate) fn short_line(&self, hash: u64) -> &'a [u64; 8] {
        &self.short[line_of(hash, self.short.len())]
    }

    /// Where a piece of eight to fifteen bytes of that hash is.
    #[inline(always)]
    pub(crate) fn medium_line(&self, hash: u64) -> &'a [u64; 8] {
        &self.medium[line_of(hash, self.medium.len())]
    }

    /// Whether a piece of up to seven bytes is a token.
    #[inline(always)]
    pub(crate) fn has_short(&self, key: u64, hash: u64) -> bool {
        let mut at = line_of(hash, self.short.len());
        loop {
            let line = &self.short[at];
            let found = line
                .iter()
                .fold(false, |found, e| found | ((e ^ key) & KEY == 0));
            // The last is filled last: a line with room has no more behind it.
            if found || line[7] == 0 {
                return found;
            }
            at = if at + 1 < self.short.len() { at + 1 } else { 0 };
        }
    }

    /// Whether a piece of eight to fifteen bytes is a token.
    #[inline(always)]
    pub(crate) fn has_medium(&self, key: [u64; 2], hash: u64) -> bool {
        let mut at = line_of(hash, self.medium.len());
        loop {
            let line = &self.medium[at];
            let same = |e: &[u64; 2]| (e[0] == key[0]) & ((e[1] ^ key[1]) & KEY == 0);
            let found = line
                .as_chunks()
                .0
                .iter()
                .fold(false, |found, e| found | same(e));
            if found || line[7] == 0 {
                return found;
            }
            at = if at + 1 < self.medium.len() {
                at + 1
            } else {
                0
            };
        }
    }

    /// Whether any other piece is a token.
    pub(crate) fn has_long(&self, piece: &[u8], hash: u64) -> bool {
        let mut at = line_of(hash, self.long.len());
        while let Some(&entry) = self.long.get(at).filter(|&&entry| entry != 0) {
            let offset = (entry & 0xffff_ffff) as usize - 1;
            if entry >> 32 == hash & 0xffff_ffff && self.is_at(piece, offset) {
                return true;
            }
            at = if at + 1 < self.long.len() { at + 1 } else { 0 };
        }
        false
    }

    fn is_at(&self, piece: &[u8], offset: usize) -> bool {
        let byte = |i: usize| (self.bytes.get(i / 8).copied().unwrap_or(0) >> (i % 8 * 8)) as u8;
        let length = u32::from_le_bytes([0, 1, 2, 3].map(|i| byte(offset + i)));
        length as usize == piece.len()
            && piece
                .iter()
                .enumerate()
                .all(|(i, &b)| byte(offset + 4 + i) == b)
    }
}
