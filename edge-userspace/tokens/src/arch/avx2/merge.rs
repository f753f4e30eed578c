//! A line of the pair table in two registers, the ranks in one for each eight.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

use crate::arch::merge::{Vectors, entry_points};
use crate::merge::Shared;
use crate::merge::section::{KEY, LINE, NONE, WHOLE, key};

struct Avx2;

// SAFETY: the callers of the functions have asked for the instruction set.
unsafe impl Vectors for Avx2 {
    #[inline(always)]
    unsafe fn least<const LANES: usize, const N: usize>(ranks: &[u32; N]) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { least::<LANES, N>(ranks) }
    }

    #[inline(always)]
    unsafe fn merged(shared: &Shared<'_>, left: u32, right: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { merged(shared, left, right) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn least<const LANES: usize, const N: usize>(ranks: &[u32; N]) -> u32 {
    const { assert!(LANES <= N && LANES.is_multiple_of(8)) };
    let mut eight = _mm256_set1_epi32(-1);
    for more in ranks[..LANES].as_chunks::<8>().0 {
        // SAFETY: eight ranks are there.
        eight = _mm256_min_epu32(eight, unsafe { _mm256_loadu_si256(more.as_ptr().cast()) });
    }
    let four = _mm_min_epu32(
        _mm256_castsi256_si128(eight),
        _mm256_extracti128_si256::<1>(eight),
    );
    let two = _mm_min_epu32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
    let one = _mm_min_epu32(two, _mm_shuffle_epi32::<0b00_00_00_01>(two));
    _mm_cvtsi128_si32(one) as u32
}

#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn merged(shared: &Shared<'_>, left: u32, right: u32) -> u32 {
    let key = key(left, right);
    let line = shared.line(key);
    let wanted = _mm256_set1_epi64x(key as i64);
    let mut found = 0;
    for (half, entries) in line.as_chunks::<{ LINE / 2 }>().0.iter().enumerate() {
        // SAFETY: four entries are there.
        let entries = unsafe { _mm256_loadu_si256(entries.as_ptr().cast()) };
        let differ = _mm256_xor_si256(entries, wanted);
        let differ = _mm256_and_si256(differ, _mm256_set1_epi64x(KEY as i64));
        let equal = _mm256_cmpeq_epi64(differ, _mm256_setzero_si256());
        found |= (_mm256_movemask_pd(_mm256_castsi256_pd(equal)) as usize) << (half * LINE / 2);
    }
    if line[LINE - 1] & WHOLE == 0 && found == 0 {
        return shared.merged_beyond(left, right);
    }
    // Without branches, as it is even odds.
    let entry = line[found.trailing_zeros() as usize % LINE] as u32 & NONE;
    if found == 0 { NONE } else { entry }
}

entry_points!(Avx2, "avx2,bmi1,bmi2,popcnt,lzcnt");
