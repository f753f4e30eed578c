//! Long pieces as work: window after window, each piece in a slot of its own.
//!
//! In a [proper](Shared::is_proper) vocabulary a sequence of tokens is the encoding of its bytes
//! if each two neighbours are that of theirs. So if the encodings of two windows that overlap
//! share a token there, what is before it in the one and what is behind it in the other make
//! the encoding of both together. The next window starts where a token of this one starts, so
//! that it nearly always shares that very token. Where it shares none, the piece is counted
//! [byte by byte](crate::merge::Endless) instead.
#![expect(
    unsafe_code,
    reason = "starts pieces with what an instruction set brings"
)]

use super::turns::{NOTHING, Slot, TURNS, Vectors, Work};
use super::work::Spans;
use crate::merge::{Ring, Shared, WINDOW_BYTES};

/// The last offset in a window at which the next one may start: what is behind it lets the
/// tokens that start there settle.
const LAST_CUT: u32 = 48;

/// A piece on its way.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// Which piece.
    span: usize,
    /// Where the window starts in the text.
    at: usize,
    /// Where the piece ends.
    end: usize,
    /// Tokens before the window.
    counted: u32,
    /// Where the last window had tokens start, and itself ended, from `at` on; nothing if this
    /// window is the first.
    expected: u64,
}

/// Pieces longer than a window.
pub(super) struct Streams<'a> {
    spans: Spans<'a>,
    ring: &'a mut Ring,
    streams: [Stream; TURNS],
    used: usize,
}

impl<'a> Streams<'a> {
    pub(super) fn new(spans: Spans<'a>, ring: &'a mut Ring) -> Self {
        Self {
            spans,
            ring,
            streams: [Stream::default(); TURNS],
            used: 0,
        }
    }
}

impl Stream {
    /// Takes the tokens of the window that start at these offsets. False if they do not continue
    /// what was before.
    #[inline(always)]
    fn take(&mut self, starts: u64) -> bool {
        if self.expected != 0 {
            let Some(shared) = shared_token(self.expected, starts) else {
                return false;
            };
            let before = |starts: u64| (starts & !(u64::MAX << shared)).count_ones();
            self.counted += before(self.expected);
            self.counted = self.counted.wrapping_sub(before(starts));
        }
        if self.at + WINDOW_BYTES >= self.end {
            self.counted = self.counted.wrapping_add(starts.count_ones() - 1);
            self.at = self.end;
            return true;
        }
        let cut = 63 - (starts & !(!1 << LAST_CUT)).leading_zeros();
        self.counted = self
            .counted
            .wrapping_add((starts & !(u64::MAX << cut)).count_ones());
        self.expected = starts >> cut;
        self.at += cut as usize;
        // A token that fills the window leaves nothing to go by.
        cut > 0
    }
}

/// The offset of the first token that is in both, if there is one.
#[inline(always)]
fn shared_token(one: u64, other: u64) -> Option<u32> {
    let mut both = one & other;
    while both != 0 {
        let at = both.trailing_zeros();
        let behind = !1 << at;
        let end = (one & behind).trailing_zeros();
        if end == (other & behind).trailing_zeros() && end < 64 {
            return Some(at);
        }
        both &= both - 1;
    }
    None
}

impl Work for Streams<'_> {
    #[inline(always)]
    unsafe fn next<V: Vectors, const LANES: usize, const N: usize>(
        &mut self,
        shared: &Shared<'_>,
        slot: &mut Slot<N>,
    ) -> bool {
        if slot.of == NOTHING {
            slot.of = self.used;
            self.used += 1;
        } else {
            let stream = &mut self.streams[slot.of & (TURNS - 1)];
            let piece = self.spans.spans[stream.span];
            if !stream.take(slot.starts()) {
                let piece = &self.spans.text[piece.0 as usize..stream.end];
                // SAFETY: the caller's promise.
                let merged = |left, right| unsafe { V::merged(shared, left, right) };
                self.ring.clear(shared);
                self.ring.push(shared, piece, merged);
                stream.counted = self.ring.count() as u32;
                stream.at = stream.end;
            }
            if stream.at == stream.end {
                self.spans.counts[stream.span] = stream.counted;
            } else {
                let window = &self.spans.text[stream.at..stream.end];
                // SAFETY: the caller's promise.
                unsafe { slot.start::<V, LANES>(shared, window, slot.of) };
                return true;
            }
        }
        let Some((span, range)) = self.spans.piece() else {
            return false;
        };
        let window = &self.spans.text[range.clone()];
        self.streams[slot.of & (TURNS - 1)] = Stream {
            span,
            at: range.start,
            end: range.end,
            counted: 0,
            expected: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { slot.start::<V, LANES>(shared, window, slot.of) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::shared_token;

    #[test]
    fn a_shared_token_starts_and_ends_in_both() {
        assert_eq!(shared_token(0b1001, 0b1001), Some(0));
        assert_eq!(shared_token(0b1_0010_1101, 0b1_0010_1011), Some(3));
        assert_eq!(shared_token(0b1_0101, 0b1_0011), None);
        assert_eq!(shared_token(0b1, 0b1), None);
    }
}
