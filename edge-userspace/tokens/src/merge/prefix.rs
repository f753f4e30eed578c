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

use super::heap::Heap;
use super::section::NONE;
use super::{Shared, kernel};
use crate::arch::Isa;

/// The end of a prefix: its last token, and how many tokens it has.
#[derive(Clone, Copy)]
struct End {
    last: u32,
    count: u64,
}

/// The ends of the last prefixes, as many as the longest token has bytes.
#[derive(Default)]
pub(crate) struct Ring {
    ends: Vec<End>,
    /// Bytes so far.
    length: u64,
    /// The last of them, and how often it has come in a row.
    run: (u8, u32),
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

impl Ring {
    /// Ready for another piece.
    pub(crate) fn clear(&mut self, shared: &Shared<'_>) {
        let size = (shared.longest_token_bytes() + 1).next_power_of_two();
        self.ends.clear();
        self.ends.resize(
            size,
            End {
                last: NONE,
                count: 0,
            },
        );
        self.length = 0;
        self.run = (0, 0);
        self.known.clear();
    }

    /// The end of the prefix of `length` bytes, if it is not further back than a token.
    #[inline(always)]
    fn end(&self, length: u64) -> End {
        self.ends[length as usize & (self.ends.len() - 1)]
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
            let at = self.length as usize & (self.ends.len() - 1);
            let count = before.count + 1;
            self.ends[at] = End { last, count };
        }
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

/// The tokens of a piece that arrives bit by bit and may have any length.
///
/// It holds 16 bytes for each byte of the longest token, and 16 KiB while one byte
/// repeats. With a vocabulary that is not
/// [proper](Shared::is_proper) it has to hold the piece.
pub struct Endless {
    isa: Isa,
    ring: Ring,
    whole: Vec<u8>,
    /// What [`Endless::mark`] was called at: the tokens, or the bytes if the piece is held.
    marked: u64,
}

impl Endless {
    /// The empty piece.
    #[must_use]
    pub fn new(shared: &Shared<'_>) -> Self {
        let mut ring = Ring::default();
        ring.clear(shared);
        Self {
            isa: Isa::detect(),
            ring,
            whole: Vec::new(),
            marked: 0,
        }
    }

    /// Marks the end of what has arrived.
    pub fn mark(&mut self) {
        let held = self.whole.len() as u64;
        self.marked = held.max(self.ring.end(self.ring.length).count);
    }

    /// The tokens of what had arrived when it was marked last; none if it never was.
    #[must_use]
    pub fn finish_at_mark(self, shared: &Shared<'_>) -> u64 {
        if shared.is_proper() {
            self.marked
        } else {
            Heap::default().count(shared, &self.whole[..self.marked as usize])
        }
    }

    /// The tokens of what has arrived without its last bytes, four at most.
    #[must_use]
    pub fn finish_before(self, shared: &Shared<'_>, last_bytes: usize) -> u64 {
        if shared.is_proper() {
            self.ring.end(self.ring.length - last_bytes as u64).count
        } else {
            let bytes = self.whole.len() - last_bytes;
            Heap::default().count(shared, &self.whole[..bytes])
        }
    }

    /// More of the piece.
    pub fn push(&mut self, shared: &Shared<'_>, bytes: &[u8]) {
        if shared.is_proper() {
            kernel::push_prefix(shared, self.isa, &mut self.ring, bytes);
        } else {
            self.whole.extend_from_slice(bytes);
        }
    }

    /// The tokens of what has arrived.
    #[must_use]
    pub fn finish(self, shared: &Shared<'_>) -> u64 {
        if shared.is_proper() {
            self.ring.count()
        } else {
            Heap::default().count(shared, &self.whole)
        }
    }
}
