//! The estimate's scan: one of the variants, by the instructions asked for.
#![expect(
    unsafe_code,
    reason = "calls what is compiled for instructions that the machine was asked for"
)]

use super::Isa;
use crate::estimate::algebra::{Carry, Counts};
use crate::estimate::characters::MOST_BYTES;

/// Adds to `counts` the features of `bytes`, which follow those that `carry` is of. Only the
/// last call for a text may have a length that is no multiple of 64.
///
/// # Panics
/// If this machine lacks `isa`, or with more than [`MOST_BYTES`].
pub(crate) fn scan(isa: Isa, counts: &mut Counts, carry: &mut Carry, bytes: &[u8]) {
    assert!(isa.is_available(), "this machine lacks {isa}");
    assert!(bytes.len() <= MOST_BYTES, "too many bytes at a time");
    match isa {
        // SAFETY: it is available.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { super::avx512::scan::scan(counts, carry, bytes) },
        // SAFETY: it is available.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { super::avx2::scan::scan(counts, carry, bytes) },
        // SAFETY: it is available.
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => unsafe { super::neon::scan::scan(counts, carry, bytes) },
        _ => super::scalar::scan::scan(counts, carry, bytes),
    }
}

/// Adds `counts` to `sums` and leaves noughts.
///
/// # Panics
/// If this machine lacks `isa`.
pub(crate) fn settle(isa: Isa, sums: &mut Counts, counts: &mut Counts) {
    assert!(isa.is_available(), "this machine lacks {isa}");
    match isa {
        // SAFETY: it is available.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { super::avx512::scan::settle(sums, counts) },
        _ => super::scalar::scan::settle(sums, counts),
    }
}
