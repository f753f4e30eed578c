//! Pieces that are longer than a block.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the same promise stands for each: the instructions are there"
)]
#![expect(
    unsafe_code,
    reason = "calls what the instructions have to be there for"
)]

use super::wide::Wide;
use super::{Bytes, Vector};
use crate::exact::characters::Algebra;
use crate::pattern::Pattern;
use crate::pattern::class::{self, LETTER, LOWER, NUMBER, SPACE, UPPER};

/// The end of the piece at `at` that goes on behind `known` bytes; `None` if something in it is
/// no UTF-8.
///
/// # Safety
/// The instructions of `V` are there.
#[inline(always)]
pub(crate) unsafe fn long_piece<V: Vector, A: Algebra>(
    text: &[u8],
    at: usize,
    known: usize,
    pattern: Pattern,
) -> Option<usize> {
    let one_by_one = || {
        let end = pattern.piece_end(text, at);
        std::str::from_utf8(&text[at..end]).is_ok().then_some(end)
    };
    let Some(run) = Run::of::<A>(&text[at..at + known]) else {
        return one_by_one();
    };
    // SAFETY: the caller's promise.
    let mut end = unsafe { run.end::<V>(text, at + known, A::CASED) }?;
    let Some(&next) = text.get(end) else {
        return Some(end);
    };
    match run {
        // A capital or a contraction may follow, and what is before decides what becomes of it.
        Run::Lower if next == b'\'' || class::at(text, end).0 & UPPER != 0 => return one_by_one(),
        Run::Rest if pattern != Pattern::Gpt2 => {
            let is_tail =
                |&&byte: &&u8| matches!(byte, b'\r' | b'\n') || (A::CASED && byte == b'/');
            end += text[end..].iter().take_while(is_tail).count();
        }
        _ => {}
    }
    Some(end)
}

/// What the piece goes on with, of one kind.
#[derive(Clone, Copy)]
enum Run {
    /// Letters, where they all are of one piece.
    Letters,
    /// What may stand in the second half of a word of o200k_base.
    Lower,
    /// Neither white space, letter nor number.
    Rest,
}

impl Run {
    /// By the end of what is known of a piece; `None` if it is of another kind or none can be
    /// told.
    fn of<A: Algebra>(known: &[u8]) -> Option<Self> {
        let mut end = known.len();
        // Of a contraction only a part may be known.
        if A::CASED && known[end.saturating_sub(4)..].contains(&b'\'') {
            return None;
        }
        // A mark is of what is before it.
        for _ in 0..8 {
            let start = known[..end].iter().rposition(|byte| byte & 0xc0 != 0x80)?;
            let bits = class::at(known, start).0;
            end = start;
            return match bits {
                _ if A::CASED && bits & (LETTER | LOWER) == LOWER => continue,
                _ if A::CASED && bits & LETTER != 0 => (bits & LOWER != 0).then_some(Self::Lower),
                _ if bits & LETTER != 0 => Some(Self::Letters),
                // Of slashes behind its line ends nothing but these go on.
                _ if A::CASED && known.iter().any(|byte| matches!(byte, b'\r' | b'\n')) => None,
                _ => (bits & (NUMBER | SPACE) == 0).then_some(Self::Rest),
            };
        }
        None
    }

    /// Where the run ends that goes on at `from`; `None` if something in it is no UTF-8.
    #[inline(always)]
    unsafe fn end<V: Vector>(self, text: &[u8], from: usize, cased: bool) -> Option<usize> {
        let mut at = from;
        while at < text.len() {
            let rest = &text[at..];
            let whole = rest.len() >= 64;
            let inside = if whole { !0 } else { (1 << rest.len()) - 1 };
            let block = &rest[..rest.len().min(64)];
            // SAFETY: these bytes are there; the instructions are the caller's promise.
            let (vector, bytes) = unsafe {
                let vector = match whole {
                    true => V::load(block.as_ptr()),
                    false => V::load_part(block.as_ptr(), block.len()),
                };
                (vector, vector.bytes())
            };
            // SAFETY: the caller's promise.
            let wide = unsafe { Wide::read(vector, bytes.high, inside, !whole, block, cased) };
            // SAFETY: as above.
            let capitals = unsafe { vector.capitals(bytes.letter) };
            let members = self.members(&bytes, &wide, capitals);
            // SAFETY: as above.
            let firsts = wide.inside & !unsafe { vector.continuation() };
            let others = firsts & !members;
            if others != 0 {
                return Some(at + others.trailing_zeros() as usize);
            }
            if wide.broken {
                return None;
            }
            at += wide.inside.trailing_ones() as usize;
        }
        Some(at)
    }

    #[inline(always)]
    fn members(self, bytes: &Bytes, wide: &Wide, capitals: u64) -> u64 {
        let classes = &wide.classes;
        let letter = bytes.letter | classes.letter;
        match self {
            Self::Letters => letter,
            Self::Lower => (bytes.letter & !capitals) | classes.lower,
            Self::Rest => {
                let white = bytes.blank | bytes.newline | classes.space;
                !(letter | bytes.number | classes.number | white)
            }
        }
    }
}
