//! Long pieces, byte by byte, in linear time and bounded memory.
//!
//! Each prefix of a piece has one encoding; of each we keep the last token and the count, and
//! from them we get those of the prefix that is one byte longer. That byte is a token of its
//! own at first, with the prefix before it; merging may join it to the left, and the joined
//! token again. At the time (the rank) of such a merge, what is left of it ends in the last
//! token of the shorter prefix or in a right half of it, a right half of that, and so on: the
//! one that has arisen by then and has not been merged on yet. As ranks grow along that chain,
//! at most one of it is there at any time, and the first merge in order of rank is the one
//! that happens. Nothing has to be taken back, and nothing further left is looked at than one
//! token's length.
//!
//! This needs a [proper](Shared::is_proper) vocabulary.

use super::Shared;
use super::section::NONE;

/// The end of a prefix: its last token, and how many tokens it has.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// [`NONE`] if it is not known, or the prefix is empty.
    pub(super) last: u32,
    pub(super) count: u64,
}

impl End {
    pub(super) const UNKNOWN: Self = Self {
        last: NONE,
        count: 0,
    };
}

/// How the ends come again in a run of one byte.
///
/// An end follows from the byte and from the ends before it, no further back than the longest
/// token. So if as many of them are what they were `bytes` before, with `tokens` more each, and
/// the byte is still the same, this goes on as long as the run does.
#[derive(Clone, Copy, Default)]
struct Cycle {
    /// 0 while none is in sight.
    bytes: u32,
    tokens: u64,
    /// So many ends in a row have been so.
    seen: usize,
    /// Whether it is certain.
    is_proven: bool,
    /// The length of the run from which on to look for another.
    next: u32,
}

/// The ends of the last prefixes, at least as many as the longest token has bytes and
/// [`SPARE_ENDS`] more.
#[derive(Default)]
pub(crate) struct Ring {
    ends: Vec<End>,
    /// Bytes so far.
    length: u64,
    /// The last of them, and how often it has come in a row.
    run: (u8, u32),
    cycle: Cycle,
    /// What was found before in a run; empty until there is a long one.
    known: Vec<Known>,
}

/// An answer of [`joined`], by its question: in runs of one byte they come again and again,
/// and are dear, as all lengths of a run may be tokens.
#[derive(Clone, Copy)]
struct Known {
    before: u32,
    last: u32,
    /// [`NONE`] if nothing.
    merged: u32,
    length: u32,
}

/// How many answers are kept.
const KNOWN: usize = 1024;
/// The run from which on they are.
const LONG_RUN: u32 = 32;
/// See [`Ring`].
pub(super) const SPARE_ENDS: usize = 64;

impl Ring {
    /// Ready for another piece.
    pub(crate) fn clear(&mut self, shared: &Shared<'_>) {
        let size = (shared.longest_token_bytes() + 1 + SPARE_ENDS).next_power_of_two();
        self.ends.clear();
        self.ends.resize(size, End::UNKNOWN);
        self.length = 0;
        self.run = (0, 0);
        self.cycle = Cycle::default();
        self.known.clear();
    }

    /// The end of the prefix of `length` bytes, if it is not further back than a token.
    #[inline(always)]
    pub(super) fn end(&self, length: u64) -> End {
        self.ends[length as usize & (self.ends.len() - 1)]
    }

    /// Puts another there.
    #[inline(always)]
    pub(super) fn set_end(&mut self, length: u64, end: End) {
        let at = length as usize & (self.ends.len() - 1);
        self.ends[at] = end;
    }

    /// Bytes so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Forgets all ends but the last ones; they are not to be asked for again.
    pub(super) fn keep_last(&mut self, ends: usize) {
        for back in ends..self.ends.len() {
            self.set_end(self.length.wrapping_sub(back as u64), End::UNKNOWN);
        }
        self.cycle = Cycle::default();
    }

    /// How many of these bytes go on with a long run.
    pub(super) fn goes_on(&self, bytes: &[u8]) -> usize {
        let (byte, length) = self.run;
        if length <= LONG_RUN {
            return 0;
        }
        let other = bytes.iter().position(|&other| other != byte);
        other.unwrap_or(bytes.len())
    }

    /// More of the piece; `merged` says what two tokens merge to, or [`NONE`].
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        shared: &Shared<'_>,
        bytes: &[u8],
        merged: impl Fn(u32, u32) -> u32,
    ) {
        for &byte in bytes {
            let mut last = shared.byte_ids[byte as usize];
            let mut before = self.end(self.length);
            let mut start = self.length;
            let run = if byte == self.run.0 {
                self.run.1.saturating_add(1)
            } else {
                1
            };
            self.run = (byte, run);
            if run == 1 {
                self.cycle = Cycle::default();
            } else if self.cycle.is_proven {
                let Cycle { bytes, tokens, .. } = self.cycle;
                self.length += 1;
                let End { last, count } = self.end(self.length.wrapping_sub(u64::from(bytes)));
                let count = count.wrapping_add(tokens);
                self.set_end(self.length, End { last, count });
                continue;
            }
            loop {
                let joined = if run > LONG_RUN {
                    self.again(shared, before.last, last, &merged)
                } else {
                    joined(shared, before.last, last, &merged)
                };
                let Some((joined, length)) = joined else {
                    break;
                };
                last = joined;
                start = start.wrapping_sub(u64::from(length));
                before = self.end(start);
            }
            self.length += 1;
            let count = before.count.wrapping_add(1);
            self.set_end(self.length, End { last, count });
            if run as usize > self.ends.len() {
                self.look_for_cycle(shared);
            }
        }
    }

    /// Sees whether the newest end is one of a cycle. All that are here are of the run.
    fn look_for_cycle(&mut self, shared: &Shared<'_>) {
        let now = self.end(self.length);
        let before = |bytes: u32| self.end(self.length.wrapping_sub(u64::from(bytes)));
        let mut cycle = self.cycle;
        if cycle.bytes > 0 {
            let then = before(cycle.bytes);
            if then.last == now.last && now.count.wrapping_sub(then.count) == cycle.tokens {
                cycle.seen += 1;
                cycle.is_proven = cycle.seen > shared.longest_token_bytes();
            } else {
                cycle.bytes = 0;
            }
        } else if self.run.1 >= cycle.next {
            // The same tokens may come more than once in a cycle, so a few are compared.
            let few = SPARE_ENDS as u32;
            let same = (1..self.ends.len() as u32 - few).find(|&bytes| {
                let mut ends = 0..few;
                ends.all(|back| before(back).last == before(bytes + back).last)
            });
            let bytes = same.unwrap_or(0);
            cycle = Cycle {
                bytes,
                tokens: now.count.wrapping_sub(before(bytes).count),
                seen: 1,
                is_proven: false,
                // Not often, so that it costs next to nothing where there is none.
                next: self.run.1.saturating_add(self.run.1 / 4),
            };
        }
        self.cycle = cycle;
    }

    /// As [`joined`], which it may not need to ask.
    #[inline(always)]
    fn again(
        &mut self,
        shared: &Shared<'_>,
        before: u32,
        last: u32,
        merged: &impl Fn(u32, u32) -> u32,
    ) -> Option<(u32, u32)> {
        if self.known.is_empty() {
            let nothing = Known {
                before: NONE,
                last: NONE,
                merged: NONE,
                length: 0,
            };
            self.known.resize(KNOWN, nothing);
        }
        let hash = before.wrapping_mul(0x9e37_79b9) ^ last.wrapping_mul(0x85eb_ca6b);
        let known = &mut self.known[(hash >> 16) as usize % KNOWN];
        if (known.before, known.last) != (before, last) {
            let (merged, length) = joined(shared, before, last, merged).unwrap_or((NONE, 0));
            *known = Known {
                before,
                last,
                merged,
                length,
            };
        }
        (known.merged != NONE).then_some((known.merged, known.length))
    }

    /// The tokens of all so far.
    pub(crate) fn count(&self) -> u64 {
        self.end(self.length).count
    }
}

/// What `last` merges to with the end of what is before it, and how many bytes that end has.
///
/// `before` is the token which the prefix ends with when all is merged.
#[inline(always)]
fn joined(
    shared: &Shared<'_>,
    before: u32,
    last: u32,
    merged: &impl Fn(u32, u32) -> u32,
) -> Option<(u32, u32)> {
    let (mut end, mut until) = (before, NONE);
    let mut found = None;
    if before == NONE {
        return None;
    }
    loop {
        let merged = merged(end, last);
        if merged < until {
            found = Some((merged, end));
        }
        let half = shared.right_half(end);
        // What is gone before `last` has arisen cannot merge with it. Ranks fall along the
        // chain, so it ends.
        if half >= end || end <= last {
            break;
        }
        (until, end) = (end, half);
    }
    found.map(|(merged, end)| (merged, shared.token_bytes(end)))
}
