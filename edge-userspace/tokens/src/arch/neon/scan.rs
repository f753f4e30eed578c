//! The estimate's scan with NEON: flags from tables of 64; masks and counts as without.
#![expect(unsafe_code, reason = "vector intrinsics")]

use std::arch::aarch64::{
    uint8x16_t, uint8x16x4_t, vaddq_u8, vandq_u8, vcgeq_u8, vdupq_n_u8, veorq_u8, vld1q_u8,
    vld1q_u8_x4, vmaxvq_u8, vorrq_u8, vqtbl4q_u8, vst1q_u8,
};

use crate::arch::scalar;
use crate::estimate::algebra::{Counts, Masks, count_masks, transpose};
use crate::estimate::classes::{HIGH_RUNS, RUNS, SETS};

/// As [`scalar::scan::scan`].
///
/// # Safety
/// The machine has NEON.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn scan(counts: &mut Counts, carry: &mut Masks, bytes: &[u8]) {
    let (chunks, rest) = bytes.as_chunks::<64>();
    let runs = tables(&RUNS);
    let sets = tables(&SETS);
    for chunk in chunks {
        let mut run_flags = [0; 64];
        let mut set_flags = [0; 64];
        let mut highest = vdupq_n_u8(0);
        let outs = run_flags.as_chunks_mut::<16>().0.iter_mut();
        let outs = outs.zip(set_flags.as_chunks_mut::<16>().0);
        for (sixteen, (run_out, set_out)) in chunk.as_chunks::<16>().0.iter().zip(outs) {
            // SAFETY: sixteen bytes are read of sixteen.
            let bytes = unsafe { vld1q_u8(sixteen.as_ptr()) };
            highest = vorrq_u8(highest, bytes);
            let run = flags(bytes, &runs, HIGH_RUNS);
            let set = flags(bytes, &sets, 0);
            // SAFETY: sixteen bytes are written of sixteen.
            unsafe { vst1q_u8(run_out.as_mut_ptr(), run) };
            // SAFETY: as above.
            unsafe { vst1q_u8(set_out.as_mut_ptr(), set) };
        }
        let mut here = Masks {
            runs: transpose(&run_flags),
            sets: transpose(&set_flags),
            leads: [0; 8],
        };
        count_masks(counts, &here, carry);
        if vmaxvq_u8(highest) >= 0x80 {
            here.leads = scalar::scan::leads(counts, &carry.leads, chunk);
        }
        *carry = here;
    }
    scalar::scan::scan(counts, carry, rest);
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
