//! A piece that arrives bit by bit: what has arrived is kept as the state of the
//! [prefix](super::prefix) way, and most of it gets there faster.
//!
//! Of a few kilobytes, the middle is merged in windows, as a piece that is there whole. Two
//! encodings that share a token make one together (see `arch::merge`), so this is joined at
//! both ends: the state goes on byte by byte to a token that the middle has too; and from a
//! token near the end of the middle on, a state of its own goes byte by byte to the end. Of
//! that, each end which the next bytes may ask for has to be shown to go back to a token of the
//! middle. Where one is not, the bytes go one by one, all of them.
//!
//! Not here: pieces that are there whole.

use super::heap::Heap;
use super::prefix::{End, Ring};
use super::{Shared, kernel};
use crate::arch::Isa;

/// So many bytes wait until they are merged together, and so many are merged at once at most.
const WAITING_BYTES: usize = 4096;
const MOST_BYTES: usize = 1 << 20;
/// The least middle that is worth it.
const LEAST_MIDDLE_BYTES: usize = 512;
/// In so many bytes at both ends of the middle the shared tokens are looked for.
const JOINT_BYTES: usize = kernel::OVERLAP_BYTES;
/// How often it is left out at most after it failed.
const MOST_LEFT_OUT: u32 = 16;

/// The tokens of a piece that arrives bit by bit and may have any length.
///
/// It holds 4 KiB that wait, 64 bytes or so for each byte of the longest token, and 16 KiB
/// while one byte repeats. With a vocabulary that is not
/// [proper](Shared::is_proper) it has to hold the piece.
pub struct Endless {
    isa: Isa,
    ring: Ring,
    /// The ring that comes next.
    spare: Ring,
    /// What is not in the ring yet; the whole piece if the vocabulary is not proper.
    waiting: Vec<u8>,
    /// What [`Endless::mark`] was called at: the tokens, or the bytes if the piece is held.
    marked: u64,
    /// How often the faster way is left out yet, and how often it was after it last failed.
    left_out: (u32, u32),
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
            spare: Ring::default(),
            waiting: Vec::new(),
            marked: 0,
            left_out: (0, 0),
        }
    }

    /// Marks the end of what has arrived.
    pub fn mark(&mut self, shared: &Shared<'_>) {
        self.marked = if shared.is_proper() {
            self.take_waiting(shared);
            self.ring.count()
        } else {
            self.waiting.len() as u64
        };
    }

    /// The tokens of what had arrived when it was marked last; none if it never was.
    #[must_use]
    pub fn finish_at_mark(self, shared: &Shared<'_>) -> u64 {
        if shared.is_proper() {
            self.marked
        } else {
            Heap::default().count(shared, &self.waiting[..self.marked as usize])
        }
    }

    /// The tokens of what has arrived without its last bytes, four at most.
    #[must_use]
    pub fn finish_before(mut self, shared: &Shared<'_>, last_bytes: usize) -> u64 {
        if shared.is_proper() {
            self.take_waiting(shared);
            self.ring.end(self.ring.length() - last_bytes as u64).count
        } else {
            let bytes = self.waiting.len() - last_bytes;
            Heap::default().count(shared, &self.waiting[..bytes])
        }
    }

    /// More of the piece.
    pub fn push(&mut self, shared: &Shared<'_>, mut bytes: &[u8]) {
        if !shared.is_proper() {
            self.waiting.extend_from_slice(bytes);
            return;
        }
        if !self.waiting.is_empty() {
            let room = WAITING_BYTES.saturating_sub(self.waiting.len());
            let (more, rest) = bytes.split_at(bytes.len().min(room));
            self.waiting.extend_from_slice(more);
            if self.waiting.len() < WAITING_BYTES {
                return;
            }
            self.take_waiting(shared);
            bytes = rest;
        }
        if bytes.len() < WAITING_BYTES {
            self.waiting.extend_from_slice(bytes);
        } else {
            self.take(shared, bytes);
        }
    }

    /// The tokens of what has arrived.
    #[must_use]
    pub fn finish(self, shared: &Shared<'_>) -> u64 {
        self.finish_before(shared, 0)
    }

    /// So many bytes went, or might have gone, through the ring one by one since it last was
    /// put in by the faster way.
    #[cfg(test)]
    pub(super) fn steps(&self) -> u64 {
        self.ring.length()
    }

    fn take_waiting(&mut self, shared: &Shared<'_>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.take(shared, &waiting);
        waiting.clear();
        self.waiting = waiting;
    }

    /// Takes these bytes into the ring.
    fn take(&mut self, shared: &Shared<'_>, bytes: &[u8]) {
        for bytes in bytes.chunks(MOST_BYTES) {
            // Which is fast, and whose windows often do not join.
            let (run, bytes) = bytes.split_at(self.ring.goes_on(bytes));
            kernel::push_prefix(shared, self.isa, &mut self.ring, run);
            let taken = self.take_by_windows(shared, bytes);
            kernel::push_prefix(shared, self.isa, &mut self.ring, &bytes[taken..]);
        }
    }

    /// The faster way; answers how many of the bytes it took.
    fn take_by_windows(&mut self, shared: &Shared<'_>, bytes: &[u8]) -> usize {
        let ends = ends_kept(shared);
        if bytes.len() < LEAST_MIDDLE_BYTES + ends {
            return 0;
        }
        if self.left_out.0 > 0 {
            self.left_out.0 -= 1;
            return 0;
        }
        let middle = bytes.len() - ends;
        let (head, _) = bytes.split_at(JOINT_BYTES);
        kernel::push_prefix(shared, self.isa, &mut self.ring, head);
        let joined = kernel::count_joint(shared, self.isa, &bytes[..middle]).and_then(|joint| {
            let before = self.tokens_before(shared, joint.first)?;
            // Before the last joint.
            let last = joint.last & !(1 << JOINT_BYTES);
            let before =
                before.wrapping_add(joint.tokens.wrapping_sub(u64::from(last.count_ones())));
            self.go_on(shared, &bytes[middle - JOINT_BYTES..], joint.last, before)
        });
        if joined.is_some() {
            self.left_out = (0, 0);
            return bytes.len();
        }
        let times = (2 * self.left_out.1).clamp(1, MOST_LEFT_OUT);
        self.left_out = (times, times);
        head.len()
    }

    /// How many tokens are before the middle, if the ring, which has gone [`JOINT_BYTES`] into
    /// it, shares a token with it; `starts` are the places where those of the middle start.
    ///
    /// It is less than nothing, wrapped, if fewer stand there than the middle has on its own.
    fn tokens_before(&self, shared: &Shared<'_>, starts: u64) -> Option<u64> {
        let from = self.ring.length() - JOINT_BYTES as u64;
        let mut at = JOINT_BYTES as u32;
        while at > 0 {
            let end = self.ring.end(from + u64::from(at));
            let start = at.checked_sub(shared.token_bytes(end.last).max(1))?;
            if is_token(starts, start, at) {
                let own = (starts & !(u64::MAX << at)).count_ones();
                return Some(end.count.wrapping_sub(u64::from(own)));
            }
            at = start;
        }
        None
    }

    /// Goes on from the last joint of the middle, which `bytes` start with: its tokens start at
    /// `starts`, and there are `tokens` of all before.
    fn go_on(&mut self, shared: &Shared<'_>, bytes: &[u8], starts: u64, tokens: u64) -> Option<()> {
        let first = starts.trailing_zeros() as usize;
        let starts = starts.checked_shr(first as u32)?;
        let bytes = bytes.get(first..)?;
        let ring = &mut self.spare;
        ring.clear(shared);
        kernel::push_prefix(shared, self.isa, ring, bytes);
        let ends = ends_kept(shared);
        for at in 1..=bytes.len() {
            let End { last, .. } = ring.end(at as u64);
            let start = at.checked_sub(shared.token_bytes(last).max(1) as usize)?;
            let before = ring.end(start as u64);
            let end = if at < 64 && is_token(starts, start as u32, at as u32) {
                let own = (starts & !(u64::MAX << at)).count_ones();
                let count = tokens.wrapping_add(u64::from(own));
                End { last, count }
            } else if before.last != End::UNKNOWN.last {
                let count = before.count.wrapping_add(1);
                End { last, count }
            } else if at + ends <= bytes.len() {
                End::UNKNOWN
            } else {
                return None;
            };
            ring.set_end(at as u64, end);
        }
        ring.keep_last(ends);
        std::mem::swap(&mut self.ring, &mut self.spare);
        Some(())
    }
}

/// How many of the last ends may be asked for: by what follows, and by
/// [`Endless::finish_before`].
fn ends_kept(shared: &Shared<'_>) -> usize {
    shared.longest_token_bytes().max(4) + 1
}

/// Whether of the tokens that start at these places one goes from `start` to `end`, which is
/// less than 64.
fn is_token(starts: u64, start: u32, end: u32) -> bool {
    let behind = starts >> start;
    behind & 1 == 1 && (behind & !1).trailing_zeros() == end - start
}
