//! The estimate's scan with AVX-512: a look-up of 128 bytes gives flags, one multiplication
//! of bit matrices makes eight masks of them, and the algebra is done on all eight at once.
#![expect(unsafe_code, reason = "vector intrinsics")]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_andnot_si512,
    _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_mask_mov_epi8,
    _mm512_maskz_loadu_epi8, _mm512_maskz_mov_epi8, _mm512_maskz_permutexvar_epi8,
    _mm512_maskz_permutexvar_epi64, _mm512_movepi8_mask, _mm512_or_si512, _mm512_permutex2var_epi8,
    _mm512_permutex2var_epi64, _mm512_permutexvar_epi8, _mm512_popcnt_epi64, _mm512_set1_epi8,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_shldi_epi64, _mm512_shuffle_epi8,
    _mm512_slli_epi64, _mm512_storeu_si512,
};

use crate::arch::scalar;
use crate::estimate::algebra::{Counts, Masks, PAIRS, STARTS_BEHIND_ASCII, TRIPLES, at};
use crate::estimate::classes::{HIGH_RUNS, LEAD_FLAGS, RUNS, SECOND_FLAGS, SETS, run};

/// As [`scalar::scan::scan`].
///
/// # Safety
/// The machine has what [`Isa::Avx512`](crate::Isa::Avx512) stands for.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,bmi2,popcnt"
)]
pub(crate) unsafe fn scan(counts: &mut Counts, carry: &mut Masks, bytes: &[u8]) {
    let mut before_x = load(&carry.runs);
    let mut before_y = load(&carry.sets);
    let mut before_leads = load(&carry.leads);
    // What was before is needed of each length of run alone: its highest bits.
    let mut p3 = _mm512_and_si512(before_x, _mm512_slli_epi64::<1>(before_x));
    p3 = _mm512_and_si512(p3, _mm512_slli_epi64::<2>(before_x));
    let mut p5 = _mm512_and_si512(p3, _mm512_slli_epi64::<2>(p3));
    let mut p8 = _mm512_and_si512(p5, _mm512_slli_epi64::<3>(p5));

    let runs_low = load_bytes(&RUNS.as_chunks::<64>().0[0]);
    let runs_high = load_bytes(&RUNS.as_chunks::<64>().0[1]);
    let sets_low = load_bytes(&SETS.as_chunks::<64>().0[0]);
    let sets_high = load_bytes(&SETS.as_chunks::<64>().0[1]);
    let gather = load_bytes(&GATHER);
    let turned = load_bytes(&TURNED);
    let high_runs = _mm512_set1_epi8(HIGH_RUNS.cast_signed());
    let high_lane = _mm512_set1_epi64(run::HIGH as i64);
    let [pair_before, pair_before_2] = PAIR_LANES.map(|lanes| load(&lanes.0));
    let [pair_here, pair_here_2] = PAIR_LANES.map(|lanes| load(&lanes.1));
    let triple_before = load(&TRIPLE_LANES.0);
    let triple_here = load(&TRIPLE_LANES.1);

    let mut sums = [_mm512_setzero_si512(); at::LEAD / 8];
    for chunk in bytes.chunks(64) {
        let valid = u64::MAX >> (64 - chunk.len());
        // SAFETY: only the chunk's bytes are read.
        let v = unsafe { _mm512_maskz_loadu_epi8(valid, chunk.as_ptr().cast()) };
        // Each eight bytes turned round, as the product of bit matrices wants them.
        let v = _mm512_shuffle_epi8(v, turned);
        let high = _mm512_movepi8_mask(v);
        let runs = _mm512_permutex2var_epi8(runs_low, v, runs_high);
        let sets = _mm512_permutex2var_epi8(sets_low, v, sets_high);
        let mut x = masks(_mm512_mask_mov_epi8(runs, high, high_runs), gather);
        let mut y = masks(_mm512_maskz_mov_epi8(!high, sets), gather);
        if chunk.len() < 64 {
            let valid = _mm512_set1_epi64(valid.cast_signed());
            x = _mm512_and_si512(x, valid);
            y = _mm512_and_si512(y, valid);
        }

        let x1 = _mm512_shldi_epi64::<1>(x, before_x);
        let x2 = _mm512_shldi_epi64::<2>(x, before_x);
        let y1 = _mm512_shldi_epi64::<1>(y, before_y);
        let y2 = _mm512_shldi_epi64::<2>(y, before_y);
        let behind_high = _mm512_maskz_permutexvar_epi64(BEHIND_ASCII, high_lane, x1);
        let start = _mm512_andnot_si512(_mm512_or_si512(x1, behind_high), x);
        let two = _mm512_and_si512(x, x1);
        let three = _mm512_and_si512(two, x2);
        let five = _mm512_and_si512(three, _mm512_shldi_epi64::<2>(three, p3));
        let eight = _mm512_and_si512(five, _mm512_shldi_epi64::<3>(five, p5));
        let twelve = _mm512_and_si512(eight, _mm512_shldi_epi64::<4>(eight, p8));
        let set_two = _mm512_and_si512(y, y1);

        let pair = |before, here| {
            let before = _mm512_permutex2var_epi64(x1, before, y1);
            _mm512_and_si512(before, _mm512_permutex2var_epi64(x, here, y))
        };
        let pairs = [
            pair(pair_before, pair_here),
            pair(pair_before_2, pair_here_2),
        ];
        let triples = _mm512_and_si512(
            _mm512_permutex2var_epi64(x2, triple_before, x2),
            _mm512_permutex2var_epi64(two, triple_here, two),
        );
        add(&mut sums[at::RUN / 8], x);
        add(&mut sums[at::START / 8], start);
        add(&mut sums[at::RUN3 / 8], three);
        add(&mut sums[at::RUN5 / 8], five);
        add(&mut sums[at::RUN8 / 8], eight);
        add(&mut sums[at::RUN12 / 8], twelve);
        add(&mut sums[at::SET / 8], y);
        add(&mut sums[at::SET_START / 8], _mm512_andnot_si512(y1, y));
        add(&mut sums[at::SET3 / 8], _mm512_and_si512(set_two, y2));
        add(&mut sums[at::PAIR / 8], pairs[0]);
        add(&mut sums[at::PAIR / 8 + 1], pairs[1]);
        add(&mut sums[at::TRIPLE / 8], triples);

        if high == 0 {
            before_leads = _mm512_setzero_si512();
        } else {
            before_leads = leads(counts, v, high, before_leads, gather);
        }
        (before_x, before_y, p3, p5, p8) = (x, y, three, five, eight);
    }
    store(&mut carry.runs, before_x);
    store(&mut carry.sets, before_y);
    store(&mut carry.leads, before_leads);
    for (eight, sum) in counts.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
        store(eight, _mm512_add_epi64(load(eight), sum));
    }
}

/// As [`scalar::scan::settle`], eight counts at a time.
///
/// # Safety
/// As of [`scan`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn settle(sums: &mut Counts, counts: &mut Counts) {
    scalar::scan::settle(sums, counts);
}

/// Adds the features of lead bytes; the first group's masks.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni"
)]
fn leads(counts: &mut Counts, v: __m512i, high: u64, before: __m512i, gather: __m512i) -> __m512i {
    let lead = high & _mm512_movepi8_mask(_mm512_slli_epi64::<1>(v));
    let groups = [&LEAD_FLAGS[0], &LEAD_FLAGS[1], &LEAD_FLAGS[2]].map(|table| {
        masks(
            _mm512_maskz_permutexvar_epi8(lead, v, load_bytes(table)),
            gather,
        )
    });
    let led = _mm512_shldi_epi64::<1>(groups[0], before);
    let seconds = [&SECOND_FLAGS[0], &SECOND_FLAGS[1]].map(|table| {
        let flags = _mm512_maskz_permutexvar_epi8(high & !lead, v, load_bytes(table));
        _mm512_and_si512(masks(flags, gather), led)
    });
    let (counts, _) = counts[at::LEAD..].as_chunks_mut::<8>();
    let all = [groups[0], groups[1], groups[2], seconds[0], seconds[1]];
    for (eight, mask) in counts.iter_mut().zip(all) {
        let mut sum = load(eight);
        add(&mut sum, mask);
        store(eight, sum);
    }
    groups[0]
}

/// Bit j of each of 64 flag bytes as lane j.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi,gfni")]
fn masks(flags: __m512i, gather: __m512i) -> __m512i {
    // The identity times a matrix of eight flag bytes gives its mirror image. The instruction
    // numbers a matrix's rows from the other end, hence the turning round before.
    let identity = _mm512_set1_epi64(0x8040_2010_0804_0201_u64.cast_signed());
    let mirrored = _mm512_gf2p8affine_epi64_epi8::<0>(identity, flags);
    _mm512_permutexvar_epi8(gather, mirrored)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn add(sum: &mut __m512i, mask: __m512i) {
    *sum = _mm512_add_epi64(*sum, _mm512_popcnt_epi64(mask));
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

/// Byte j of each of eight words brought together as word j.
const GATHER: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i % 8 * 8 + i / 8) as u8;
        i += 1;
    }
    table
};

/// Lanes whose runs start behind ASCII only.
const BEHIND_ASCII: u8 = {
    let mut lanes = 0;
    let mut lane = 0;
    while lane < 8 {
        lanes |= (STARTS_BEHIND_ASCII[lane] as u8) << lane;
        lane += 1;
    }
    lanes
};

/// For each group of pairs, the lanes before and the lanes here.
const PAIR_LANES: [([u64; 8], [u64; 8]); 2] = [lanes(PAIRS[0]), lanes(PAIRS[1])];
const TRIPLE_LANES: ([u64; 8], [u64; 8]) = lanes(TRIPLES);

const fn lanes(of: [(usize, usize); 8]) -> ([u64; 8], [u64; 8]) {
    let mut out = ([0; 8], [0; 8]);
    let mut i = 0;
    while i < 8 {
        out.0[i] = of[i].0 as u64;
        out.1[i] = of[i].1 as u64;
        i += 1;
    }
    out
}
