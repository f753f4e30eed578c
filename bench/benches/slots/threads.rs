//! Two threads that look up, alone and while a third one writes.

use crate::Effort;
use crate::contexts::{Contexts, entry, thread_ns};
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

/// Prints what a look-up of each of two threads takes.
pub(crate) fn run(size: &str, contexts: &Contexts, effort: Effort) {
    let ours = Slots::full(contexts);
    let (papaya, quick_cache) = (Papaya::full(contexts), QuickCache::full(contexts));
    let (dashmap, moka) = (DashMap::full(contexts), Moka::full(contexts));
    for writer in [false, true] {
        let mut samples: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for round in 0..effort.rounds {
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
                let order = contexts.order(effort.look_ups, (round * 2 + of) as u64);
                start.wait();
                let began = thread_ns();
                let (mut before, mut wrong) = (0, 0);
                for number in order {
                    // Always 0, which the compiler cannot know.
                    let key = &contexts.keys[number as usize ^ before];
                    match table.find(key) {
                        Some(entry) if entry.tokens == number => {
                            before = (entry.exact >> 40) as usize;
                        }
                        _ => wrong += 1,
                    }
                }
                let ns = thread_ns() - began;
                (ns / effort.look_ups as f64, wrong)
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
        let wrong: usize = times.iter().map(|(_, wrong)| wrong).sum();
        assert!(
            wrong * 1000 <= effort.look_ups,
            "{}: {wrong} not found",
            T::NAME
        );
        times.iter().map(|(ns, _)| ns).sum::<f64>() / 2.0
    })
}
