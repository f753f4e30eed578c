//! The estimate's scan with AVX-512: look-ups of 128 bytes give flags, one multiplication of
//! bit matrices makes eight masks of them, and the algebra is done on all eight at once.
//!
//! Masks are mirrored here: bit 63 is the first byte's, which is how that multiplication
//! leaves them.
#![expect(unsafe_code, reason = "vector intrinsics")]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi8, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpeq_epi8_mask,
    _mm512_cmpge_epu8_mask, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512,
    _mm512_mask_mov_epi8, _mm512_maskz_loadu_epi8, _mm512_maskz_mov_epi8, _mm512_movepi8_mask,
    _mm512_permutex2var_epi8, _mm512_permutexvar_epi8, _mm512_permutexvar_epi64,
    _mm512_popcnt_epi8, _mm512_popcnt_epi64, _mm512_sad_epu8, _mm512_set1_epi8, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_shrdi_epi64, _mm512_shuffle_epi8, _mm512_storeu_si512,
};

use crate::arch::scalar;
use crate::estimate::algebra::{BEFORE, Carry, Counts, at};
use crate::estimate::classes::{HIGH_RUNS, KINDS, RUNS, SETS};

/// Steps after which counts in bytes have to be added up: each adds at most eight.
const STEPS: usize = 16;

/// As [`scalar::scan::scan`].
///
/// # Safety
/// The machine has what [`Isa::Avx512`](crate::Isa::Avx512) stands for.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512bitalg,gfni,bmi1,bmi2,popcnt,lzcnt"
)]
pub(crate) unsafe fn scan(counts: &mut Counts, carry: &mut Carry, bytes: &[u8]) {
    let mut before_x = mirrored(load(&carry.masks.runs));
    let mut before_y = mirrored(load(&carry.masks.sets));
    let [before_a, before_b, before_c] = [0, 1, 2].map(|group| load(&BEFORE_LANES[group]));
    // What was before is needed of each mask alone: its lowest bits.
    let behind = |here, before| _mm512_shrdi_epi64::<1>(here, before);
    let zero = _mm512_setzero_si512();
    let mut before_two = _mm512_and_si512(before_x, behind(before_x, zero));
    let mut before_pair = _mm512_and_si512(
        before_x,
        _mm512_permutexvar_epi64(before_c, behind(before_y, zero)),
    );

    let [runs, sets, kinds, kinds_2] =
        [&RUNS, &SETS, &KINDS[0], &KINDS[1]].map(|table| halves(table));
    let gather = load_bytes(&GATHER);
    let high_runs = _mm512_set1_epi8(HIGH_RUNS.cast_signed());

    carry.characters.carried(carry.last, bytes);
    let mut start = [0; 64];
    start[0] = carry.last[2];
    start[1..64.min(bytes.len() + 1)].copy_from_slice(&bytes[..63.min(bytes.len())]);

    let mut sums = [zero; at::GROUP / 8];
    for (outer, steps) in bytes.chunks(64 * STEPS).enumerate() {
        let mut small = [zero; 3];
        for (inner, chunk) in steps.chunks(64).enumerate() {
            let at = 64 * (STEPS * outer + inner);
            let valid = u64::MAX >> (64 - chunk.len());
            // SAFETY: only the chunk's bytes are read.
            let v = unsafe { _mm512_maskz_loadu_epi8(valid, chunk.as_ptr().cast()) };
            let before = if at == 0 { &start } else { &bytes[at - 1..] };
            // SAFETY: only bytes that are there are read: one before those of the chunk for each.
            let v1 = unsafe { _mm512_maskz_loadu_epi8(valid, before.as_ptr().cast()) };
            let high = _mm512_movepi8_mask(v);
            let mut x_flags = _mm512_permutex2var_epi8(runs[0], v, runs[1]);
            let mut y_flags = _mm512_permutex2var_epi8(sets[0], v, sets[1]);
            let mut z_flags = _mm512_permutex2var_epi8(kinds[0], v, kinds[1]);
            let mut w_flags = _mm512_permutex2var_epi8(kinds_2[0], v, kinds_2[1]);
            if high != 0 || chunk.len() < 64 {
                x_flags = _mm512_mask_mov_epi8(x_flags, high, high_runs);
                x_flags = _mm512_maskz_mov_epi8(valid, x_flags);
                let ascii = valid & !high;
                y_flags = _mm512_maskz_mov_epi8(ascii, y_flags);
                z_flags = _mm512_maskz_mov_epi8(ascii, z_flags);
                w_flags = _mm512_maskz_mov_epi8(ascii, w_flags);
                let from =
                    |least: u8| _mm512_cmpge_epu8_mask(v, _mm512_set1_epi8(least.cast_signed()));
                let [two, three, four] = [from(0xC0), from(0xE0), from(0xF0)];
                carry
                    .characters
                    .begun(bytes, at, two & !three, three & !four, four);
            }
            let same = _mm512_cmpeq_epi8_mask(v, v1);
            add_small(&mut small[0], _mm512_maskz_mov_epi8(same, x_flags));
            add_small(&mut small[1], z_flags);
            add_small(&mut small[2], w_flags);

            let x = _mm512_permutexvar_epi8(gather, transposed(x_flags));
            let y = _mm512_permutexvar_epi8(gather, transposed(y_flags));
            let x1 = behind(x, before_x);
            let y1 = behind(y, before_y);
            let two = _mm512_and_si512(x, x1);
            let four = _mm512_and_si512(two, _mm512_shrdi_epi64::<2>(two, before_two));
            let a = _mm512_and_si512(x, _mm512_permutexvar_epi64(before_a, x1));
            let b = _mm512_and_si512(x, _mm512_permutexvar_epi64(before_b, x1));
            let c = _mm512_and_si512(x, _mm512_permutexvar_epi64(before_c, y1));
            add(&mut sums[at::RUN / 8], x);
            add(&mut sums[at::RUN2 / 8], two);
            add(&mut sums[at::RUN4 / 8], four);
            add(&mut sums[at::SET / 8], y);
            add(&mut sums[at::SET2 / 8], _mm512_and_si512(y, y1));
            add(&mut sums[at::PAIR / 8], a);
            add(&mut sums[at::PAIR / 8 + 1], b);
            add(&mut sums[at::PAIR / 8 + 2], c);
            add(
                &mut sums[at::TRIPLE / 8],
                _mm512_and_si512(x, behind(c, before_pair)),
            );
            (before_x, before_y, before_two, before_pair) = (x, y, two, c);
        }
        for (sum, small) in sums[at::SAME / 8..].iter_mut().zip(small) {
            let lanes = _mm512_permutexvar_epi8(gather, small);
            *sum = _mm512_add_epi64(*sum, _mm512_sad_epu8(lanes, zero));
        }
    }
    store(&mut carry.masks.runs, mirrored(before_x));
    store(&mut carry.masks.sets, mirrored(before_y));
    carry.follow(bytes);
    for (eight, sum) in counts.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
        store(eight, _mm512_add_epi64(load(eight), sum));
    }
    carry.characters.settle(counts);
}

/// As [`scalar::scan::settle`], eight counts at a time.
///
/// # Safety
/// As of [`scan`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn settle(sums: &mut Counts, counts: &mut Counts) {
    scalar::scan::settle(sums, counts);
}

/// Bit j of each eight bytes of flags as byte j, the first byte's highest.
#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn transposed(flags: __m512i) -> __m512i {
    // The identity times a matrix of eight flag bytes gives its mirror image. The instruction
    // numbers a matrix's rows from the other end.
    let identity = _mm512_set1_epi64(0x8040_2010_0804_0201_u64.cast_signed());
    _mm512_gf2p8affine_epi64_epi8::<0>(identity, flags)
}

/// Each word's bits the other way round.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn mirrored(words: __m512i) -> __m512i {
    let turn = _mm512_set1_epi64(0x8040_2010_0804_0201_u64.cast_signed());
    let bytes = _mm512_gf2p8affine_epi64_epi8::<0>(words, turn);
    _mm512_shuffle_epi8(bytes, load_bytes(&TURNED))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn add(sum: &mut __m512i, mask: __m512i) {
    *sum = _mm512_add_epi64(*sum, _mm512_popcnt_epi64(mask));
}

/// Adds each lane's flags to the bytes of that lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bitalg,gfni")]
fn add_small(sum: &mut __m512i, flags: __m512i) {
    *sum = _mm512_add_epi8(*sum, _mm512_popcnt_epi8(transposed(flags)));
}

#[inline]
#[target_feature(enable = "avx512f")]
fn halves(table: &[u8; 128]) -> [__m512i; 2] {
    let (halves, _) = table.as_chunks::<64>();
    [load_bytes(&halves[0]), load_bytes(&halves[1])]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(lanes: &[u64; 8]) -> __m512i {
    // SAFETY: 64 bytes are read of 64.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_bytes(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes are read of 64.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(lanes: &mut [u64; 8], from: __m512i) {
    // SAFETY: 64 bytes are written of 64.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), from) }
}

/// Each eight bytes the other way round.
const TURNED: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i ^ 7) as u8;
        i += 1;
    }
    table
};

/// Byte j of each of eight words brought together as word j, the first word's highest.
const GATHER: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = ((7 - i % 8) * 8 + i / 8) as u8;
        i += 1;
    }
    table
};

/// [`BEFORE`] as a permutation wants it.
const BEFORE_LANES: [[u64; 8]; 3] = {
    let mut lanes = [[0; 8]; 3];
    let mut i = 0;
    while i < 24 {
        lanes[i / 8][i % 8] = BEFORE[i / 8][i % 8] as u64;
        i += 1;
    }
    lanes
};
