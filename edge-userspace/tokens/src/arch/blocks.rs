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

use super::Isa;
use super::scalar;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::exact::characters::{Algebra, Cased, Characters, Contraction};
use crate::exact::cl100k::{Cl100k, Llama3, Qwen2};
use crate::exact::gpt2::Gpt2;
use crate::exact::o200k::O200k;
use crate::lookup::batch::Batch;
use crate::pattern::{Pattern, class};

/// What the bytes of a block are: a bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bytes {
    /// `A` to `Z`, `a` to `z`.
    pub(crate) letter: u64,
    /// `0` to `9`.
    pub(crate) number: u64,
    /// CR and LF.
    pub(crate) newline: u64,
    /// Space, tab, vertical tab, form feed.
    pub(crate) blank: u64,
    /// Space.
    pub(crate) space: u64,
    /// Apostrophe.
    pub(crate) apostrophe: u64,
    /// Not ASCII.
    pub(crate) high: u64,
    /// NUL.
    pub(crate) nul: u64,
}

/// 64 bytes of text, in vector registers.
///
/// # Safety
/// Each method may be called only where the instructions that the type stands for are there,
/// and has to be inlined into a function that has them enabled.
pub(crate) unsafe trait Vector: Copy {
    /// 64 bytes from `at`.
    ///
    /// # Safety
    /// They can be read, and the instructions are there.
    unsafe fn load(at: *const u8) -> Self;
    /// `length` bytes from `at`, fewer than 64; then zeros.
    ///
    /// # Safety
    /// They can be read, and the instructions are there.
    unsafe fn load_part(at: *const u8, length: usize) -> Self;
    /// The classes of ASCII.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn bytes(self) -> Bytes;
    /// Bytes that are this one.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn equal(self, byte: u8) -> u64;
    /// ASCII capitals among the letters given.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn capitals(self, letter: u64) -> u64;
    /// Letters of contractions; as bytes, U+017F left out.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn contraction(self, any_case: bool) -> Contraction;
    /// Bytes 0x80 to 0xbf.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn continuation(self) -> u64;
    /// Bytes that have one of these bits.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn test(self, bits: u8) -> u64;
    /// Bytes of at least this, as unsigned numbers.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn at_least(self, byte: u8) -> u64;
    /// The classes of characters outside of ASCII, and the first bytes of those that are left
    /// to be looked at one by one. Those of CJK and Hangul are letters without a case.
    ///
    /// # Safety
    /// The instructions are there.
    #[inline(always)]
    unsafe fn classes(self, _block: &[u8], leads: Leads, cased: bool) -> (Classes, u64) {
        // SAFETY: the caller's promise.
        let (from, behind) = unsafe { (self.at_least(0xe5), self.at_least(0xea)) };
        // SAFETY: as above.
        let letter =
            leads.three & ((from & !behind) | unsafe { self.equal(0xeb) | self.equal(0xec) });
        let both = if cased { letter } else { 0 };
        let classes = Classes {
            letter,
            upper: both,
            lower: both,
            ..Classes::default()
        };
        (classes, leads.two & !letter)
    }
    /// The bits of `word` at the places of `mask`, moved together.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn extract(word: u64, mask: u64) -> u64;
    /// The lowest bits of `word`, moved to the places of `mask`.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn deposit(word: u64, mask: u64) -> u64;
    /// As [`crate::exact::characters::first_of`].
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn first_of(selected: u64, lasts: u64, firsts: u64) -> u64;
    /// Adds the pieces that start at `starts` and end at `ends` to the batch. `at` is the place
    /// in the text.
    ///
    /// # Safety
    /// The instructions are there; the batch has room for a block.
    unsafe fn emit(self, text: &[u8], at: usize, starts: u64, ends: u64, batch: &mut Batch);
}

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
        // NEON has no instruction that gathers bits; words do as well.
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
                let Some(end) = long_piece(text, at, pattern) else {
                    break;
                };
                batch.push(text, at, end);
                at = end;
                if batch.is_full() {
                    sink.take(text, batch);
                }
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
            one_by_one(text, at, starts, ends, batch);
        } else {
            // SAFETY: the batch has room: see below.
            unsafe { vector.emit(text, at, starts, ends, batch) };
        }
        at += advance;
        if batch.is_full() {
            sink.take(text, batch);
        }
    }
    sink.take(text, batch);
    at
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

/// The classes of characters outside of ASCII, each at its first byte.
#[derive(Clone, Copy, Default)]
pub(crate) struct Classes {
    pub(crate) letter: u64,
    pub(crate) number: u64,
    pub(crate) space: u64,
    pub(crate) upper: u64,
    pub(crate) lower: u64,
}

/// What is outside of ASCII in a block.
struct Wide {
    classes: Classes,
    /// What of the block are whole characters, up to what is no UTF-8.
    inside: u64,
    broken: bool,
}

/// First bytes of characters of two bytes and more, of three and more, of four.
#[derive(Clone, Copy)]
pub(crate) struct Leads {
    pub(crate) two: u64,
    pub(crate) three: u64,
    pub(crate) four: u64,
}

impl Wide {
    #[inline(always)]
    unsafe fn read<V: Vector>(
        vector: V,
        high: u64,
        inside: u64,
        ends: bool,
        block: &[u8],
        cased: bool,
    ) -> Self {
        // SAFETY: the caller's promise.
        let (continuation, three, four) = unsafe {
            (
                vector.continuation(),
                vector.at_least(0xe0),
                vector.at_least(0xf0),
            )
        };
        let lead = high & !continuation;
        let expected = (lead << 1) | (three << 2) | (four << 3);
        let mut inside = inside;
        let mut broken = false;
        if !ends {
            let parted = (lead & (1 << 63)) | (three & (3 << 62)) | (four & (7 << 61));
            inside &= below_lowest(parted);
        }
        let known = if ends { !0 } else { inside };
        let wrong = (expected ^ continuation) & known;
        if wrong != 0 {
            // A byte that continues nothing, or behind a character that is not continued.
            let before = below_lowest(wrong);
            let character = lead & before;
            let lowest = wrong & wrong.wrapping_neg();
            let cut = if expected & lowest == 0 || character == 0 {
                before
            } else {
                (1 << (63 - character.leading_zeros())) - 1
            };
            inside &= cut;
            broken = true;
        }
        let leads = Leads {
            two: lead & inside,
            three: three & inside,
            four: four & inside,
        };
        // SAFETY: the caller's promise.
        let (mut classes, mut left) = unsafe { vector.classes(block, leads, cased) };
        if left != 0 {
            let mut bits = Aligned([0; 64]);
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                left &= left - 1;
                match code_point(block, i) {
                    Some(code_point) => bits.0[i] = class::of(code_point),
                    None => {
                        inside &= (1 << i) - 1;
                        broken = true;
                        break;
                    }
                }
            }
            // SAFETY: there are 64 bytes; the instructions are the caller's promise.
            let bits = unsafe { V::load(bits.0.as_ptr()) };
            // SAFETY: the caller's promise.
            let with = |class: u8| unsafe { bits.test(class) };
            classes.letter |= with(class::LETTER);
            classes.number |= with(class::NUMBER);
            classes.space |= with(class::SPACE);
            if cased {
                classes.upper |= with(class::UPPER);
                classes.lower |= with(class::LOWER);
            }
        }
        Self {
            classes,
            inside,
            broken,
        }
    }
}

/// The character at `i`, whose bytes continue as its first one says; `None` if it is over-long,
/// a surrogate or more than Unicode has.
#[inline(always)]
fn code_point(block: &[u8], i: usize) -> Option<u32> {
    let first = u32::from(block[i]);
    let next = |k: usize| u32::from(block[i + k] & 0x3f);
    if first < 0xe0 {
        return (first >= 0xc2).then(|| (first & 0x1f) << 6 | next(1));
    }
    if first < 0xf0 {
        let code_point = (first & 0xf) << 12 | next(1) << 6 | next(2);
        return (code_point >= 0x800 && code_point & 0xf800 != 0xd800).then_some(code_point);
    }
    let code_point = (first & 0xf) << 18 | next(1) << 12 | next(2) << 6 | next(3);
    (first < 0xf5 && (0x1_0000..0x11_0000).contains(&code_point)).then_some(code_point)
}

/// Bits for each 2,048 code points of the first 131,072, for each class: laid out by the build
/// script.
pub(crate) static WINDOWS: Aligned<[u8; 64 * 5 * 256]> = Aligned(*include_bytes!(concat!(
    env!("OUT_DIR"),
    "/class_windows.bin"
)));

/// Where a cache line starts.
#[repr(align(64))]
pub(crate) struct Aligned<T>(pub(crate) T);

/// All bits below the lowest of a word; all if there is none.
#[inline(always)]
fn below_lowest(word: u64) -> u64 {
    (word & word.wrapping_neg()).wrapping_sub(1)
}

/// The end of a piece that goes on behind the block; `None` if something in it is no UTF-8.
#[cold]
#[inline(never)]
fn long_piece(text: &[u8], at: usize, pattern: Pattern) -> Option<usize> {
    let end = pattern.piece_end(text, at);
    std::str::from_utf8(&text[at..end]).is_ok().then_some(end)
}

/// Adds pieces to the batch as [`Vector::emit`] does, by loads from the text, without a branch
/// that depends on their length: each is written to all three lists, and one of them grows.
///
/// # Safety
/// The batch has room for a block, and the ends are inside of it or right behind it.
#[inline(always)]
pub(crate) unsafe fn by_loads(
    text: &[u8],
    at: usize,
    starts: u64,
    mut ends: u64,
    batch: &mut Batch,
) {
    // Sixteen bytes are read of each piece, wherever it ends.
    const READ: usize = 64 + 16;
    let mut last = [0_u8; READ];
    let block = text[at..].first_chunk::<READ>().unwrap_or_else(|| {
        last[..text.len() - at].copy_from_slice(&text[at..]);
        &last
    });
    let (mut shorts, mut mediums, mut longs) = (batch.shorts, batch.mediums, batch.longs);
    let mut start = starts.trailing_zeros() as usize;
    while ends != 0 {
        let end = ends.trailing_zeros() as usize;
        ends &= ends - 1;
        let length = end - start;
        // The bytes of a word that are left of a length, by eights.
        let mask = (1_u64 << (8 * (length & 7))) - 1;
        let word = |k: usize| {
            let from = block.as_ptr().wrapping_add(start + 8 * k).cast::<[u8; 8]>();
            // SAFETY: a piece starts below 64, so these bytes are within the 80.
            u64::from_le_bytes(unsafe { from.read() })
        };
        let (low, high) = (word(0), word(1));
        // SAFETY: the caller's promise: there is room for 64 more, here and below.
        unsafe { *batch.short.get_unchecked_mut(shorts) = low & mask };
        shorts += usize::from(length < 8);
        // SAFETY: as above.
        unsafe { *batch.medium.get_unchecked_mut(mediums) = [low, high & mask] };
        mediums += usize::from(length.wrapping_sub(8) < 8);
        // SAFETY: as above.
        unsafe { *batch.long.get_unchecked_mut(longs) = ((at + start) as u32, length as u32) };
        longs += usize::from(length > 15);
        start = end;
    }
    (batch.shorts, batch.mediums, batch.longs) = (shorts, mediums, longs);
}

/// Pieces of a block that holds a NUL.
#[cold]
#[inline(never)]
fn one_by_one(text: &[u8], at: usize, mut starts: u64, mut ends: u64, batch: &mut Batch) {
    while starts != 0 {
        let (start, end) = (starts.trailing_zeros(), ends.trailing_zeros());
        batch.push(text, at + start as usize, at + end as usize);
        starts &= starts - 1;
        ends &= ends - 1;
    }
}
