//! What is counted of a text: the features, and the algebra of 64-bit masks that counts them.
//!
//! Every feature is the number of positions at which a property holds that depends on that
//! byte and at most three before it. So features of neighbouring stretches add up, and the
//! masks of the last 64 bytes are all that a stretch has to know of what was before.

use super::characters::{Characters, GROUPS, LEVELS};
use super::classes::{run, set};

/// Features of a stretch of text.
pub(crate) const FEATURES: usize = at::LEVEL + LEVELS;
/// The counts, in the order of [`at`].
pub(crate) type Counts = [u64; FEATURES];

/// Where each group of eight features begins, a lane each.
pub(crate) mod at {
    /// Bytes of each run class.
    pub(crate) const RUN: usize = 0;
    /// Bytes directly behind another of the class; the rest are starts of its runs.
    pub(crate) const RUN2: usize = 8;
    /// Bytes with three of the class directly before.
    pub(crate) const RUN4: usize = 16;
    /// Bytes of each set of ASCII.
    pub(crate) const SET: usize = 24;
    /// Bytes directly behind another of the set.
    pub(crate) const SET2: usize = 32;
    /// Bytes of each run class directly behind the class or set that
    /// [`BEFORE`](super::BEFORE) says, three groups.
    pub(crate) const PAIR: usize = 40;
    /// Bytes behind one that is counted in the last group of pairs, and of the same class.
    pub(crate) const TRIPLE: usize = 64;
    /// Bytes of each run class that equal the byte before.
    pub(crate) const SAME: usize = 72;
    /// Bytes of each kind, two groups.
    pub(crate) const KIND: usize = 80;
    /// Characters above ASCII by their script, as many as there are
    /// [groups](super::GROUPS).
    pub(crate) const GROUP: usize = 96;
    /// The same by what they cost alone.
    pub(crate) const LEVEL: usize = GROUP + super::GROUPS;
}

/// For each run class, what is counted directly before it: two groups of run classes, one of
/// sets.
pub(crate) const BEFORE: [[usize; 8]; 3] = [
    [
        run::UPPER,
        run::LETTER,
        // The lower bound stands on this.
        run::HIGH,
        run::NEWLINE,
        run::PUNCTUATION,
        run::SPACE,
        run::SPACE,
        run::DIGIT,
    ],
    [
        run::HIGH,
        run::SPACE,
        run::LETTER,
        run::WORD,
        run::WORD,
        run::WORD,
        run::PUNCTUATION,
        run::NEWLINE,
    ],
    [
        // And on this,
        set::BREAK,
        set::BREAK,
        set::JOINER,
        set::STOP,
        set::STOP,
        // and on this.
        set::SOFT,
        set::QUOTE,
        set::QUOTE,
    ],
];

/// The feature of bytes of class `here` directly behind what is `before` in that group.
pub(crate) const fn pair(group: usize, before: usize, here: usize) -> usize {
    assert!(BEFORE[group][here] == before, "not a pair that is counted");
    at::PAIR + 8 * group + here
}

/// The masks of 64 bytes: bit i of a lane is byte i's flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Masks {
    /// Lanes of [`run`].
    pub(crate) runs: [u64; 8],
    /// Lanes of [`set`].
    pub(crate) sets: [u64; 8],
}

/// What a stretch has to know of what was before it.
#[derive(Clone, Debug)]
pub(crate) struct Carry {
    /// Of the last 64 bytes.
    pub(crate) masks: Masks,
    /// The last bytes.
    pub(crate) last: [u8; 3],
    /// Counts characters; empty between stretches.
    pub(crate) characters: Characters,
}

impl Carry {
    /// As before a text's first byte: as if it stood at the start of a line.
    pub(crate) const fn new() -> Self {
        Self {
            masks: Self::START,
            last: [b'\n'; 3],
            characters: Characters::new(),
        }
    }

    const START: Masks = {
        let mut masks = Masks {
            runs: [0; 8],
            sets: [0; 8],
        };
        masks.runs[run::NEWLINE] = 3 << 62;
        masks.sets[set::BREAK] = 3 << 62;
        masks
    };

    /// Back to before a text's first byte.
    pub(crate) fn start_again(&mut self) {
        (self.masks, self.last) = (Self::START, [b'\n'; 3]);
    }

    /// The last bytes once `bytes` have followed.
    pub(crate) fn follow(&mut self, bytes: &[u8]) {
        for &byte in &bytes[bytes.len().saturating_sub(3)..] {
            self.last = [self.last[1], self.last[2], byte];
        }
    }
}

/// `here` moved up by `by` bits, with the highest bits of `before` below.
#[inline(always)]
pub(crate) fn after(here: u64, before: u64, by: u32) -> u64 {
    here << by | before >> (64 - by)
}

/// Adds what 64 bytes have, all but kinds and characters, to `counts`; `same` are those that
/// equal the byte before. The variants without vectors of masks share it.
#[inline(always)]
pub(crate) fn count_masks(counts: &mut Counts, here: &Masks, before: &Masks, same: u64) {
    let (mut once, mut last) = ([0; 16], [0; 8]);
    for lane in 0..8 {
        let (x, p) = (here.runs[lane], before.runs[lane]);
        let x1 = after(x, p, 1);
        let two = x & x1;
        once[lane] = x1;
        add(counts, at::RUN + lane, x);
        add(counts, at::RUN2 + lane, two);
        // What was before is needed of its highest bits alone, which depend on `p` alone.
        add(counts, at::RUN4 + lane, two & after(two, p & p << 1, 2));
        add(counts, at::SAME + lane, x & same);
        let (y, q) = (here.sets[lane], before.sets[lane]);
        let y1 = after(y, q, 1);
        once[8 + lane] = y1;
        add(counts, at::SET + lane, y);
        add(counts, at::SET2 + lane, y & y1);
        last[lane] = p & before.sets[BEFORE[2][lane]] << 1;
    }
    for (lane, &x) in here.runs.iter().enumerate() {
        let pair = x & once[8 + BEFORE[2][lane]];
        add(counts, at::PAIR + lane, x & once[BEFORE[0][lane]]);
        add(counts, at::PAIR + 8 + lane, x & once[BEFORE[1][lane]]);
        add(counts, at::PAIR + 16 + lane, pair);
        add(counts, at::TRIPLE + lane, x & after(pair, last[lane], 1));
    }
}

/// Counts flags that are not looked at otherwise, 64 bytes at a time: bit by bit as on an
/// abacus, all bytes and lanes at once, so that compilers can use what vectors there are.
pub(crate) struct Abacus {
    /// Of each flag, how often it was set: a bit of that number each.
    rows: [[u64; 8]; 6],
    steps: u32,
}

impl Abacus {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self {
            rows: [[0; 8]; 6],
            steps: 0,
        }
    }

    /// Adds 64 flag bytes; the sums so far go to `counts` before they are too large.
    #[inline(always)]
    pub(crate) fn add(&mut self, flags: &[u8; 64], counts: &mut Counts, group: usize) {
        if self.steps == 63 {
            self.settle(counts, group);
        }
        self.steps += 1;
        let eights = flags.as_chunks::<8>().0;
        let mut carried: [u64; 8] = std::array::from_fn(|i| u64::from_le_bytes(eights[i]));
        for row in &mut self.rows {
            for (row, carried) in row.iter_mut().zip(&mut carried) {
                (*row, *carried) = (*row ^ *carried, *row & *carried);
            }
        }
    }

    /// Adds what there is to the features of a group, by lanes.
    #[inline(always)]
    pub(crate) fn settle(&mut self, counts: &mut Counts, group: usize) {
        for (value, row) in self.rows.iter().enumerate() {
            for lane in 0..8 {
                let flags = 0x0101_0101_0101_0101 << lane;
                let ones: u32 = row.iter().map(|word| (word & flags).count_ones()).sum();
                counts[group + lane] += u64::from(ones) << value;
            }
        }
        *self = Self::new();
    }
}

#[inline(always)]
fn add(counts: &mut Counts, feature: usize, mask: u64) {
    counts[feature] += u64::from(mask.count_ones());
}

/// The flags of 64 bytes as masks: lane j has bit j of each.
#[inline(always)]
pub(crate) fn transpose(flags: &[u8; 64]) -> [u64; 8] {
    let mut bytes = [[0_u8; 8]; 8];
    for (i, eight) in flags.as_chunks::<8>().0.iter().enumerate() {
        // An 8 by 8 matrix of bits is mirrored at its diagonal in three exchanges.
        let mut x = u64::from_le_bytes(*eight);
        let t = (x ^ x >> 7) & 0x00AA_00AA_00AA_00AA;
        x ^= t ^ t << 7;
        let t = (x ^ x >> 14) & 0x0000_CCCC_0000_CCCC;
        x ^= t ^ t << 14;
        let t = (x ^ x >> 28) & 0x0000_0000_F0F0_F0F0;
        x ^= t ^ t << 28;
        for (lane, byte) in x.to_le_bytes().into_iter().enumerate() {
            bytes[lane][i] = byte;
        }
    }
    bytes.map(u64::from_le_bytes)
}
