//! The estimate's scan with AVX2: flags from tables of sixteen, masks from sign bits.
#![expect(unsafe_code, reason = "vector intrinsics")]

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi8, _mm256_adds_epu8, _mm256_and_si256,
    _mm256_broadcastsi128_si256, _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_movemask_epi8,
    _mm256_or_si256, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_xor_si256,
};

use crate::arch::scalar;
use crate::estimate::algebra::{Counts, Masks, count_masks};
use crate::estimate::classes::{HIGH_RUNS, RUNS, SETS};

/// As [`scalar::scan::scan`].
///
/// # Safety
/// The machine has what [`Isa::Avx2`](crate::Isa::Avx2) stands for.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(crate) unsafe fn scan(counts: &mut Counts, carry: &mut Masks, bytes: &[u8]) {
    let (chunks, rest) = bytes.as_chunks::<64>();
    let runs = tables(&RUNS);
    let sets = tables(&SETS);
    for chunk in chunks {
        let [low, high] = halves(chunk);
        let above = mask(low, high);
        let mut here = Masks {
            runs: lanes(flags(low, &runs, HIGH_RUNS), flags(high, &runs, HIGH_RUNS)),
            sets: lanes(flags(low, &sets, 0), flags(high, &sets, 0)),
            leads: [0; 8],
        };
        count_masks(counts, &here, carry);
        if above != 0 {
            here.leads = scalar::scan::leads(counts, &carry.leads, chunk);
        }
        *carry = here;
    }
    scalar::scan::scan(counts, carry, rest);
}

/// A table of 128 bytes as eight rows of 16, each in both halves of a vector.
#[target_feature(enable = "avx2")]
fn tables(table: &[u8; 128]) -> [__m256i; 8] {
    let mut rows = [_mm256_setzero_si256(); 8];
    for (row, sixteen) in rows.iter_mut().zip(table.as_chunks::<16>().0) {
        // SAFETY: sixteen bytes are read of sixteen.
        *row = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(sixteen.as_ptr().cast()) });
    }
    rows
}

#[target_feature(enable = "avx2")]
fn halves(chunk: &[u8; 64]) -> [__m256i; 2] {
    let (halves, _) = chunk.as_chunks::<32>();
    // SAFETY: 32 bytes are read of 32.
    [&halves[0], &halves[1]].map(|half| unsafe { _mm256_loadu_si256(half.as_ptr().cast()) })
}

/// The flags of 32 bytes: of those above ASCII, `above`.
#[target_feature(enable = "avx2")]
fn flags(bytes: __m256i, rows: &[__m256i; 8], above: u8) -> __m256i {
    let negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), bytes);
    let mut flags = _mm256_and_si256(negative, _mm256_set1_epi8(above.cast_signed()));
    for (row, table) in (0_u8..).zip(rows) {
        // A byte of this row becomes 0x70..=0x7F, every other one at least 0x80, for which
        // the look-up gives nought.
        let moved = _mm256_xor_si256(bytes, _mm256_set1_epi8((row << 4).cast_signed()));
        let index = _mm256_adds_epu8(moved, _mm256_set1_epi8(0x70));
        flags = _mm256_or_si256(flags, _mm256_shuffle_epi8(*table, index));
    }
    flags
}

/// Bit j of each of 64 flag bytes as lane j.
#[target_feature(enable = "avx2")]
fn lanes(mut low: __m256i, mut high: __m256i) -> [u64; 8] {
    let mut lanes = [0; 8];
    for lane in lanes.iter_mut().rev() {
        *lane = mask(low, high);
        low = _mm256_add_epi8(low, low);
        high = _mm256_add_epi8(high, high);
    }
    lanes
}

/// The sign bits of 64 bytes.
#[target_feature(enable = "avx2")]
fn mask(low: __m256i, high: __m256i) -> u64 {
    let low = _mm256_movemask_epi8(low).cast_unsigned();
    let high = _mm256_movemask_epi8(high).cast_unsigned();
    u64::from(high) << 32 | u64::from(low)
}
