//! The estimate's scan without vectors: what the other variants have to equal.

use crate::estimate::algebra::{Counts, Masks, count_leads, count_masks, transpose};
use crate::estimate::classes::{HIGH_RUNS, LEAD_FLAGS, RUNS, SECOND_FLAGS, SETS};

/// Adds the features of `bytes`, which follow those that `carry` is of. Only the last call
/// for a text may have a length that is no multiple of 64.
pub(crate) fn scan(counts: &mut Counts, carry: &mut Masks, bytes: &[u8]) {
    for chunk in bytes.chunks(64) {
        let mut runs = [0; 64];
        let mut sets = [0; 64];
        let mut high = false;
        for ((&byte, run), set) in chunk.iter().zip(&mut runs).zip(&mut sets) {
            if byte < 0x80 {
                *run = RUNS[usize::from(byte)];
                *set = SETS[usize::from(byte)];
            } else {
                *run = HIGH_RUNS;
                high = true;
            }
        }
        let mut here = Masks {
            runs: transpose(&runs),
            sets: transpose(&sets),
            leads: [0; 8],
        };
        count_masks(counts, &here, carry);
        if high {
            here.leads = leads(counts, &carry.leads, chunk);
        }
        *carry = here;
    }
}

/// Adds `counts` to `sums` and leaves noughts.
#[inline(always)]
pub(crate) fn settle(sums: &mut Counts, counts: &mut Counts) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += std::mem::take(count);
    }
}

/// Adds the features of lead bytes; the first group's masks.
pub(crate) fn leads(counts: &mut Counts, before: &[u64; 8], chunk: &[u8]) -> [u64; 8] {
    let mut groups = [[0; 64]; 3];
    let mut seconds = [[0; 64]; 2];
    for (i, &byte) in chunk.iter().enumerate() {
        let low = usize::from(byte & 0x3F);
        match byte {
            0xC0.. => {
                for (flags, table) in groups.iter_mut().zip(&LEAD_FLAGS) {
                    flags[i] = table[low];
                }
            }
            0x80.. => {
                for (flags, table) in seconds.iter_mut().zip(&SECOND_FLAGS) {
                    flags[i] = table[low];
                }
            }
            _ => {}
        }
    }
    let groups = groups.map(|flags| transpose(&flags));
    let seconds = seconds.map(|flags| transpose(&flags));
    count_leads(counts, &groups, &seconds, before);
    groups[0]
}
