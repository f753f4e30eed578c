//! The estimate's scan with AVX2: flags from tables of sixteen, masks from sign bits.
#![expect(unsafe_code, reason = "vector intrinsics")]

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi8, _mm256_adds_epu8, _mm256_and_si256,
    _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8, _mm256_loadu_si256,
    _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_storeu_si256, _mm256_xor_si256,
};

use crate::arch::scalar;
use crate::estimate::algebra::{Abacus, Carry, Counts, Masks, at, count_masks};
use crate::estimate::classes::{HIGH_RUNS, KINDS, RUNS, SETS};

/// As [`scalar::scan::scan`].
///
/// # Safety
/// The machine has what [`Isa::Avx2`](crate::Isa::Avx2) stands for.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(crate) unsafe fn scan(counts: &mut Counts, carry: &mut Carry, bytes: &[u8]) {
    let (chunks, rest) = bytes.as_chunks::<64>();
    let whole = &bytes[..bytes.len() - rest.len()];
    let runs = tables(&RUNS);
    let sets = tables(&SETS);
    let kinds = [tables(&KINDS[0]), tables(&KINDS[1])];
    carry.characters.carried(carry.last, whole);
    let mut abaci = [Abacus::new(), Abacus::new()];
    let mut start = [carry.last[2]; 64];
    if let Some(first) = chunks.first() {
        start[1..].copy_from_slice(&first[..63]);
    }
    for (i, chunk) in chunks.iter().enumerate() {
        let halves = halves(chunk);
        let above = mask(halves);
        let here = Masks {
            runs: lanes(halves.map(|half| flags(half, &runs, HIGH_RUNS))),
            sets: lanes(halves.map(|half| flags(half, &sets, 0))),
        };
        let behind = match 64 * i {
            0 => &start,
            at => whole[at - 1..].first_chunk().unwrap_or(&start),
        };
        let behind = self::halves(behind);
        let same = [0, 1].map(|half| _mm256_cmpeq_epi8(halves[half], behind[half]));
        count_masks(counts, &here, &carry.masks, mask(same));
        for (group, table) in kinds.iter().enumerate() {
            let mut both = [0; 64];
            let (out, _) = both.as_chunks_mut::<32>();
            for (out, half) in out.iter_mut().zip(halves) {
                let flags = flags(half, table, 0);
                // SAFETY: 32 bytes are written of 32.
                unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), flags) };
            }
            abaci[group].add(&both, counts, at::KIND + 8 * group);
        }
        if above != 0 {
            let from = |least: u8| {
                let below = _mm256_set1_epi8(least.wrapping_sub(1).cast_signed());
                above & mask(halves.map(|half| _mm256_cmpgt_epi8(half, below)))
            };
            let [two, three, four] = [from(0xC0), from(0xE0), from(0xF0)];
            carry
                .characters
                .begun(whole, 64 * i, two & !three, three & !four, four);
        }
        carry.masks = here;
    }
    for (group, abacus) in abaci.iter_mut().enumerate() {
        abacus.settle(counts, at::KIND + 8 * group);
    }
    carry.characters.settle(counts);
    carry.follow(whole);
    if !rest.is_empty() {
        scalar::scan::scan(counts, carry, rest);
    }
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
fn lanes([mut low, mut high]: [__m256i; 2]) -> [u64; 8] {
    let mut lanes = [0; 8];
    for lane in lanes.iter_mut().rev() {
        *lane = mask([low, high]);
        low = _mm256_add_epi8(low, low);
        high = _mm256_add_epi8(high, high);
    }
    lanes
}

/// The sign bits of 64 bytes.
#[target_feature(enable = "avx2")]
fn mask([low, high]: [__m256i; 2]) -> u64 {
    let low = _mm256_movemask_epi8(low).cast_unsigned();
    let high = _mm256_movemask_epi8(high).cast_unsigned();
    u64::from(high) << 32 | u64::from(low)
}
