//! Two threads that look up, alone and while a third one writes.

use crate::Effort;
use crate::contexts::{AHEAD, Contexts, each, entry};
use crate::tables::{DashMap, Moka, Papaya, QuickCache, Table};
use bench::{figure, figure_exact, median};
use edge_userspace::context::slots::Slots;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// What the writer puts in before it sleeps for a millisecond: some 100,000 a second, ten
/// times what an edge of two cores does.
const BATCH: usize = 100;
/// So often a reader looks all up: some milliseconds, so that some batches fall into it.
const PASSES: usize = 4;

/// Prints what a look-up of each of two threads takes.
pub(crate) fn run(size: &str, contexts: &Contexts, effort: Effort) {
    let ours = Slots::full(contexts);
    let (papaya, quick_cache) = (Papaya::full(contexts), QuickCache::full(contexts));
    let (dashmap, moka) = (DashMap::full(contexts), Moka::full(contexts));
    for writer in [false, true] {
        let mut samples: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for round in 0..effort.rounds.div_ceil(2) {
            let run = |name, ns: f64| (name, ns);
            let times = [
                run("slots", two(&ours, contexts, effort, round, writer)),
                run("papaya", two(&papaya, contexts, effort, round, writer)),
                run(
                    "quick_cache",
                    two(&quick_cache, contexts, effort, round, writer),
                ),
                run("dashmap", two(&dashmap, contexts, effort, round, writer)),
                run("moka", two(&moka, contexts, effort, round, writer)),
            ];
            for (name, ns) in times {
                samples.entry(name).or_default().push(ns);
            }
        }
        let what = if writer { "with_writer" } else { "2_threads" };
        let ours = samples["slots"].clone();
        for (name, samples) in samples {
            let ratios = samples.iter().zip(&ours).map(|(peer, ours)| peer / ours);
            let ratio = median(ratios.collect());
            figure(
                &format!("slots.{what}.{size}.{name}_ns"),
                median(samples),
                "ns",
            );
            if name != "slots" {
                figure_exact(
                    &format!("slots.ratio.{what}.{size}.vs_{name}"),
                    ratio,
                    "times",
                );
            }
        }
    }
}

/// Nanoseconds of a dependent look-up, the mean of two threads.
fn two<T: Table>(
    table: &T,
    contexts: &Contexts,
    effort: Effort,
    round: usize,
    writer: bool,
) -> f64 {
    let start = Barrier::new(2 + usize::from(writer));
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let readers = [1, 2].map(|of| {
            let start = &start;
            threads.spawn(move || {
                let look_ups = effort.look_ups;
                let order = contexts.order(look_ups + AHEAD, (round * 2 + of) as u64);
                // What the table before left in the caches is no part of it.
                let (_, warm) = each::<true>(contexts, &order, |key| table.find(key));
                start.wait();
                let runs: [_; PASSES] =
                    std::array::from_fn(|_| each::<true>(contexts, &order, |key| table.find(key)));
                let all = order[..look_ups].iter().map(|of| u64::from(*of) + 1);
                let all = all.sum::<u64>();
                assert_eq!(warm, all, "{}", T::NAME);
                let ns = runs.iter().map(|(ns, _)| ns).sum::<f64>() / PASSES as f64;
                let sum = runs.iter().map(|(_, sum)| sum).sum::<u64>();
                (ns, all * PASSES as u64, sum)
            })
        });
        if writer {
            let (start, over) = (&start, &over);
            threads.spawn(move || {
                let order = contexts.order(1 << 16, round as u64);
                start.wait();
                for batch in order.chunks(BATCH).cycle() {
                    for number in batch {
                        let number = *number as usize;
                        table.put(&contexts.keys[number], entry(number));
                    }
                    if over.load(Relaxed) {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let times = readers.map(|reader| reader.join().expect("a reader"));
        over.store(true, Relaxed);
        // A context that is just being written may be missed.
        for (_, all, found) in times {
            let missed = all - found;
            assert!(missed * 1000 <= all, "{}: of {all}, {found} found", T::NAME);
        }
        times.iter().map(|(ns, _, _)| ns).sum::<f64>() / 2.0
    })
}
