//! What is counted of a text: the features, and the algebra of 64-bit masks that counts them.
//!
//! Every feature is the number of positions at which a property holds that depends on that
//! byte and at most eleven before it. So features of neighbouring stretches add up, and the
//! masks of the last 64 bytes are all that a stretch has to know of what was before.

use super::classes::{run, set};

/// Features of a stretch of text.
pub(crate) const FEATURES: usize = 136;
/// The counts, in the order of [`NAMES`](super::names).
pub(crate) type Counts = [u64; FEATURES];

/// Where each group of eight features begins.
pub(crate) mod at {
    /// Bytes of each run class.
    pub(crate) const RUN: usize = 0;
    /// Starts of its runs; where the class is ASCII's, only behind another byte of ASCII.
    pub(crate) const START: usize = 8;
    /// Bytes with at least 2, 4, 7, 11 of the class directly before: how long runs are.
    pub(crate) const RUN3: usize = 16;
    pub(crate) const RUN5: usize = 24;
    pub(crate) const RUN8: usize = 32;
    pub(crate) const RUN12: usize = 40;
    /// Bytes of each set of ASCII, starts of its runs, bytes with at least 2 before.
    pub(crate) const SET: usize = 48;
    pub(crate) const SET_START: usize = 56;
    pub(crate) const SET3: usize = 64;
    /// One class directly after another: [`PAIRS`](super::PAIRS).
    pub(crate) const PAIR: usize = 72;
    /// Two of a class after another: [`TRIPLES`](super::TRIPLES).
    pub(crate) const TRIPLE: usize = 88;
    /// Lead bytes of each class, three groups.
    pub(crate) const LEAD: usize = 96;
    /// Second bytes counted apart, two sets.
    pub(crate) const SECOND: usize = 120;
}

/// A lane of the two flag bytes together: the second's are from 8 on.
const fn lane_of_set(lane: usize) -> usize {
    8 + lane
}

/// Pairs (before, here), as lanes of both flag bytes.
pub(crate) const PAIRS: [[(usize, usize); 8]; 2] = [
    [
        (run::UPPER, run::LETTER),
        (run::LETTER, run::UPPER),
        (run::SPACE, run::WORD),
        (run::SPACE, run::PUNCTUATION),
        (run::PUNCTUATION, run::WORD),
        (run::WORD, run::DIGIT),
        (run::DIGIT, run::WORD),
        (run::WORD, run::PUNCTUATION),
    ],
    [
        (run::PUNCTUATION, run::NEWLINE),
        (run::NEWLINE, run::SPACE),
        (run::SPACE, run::UPPER),
        (run::SPACE, run::DIGIT),
        // These three are what the lower bound stands on.
        (lane_of_set(set::BREAK), run::LETTER),
        (run::HIGH, run::DIGIT),
        (run::HIGH, run::LETTER),
        (run::DIGIT, run::PUNCTUATION),
    ],
];

/// Triples (two before, a run of two here), as lanes of the first flag byte.
pub(crate) const TRIPLES: [(usize, usize); 8] = [
    // These three are what the lower bound stands on.
    (run::LETTER, run::PUNCTUATION),
    (run::DIGIT, run::PUNCTUATION),
    (run::SPACE, run::PUNCTUATION),
    (run::NEWLINE, run::PUNCTUATION),
    (run::NEWLINE, run::SPACE),
    (run::LETTER, run::UPPER),
    (run::SPACE, run::UPPER),
    (run::SPACE, run::DIGIT),
];

/// The feature of that pair of [`PAIRS`].
pub(crate) const fn pair(before: usize, here: usize) -> usize {
    let mut i = 0;
    while i < 16 {
        let (first, second) = PAIRS[i / 8][i % 8];
        if first == before && second == here {
            return at::PAIR + i;
        }
        i += 1;
    }
    panic!("not a pair that is counted");
}

/// The feature of that triple of [`TRIPLES`].
pub(crate) const fn triple(before: usize, here: usize) -> usize {
    let mut i = 0;
    while i < 8 {
        let (first, second) = TRIPLES[i];
        if first == before && second == here {
            return at::TRIPLE + i;
        }
        i += 1;
    }
    panic!("not a triple that is counted");
}

/// The masks of 64 bytes: bit i of a lane is byte i's flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Masks {
    /// Lanes of [`run`].
    pub(crate) runs: [u64; 8],
    /// Lanes of [`set`].
    pub(crate) sets: [u64; 8],
    /// Lead bytes of the first group of [`LEADS`](super::classes::LEADS).
    pub(crate) leads: [u64; 8],
}

impl Masks {
    /// As before a text's first byte: as if it stood at the start of a line.
    pub(crate) const START: Self = {
        let mut runs = [0; 8];
        let mut sets = [0; 8];
        runs[run::NEWLINE] = 3 << 62;
        sets[set::BREAK] = 3 << 62;
        Self {
            runs,
            sets,
            leads: [0; 8],
        }
    };
}

/// `here` moved up by `by` bits, with the highest bits of `before` below.
#[inline(always)]
fn after(here: u64, before: u64, by: u32) -> u64 {
    here << by | before >> (64 - by)
}

/// Adds what 64 bytes within ASCII or not have, all but leads, to `counts`. The variants
/// without vectors of masks share it.
#[inline(always)]
pub(crate) fn count_masks(counts: &mut Counts, here: &Masks, before: &Masks) {
    let mut once = [0; 16];
    let mut pairs = [0; 8];
    let mut twice = [0; 8];
    let high = after(here.runs[run::HIGH], before.runs[run::HIGH], 1);
    for lane in 0..8 {
        let (x, p) = (here.runs[lane], before.runs[lane]);
        let x1 = after(x, p, 1);
        let x2 = after(x, p, 2);
        let two = x & x1;
        // What was before is needed of each length of run alone: its highest bits, which
        // depend on `p` alone.
        let p3 = p & p << 1 & p << 2;
        let three = two & x2;
        let p5 = p3 & p3 << 2;
        let five = three & after(three, p3, 2);
        let p8 = p5 & p5 << 3;
        let eight = five & after(five, p5, 3);
        let twelve = eight & after(eight, p8, 4);
        let behind_high = if STARTS_BEHIND_ASCII[lane] { high } else { 0 };
        add(counts, at::RUN + lane, x);
        add(counts, at::START + lane, x & !(x1 | behind_high));
        add(counts, at::RUN3 + lane, three);
        add(counts, at::RUN5 + lane, five);
        add(counts, at::RUN8 + lane, eight);
        add(counts, at::RUN12 + lane, twelve);
        once[lane] = x1;
        pairs[lane] = two;
        twice[lane] = x2;

        let (y, q) = (here.sets[lane], before.sets[lane]);
        let y1 = after(y, q, 1);
        once[8 + lane] = y1;
        add(counts, at::SET + lane, y);
        add(counts, at::SET_START + lane, y & !y1);
        add(counts, at::SET3 + lane, y & y1 & after(y, q, 2));
    }
    for (group, list) in PAIRS.iter().enumerate() {
        for (i, &(first, second)) in list.iter().enumerate() {
            add(
                counts,
                at::PAIR + 8 * group + i,
                here.runs[second] & once[first],
            );
        }
    }
    for (i, &(first, second)) in TRIPLES.iter().enumerate() {
        add(counts, at::TRIPLE + i, pairs[second] & twice[first]);
    }
}

/// Run classes whose starts are counted behind ASCII only.
pub(crate) const STARTS_BEHIND_ASCII: [bool; 8] = {
    let mut lanes = [true; 8];
    lanes[run::WORD] = false;
    lanes[run::HIGH] = false;
    lanes
};

#[inline(always)]
fn add(counts: &mut Counts, feature: usize, mask: u64) {
    counts[feature] += u64::from(mask.count_ones());
}

/// Adds what the lead bytes of 64 bytes have, group by group, and for the first group the
/// second bytes that are counted apart; `seconds` have a lane for each lead of that group.
#[inline(always)]
pub(crate) fn count_leads(
    counts: &mut Counts,
    leads: &[[u64; 8]; 3],
    seconds: &[[u64; 8]; 2],
    before: &[u64; 8],
) {
    for (group, lanes) in leads.iter().enumerate() {
        for (lane, &mask) in lanes.iter().enumerate() {
            add(counts, at::LEAD + 8 * group + lane, mask);
        }
    }
    for lane in 0..8 {
        let led = after(leads[0][lane], before[lane], 1);
        add(counts, at::SECOND + lane, seconds[0][lane] & led);
        add(counts, at::SECOND + 8 + lane, seconds[1][lane] & led);
    }
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
