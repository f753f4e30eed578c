//! Writes header blocks.
//!
//! Strings are written as they are: Huffman's code saves a quarter of them and takes as long as all
//! the rest of a response's head. What comes again and again is a byte or two by the dynamic table,
//! which is looked through by numbers of 32 bits that are made of a few bytes of each field; the
//! fields themselves are compared only where those are equal.

use super::entry::OVERHEAD;
use super::{integer, static_table};
use http::{HeaderName, HeaderValue, StatusCode};
use std::collections::VecDeque;

/// What is used of the peer's table at most, in bytes; the size with which both sides begin.
const MOST_TABLE_BYTES: usize = 4096;

/// An entry may take that part of the table: one large field does not push out all others.
const MOST_OF_TABLE: usize = 4;

/// So many entries of a block are expected to be named by the next block as well.
const MOST_EXPECTED: usize = 16;

/// The first bits of a field (RFC 7541, section 6).
const INDEXED: u8 = 0x80;
const WITH_INDEXING: u8 = 0x40;
const SIZE_UPDATE: u8 = 0x20;
const NEVER_INDEXED: u8 = 0x10;
const WITHOUT_INDEXING: u8 = 0x00;

/// Writes the header blocks of one connection, in the order in which they are sent.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// The smallest size that the table has had since the last block, when it has changed.
    resized: Option<usize>,
    /// Fields that came and are not in the table, by a part of their number.
    seen: [u16; 64],
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// With an empty table.
    pub fn new() -> Self {
        Self {
            table: Table::new(MOST_TABLE_BYTES),
            resized: None,
            seen: [0; 64],
        }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE, of which at most 4,096 bytes are used. The next
    /// block begins with it (RFC 7541, section 4.2), so the acknowledgement has to be sent before.
    pub fn set_max_table_bytes(&mut self, bytes: u32) {
        let bytes = MOST_TABLE_BYTES.min(bytes as usize);
        if bytes != self.table.limit {
            self.table.set_limit(bytes);
            self.resized = Some(self.resized.map_or(bytes, |smallest| smallest.min(bytes)));
        }
    }

    /// Appends `:status`, the first field of a response.
    pub fn status(&mut self, status: StatusCode, out: &mut Vec<u8>) {
        self.begin(out);
        self.table.named = 0;
        let index = match status.as_u16() {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                integer::write(WITHOUT_INDEXING, 4, 8, out);
                return string(status.as_str().as_bytes(), out);
            }
        };
        out.push(INDEXED | index);
    }

    /// Appends a field. `is_kept`: whether it may go into the table, so that it costs a byte or two
    /// when it is sent again. It does so when it comes for the second time: what differs in each
    /// response pushes nothing out. A value that [is sensitive](HeaderValue::is_sensitive) is in
    /// no table, here and behind the peer (section 7.1.3).
    pub fn field(
        &mut self,
        name: &HeaderName,
        value: &HeaderValue,
        is_kept: bool,
        out: &mut Vec<u8>,
    ) {
        self.begin(out);
        let bytes = value.as_bytes();
        let how = if value.is_sensitive() {
            NEVER_INDEXED
        } else if !is_kept {
            WITHOUT_INDEXING
        } else {
            let text = name.as_str().as_bytes();
            if let Some(place) = self.table.expected(text, bytes) {
                return integer::write(INDEXED, 7, static_table::LENGTH + 1 + place, out);
            }
            let number = number_of(text, bytes);
            if let Some(place) = self.table.find(number, text, bytes) {
                self.table.expect(place);
                return integer::write(INDEXED, 7, static_table::LENGTH + 1 + place, out);
            }
            if self.is_seen(number) && self.table.insert(number, text, bytes) {
                WITH_INDEXING
            } else {
                WITHOUT_INDEXING
            }
        };
        literal(how, name, out);
        string(bytes, out);
    }

    /// Appends a field whose value is `number` in decimal digits, such as content-length. It
    /// passes by the table.
    pub fn number(&mut self, name: &HeaderName, number: u64, out: &mut Vec<u8>) {
        self.begin(out);
        literal(WITHOUT_INDEXING, name, out);
        let mut digits = [0; 20];
        let mut first = digits.len();
        let mut rest = number;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        string(&digits[first..], out);
    }

    /// The beginning of a block: the table's size, when it has changed.
    #[inline]
    fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.resized.take() {
            self.resize(smallest, out);
        }
    }

    #[cold]
    fn resize(&self, smallest: usize, out: &mut Vec<u8>) {
        if smallest < self.table.limit {
            integer::write(SIZE_UPDATE, 5, smallest, out);
        }
        integer::write(SIZE_UPDATE, 5, self.table.limit, out);
    }

    /// Whether the field of this number came before and was not put into the table. A guess: two
    /// fields can have one number, and the later one takes the place of the earlier.
    fn is_seen(&mut self, number: u32) -> bool {
        let place = &mut self.seen[number as usize % 64];
        let rest = (number >> 16) as u16;
        let is_seen = *place == rest;
        *place = rest;
        is_seen
    }
}

/// Appends the beginning of a literal: the name's index in the static table, or the name. (A name
/// of the dynamic table is not looked for: what is sent again is there with its value.)
#[inline]
fn literal(how: u8, name: &HeaderName, out: &mut Vec<u8>) {
    let prefix = if how == WITH_INDEXING { 6 } else { 4 };
    let index = static_table::index_of(name);
    integer::write(how, prefix, index, out);
    if index == 0 {
        string(name.as_str().as_bytes(), out);
    }
}

/// Appends a string as it is, its length first (section 5.2).
#[inline]
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    integer::write(0, 7, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// The peer's dynamic table, the newest entry first, as the encoder sees it.
#[derive(Debug)]
struct Table {
    /// The numbers of `entries`, in the same order and apart from them: a search goes through these.
    numbers: VecDeque<u32>,
    entries: VecDeque<Entry>,
    /// What all of them count for.
    bytes: usize,
    /// What they may count for at most.
    limit: usize,
    /// How many were ever put in: so many less its place is an entry's number, which stays.
    inserted: usize,
    /// The numbers of those that the last block named, in its order: responses of a kind name the
    /// same ones.
    expected: Vec<usize>,
    /// How many of them this block has come to.
    named: usize,
}

/// A copy: a value that came from upstream may be a slice of a larger buffer.
#[derive(Debug)]
struct Entry {
    /// Name and value.
    bytes: Box<[u8]>,
    name_length: usize,
}

impl Entry {
    fn is(&self, name: &[u8], value: &[u8]) -> bool {
        self.name_length == name.len()
            && self
                .bytes
                .strip_prefix(name)
                .is_some_and(|rest| rest == value)
    }

    fn size(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }
}

impl Table {
    fn new(limit: usize) -> Self {
        Self {
            numbers: VecDeque::new(),
            entries: VecDeque::new(),
            bytes: 0,
            limit,
            inserted: 0,
            expected: Vec::new(),
            named: 0,
        }
    }

    /// How many entries are newer than the one that is expected next, if it is of this name and
    /// value.
    #[inline]
    fn expected(&mut self, name: &[u8], value: &[u8]) -> Option<usize> {
        let number = self.expected.get(self.named)?;
        let place = self.inserted.wrapping_sub(*number);
        if !self.entries.get(place)?.is(name, value) {
            return None;
        }
        self.named += 1;
        Some(place)
    }

    /// What has been named now, behind so many newer ones, is expected there in the next block.
    fn expect(&mut self, place: usize) {
        let number = self.inserted.wrapping_sub(place);
        if let Some(expected) = self.expected.get_mut(self.named) {
            *expected = number;
        } else if self.expected.len() < MOST_EXPECTED {
            self.expected.push(number);
        } else {
            return;
        }
        self.named += 1;
    }

    /// How many entries are newer than that of this name and value.
    #[inline]
    fn find(&self, number: u32, name: &[u8], value: &[u8]) -> Option<usize> {
        let (newer, older) = self.numbers.as_slices();
        self.find_in(newer, 0, number, name, value)
            .or_else(|| self.find_in(older, newer.len(), number, name, value))
    }

    /// The same among some of the numbers, before which so many are newer.
    #[inline]
    fn find_in(
        &self,
        numbers: &[u32],
        newer: usize,
        number: u32,
        name: &[u8],
        value: &[u8],
    ) -> Option<usize> {
        for (at, known) in numbers.iter().enumerate() {
            if *known == number {
                let place = newer + at;
                let entry = self.entries.get(place);
                if entry.is_some_and(|entry| entry.is(name, value)) {
                    return Some(place);
                }
            }
        }
        None
    }

    /// Puts a field in, unless it is too large.
    fn insert(&mut self, number: u32, name: &[u8], value: &[u8]) -> bool {
        let size = name.len() + value.len() + OVERHEAD;
        if size > self.limit / MOST_OF_TABLE {
            return false;
        }
        let bytes = [name, value].concat().into_boxed_slice();
        let entry = Entry {
            bytes,
            name_length: name.len(),
        };
        self.evict(self.limit - size);
        self.bytes += size;
        self.entries.push_front(entry);
        self.numbers.push_front(number);
        self.inserted = self.inserted.wrapping_add(1);
        true
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
            self.bytes -= oldest.size();
            self.numbers.pop_back();
        }
    }
}

/// A number for a field, made of its lengths, the name's end and the value's two ends. Fields that
/// differ elsewhere alone share it; they cost a comparison.
fn number_of(name: &[u8], value: &[u8]) -> u32 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let lengths = (name.len() as u64) << 32 | value.len() as u64;
    let mut number = lengths.wrapping_mul(MIX);
    for part in [end(name), beginning(value), end(value)] {
        number = (number.rotate_left(23) ^ part).wrapping_mul(MIX);
    }
    (number >> 32) as u32
}

fn beginning(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or_else(|| short(bytes), |eight| u64::from_le_bytes(*eight))
}

fn end(bytes: &[u8]) -> u64 {
    bytes
        .last_chunk()
        .map_or_else(|| short(bytes), |eight| u64::from_le_bytes(*eight))
}

fn short(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
