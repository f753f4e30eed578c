//! The least rank and a look-up in plain Rust; compilers make vectors of the first.
#![expect(
    unsafe_code,
    reason = "the trait is unsafe for the sake of other instruction sets"
)]

use crate::arch::merge::{Vectors, entry_points};
use crate::merge::Shared;

struct Plain;

// SAFETY: nothing special is needed.
unsafe impl Vectors for Plain {
    #[inline(always)]
    unsafe fn least<const LANES: usize, const N: usize>(ranks: &[u32; N]) -> u32 {
        let mut least = u32::MAX;
        for &rank in &ranks[..LANES] {
            least = least.min(rank);
        }
        least
    }

    #[inline(always)]
    unsafe fn merged(shared: &Shared<'_>, left: u32, right: u32) -> u32 {
        shared.merged(left, right)
    }
}

entry_points!(Plain);
