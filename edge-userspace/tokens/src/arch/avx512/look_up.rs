//! The first table, eight pieces at a time.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the same promise stands for each: the list has room"
)]
#![expect(
    unsafe_code,
    reason = "loads and stores of vectors; the benches `tokens.*.avx512` show what they are for"
)]

use std::arch::x86_64::*;

use crate::arch::look_up::prefetch;
use crate::exact::look_up::LookUp;
use crate::lookup::batch::Batch;
use crate::lookup::{FIRST_BITS, First, KEY, MEDIUM_MULTIPLIERS, SHORT_MULTIPLIER, Tables};

/// See `arch::look_up::take`.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(crate) fn take(look_up: &mut LookUp<'_>, text: &[u8], batch: &mut Batch) {
    look_up.take_with(
        text,
        batch,
        |first, batch| shorts(first, batch),
        |tables, batch| mediums(tables, batch),
    );
}

/// See `arch::look_up::shorts`. Gathers are slower than single loads on some machines, so the
/// places are written down, the entries loaded one by one, and compared eight at a time.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn shorts(first: &First, batch: &mut Batch) -> (u64, usize) {
    let end = batch.shorts;
    let multiplier = _mm512_set1_epi64(SHORT_MULTIPLIER as i64);
    let key_mask = _mm512_set1_epi64(KEY as i64);
    let keys = batch.short.as_ptr();
    let places: *mut u32 = batch.found.as_mut_ptr().cast();
    let missed = batch.missed.as_mut_ptr();
    let table = first.as_ptr();
    for start in (0..end).step_by(8) {
        // SAFETY: the list has room for a register behind its end.
        let key = unsafe { _mm512_loadu_si512(keys.add(start).cast()) };
        let hash = _mm512_mullo_epi64(key, multiplier);
        let place = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<{ 64 - FIRST_BITS }>(hash));
        // SAFETY: as above; these are half as wide.
        unsafe { _mm256_storeu_si256(places.add(start).cast(), place) };
    }
    let mut sum = _mm512_setzero_si512();
    let mut misses = 0;
    for start in (0..end).step_by(8) {
        let lanes = _bzhi_u32(0xff, (end - start).min(8) as u32) as u8;
        // Volatile, or the compiler makes a gather of it.
        // SAFETY: the hash was shifted to as many bits as the table has; the list has room.
        let load = |i: usize| unsafe {
            let place = *places.add(start + i) as usize;
            std::ptr::read_volatile(table.add(place)) as i64
        };
        let [a, b, c, d, e, f, g, h] = [0, 1, 2, 3, 4, 5, 6, 7].map(load);
        let entry = _mm512_set_epi64(h, g, f, e, d, c, b, a);
        // SAFETY: as above.
        let key = unsafe { _mm512_loadu_si512(keys.add(start).cast()) };
        let differ = _mm512_xor_si512(key, entry);
        let miss = _mm512_mask_test_epi64_mask(lanes, differ, key_mask);
        let hit = _mm512_mask_testn_epi64_mask(lanes, differ, key_mask);
        sum = _mm512_mask_add_epi64(sum, hit, sum, _mm512_srli_epi64::<56>(entry));
        // SAFETY: as above: at most as many are missed as there were keys.
        unsafe {
            _mm512_storeu_si512(
                missed.add(misses).cast(),
                _mm512_maskz_compress_epi64(miss, key),
            );
        };
        misses += miss.count_ones() as usize;
    }
    (_mm512_reduce_add_epi64(sum) as u64, misses)
}

/// See `arch::look_up::mediums`.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn mediums(tables: &Tables<'_>, batch: &mut Batch) -> (u64, usize) {
    let end = batch.mediums;
    let [first, second] = MEDIUM_MULTIPLIERS.map(|m| m as i64);
    let first = _mm512_set_epi64(1, first, 1, first, 1, first, 1, first);
    let second = _mm512_set1_epi64(second);
    let keys = batch.medium.as_mut_ptr();
    let hashes = batch.found.as_mut_ptr();
    for start in (0..end).step_by(4) {
        // SAFETY: the list has room for a register behind its end.
        let key = unsafe { _mm512_loadu_si512(keys.add(start).cast()) };
        let both = _mm512_mullo_epi64(key, first);
        let swapped = _mm512_shuffle_epi32::<0x4e>(both);
        let hash = _mm512_mullo_epi64(_mm512_xor_si512(both, swapped), second);
        // SAFETY: two words for a key, and room behind as above.
        unsafe { _mm512_storeu_si512(hashes.add(2 * start).cast(), hash) };
        for i in 0..4 {
            // SAFETY: as above.
            prefetch(tables.medium_line(unsafe { *hashes.add(2 * (start + i)) }));
        }
    }
    let key_mask = _mm512_broadcast_i64x2(_mm_set_epi64x(KEY as i64, -1));
    let mut sum = _mm512_setzero_si512();
    let mut missed = 0;
    for i in 0..end {
        // SAFETY: there are so many.
        let (hash, one) = unsafe { (*hashes.add(2 * i), _mm_loadu_si128(keys.add(i).cast())) };
        // SAFETY: a line has 64 bytes.
        let line = unsafe { _mm512_loadu_si512(tables.medium_line(hash).as_ptr().cast()) };
        let differ = _mm512_xor_si512(line, _mm512_broadcast_i64x2(one));
        let same = _mm512_testn_epi64_mask(differ, key_mask);
        // The second word of an entry both of whose words are the same.
        let hit = same & (same << 1) & 0xaa;
        sum = _mm512_mask_add_epi64(sum, hit, sum, _mm512_srli_epi64::<56>(line));
        // SAFETY: it is `i` or before it.
        unsafe { _mm_storeu_si128(keys.add(missed).cast(), one) };
        missed += usize::from(hit == 0);
    }
    (_mm512_reduce_add_epi64(sum) as u64, missed)
}
