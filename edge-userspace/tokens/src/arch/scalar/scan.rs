//! The estimate's scan without vectors: what the other variants have to equal.

use crate::estimate::algebra::{Abacus, Carry, Counts, Masks, at, count_masks, transpose};
use crate::estimate::characters::length;
use crate::estimate::classes::{HIGH_RUNS, KINDS, RUNS, SETS};

/// Adds the features of `bytes`, which follow those that `carry` is of. Only the last call
/// for a text may have a length that is no multiple of 64.
pub(crate) fn scan(counts: &mut Counts, carry: &mut Carry, bytes: &[u8]) {
    carry.characters.carried(carry.last, bytes);
    let mut abaci = [Abacus::new(), Abacus::new()];
    let mut before = carry.last[2];
    for (i, chunk) in bytes.chunks(64).enumerate() {
        let mut runs = [0; 64];
        let mut sets = [0; 64];
        let mut kinds = [[0; 64]; 2];
        let mut same = 0;
        let mut high = false;
        for (at, &byte) in chunk.iter().enumerate() {
            same |= u64::from(byte == before) << at;
            before = byte;
            if byte < 0x80 {
                let byte = usize::from(byte);
                runs[at] = RUNS[byte];
                sets[at] = SETS[byte];
                kinds[0][at] = KINDS[0][byte];
                kinds[1][at] = KINDS[1][byte];
            } else {
                runs[at] = HIGH_RUNS;
                high = true;
            }
        }
        let here = Masks {
            runs: transpose(&runs),
            sets: transpose(&sets),
        };
        count_masks(counts, &here, &carry.masks, same);
        for (group, flags) in kinds.iter().enumerate() {
            abaci[group].add(flags, counts, at::KIND + 8 * group);
        }
        if high {
            let mut leads = [0; 5];
            for (at, &byte) in chunk.iter().enumerate() {
                leads[length(byte)] |= 1 << at;
            }
            carry
                .characters
                .begun(bytes, 64 * i, leads[2], leads[3], leads[4]);
        }
        carry.masks = here;
    }
    for (group, abacus) in abaci.iter_mut().enumerate() {
        abacus.settle(counts, at::KIND + 8 * group);
    }
    carry.characters.settle(counts);
    carry.follow(bytes);
}

/// Adds `counts` to `sums` and leaves noughts.
#[inline(always)]
pub(crate) fn settle(sums: &mut Counts, counts: &mut Counts) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += std::mem::take(count);
    }
}
