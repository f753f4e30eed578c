//! Long pieces as work: window after window, each piece in a slot of its own.
//!
//! In a [proper](Shared::is_proper) vocabulary a sequence of tokens is the encoding of its bytes
//! if each two neighbours are that of theirs. So if the encodings of two windows that overlap
//! share a token there, what is before it in the one and what is behind it in the other make
//! the encoding of both together. The next window starts where a token of this one starts, so
//! that it nearly always shares that very token. Where it shares none, the piece has to be
//! counted byte by byte (`merge::prefix`) instead.
#![expect(
    unsafe_code,
    reason = "starts pieces with what an instruction set brings"
)]

use super::turns::{NOTHING, Slot, TURNS, Vectors, Work, take_turns};
use super::work::Spans;
use crate::merge::{Shared, WINDOW_BYTES};

/// The last offset in a window at which the next one may start: what is behind it lets the
/// tokens that start there settle.
const LAST_CUT: u32 = 48;

/// The count of a piece whose windows do not join.
pub(super) const NOT_JOINED: u32 = u32::MAX;

/// From how many bytes on a piece is taken in parts.
pub(super) const GIANT_BYTES: usize = 1024;
/// How long a part is, without what overlaps.
const LEAST_PART_BYTES: usize = 128;
const MOST_PART_BYTES: usize = 4096;

/// How far a part of a piece reaches into the next.
pub(crate) const OVERLAP_BYTES: usize = 63;

/// A piece, or a part of one, on its way.
#[derive(Clone, Copy, Default)]
pub(super) struct Stream {
    /// Which piece.
    span: usize,
    /// Where it starts in the text.
    start: usize,
    /// Where it ends.
    end: usize,
    /// Where the window starts.
    at: usize,
    /// Where the last window had tokens start, and itself ended, from `at` on; nothing if this
    /// window is the first.
    expected: u64,
    /// Tokens before the window; at the end all of them.
    pub(super) tokens: u32,
    /// Where tokens start in the first 64 bytes.
    first: u64,
    /// Where tokens start in the last [`OVERLAP_BYTES`], and the end.
    last: u64,
    /// Whether all windows joined.
    pub(super) whole: bool,
}

impl Stream {
    /// Takes the tokens of the window, which start at these offsets. False if they do not
    /// continue what was before.
    #[inline(always)]
    fn take(&mut self, mut starts: u64) -> bool {
        if self.expected != 0 {
            let Some(shared) = shared_token(self.expected, starts) else {
                return false;
            };
            let before = !(u64::MAX << shared);
            starts = (self.expected & before) | (starts & !before);
        }
        if self.at + WINDOW_BYTES >= self.end {
            self.tokens += starts.count_ones().saturating_sub(1);
            self.note(starts);
            self.at = self.end;
            self.whole = true;
            return true;
        }
        // A token that fills the window leaves nothing to go by.
        let cut = (starts & !(!1 << LAST_CUT)).checked_ilog2().unwrap_or(0);
        let settled = starts & !(u64::MAX << cut);
        self.tokens += settled.count_ones();
        self.note(settled);
        self.expected = starts >> cut;
        self.at += cut as usize;
        cut > 0
    }

    /// Keeps what is needed to join parts.
    #[inline(always)]
    fn note(&mut self, starts: u64) {
        let offset = self.at - self.start;
        if offset < 64 {
            self.first |= starts << offset;
        }
        let offset = (self.at + OVERLAP_BYTES) as isize - self.end as isize;
        if offset >= 0 {
            self.last |= starts << offset;
        } else if offset > -64 {
            self.last |= starts >> -offset;
        }
    }

    /// The tokens that this part and the next count twice or wrongly: of those that start where
    /// both are, the ones of the next before a shared token and its own from there on.
    fn not_joined(&self, next: &Self) -> Option<u32> {
        let shared = shared_token(self.last, next.first)?;
        let own = self.last & (u64::MAX << shared) & !(1 << OVERLAP_BYTES);
        let others = next.first & !(u64::MAX << shared);
        Some(own.count_ones() + others.count_ones())
    }
}

/// Pieces longer than a window.
pub(super) struct Streams<'a> {
    spans: Spans<'a>,
    streams: &'a mut [Stream; TURNS],
    used: usize,
}

impl<'a> Streams<'a> {
    pub(super) fn new(spans: Spans<'a>, streams: &'a mut [Stream; TURNS]) -> Self {
        Self {
            spans,
            streams,
            used: 0,
        }
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
            if stream.take(slot.starts()) && !stream.whole {
                let window = &self.spans.text[stream.at..stream.end];
                // SAFETY: the caller's promise.
                unsafe { slot.start::<V, LANES>(shared, window, slot.of) };
                return true;
            }
            let tokens = if stream.whole {
                stream.tokens
            } else {
                NOT_JOINED
            };
            self.spans.counts[stream.span] = tokens;
        }
        let Some((span, range)) = self.spans.piece() else {
            return false;
        };
        let window = &self.spans.text[range.clone()];
        self.streams[slot.of & (TURNS - 1)] = Stream {
            span,
            start: range.start,
            at: range.start,
            end: range.end,
            ..Stream::default()
        };
        // SAFETY: the caller's promise.
        unsafe { slot.start::<V, LANES>(shared, window, slot.of) };
        true
    }
}

/// A long piece, and what joins it to others.
#[derive(Clone, Copy)]
pub(crate) struct Joint {
    pub(crate) tokens: u64,
    /// Where tokens start in the first 64 bytes.
    pub(crate) first: u64,
    /// Where tokens start in the last [`OVERLAP_BYTES`], and the end; the first of these
    /// tokens may be missing, not one between two.
    pub(crate) last: u64,
}

/// The tokens of one piece that is so long that its parts can take turns; nothing if they do
/// not join.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn giant<V: Vectors>(shared: &Shared<'_>, piece: &[u8]) -> Option<Joint> {
    let part = (piece.len() / TURNS).clamp(LEAST_PART_BYTES, MOST_PART_BYTES);
    let mut tokens = 0;
    let (mut first, mut last) = (None, 0);
    let mut before: Option<Stream> = None;
    let mut from = 0;
    while from < piece.len() {
        let mut spans = [(0, 0); TURNS];
        let mut parts = 0;
        while parts < TURNS && from < piece.len() {
            let end = piece.len().min(from + part + OVERLAP_BYTES);
            spans[parts] = (from as u32, (end - from) as u32);
            parts += 1;
            from = if end == piece.len() { end } else { from + part };
        }
        let mut streams = [Stream::default(); TURNS];
        let work = Spans {
            text: piece,
            spans: &spans[..parts],
            counts: &mut [0; TURNS],
            from: 0,
            above: 0,
            until: u32::MAX,
        };
        let work = Streams::new(work, &mut streams);
        // SAFETY: the caller's promise.
        unsafe { take_turns::<V, _, 64, 80>(shared, work) };
        // The first piece goes to the first stream, and so on, and there are no more.
        for stream in &streams[..parts] {
            if !stream.whole {
                return None;
            }
            tokens += u64::from(stream.tokens);
            last = stream.last;
            if let Some(before) = before {
                tokens = tokens.saturating_sub(u64::from(before.not_joined(stream)?));
                // Of a short part, what is before the shared token is not in the encoding.
                let shared = shared_token(before.last, stream.first)? as usize;
                let hidden = (shared + OVERLAP_BYTES).saturating_sub(stream.end - stream.start);
                last &= u64::MAX.checked_shl(hidden as u32).unwrap_or(0);
            }
            first.get_or_insert(stream.first);
            before = Some(*stream);
        }
    }
    let first = first?;
    Some(Joint {
        tokens,
        first,
        last,
    })
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
