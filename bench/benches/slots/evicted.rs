//! A hit in an edge that did other work since the last one: whatever was in the first two
//! caches is out.

use crate::Effort;
use crate::contexts::{Contexts, NOW_S, thread_ns};
use crate::tables::Table;
use bench::{figure, median};
use edge_userspace::context::slots::Slots;
use std::hint::black_box;

/// What the other work reads: more than the second cache holds.
const OTHER_BYTES: usize = 4 << 20;
/// Look-ups that are timed together: a clock takes longer than a look-up.
const TOGETHER: usize = 64;

/// Prints what such a hit takes, unannounced and announced by a prefetch.
pub(crate) fn run(contexts: &Contexts, effort: Effort) {
    let table = Slots::full(contexts);
    let other = vec![1_u8; OTHER_BYTES];
    let (mut plain, mut announced) = (Vec::new(), Vec::new());
    for round in 0..effort.rounds * 8 {
        for (samples, announce) in [(&mut plain, false), (&mut announced, true)] {
            let order = contexts.order(TOGETHER, round as u64);
            let lines = black_box(&other).iter().step_by(64);
            assert_eq!(
                lines.map(|byte| usize::from(*byte)).sum::<usize>(),
                OTHER_BYTES / 64
            );
            let keys = order
                .iter()
                .map(|number| (*number, contexts.keys[*number as usize].0));
            let keys: Vec<_> = keys.collect();
            if announce {
                keys.iter().for_each(|(_, key)| table.prefetch(key));
                // As long as a body is read.
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
            let began = thread_ns();
            let mut before = 0;
            for (number, key) in &keys {
                let [first, second] = key.fingerprint.words();
                let mut key = *key;
                key.fingerprint =
                    edge_userspace::context::Fingerprint::new([first ^ before, second]);
                let entry = table.find(&key, NOW_S).expect("it is there");
                assert_eq!(entry.tokens, *number);
                before = entry.exact >> 40;
            }
            samples.push((thread_ns() - began) / TOGETHER as f64);
        }
    }
    figure("slots.hit_evicted_ns", median(plain), "ns");
    figure("slots.hit_evicted_prefetched_ns", median(announced), "ns");
}
