//! Byte-pair merging of short pieces, by the rule itself: several at once.
//!
//! A merge is a chain of dependent steps: the least rank, the tokens beside it, two look-ups.
//! The steps of other pieces fill the time in between, so pieces take turns, a merge each.
//! What differs between the instruction sets is how the least rank and an entry of a line of
//! the pair table are found ([`Vectors`]); the rest is written once.
#![expect(
    unsafe_code,
    reason = "calls what is compiled for instructions that the machine was asked for"
)]

use super::Isa;
use crate::merge::section::NONE;
use crate::merge::{Shared, WINDOW_BYTES};

/// Bits of a position in a piece, below the rank: so the least is the leftmost of its rank.
const POSITION_BITS: u32 = WINDOW_BYTES.trailing_zeros();
/// More than the rank of any pair that merges.
const NO_PAIR: u32 = NONE << POSITION_BITS;
/// How many pieces take turns.
const TURNS: usize = 8;

/// What an instruction set has to bring.
///
/// # Safety
/// The functions may only be called where the instruction set is available.
pub(super) unsafe trait Vectors {
    /// The least of the first `LANES` (8, 16, 32 or 64) ranks; `N` is at least that.
    unsafe fn least<const LANES: usize, const N: usize>(ranks: &[u32; N]) -> u32;
    /// What two tokens merge to, or [`NONE`].
    unsafe fn merged(shared: &Shared<'_>, left: u32, right: u32) -> u32;
}

/// A piece that is being merged, of less than `N` - 1 bytes.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Slot<const N: usize> {
    /// For each position that a token starts at, what merging it with the next gives.
    ranks: [u32; N],
    /// The tokens, one position later, and no token before the first and after the last.
    ids: [u32; N],
    /// At which positions tokens start.
    live: u64,
    /// Whose count it is.
    of: usize,
}

impl<const N: usize> Slot<N> {
    const EMPTY: Self = Self {
        ranks: [u32::MAX; N],
        ids: [NONE; N],
        live: 0,
        of: 0,
    };

    /// A new piece; more than `N - 2` bytes are cut off.
    #[inline(always)]
    fn start(&mut self, shared: &Shared<'_>, piece: &[u8], of: usize) {
        let piece = &piece[..piece.len().min(N - 2).min(WINDOW_BYTES)];
        self.ranks = [u32::MAX; N];
        self.ids = [NONE; N];
        self.live = if piece.is_empty() {
            0
        } else {
            u64::MAX >> (64 - piece.len())
        };
        self.of = of;
        for (id, &byte) in self.ids[1..].iter_mut().zip(piece) {
            *id = shared.byte_ids[byte as usize];
        }
        for (at, (rank, two)) in (0..).zip(self.ranks.iter_mut().zip(piece.windows(2))) {
            let two = u16::from_le_bytes([two[0], two[1]]);
            *rank = shared.byte_pairs[two as usize] << POSITION_BITS | at;
        }
    }

    /// One merge, or none if nothing merges.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    unsafe fn step<V: Vectors, const LANES: usize>(&mut self, shared: &Shared<'_>) -> bool {
        // SAFETY: the caller's promise.
        let least = unsafe { V::least::<LANES, N>(&self.ranks) };
        if least >= NO_PAIR {
            return false;
        }
        let (at, merged) = (least & (WINDOW_BYTES as u32 - 1), least >> POSITION_BITS);
        let after = self.live & (!1 << at);
        let next = after.trailing_zeros();
        let following = after & after.wrapping_sub(1);
        let before = self.live & !(u64::MAX << at);
        self.live = before | 1 << at | following;
        // Position -1 holds no token, and its rank goes where no one looks.
        let previous = 63u32.wrapping_sub(before.leading_zeros());
        let lane = |position: u32| (position as usize).min(N - 1);
        let left = self.ids[lane(64 - before.leading_zeros())];
        let right = self.ids[lane(following.trailing_zeros() + 1)];
        // SAFETY: as above.
        let with_right = unsafe { V::merged(shared, merged, right) };
        // SAFETY: as above.
        let with_left = unsafe { V::merged(shared, left, merged) };
        self.ids[lane(at + 1)] = merged;
        self.ranks[lane(next)] = u32::MAX;
        self.ranks[lane(at)] = with_right << POSITION_BITS | at;
        self.ranks[lane(previous)] = with_left << POSITION_BITS | previous & 63;
        true
    }
}

/// Many pieces, to be counted each.
trait Pieces {
    /// The next piece from this index on that is for this pass, and its index.
    fn next(&self, from: usize) -> Option<usize>;
    /// Starts it.
    fn start<const N: usize>(&self, index: usize, shared: &Shared<'_>, slot: &mut Slot<N>);
}

/// Counts the pieces, a few at a time.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn take_turns<V: Vectors, P: Pieces, const LANES: usize, const N: usize>(
    shared: &Shared<'_>,
    pieces: &P,
    mut counted: impl FnMut(usize, u32),
) {
    let mut slots = [Slot::<N>::EMPTY; TURNS];
    let mut from = 0;
    let mut refill = |slot: &mut Slot<N>| match pieces.next(from) {
        Some(index) => {
            from = index + 1;
            pieces.start(index, shared, slot);
            true
        }
        None => false,
    };
    let mut active = 0;
    while active < TURNS && refill(&mut slots[active]) {
        active += 1;
    }
    while active > 0 {
        let mut turn = 0;
        while turn < active {
            let slot = &mut slots[turn & (TURNS - 1)];
            // SAFETY: the caller's promise.
            if unsafe { slot.step::<V, LANES>(shared) } {
                turn += 1;
                continue;
            }
            counted(slot.of, slot.live.count_ones());
            if refill(slot) {
                turn += 1;
            } else {
                active -= 1;
                slots[turn & (TURNS - 1)] = slots[active & (TURNS - 1)];
            }
        }
    }
}

/// Pieces of at most eight bytes.
struct Keys8<'a>(&'a [u64]);

impl Pieces for Keys8<'_> {
    #[inline(always)]
    fn next(&self, from: usize) -> Option<usize> {
        (from < self.0.len()).then_some(from)
    }

    #[inline(always)]
    fn start<const N: usize>(&self, index: usize, shared: &Shared<'_>, slot: &mut Slot<N>) {
        let key = self.0[index];
        let length = 8 - key.leading_zeros() as usize / 8;
        slot.start(shared, &key.to_le_bytes()[..length], index);
    }
}

/// Pieces of at most sixteen bytes.
struct Keys16<'a>(&'a [[u64; 2]]);

impl Pieces for Keys16<'_> {
    #[inline(always)]
    fn next(&self, from: usize) -> Option<usize> {
        (from < self.0.len()).then_some(from)
    }

    #[inline(always)]
    fn start<const N: usize>(&self, index: usize, shared: &Shared<'_>, slot: &mut Slot<N>) {
        let [low, high] = self.0[index];
        let key = u128::from(low) | u128::from(high) << 64;
        let length = 16 - key.leading_zeros() as usize / 8;
        slot.start(shared, &key.to_le_bytes()[..length], index);
    }
}

/// Pieces of a text that have a length within these bounds.
struct Spans<'a> {
    text: &'a [u8],
    spans: &'a [(u32, u32)],
    above: u32,
    until: u32,
}

impl Pieces for Spans<'_> {
    #[inline(always)]
    fn next(&self, from: usize) -> Option<usize> {
        let fits = |&&(_, length): &&(u32, u32)| length > self.above && length <= self.until;
        let rest = self.spans.get(from..)?;
        rest.iter().position(|span| fits(&span)).map(|at| from + at)
    }

    #[inline(always)]
    fn start<const N: usize>(&self, index: usize, shared: &Shared<'_>, slot: &mut Slot<N>) {
        let (start, length) = self.spans[index];
        slot.start(
            shared,
            &self.text[start as usize..][..length as usize],
            index,
        );
    }
}

/// The entry points of one instruction set.
macro_rules! entry_points {
    ($vectors:ty $(, $features:literal)?) => {
        use crate::merge::Shared;

        /// # Safety
        /// The instruction set is available.
        $(#[target_feature(enable = $features)])?
        pub(in crate::arch) unsafe fn keys8(shared: &Shared<'_>, keys: &[u64], counts: &mut [u8]) {
            // SAFETY: the caller's promise.
            unsafe { $crate::arch::merge::run_keys8::<$vectors>(shared, keys, counts) }
        }

        /// # Safety
        /// The instruction set is available.
        $(#[target_feature(enable = $features)])?
        pub(in crate::arch) unsafe fn keys16(
            shared: &Shared<'_>,
            keys: &[[u64; 2]],
            counts: &mut [u8],
        ) {
            // SAFETY: the caller's promise.
            unsafe { $crate::arch::merge::run_keys16::<$vectors>(shared, keys, counts) }
        }

        /// # Safety
        /// The instruction set is available.
        $(#[target_feature(enable = $features)])?
        pub(in crate::arch) unsafe fn spans(
            shared: &Shared<'_>,
            text: &[u8],
            spans: &[(u32, u32)],
            counts: &mut [u32],
        ) {
            // SAFETY: the caller's promise.
            unsafe { $crate::arch::merge::run_spans::<$vectors>(shared, text, spans, counts) }
        }

        /// # Safety
        /// The instruction set is available.
        $(#[target_feature(enable = $features)])?
        pub(in crate::arch) unsafe fn one(shared: &Shared<'_>, piece: &[u8]) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { $crate::arch::merge::run_one::<$vectors>(shared, piece) }
        }
    };
}
pub(super) use entry_points;

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn run_keys8<V: Vectors>(shared: &Shared<'_>, keys: &[u64], counts: &mut [u8]) {
    let counted = |index: usize, count: u32| counts[index] = count as u8;
    // SAFETY: the caller's promise.
    unsafe { take_turns::<V, _, 8, 16>(shared, &Keys8(keys), counted) }
}

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn run_keys16<V: Vectors>(
    shared: &Shared<'_>,
    keys: &[[u64; 2]],
    counts: &mut [u8],
) {
    let counted = |index: usize, count: u32| counts[index] = count as u8;
    // SAFETY: the caller's promise.
    unsafe { take_turns::<V, _, 16, 32>(shared, &Keys16(keys), counted) }
}

/// Those of at most [`WINDOW_BYTES`].
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn run_spans<V: Vectors>(
    shared: &Shared<'_>,
    text: &[u8],
    spans: &[(u32, u32)],
    counts: &mut [u32],
) {
    let mut counted = |index: usize, count: u32| counts[index] = count;
    let of = |above, until| Spans {
        text,
        spans,
        above,
        until,
    };
    counts_of_empty(spans, &mut counted);
    // SAFETY: the caller's promise.
    unsafe { take_turns::<V, _, 16, 32>(shared, &of(0, 16), &mut counted) }
    // SAFETY: the caller's promise.
    unsafe { take_turns::<V, _, 32, 48>(shared, &of(16, 32), &mut counted) }
    // SAFETY: the caller's promise.
    unsafe { take_turns::<V, _, 64, 80>(shared, &of(32, 64), &mut counted) }
}

fn counts_of_empty(spans: &[(u32, u32)], mut counted: impl FnMut(usize, u32)) {
    for (index, _) in spans.iter().enumerate().filter(|(_, span)| span.1 == 0) {
        counted(index, 0);
    }
}

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn run_one<V: Vectors>(shared: &Shared<'_>, piece: &[u8]) -> u32 {
    match piece.len() {
        // SAFETY: the caller's promise.
        0..=16 => unsafe { alone::<V, 16, 32>(shared, piece) },
        // SAFETY: the caller's promise.
        17..=32 => unsafe { alone::<V, 32, 48>(shared, piece) },
        // SAFETY: the caller's promise.
        _ => unsafe { alone::<V, 64, 80>(shared, piece) },
    }
}

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn alone<V: Vectors, const LANES: usize, const N: usize>(
    shared: &Shared<'_>,
    piece: &[u8],
) -> u32 {
    let mut slot = Slot::<N>::EMPTY;
    slot.start(shared, piece, 0);
    // SAFETY: the caller's promise.
    while unsafe { slot.step::<V, LANES>(shared) } {}
    slot.live.count_ones()
}

/// Calls the variant of an instruction set that the machine has.
macro_rules! dispatch {
    ($isa:expr, $routine:ident($($argument:expr),*)) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if $isa.is_available() => {
                // SAFETY: it is available.
                unsafe { super::avx512::merge::$routine($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if $isa.is_available() => {
                // SAFETY: it is available.
                unsafe { super::avx2::merge::$routine($($argument),*) }
            }
            // SAFETY: nothing special is asked for.
            _ => unsafe { super::scalar::merge::$routine($($argument),*) },
        }
    };
}

/// The tokens of a piece of at most [`WINDOW_BYTES`].
pub(crate) fn count(shared: &Shared<'_>, piece: &[u8], isa: Isa) -> u32 {
    dispatch!(isa, one(shared, piece))
}

/// The tokens of each key.
pub(crate) fn count_keys8(shared: &Shared<'_>, isa: Isa, keys: &[u64], counts: &mut [u8]) {
    dispatch!(isa, keys8(shared, keys, counts));
}

/// The tokens of each key.
pub(crate) fn count_keys16(shared: &Shared<'_>, isa: Isa, keys: &[[u64; 2]], counts: &mut [u8]) {
    dispatch!(isa, keys16(shared, keys, counts));
}

/// The tokens of each piece of at most [`WINDOW_BYTES`].
pub(crate) fn count_pieces(
    shared: &Shared<'_>,
    isa: Isa,
    text: &[u8],
    pieces: &[(u32, u32)],
    counts: &mut [u32],
) {
    dispatch!(isa, spans(shared, text, pieces, counts));
}
