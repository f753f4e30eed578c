//! The estimate's scan with NEON: flags from tables of 64; masks and counts as without.
#![expect(unsafe_code, reason = "vector intrinsics")]

use std::arch::aarch64::{
    uint8x16_t, uint8x16x4_t, vaddq_u8, vandq_u8, vcgeq_u8, vdupq_n_u8, veorq_u8, vld1q_u8,
    vld1q_u8_x4, vmaxvq_u8, vorrq_u8, vqtbl4q_u8, vst1q_u8,
};

use crate::arch::scalar;
use crate::estimate::algebra::{Abacus, Carry, Counts, Masks, at, count_masks, transpose};
use crate::estimate::characters::length;
use crate::estimate::classes::{HIGH_RUNS, KINDS, RUNS, SETS};

/// As [`scalar::scan::scan`].
///
/// # Safety
/// The machine has NEON.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn scan(counts: &mut Counts, carry: &mut Carry, bytes: &[u8]) {
    let (chunks, rest) = bytes.as_chunks::<64>();
    let whole = &bytes[..bytes.len() - rest.len()];
    let tables = [&RUNS, &SETS, &KINDS[0], &KINDS[1]].map(|table| tables(table));
    carry.characters.carried(carry.last, whole);
    let mut abaci = [Abacus::new(), Abacus::new()];
    let mut before = carry.last[2];
    for (i, chunk) in chunks.iter().enumerate() {
        let mut all = [[0; 64]; 4];
        let mut highest = vdupq_n_u8(0);
        for (at, sixteen) in chunk.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: sixteen bytes are read of sixteen.
            let bytes = unsafe { vld1q_u8(sixteen.as_ptr()) };
            highest = vorrq_u8(highest, bytes);
            let above = [HIGH_RUNS, 0, 0, 0];
            for ((out, table), above) in all.iter_mut().zip(&tables).zip(above) {
                let flags = flags(bytes, table, above);
                let out = &mut out.as_chunks_mut::<16>().0[at];
                // SAFETY: sixteen bytes are written of sixteen.
                unsafe { vst1q_u8(out.as_mut_ptr(), flags) };
            }
        }
        let mut same = 0;
        for (at, &byte) in chunk.iter().enumerate() {
            same |= u64::from(byte == before) << at;
            before = byte;
        }
        let here = Masks {
            runs: transpose(&all[0]),
            sets: transpose(&all[1]),
        };
        count_masks(counts, &here, &carry.masks, same);
        for (group, flags) in all[2..].iter().enumerate() {
            abaci[group].add(flags, counts, at::KIND + 8 * group);
        }
        if vmaxvq_u8(highest) >= 0x80 {
            let mut leads = [0; 5];
            for (at, &byte) in chunk.iter().enumerate() {
                leads[length(byte)] |= 1 << at;
            }
            carry
                .characters
                .begun(whole, 64 * i, leads[2], leads[3], leads[4]);
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

/// A table of 128 bytes as two of 64.
#[target_feature(enable = "neon")]
fn tables(table: &[u8; 128]) -> [uint8x16x4_t; 2] {
    let (halves, _) = table.as_chunks::<64>();
    // SAFETY: 64 bytes are read of 64.
    [&halves[0], &halves[1]].map(|half| unsafe { vld1q_u8_x4(half.as_ptr()) })
}

/// The flags of 16 bytes: of those above ASCII, `above`. A look-up past a table gives nought.
#[target_feature(enable = "neon")]
fn flags(bytes: uint8x16_t, tables: &[uint8x16x4_t; 2], above: u8) -> uint8x16_t {
    let high = vandq_u8(vcgeq_u8(bytes, vdupq_n_u8(0x80)), vdupq_n_u8(above));
    let first = vqtbl4q_u8(tables[0], bytes);
    // Those of 0x40..=0x7F become 0x00..=0x3F, the others 0x40 and more.
    let second = vqtbl4q_u8(tables[1], veorq_u8(bytes, vdupq_n_u8(0x40)));
    vaddq_u8(high, vorrq_u8(first, second))
}
