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

use crate::exact::look_up::LookUp;
use crate::lookup::batch::Batch;
use crate::lookup::{FIRST_BITS, First, KEY, SHORT_MULTIPLIER};

/// See `arch::look_up::take`.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(crate) fn take(look_up: &mut LookUp<'_>, text: &[u8], batch: &mut Batch) {
    look_up.take_with(text, batch, |first, batch| shorts(first, batch));
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
    let found = batch.found.as_mut_ptr();
    let missed = batch.missed.as_mut_ptr();
    let mut places = [0_u32; 64];
    let mut sum = _mm512_setzero_si512();
    let mut misses = 0;
    for start in (0..end).step_by(64) {
        let steps = (end - start).min(64).div_ceil(8);
        for step in 0..steps {
            // SAFETY: the list has room for a register behind its end.
            let key = unsafe { _mm512_loadu_si512(keys.add(start + step * 8).cast()) };
            let hash = _mm512_mullo_epi64(key, multiplier);
            let place = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<{ 64 - FIRST_BITS }>(hash));
            let (eight, _) = places.as_chunks_mut::<8>();
            // SAFETY: 32 bytes are written to eight numbers of four.
            unsafe { _mm256_storeu_si256(eight[step].as_mut_ptr().cast(), place) };
        }
        for (i, &place) in places[..steps * 8].iter().enumerate() {
            // SAFETY: the hash was shifted to as many bits as the table has; the list has room.
            unsafe { *found.add(start + i) = *first.get_unchecked(place as usize) };
        }
    }
    for start in (0..end).step_by(8) {
        let lanes = _bzhi_u32(0xff, (end - start).min(8) as u32) as u8;
        // SAFETY: the lists have room for a register behind their end.
        let key = unsafe { _mm512_loadu_si512(keys.add(start).cast()) };
        // SAFETY: as above.
        let entry = unsafe { _mm512_loadu_si512(found.add(start).cast()) };
        let miss = _mm512_test_epi64_mask(_mm512_xor_si512(key, entry), key_mask) & lanes;
        sum = _mm512_mask_add_epi64(sum, lanes & !miss, sum, _mm512_srli_epi64::<56>(entry));
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
