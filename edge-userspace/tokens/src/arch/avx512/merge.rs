//! A line of the pair table in one register, the ranks in one for each sixteen.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

use crate::arch::merge::{POSITION_BITS, Vectors, entry_points};
use crate::merge::Shared;
use crate::merge::section::{KEY, LINE, NONE, WHOLE, key};

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

    #[inline(always)]
    unsafe fn start<const LANES: usize, const N: usize>(
        shared: &Shared<'_>,
        piece: &[u8],
        ranks: &mut [u32; N],
        ids: &mut [u32; N],
    ) {
        // SAFETY: the caller's promise.
        unsafe { start::<LANES, N>(shared, piece, ranks, ids) }
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
    let line = shared.line(key);
    // SAFETY: eight entries are there.
    let entries = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
    let differ = _mm512_xor_si512(entries, _mm512_set1_epi64(key as i64));
    let found = _mm512_testn_epi64_mask(differ, _mm512_set1_epi64(KEY as i64));
    if line[LINE - 1] & WHOLE == 0 && found == 0 {
        return shared.merged_beyond(left, right);
    }
    let entry = _mm512_mask_compress_epi64(_mm512_set1_epi64(-1), found, entries);
    _mm_cvtsi128_si32(_mm512_castsi512_si128(entry)) as u32 & NONE
}

/// The tokens of bytes of which there are as many as the mask has bits, and the ranks of each
/// with the next, of which there is one less in all. Those beyond are none.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vbmi")]
fn tokens(shared: &Shared<'_>, at: *const u8, firsts: u16, pairs: u16) -> [__m512i; 2] {
    let none = _mm512_set1_epi32(NONE as i32);
    // SAFETY: the caller's mask has the bytes that are there.
    let bytes = unsafe { _mm_maskz_loadu_epi8(firsts, at.cast()) };
    // SAFETY: as above, one later.
    let seconds = unsafe { _mm_maskz_loadu_epi8(pairs, at.wrapping_add(1).cast()) };
    let wide = _mm512_cvtepu8_epi32(bytes);
    let two = _mm512_or_si512(wide, _mm512_slli_epi32::<8>(_mm512_cvtepu8_epi32(seconds)));
    let token = match shared.small_byte_ids {
        Some(small) => _mm512_mask_cvtepu8_epi32(none, firsts, small_ids(small, bytes)),
        // SAFETY: a byte is an index into 256 ids.
        None => unsafe {
            _mm512_mask_i32gather_epi32::<4>(none, firsts, wide, shared.byte_ids.as_ptr().cast())
        },
    };
    let ranks = shared.byte_pairs.as_ptr().cast();
    let rank = if pairs > 0xff {
        // SAFETY: two bytes are an index into 65,536 ranks.
        unsafe { _mm512_mask_i32gather_epi32::<4>(none, pairs, two, ranks) }
    } else {
        let (two, none) = (_mm512_castsi512_si256(two), _mm512_castsi512_si256(none));
        // SAFETY: as above.
        let rank = unsafe { _mm256_mmask_i32gather_epi32::<4>(none, pairs as u8, two, ranks) };
        _mm512_inserti64x4::<0>(_mm512_set1_epi32(NONE as i32), rank)
    };
    [token, rank]
}

/// The ids of sixteen bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn small_ids(small: &[u8; 256], bytes: __m128i) -> __m128i {
    let bytes = _mm512_castsi128_si512(bytes);
    let [a, b, c, d] = std::array::from_fn(|quarter| {
        let quarter = &small[quarter * 64..][..64];
        // SAFETY: 64 ids are there.
        unsafe { _mm512_loadu_si512(quarter.as_ptr().cast()) }
    });
    let low = _mm512_permutex2var_epi8(a, bytes, b);
    let high = _mm512_permutex2var_epi8(c, bytes, d);
    let ids = _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high);
    _mm512_castsi512_si128(ids)
}

/// Sixteen bytes at a time.
#[inline]
#[target_feature(enable = "avx2,bmi2,avx512f,avx512bw,avx512vl,avx512vbmi")]
fn start<const LANES: usize, const N: usize>(
    shared: &Shared<'_>,
    piece: &[u8],
    ranks: &mut [u32; N],
    ids: &mut [u32; N],
) {
    const { assert!(N > LANES && N >= 32) };
    let mut position = _mm512_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    ranks[0] = u32::MAX;
    ids[0] = NONE;
    for from in (0..LANES).step_by(16) {
        let left = piece.len().saturating_sub(from).min(17) as u32;
        let mask = |bytes: u32| _bzhi_u32(u32::MAX, bytes) as u16;
        let (firsts, pairs) = (mask(left), mask(left.saturating_sub(1)));
        let at = piece.as_ptr().wrapping_add(from);
        let [token, rank] = tokens(shared, at, firsts, pairs);
        let rank = _mm512_or_si512(_mm512_slli_epi32::<POSITION_BITS>(rank), position);
        let (to_ids, to_ranks) = (&mut ids[from + 1..][..16], &mut ranks[from + 1..][..16]);
        // SAFETY: sixteen are there.
        unsafe { _mm512_storeu_si512(to_ids.as_mut_ptr().cast(), token) };
        // SAFETY: sixteen are there.
        unsafe { _mm512_storeu_si512(to_ranks.as_mut_ptr().cast(), rank) };
        position = _mm512_add_epi32(position, _mm512_set1_epi32(16));
    }
    // The token that is behind a full piece.
    ids[LANES + 1..N.min(LANES + 3)].fill(NONE);
}

entry_points!(
    Avx512,
    "avx2,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2"
);
