//! Characters above ASCII: which script each is of, and what it costs alone.
//!
//! A class for each code point, laid out by the build script from the built-in vocabularies:
//! its [group](super::groups) and how many tokens it is by itself under each of them. What a
//! character costs alone says most of what text costs in scripts that vocabularies know
//! little of; of a vocabulary that is not built in, the three say how rare a character is.
//!
//! A character is counted where its last byte is. Bytes are not checked: whatever follows a
//! lead byte is taken to be the rest of its character.

use super::algebra::{Counts, at};
use super::groups::{BLOCK, FIRST_BEYOND};

pub(crate) use super::groups::{GROUPS, Group};

/// For each of three vocabularies, characters that alone are one token, and two.
pub(crate) const LEVELS: usize = 6;

/// The group and the costs of each class, the block of each 128 code points (two bytes), the
/// blocks: the class of each code point.
static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/characters.bin"));
const CLASSES: usize = 256;
const BLOCKS: usize = FIRST_BEYOND as usize / BLOCK;
const INDEX: usize = 2 * CLASSES;
const FIRST_BLOCK: usize = INDEX + 2 * BLOCKS;

/// How often each class was met.
#[derive(Clone, Debug)]
pub(crate) struct Characters {
    /// In turn, for one character after another is mostly of the same class, and a count waits
    /// for the one before it.
    met: [[u16; CLASSES]; 4],
    any: bool,
}

/// Sixty-four bytes and as many as a character may have beyond them.
const WINDOW: usize = 67;
/// So many bytes may be counted before [`Characters::settle`].
pub(crate) const MOST_BYTES: usize = u16::MAX as usize;

impl Characters {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self {
            met: [[0; CLASSES]; 4],
            any: false,
        }
    }

    /// Those that began in what was before, if they end in `bytes`.
    #[inline]
    pub(crate) fn carried(&mut self, last: [u8; 3], bytes: &[u8]) {
        for back in 1..=3 {
            let lead = last[3 - back];
            let length = length(lead);
            if length > back && length - back <= bytes.len() {
                let mut character = [0; 4];
                character[..back].copy_from_slice(&last[3 - back..]);
                character[back..length].copy_from_slice(&bytes[..length - back]);
                self.count(0, code_point(&character[..length]));
                self.any = true;
            }
        }
    }

    /// Those that begin in 64 bytes from `at` on, if they end in `bytes`. Bits of `two`,
    /// `three` and `four` are leads of characters of so many bytes.
    #[inline(always)]
    pub(crate) fn begun(&mut self, bytes: &[u8], at: usize, two: u64, three: u64, four: u64) {
        // With three bytes more than can have a lead, each character is whole.
        let mut end = [0; WINDOW];
        let rest = &bytes[at..];
        let window = rest.first_chunk().unwrap_or_else(|| {
            end[..rest.len()].copy_from_slice(rest);
            &end
        });
        let ends_within = |length: usize| match rest.len() {
            WINDOW.. => u64::MAX,
            there if there < length => 0,
            there => u64::MAX >> (63 - (there - length).min(63)),
        };
        self.each(two & ends_within(2), |p| {
            code_point(&[window[p], window[p + 1]])
        });
        self.each(three & ends_within(3), |p| {
            code_point(&[window[p], window[p + 1], window[p + 2]])
        });
        self.each(four & ends_within(4), |p| {
            code_point(&[window[p], window[p + 1], window[p + 2], window[p + 3]])
        });
        self.any = true;
    }

    #[inline(always)]
    fn each(&mut self, mut leads: u64, code_point: impl Fn(usize) -> u32) {
        let mut turn = 0;
        while leads != 0 {
            let p = (leads.trailing_zeros() & 63) as usize;
            leads &= leads - 1;
            self.count(turn, code_point(p));
            turn = (turn + 1) % self.met.len();
        }
    }

    #[inline(always)]
    fn count(&mut self, turn: usize, code_point: u32) {
        self.met[turn][usize::from(class(code_point))] += 1;
    }

    /// Adds the features to `counts`.
    #[inline]
    pub(crate) fn settle(&mut self, counts: &mut Counts) {
        if std::mem::take(&mut self.any) {
            self.settle_met(counts);
        }
    }

    /// Apart, so that what counts ASCII keeps the registers.
    #[inline(never)]
    fn settle_met(&mut self, counts: &mut Counts) {
        let mut sums = [0_u16; CLASSES];
        for met in &mut self.met {
            for (sum, met) in sums.iter_mut().zip(met) {
                *sum += std::mem::take(met);
            }
        }
        for (four, of_four) in sums.as_chunks::<4>().0.iter().enumerate() {
            // Most classes are met in no text.
            if *of_four != [0; 4] {
                for (class, &met) in of_four.iter().enumerate() {
                    add(counts, 4 * four + class, u64::from(met));
                }
            }
        }
    }
}

/// Adds what characters of a class are to `counts`.
fn add(counts: &mut Counts, class: usize, met: u64) {
    let (group, mut costs) = (TABLE[class], TABLE[CLASSES + class]);
    counts[at::GROUP + usize::from(group)] += met;
    for vocabulary in (0..3).rev() {
        let cost = usize::from(costs % 3);
        costs /= 3;
        if cost < 2 {
            counts[at::LEVEL + 2 * vocabulary + cost] += met;
        }
    }
}

/// As the lead byte and those behind it say, whatever they are.
#[inline(always)]
fn code_point(character: &[u8]) -> u32 {
    let rest = |i: usize| u32::from(character[i] & 0x3F);
    let lead = u32::from(character[0]);
    match character.len() {
        2 => (lead & 0x1F) << 6 | rest(1),
        3 => (lead & 0x0F) << 12 | rest(1) << 6 | rest(2),
        _ => (lead & 0x07) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3),
    }
}

/// The bytes of a character that begins with this one; of no character, 0.
pub(crate) const fn length(lead: u8) -> usize {
    match lead {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0.. => 4,
        _ => 0,
    }
}

#[inline(always)]
fn class(code_point: u32) -> u8 {
    let code_point = code_point.min(FIRST_BEYOND - 1) as usize;
    let index = INDEX + code_point / BLOCK * 2;
    let block = u16::from_le_bytes([TABLE[index], TABLE[index + 1]]);
    TABLE[FIRST_BLOCK + usize::from(block) * BLOCK + code_point % BLOCK]
}
