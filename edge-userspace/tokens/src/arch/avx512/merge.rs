//! A line of the pair table in one register, the ranks in one for each sixteen.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

use crate::arch::merge::{Vectors, entry_points};
use crate::merge::section::{EMPTY, ID_BITS, LINE, NONE, key};

struct Avx512;

// SAFETY: the callers of the functions have asked for the instruction set.
unsafe impl Vectors for Avx512 {
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
#[target_feature(enable = "avx2,avx512f,avx512vl")]
fn least<const LANES: usize, const N: usize>(ranks: &[u32; N]) -> u32 {
    const { assert!(LANES <= N && (LANES == 8 || LANES.is_multiple_of(16))) };
    let eight = if LANES == 8 {
        // SAFETY: eight ranks are there.
        unsafe { _mm256_loadu_si256(ranks.as_ptr().cast()) }
    } else {
        let mut sixteen = _mm512_set1_epi32(-1);
        for more in ranks[..LANES].as_chunks::<16>().0 {
            // SAFETY: sixteen ranks are there.
            sixteen =
                _mm512_min_epu32(sixteen, unsafe { _mm512_loadu_si512(more.as_ptr().cast()) });
        }
        _mm256_min_epu32(
            _mm512_castsi512_si256(sixteen),
            _mm512_extracti64x4_epi64::<1>(sixteen),
        )
    };
    let four = _mm_min_epu32(
        _mm256_castsi256_si128(eight),
        _mm256_extracti128_si256::<1>(eight),
    );
    let two = _mm_min_epu32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
    let one = _mm_min_epu32(two, _mm_shuffle_epi32::<0b00_00_00_01>(two));
    _mm_cvtsi128_si32(one) as u32
}

#[inline]
#[target_feature(enable = "avx2,avx512f,avx512vl")]
fn merged(shared: &Shared<'_>, left: u32, right: u32) -> u32 {
    let key = key(left, right);
    let line = &shared.lines[shared.line_of(key)];
    // SAFETY: eight entries are there.
    let entries = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
    let keys = _mm512_srli_epi64::<ID_BITS>(entries);
    let found = _mm512_cmpeq_epi64_mask(keys, _mm512_set1_epi64(key as i64));
    // A full line may go on in the next.
    if found == 0 && line[LINE - 1] != EMPTY {
        return shared.merged(left, right);
    }
    let entry = _mm512_mask_compress_epi64(_mm512_set1_epi64(-1), found, entries);
    _mm_cvtsi128_si32(_mm512_castsi512_si128(entry)) as u32 & NONE
}

entry_points!(
    Avx512,
    "avx2,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2"
);
