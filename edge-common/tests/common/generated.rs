//! Hellos made at random, and random damage to hellos. A seed gives the same ones everywhere.
//!
//! What they offer, in what order, how long they are and what is wrong with them varies
//! more than with any client; about half of those that are not damaged are fit for rustls.
//! The kernel's tests use this module too.

use super::made::{self, Hello, LengthField, length_fields};
use edge_common::token::{KeyId, Token};

/// The second at which the tokens are issued, more or less.
pub(crate) const NOW_S: u32 = 1_800_000_000;
/// The key of the protocol page: `sk-edge-test` at audience `demo`.
const KEY_ID: [u8; 8] = [0x16, 0xc9, 0x0e, 0xe8, 0xf3, 0x7e, 0xa6, 0x1f];
const MAC_KEY: [u64; 2] = [0xf309_ab36_cd70_0add, 0x3877_7a82_82a0_bd77];
/// RFC 8446 section 5.1.
const RECORD_MOST: usize = 1 << 14;

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Once in `turns`.
    pub(crate) fn rarely(&mut self, turns: usize) -> bool {
        self.below(turns) == 0
    }

    pub(crate) fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// From `least` bytes to fewer than `bound`.
    fn some_bytes(&mut self, least: usize, bound: usize) -> Vec<u8> {
        let count = least + self.below(bound - least);
        self.bytes(count)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// `count` offsets into `length` bytes, the ends included, in order.
    pub(crate) fn cuts(&mut self, length: usize, count: usize) -> Vec<usize> {
        let mut cuts: Vec<_> = (0..count).map(|_| self.below(length + 1)).collect();
        cuts.sort_unstable();
        cuts
    }
}

/// The pieces between the cuts.
pub(crate) fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(bytes.len()));
    starts
        .zip(ends)
        .map(|(start, end)| &bytes[start..end])
        .collect()
}

/// A hello that contradicts itself nowhere, and is mostly of one record.
pub(crate) fn hello(random: &mut Random) -> Vec<u8> {
    let mut hello = Hello::bare();
    hello.session_id = match random.below(4) {
        0 => vec![],
        1 => random.some_bytes(0, 33),
        _ => random.bytes(32),
    };
    let most = if random.rarely(8) { 200 } else { 20 };
    let ciphers = 1 + random.below(most);
    hello.ciphers = (0..ciphers).map(|_| random.next() as u16).collect();
    hello.ciphers.push(0x1301);
    let mut extensions = hello.extensions.take().unwrap();
    let count = match random.below(20) {
        0 => 20 + random.below(100),
        1..4 => 0,
        _ => random.below(14),
    };
    for number in 0..count {
        // Kinds that are not assigned, so that nobody looks inside; some of them GREASE.
        let kind = match random.below(4) {
            0 => 0x0a0a + 0x1010 * (number as u16 % 16),
            _ => 0x4000 + 16 * number as u16,
        };
        let length = match random.below(40) {
            0 => random.below(6000),
            1..4 => random.below(1400),
            4..10 => 0,
            _ => random.below(60),
        };
        if extensions.iter().all(|(other, _)| *other != kind) {
            extensions.push((kind, random.bytes(length)));
        }
    }
    if !random.rarely(6) {
        let names = names(random);
        let names: Vec<_> = names.iter().map(Vec::as_slice).collect();
        extensions.push((16, made::alpn(&names)));
    }
    random.shuffle(&mut extensions);
    // Room for the headers and a cipher list as long as any.
    let mut room = RECORD_MOST - 700;
    extensions.retain(|(_, body)| {
        let fits = room.checked_sub(body.len() + 4);
        room = fits.unwrap_or(room);
        fits.is_some()
    });
    hello.extensions = Some(extensions);
    let message = hello.message();
    if random.rarely(25) {
        let count = 1 + random.below(3);
        let cuts = random.cuts(message.len(), count);
        let parts = pieces(&message, &cuts);
        let records = parts.iter().filter(|part| !part.is_empty());
        return records.flat_map(|part| made::record(part)).collect();
    }
    let mut bytes = made::record(&message);
    if random.rarely(10) {
        bytes.extend([20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 200]);
        bytes.extend(random.bytes(200));
    }
    bytes
}

/// Names of every sort: plain, tokens, near misses.
fn names(random: &mut Random) -> Vec<Vec<u8>> {
    let count = match random.below(20) {
        0 => 1 + random.below(60),
        _ => 1 + random.below(4),
    };
    let mut names: Vec<_> = (0..count).map(|_| plain_name(random)).collect();
    if !random.rarely(3) {
        // Mostly last, as clients are told to.
        let at = if random.rarely(3) {
            random.below(count + 1)
        } else {
            count
        };
        names.insert(at, token(random));
    }
    names
}

fn plain_name(random: &mut Random) -> Vec<u8> {
    match random.below(24) {
        0 => b"acme-tls/1".to_vec(),
        1 => b"acme-tls/2".to_vec(),
        2 => b"ezl1".to_vec(),
        3 => [b"ezl2-", &token(random)[5..]].concat(),
        4 => token(random),
        5 => vec![0x5a, 0x5a],
        6 => random.some_bytes(1, 256),
        7 => [&b"e"[..], &random.some_bytes(0, 9)].concat(),
        8..16 => b"http/1.1".to_vec(),
        _ => b"h2".to_vec(),
    }
}

/// A token: three of four good at [`NOW_S`], the others each with a fault of its own.
fn token(random: &mut Random) -> Vec<u8> {
    let issued_at_s = NOW_S - random.below(20) as u32;
    let key = KeyId::from_bytes(KEY_ID);
    let good = Token::issue(key, MAC_KEY, issued_at_s, random.next());
    let name = match random.below(24) {
        0 => Token::issue(key, MAC_KEY, NOW_S - 60, random.next()),
        1 => Token::issue(key, MAC_KEY, NOW_S + 60, random.next()),
        2 => Token::issue(KeyId(random.next()), MAC_KEY, issued_at_s, 7),
        3 | 4 => Token {
            tag: good.tag ^ 1 << random.below(64),
            ..good
        },
        _ => good,
    }
    .to_name();
    let mut name = name.to_vec();
    match random.below(40) {
        0 => name.truncate(5 + random.below(56)),
        1 => name.push(b'0'),
        2 => name[5..].make_ascii_uppercase(),
        3 => name[5 + random.below(56)] = random.next() as u8,
        _ => {}
    }
    name
}

/// Damages a hello in one to three places. `fields`: the lengths in it, as long as they
/// are where they were.
pub(crate) fn damage(random: &mut Random, bytes: &mut Vec<u8>, fields: &[LengthField]) {
    for _ in 0..1 + random.below(3) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        // Half of it where lengths and names are.
        let reach = if random.rarely(2) {
            length
        } else {
            length.min(400)
        };
        let at = random.below(reach);
        match random.below(9) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = *random.of(&[0, 1, 0x7f, 0x80, 0xff]),
            3 => {
                let more = random.some_bytes(1, 20);
                bytes.splice(at..at, more);
            }
            4 => drop(bytes.drain(at..length.min(at + 1 + random.below(19)))),
            5 => {
                let part = bytes[at..length.min(at + 1 + random.below(79))].to_vec();
                let to = random.below(length);
                bytes.splice(to..to, part);
            }
            6 => bytes.truncate(random.below(length)),
            _ if fields.is_empty() => {}
            _ => {
                let field = *random.of(fields);
                if field.at + field.bytes <= length {
                    let by = *random.of(&[-70, -5, -2, -1, 1, 1, 2, 3, 62, 70]);
                    let value = field.value(bytes).wrapping_add_signed(by) & field.max();
                    field.set(bytes, value);
                }
            }
        }
    }
}

/// Where the lengths of a hello are, when it is whole and in one record.
pub(crate) fn fields_of(bytes: &[u8]) -> Vec<LengthField> {
    let message = |at: usize| bytes.get(at).map_or(0, |byte| usize::from(*byte));
    let one_record = bytes.len() > 9
        && message(3) << 8 | message(4) == 4 + (message(6) << 16 | message(7) << 8 | message(8));
    if one_record {
        length_fields(bytes)
    } else {
        vec![]
    }
}

/// An endless stream of hellos: half of them generated, half from files, and half of both
/// damaged.
pub(crate) struct Stream {
    pub(crate) random: Random,
    files: Vec<(Vec<u8>, Vec<LengthField>)>,
}

impl Stream {
    /// `files`: whole hellos to be damaged.
    pub(crate) fn new(seed: u64, files: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let with_fields = |bytes: Vec<u8>| {
            let fields = fields_of(&bytes);
            (bytes, fields)
        };
        Self {
            random: Random(seed),
            files: files.into_iter().map(with_fields).collect(),
        }
    }
}

impl Iterator for Stream {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let random = &mut self.random;
        let (mut bytes, fields) = if self.files.is_empty() || random.rarely(2) {
            let bytes = hello(random);
            let fields = fields_of(&bytes);
            (bytes, fields)
        } else {
            random.of(&self.files).clone()
        };
        if random.rarely(2) {
            damage(random, &mut bytes, &fields);
        }
        Some(bytes)
    }
}
