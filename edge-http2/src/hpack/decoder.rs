//! Reads header blocks.
//!
//! What is in a table was checked when it came, so a field that stands there costs a look and a
//! clone. Each string that has to be kept owns its bytes alone: where strings of a block share an
//! allocation, counting who still has it costs what a small allocation does, and a field that is
//! kept for long (in the table above all) would hold the whole block.

use super::entry::{Entry, SizedName};
use super::{Error, Field, huffman, integer, static_table};
use std::collections::VecDeque;

/// Reads the header blocks of one connection, in the order in which they came.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What SETTINGS_HEADER_TABLE_SIZE says to the peer.
    max_table_bytes: usize,
    /// What the fields of a block may count for, bytes.
    max_list_bytes: usize,
}

impl Decoder {
    /// With an empty table that has the room of `max_table_bytes`, as SETTINGS_HEADER_TABLE_SIZE
    /// says to the peer. As long as that is 4,096 nothing has to be said: both sides begin with it.
    pub fn new(max_table_bytes: usize) -> Self {
        let table = Table {
            entries: VecDeque::new(),
            bytes: 0,
            limit: max_table_bytes,
        };
        Self {
            table,
            max_table_bytes,
            max_list_bytes: usize::MAX,
        }
    }

    /// Reads no block further than that its fields count for so many bytes, as
    /// SETTINGS_MAX_HEADER_LIST_SIZE counts them (RFC 9113, section 6.5.2). A block's own length is
    /// no bound for that: each of its bytes may stand for an entry that fills the table.
    #[must_use]
    pub fn with_max_list_bytes(mut self, bytes: usize) -> Self {
        self.max_list_bytes = bytes;
        self
    }

    /// Reads a whole header block (the fragments of HEADERS and CONTINUATION joined) and gives each
    /// field in turn to `sink`. One that wants no more has to take and drop the rest: the table must
    /// follow the peer's.
    ///
    /// # Errors
    ///
    /// Any is a COMPRESSION_ERROR of the connection; the decoder is of no use afterwards.
    pub fn decode(&mut self, block: &[u8], sink: &mut impl FnMut(Field)) -> Result<(), Error> {
        let mut input = block;
        let mut strings = Strings::default();
        let mut is_beginning = true;
        let mut room = self.max_list_bytes;
        let mut count = |bytes: usize| {
            room = room.checked_sub(bytes).ok_or(Error::List)?;
            Ok(())
        };
        while let Some((&first, rest)) = input.split_first() {
            input = rest;
            match first {
                // Section 6.1: a field that is in a table.
                0x80.. => {
                    let index = integer::read(first, 7, &mut input)?;
                    let entry = self.entry(index)?;
                    count(entry.size)?;
                    sink(entry.to_field());
                }
                // Section 6.2.1: one that goes into the table.
                0x40.. => {
                    let index = integer::read(first, 6, &mut input)?;
                    let name = self.name(index, &mut input, &mut strings)?;
                    let entry = name.with(strings.read(&mut input)?, true);
                    count(entry.size)?;
                    sink(entry.to_field());
                    self.table.insert(entry);
                }
                // Section 6.3: the table's size, which may change only between blocks.
                0x20.. => {
                    let bytes = integer::read(first, 5, &mut input)?;
                    if !is_beginning || bytes > self.max_table_bytes {
                        return Err(Error::SizeUpdate);
                    }
                    self.table.set_limit(bytes);
                    continue;
                }
                // Sections 6.2.2 and 6.2.3: one that passes by the table, or by every table.
                _ => {
                    let index = integer::read(first, 4, &mut input)?;
                    let name = self.name(index, &mut input, &mut strings)?;
                    let entry = name.with(strings.read(&mut input)?, false);
                    count(entry.size)?;
                    sink(entry.into_field(first & 0x10 > 0));
                }
            }
            is_beginning = false;
        }
        Ok(())
    }

    fn entry(&self, index: usize) -> Result<&Entry, Error> {
        let place = index.checked_sub(1).ok_or(Error::Index)?;
        static_table::ENTRIES
            .get(place)
            .or_else(|| self.table.entries.get(place - static_table::LENGTH))
            .ok_or(Error::Index)
    }

    /// The name of a literal: that of an entry, or a string when `index` is 0.
    #[inline]
    fn name(
        &self,
        index: usize,
        input: &mut &[u8],
        strings: &mut Strings,
    ) -> Result<SizedName, Error> {
        if index > 0 {
            return Ok(self.entry(index)?.name.clone());
        }
        Ok(SizedName::parse(strings.read(input)?))
    }
}

/// Room in which the strings of a block are read from Huffman's code.
struct Strings {
    /// For most strings.
    small: [u8; 64],
    /// For longer ones; it grows to the longest of the block.
    large: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Self {
        Self {
            small: [0; 64],
            large: Vec::new(),
        }
    }
}

impl Strings {
    /// Reads a string (section 5.2): where it lies, or from its code.
    #[inline]
    fn read<'a, 'block: 'a>(&'a mut self, input: &mut &'block [u8]) -> Result<&'a [u8], Error> {
        let (&first, rest) = input.split_first().ok_or(Error::Truncated)?;
        *input = rest;
        let length = integer::read(first, 7, input)?;
        let (string, rest) = input.split_at_checked(length).ok_or(Error::Truncated)?;
        *input = rest;
        if first & 0x80 == 0 {
            return Ok(string);
        }
        let most = huffman::most_bytes(length);
        if most <= self.small.len() {
            return huffman::decode(string, &mut self.small);
        }
        if self.large.len() < most {
            self.large.resize(most, 0);
        }
        huffman::decode(string, &mut self.large)
    }
}

/// The dynamic table (section 2.3.2): the newest entry first.
#[derive(Debug)]
struct Table {
    /// At most `limit` / 32 of them.
    entries: VecDeque<Entry>,
    /// What all of them count for.
    bytes: usize,
    /// What they may count for at most.
    limit: usize,
}

impl Table {
    /// Section 4.4: an entry that is larger than the table empties it.
    fn insert(&mut self, entry: Entry) {
        self.evict(self.limit.saturating_sub(entry.size));
        if entry.size <= self.limit {
            self.bytes += entry.size;
            self.entries.push_front(entry);
        }
    }

    fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
        self.evict(bytes);
    }

    /// Lets the oldest go until the rest counts for at most `limit` (section 4.3).
    fn evict(&mut self, limit: usize) {
        while self.bytes > limit
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.size;
        }
    }
}

#[cfg(test)]
impl Decoder {
    /// What the dynamic table counts for, in bytes.
    pub(super) fn table_bytes(&self) -> usize {
        assert_eq!(
            self.table.bytes,
            self.table.entries.iter().map(|it| it.size).sum::<usize>()
        );
        self.table.bytes
    }
}
