//! A text in blocks of 64 bytes: what each byte is, where pieces start, and their keys.
//!
//! A block always starts where a piece starts, so nothing is carried from one to the next. Where
//! the next one starts is known early, from a rule that looks at two neighbours only, so that
//! the work on one block overlaps with that on the next. The rules of the patterns are in
//! `exact`, the same for all instructions; here is what differs.

#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the same promise stands for each: the instructions are there"
)]
#![expect(
    unsafe_code,
    reason = "calls what the instructions have to be there for"
)]

mod emit;
mod long;
mod vector;
mod wide;

pub(crate) use long::long_piece;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use vector::by_functions;
pub(crate) use vector::{Bytes, Vector};
#[cfg(target_arch = "x86_64")]
pub(crate) use wide::WINDOWS;
pub(crate) use wide::{Classes, Leads};

#[cfg(target_arch = "aarch64")]
use super::neon;
use super::{Isa, scalar};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::exact::characters::{Algebra, Cased, Characters, Contraction};
use crate::exact::cl100k::{Cl100k, Llama3, Qwen2};
use crate::exact::gpt2::Gpt2;
use crate::exact::o200k::O200k;
use crate::lookup::batch::Batch;
use crate::pattern::Pattern;

use emit::{note, one_by_one, settle};
use wide::Wide;

/// Cuts a text, which is all there, into pieces. Answers where it stopped: at the end, or at a
/// piece behind which something is no UTF-8.
pub(crate) fn pieces(
    isa: Isa,
    pattern: Pattern,
    text: &[u8],
    batch: &mut Batch,
    sink: &mut impl Sink,
) -> usize {
    match pattern {
        Pattern::Cl100k => by::<Cl100k>(isa, pattern, text, batch, sink),
        Pattern::Llama3 => by::<Llama3>(isa, pattern, text, batch, sink),
        Pattern::Qwen2 => by::<Qwen2>(isa, pattern, text, batch, sink),
        Pattern::O200k => by::<O200k>(isa, pattern, text, batch, sink),
        Pattern::Gpt2 => by::<Gpt2>(isa, pattern, text, batch, sink),
    }
}

fn by<A: Algebra>(
    isa: Isa,
    pattern: Pattern,
    text: &[u8],
    batch: &mut Batch,
    sink: &mut impl Sink,
) -> usize {
    assert!(isa.is_available(), "{isa} is not available here");
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: it is available.
        Isa::Avx512 => unsafe { avx512::blocks::pieces::<A>(text, pattern, batch, sink) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: it is available.
        Isa::Avx2 => unsafe { avx2::blocks::pieces::<A>(text, pattern, batch, sink) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: it is available.
        Isa::Neon => unsafe { neon::blocks::pieces::<A>(text, pattern, batch, sink) },
        _ => scalar::blocks::pieces::<A>(text, pattern, batch, sink),
    }
}

/// What becomes of a batch that is full.
pub(crate) trait Sink {
    /// Takes all pieces out of it; they are in `text`.
    fn take(&mut self, text: &[u8], batch: &mut Batch);
}

/// As [`pieces`].
///
/// # Safety
/// The instructions of `V` are there.
#[inline(always)]
pub(crate) unsafe fn drive<V: Vector, A: Algebra>(
    text: &[u8],
    pattern: Pattern,
    batch: &mut Batch,
    sink: &mut impl Sink,
) -> usize {
    let mut at = 0;
    batch.from = 0;
    while at < text.len() {
        let left = text.len() - at;
        let whole = left >= 64;
        let inside = if whole { !0 } else { (1 << left) - 1 };
        let from = text[at..].as_ptr();
        // SAFETY: 64 bytes are left, or `left` are.
        let vector = unsafe {
            if whole {
                V::load(from)
            } else {
                V::load_part(from, left)
            }
        };
        // SAFETY: the caller's promise.
        let bytes = unsafe { vector.bytes() };
        // SAFETY: the caller's promise, here and below.
        let block = unsafe {
            if bytes.high == 0 {
                ascii::<V, A>(vector, &bytes, inside, !whole)
            } else {
                mixed::<V, A>(vector, &bytes, inside, !whole, &text[at..at + left.min(64)])
            }
        };
        let (starts, ends, advance);
        if block.ends {
            (starts, ends, advance) = (block.starts, (block.starts & !1) | (1 << left), left);
        } else {
            let cut = word_ends::<A>(&bytes, block.inside);
            // What a rule for two neighbours says is known before `starts` is.
            let next = if cut >> 32 != 0 { cut } else { block.starts };
            let next = 63 - (next | 1).leading_zeros();
            if next == 0 && block.broken {
                break;
            }
            if next == 0 {
                // A piece that is longer than the block.
                let known = block.inside.trailing_ones() as usize;
                // SAFETY: the caller's promise.
                let end = unsafe { V::long_piece::<A>(text, at, known, pattern) };
                let Some(end) = end else {
                    break;
                };
                if V::NOTES {
                    batch.ends[batch.noted] = end as u32;
                    batch.noted += 1;
                } else {
                    batch.push(text, at, end);
                }
                at = end;
                relieve::<V>(text, batch, sink);
                continue;
            }
            let before = (1 << next) - 1;
            (starts, ends, advance) = (
                block.starts & before,
                (block.starts & before & !1) | (1 << next),
                next as usize,
            );
        }
        if bytes.nul & inside != 0 {
            settle(text, batch);
            one_by_one(text, at, starts, ends, batch);
            batch.from = at + advance;
            if batch.is_full() {
                sink.take(text, batch);
            }
        } else {
            // SAFETY: the batch has room: see below.
            unsafe { vector.emit(at, starts, ends, batch) };
        }
        at += advance;
        relieve::<V>(text, batch, sink);
    }
    settle(text, batch);
    sink.take(text, batch);
    at
}

/// Makes room for one block more.
#[inline(always)]
fn relieve<V: Vector>(text: &[u8], batch: &mut Batch, sink: &mut impl Sink) {
    if V::NOTES {
        if !batch.is_noted_full() {
            return;
        }
        settle(text, batch);
    }
    if batch.is_full() {
        sink.take(text, batch);
    }
}

/// Places where a piece ends for certain, whatever is around: behind an ASCII letter or digit,
/// before ASCII of another kind, which is no apostrophe if that may go on with the word.
#[inline(always)]
fn word_ends<A: Algebra>(bytes: &Bytes, inside: u64) -> u64 {
    let apostrophe = if A::APOSTROPHE_STARTS {
        0
    } else {
        bytes.apostrophe
    };
    let letters = (bytes.letter << 1) & !bytes.letter & !apostrophe;
    let numbers = (bytes.number << 1) & !bytes.number;
    (letters | numbers) & !bytes.high & inside
}

/// Where the pieces of a block start.
struct Block {
    starts: u64,
    /// The bytes that were looked at.
    inside: u64,
    /// The text ends with the block.
    ends: bool,
    /// Behind the bytes that were looked at is something that is no UTF-8.
    broken: bool,
}

#[inline(always)]
unsafe fn ascii<V: Vector, A: Algebra>(vector: V, bytes: &Bytes, inside: u64, ends: bool) -> Block {
    let &Bytes {
        letter,
        number,
        newline,
        blank,
        space,
        apostrophe,
        ..
    } = bytes;
    let mut characters = Characters {
        valid: inside,
        letter,
        number,
        newline,
        blank,
        space,
        other: inside & !(letter | number | newline | blank),
        apostrophe,
        cased: Cased::default(),
    };
    if A::CASED {
        // SAFETY: the caller's promise.
        let upper = unsafe { vector.capitals(letter) };
        characters.cased = Cased {
            upper,
            lower: letter & !upper,
            mark: 0,
            // SAFETY: as above.
            slash: unsafe { vector.equal(b'/') },
        };
    }
    // SAFETY: the caller's promise.
    let contraction = || unsafe { vector.contraction(A::ANY_CASE) };
    // SAFETY: as above.
    let first_of = |selected, lasts, firsts| unsafe { V::first_of(selected, lasts, firsts) };
    Block {
        starts: A::starts(&characters, ends, contraction, first_of),
        inside,
        ends,
        broken: false,
    }
}

/// A block with characters outside of ASCII.
#[inline(always)]
unsafe fn mixed<V: Vector, A: Algebra>(
    vector: V,
    bytes: &Bytes,
    inside: u64,
    ends: bool,
    block: &[u8],
) -> Block {
    // SAFETY: the caller's promise.
    let wide = unsafe { Wide::read(vector, bytes.high, inside, ends, block, A::CASED) };
    let (inside, classes) = (wide.inside, wide.classes);
    // SAFETY: as above.
    let continuation = unsafe { vector.continuation() };
    // The bits of characters, no longer of bytes.
    let firsts = inside & !continuation;
    // SAFETY: as above.
    let extract = |word: u64| unsafe { V::extract(word, firsts) };
    let letter = extract(bytes.letter | classes.letter);
    let number = extract(bytes.number | classes.number);
    let newline = extract(bytes.newline);
    let blank = extract(bytes.blank | classes.space);
    let valid = extract(firsts);
    let mut characters = Characters {
        valid,
        letter,
        number,
        newline,
        blank,
        space: extract(bytes.space),
        other: valid & !(letter | number | newline | blank),
        apostrophe: extract(bytes.apostrophe),
        cased: Cased::default(),
    };
    if A::CASED {
        // SAFETY: the caller's promise.
        let capitals = unsafe { vector.capitals(bytes.letter) };
        let upper = extract(capitals | classes.upper);
        let lower = extract((bytes.letter & !capitals) | classes.lower);
        characters.cased = Cased {
            upper,
            lower,
            mark: upper & lower & !letter,
            // SAFETY: as above.
            slash: extract(unsafe { vector.equal(b'/') }),
        };
    }
    let contraction = || {
        // SAFETY: the caller's promise.
        let mut found = unsafe { vector.contraction(A::ANY_CASE) };
        if A::ANY_CASE {
            // U+017F, a long s.
            // SAFETY: as above.
            let (first, second) = unsafe { (vector.equal(0xc5), vector.equal(0xbf)) };
            found.alone |= first & (second >> 1);
        }
        Contraction {
            alone: extract(found.alone),
            l: extract(found.l),
            v_or_r: extract(found.v_or_r),
            e: extract(found.e),
        }
    };
    // SAFETY: as above.
    let first_of = |selected, lasts, firsts| unsafe { V::first_of(selected, lasts, firsts) };
    let ends = ends && !wide.broken;
    let starts = A::starts(&characters, ends, contraction, first_of);
    Block {
        // SAFETY: as above.
        starts: unsafe { V::deposit(starts, firsts) },
        inside,
        ends,
        broken: wide.broken,
    }
}
