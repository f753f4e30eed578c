//! Byte-pair merging by the rule itself: several pieces at once.
//!
//! A merge is a chain of dependent steps: the least rank, the tokens beside it, two look-ups.
//! The steps of other pieces fill the time in between, so pieces take turns, a merge each.
//! What differs between the instruction sets is how the least rank and an entry of a line of
//! the pair table are found ([`Vectors`]); the rest is written once.
#![expect(
    unsafe_code,
    reason = "calls what is compiled for instructions that the machine was asked for"
)]

mod streams;
mod turns;
mod work;

use streams::{GIANT_BYTES, NOT_JOINED, Streams, giant};
pub(crate) use streams::{Joint, OVERLAP_BYTES};
#[cfg(target_arch = "x86_64")]
pub(super) use turns::POSITION_BITS;
pub(super) use turns::Vectors;
use turns::{alone, take_turns};
use work::{Keys, Spans};

use super::Isa;
use crate::merge::{Ring, Shared, WINDOW_BYTES};

/// The routines that each instruction set has, compiled for it.
macro_rules! entry_points {
    ($vectors:ty $(, $features:literal)?) => {
        use crate::arch::merge::Joint;
        use crate::merge::Ring;

        entry_points! { @ ($($features)?) $vectors;
            keys8(shared: &Shared<'_>, keys: &[u64], counts: &mut [u8]) -> ();
            keys16(shared: &Shared<'_>, keys: &[[u64; 2]], counts: &mut [u8]) -> ();
            spans(
                shared: &Shared<'_>,
                text: &[u8],
                spans: &[(u32, u32)],
                counts: &mut [u32],
                ring: &mut Ring
            ) -> ();
            one(shared: &Shared<'_>, piece: &[u8]) -> u32;
            prefix(shared: &Shared<'_>, ring: &mut Ring, bytes: &[u8]) -> ();
            joint(shared: &Shared<'_>, piece: &[u8]) -> Option<Joint>;
        }
    };
    (@ $features:tt $vectors:ty; $($routine:ident($($name:ident: $of:ty),*) -> $to:ty;)*) => {$(
        entry_points! { @ $features $vectors, $routine($($name: $of),*) -> $to }
    )*};
    (@ ($($features:literal)?) $vectors:ty, $routine:ident($($name:ident: $of:ty),*) -> $to:ty) => {
        /// # Safety
        /// The instruction set is available.
        $(#[target_feature(enable = $features)])?
        pub(in crate::arch) unsafe fn $routine($($name: $of),*) -> $to {
            // SAFETY: the caller's promise.
            unsafe { $crate::arch::merge::$routine::<$vectors>($($name),*) }
        }
    };
}
pub(super) use entry_points;

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn keys8<V: Vectors>(shared: &Shared<'_>, keys: &[u64], counts: &mut [u8]) {
    let from = 0;
    // SAFETY: the caller's promise.
    unsafe { take_turns::<V, _, 8, 32>(shared, Keys { keys, counts, from }) }
}

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn keys16<V: Vectors>(shared: &Shared<'_>, keys: &[[u64; 2]], counts: &mut [u8]) {
    let from = 0;
    // SAFETY: the caller's promise.
    unsafe { take_turns::<V, _, 16, 32>(shared, Keys { keys, counts, from }) }
}

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn spans<V: Vectors>(
    shared: &Shared<'_>,
    text: &[u8],
    spans: &[(u32, u32)],
    counts: &mut [u32],
    ring: &mut Ring,
) {
    /// The pieces of a class of length.
    macro_rules! class {
        ($above:expr, $until:expr) => {
            Spans {
                text,
                spans,
                counts,
                from: 0,
                above: $above,
                until: $until,
            }
        };
    }
    let mut lengths = [false; 4];
    for &(_, length) in spans {
        lengths[(length > 16) as usize
            + (length > 32) as usize
            + (length as usize > WINDOW_BYTES) as usize] = true;
    }
    for (&(_, length), count) in spans.iter().zip(&mut *counts) {
        if length == 0 {
            *count = 0;
        }
    }
    if lengths[0] {
        // SAFETY: the caller's promise.
        unsafe { take_turns::<V, _, 16, 32>(shared, class!(0, 16)) }
    }
    if lengths[1] {
        // SAFETY: the caller's promise.
        unsafe { take_turns::<V, _, 32, 64>(shared, class!(16, 32)) }
    }
    if lengths[2] {
        // SAFETY: the caller's promise.
        unsafe { take_turns::<V, _, 64, 80>(shared, class!(32, WINDOW_BYTES as u32)) }
    }
    if lengths[3] && shared.is_proper() {
        let mut streams = Default::default();
        let long = class!(WINDOW_BYTES as u32, GIANT_BYTES as u32 - 1);
        // SAFETY: the caller's promise.
        unsafe { take_turns::<V, _, 64, 80>(shared, Streams::new(long, &mut streams)) };
        for (&(start, length), count) in spans.iter().zip(counts) {
            let piece = &text[start as usize..][..length as usize];
            if piece.len() >= GIANT_BYTES {
                // SAFETY: the caller's promise.
                let joint = unsafe { giant::<V>(shared, piece) };
                *count = joint.map_or(NOT_JOINED, |joint| joint.tokens as u32);
            }
            if piece.len() > WINDOW_BYTES && *count == NOT_JOINED {
                ring.clear(shared);
                // SAFETY: the caller's promise.
                unsafe { prefix::<V>(shared, ring, piece) };
                *count = ring.count() as u32;
            }
        }
    }
}

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn one<V: Vectors>(shared: &Shared<'_>, piece: &[u8]) -> u32 {
    match piece.len() {
        // SAFETY: the caller's promise.
        0..=16 => unsafe { alone::<V, 16, 32>(shared, piece) },
        // SAFETY: the caller's promise.
        17..=32 => unsafe { alone::<V, 32, 64>(shared, piece) },
        // SAFETY: the caller's promise.
        _ => unsafe { alone::<V, 64, 80>(shared, piece) },
    }
}

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn prefix<V: Vectors>(shared: &Shared<'_>, ring: &mut Ring, bytes: &[u8]) {
    // SAFETY: the caller's promise.
    ring.push(shared, bytes, |left, right| unsafe {
        V::merged(shared, left, right)
    });
}

/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn joint<V: Vectors>(shared: &Shared<'_>, piece: &[u8]) -> Option<Joint> {
    // SAFETY: the caller's promise.
    unsafe { giant::<V>(shared, piece) }
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
pub(crate) fn count_one(shared: &Shared<'_>, piece: &[u8], isa: Isa) -> u32 {
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

/// The tokens of each piece; of those longer than [`WINDOW_BYTES`] only if the vocabulary is
/// proper.
pub(crate) fn count_pieces(
    shared: &Shared<'_>,
    isa: Isa,
    text: &[u8],
    pieces: &[(u32, u32)],
    counts: &mut [u32],
    ring: &mut Ring,
) {
    dispatch!(isa, spans(shared, text, pieces, counts, ring));
}

/// More of a piece that is encoded byte by byte; the vocabulary is proper.
pub(crate) fn push_prefix(shared: &Shared<'_>, isa: Isa, ring: &mut Ring, bytes: &[u8]) {
    dispatch!(isa, prefix(shared, ring, bytes));
}

/// The tokens of a piece of less than 4 GiB and more than [`WINDOW_BYTES`], with what joins it
/// to others; nothing if its windows do not join. The vocabulary is proper.
pub(crate) fn count_joint(shared: &Shared<'_>, isa: Isa, piece: &[u8]) -> Option<Joint> {
    dispatch!(isa, joint(shared, piece))
}
