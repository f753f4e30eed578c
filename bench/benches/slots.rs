//! The table of contexts beside other maps: look-ups that hit and that miss, with as many
//! contexts as fit into the first cache, the second, the third and none; two threads with a
//! writer; hit rates on the traces of `bench::trace`; and what a fingerprint takes.
//!
//! All tables have the same keys and values, and the same hasher, which takes the
//! fingerprint's first word as it is: it is a hash already. In a dependent look-up the next
//! key is made of what the one before found. Times are of the thread on the processor; of
//! some rounds, taken in turn, the median, and so with ratios. What is found is added up and compared.
//! Beside them: `null` is the loop without a table; `direct` is an array without locks, in
//! which one key throws another out.
//!
//! Timed on a machine that does nothing else, or figures of large tables tell what others do
//! to the caches.

#[path = "slots/allocations.rs"]
mod allocations;
#[path = "slots/contexts.rs"]
mod contexts;
#[path = "slots/evicted.rs"]
mod evicted;
#[path = "slots/fingerprint.rs"]
mod fingerprint;
#[path = "slots/look_ups.rs"]
mod look_ups;
#[path = "slots/replay.rs"]
mod replay;
#[path = "slots/tables.rs"]
mod tables;
#[path = "slots/threads.rs"]
mod threads;

use contexts::Contexts;
use std::process::ExitCode;

/// How much.
#[derive(Clone, Copy)]
struct Effort {
    /// Look-ups of a round.
    look_ups: usize,
    rounds: usize,
}

fn main() -> ExitCode {
    let said = |argument: &str| std::env::args().any(|said| said == argument);
    if said("--list") {
        return ExitCode::SUCCESS;
    }
    let bench = said("--bench");
    // The most contexts fit nowhere but into memory.
    let (most, look_ups, rounds) = match (bench, said("--quick")) {
        // `cargo test --benches`: only whether everything gets its answer.
        (false, _) => (1 << 13, 1 << 10, 1),
        (true, true) => (1 << 20, 1 << 15, 7),
        (true, false) => (1 << 20, 1 << 17, 25),
    };
    let effort = Effort { look_ups, rounds };
    let sizes = [
        ("l1", 256, tables::DEFAULT_SLOTS),
        ("l1_half_full", 256, 512),
        ("l2", 4096, tables::DEFAULT_SLOTS),
        // With room for twice as many, as the others have it.
        ("64k", 65_536.min(most), 2 * 65_536.min(most)),
        ("64k_default", 65_536.min(most), tables::DEFAULT_SLOTS),
        ("1m", most, 2 * most),
    ];
    for (name, number, slots) in sizes {
        let contexts = Contexts::new(number, slots);
        look_ups::run(name, &contexts, effort);
    }
    for (name, number, slots) in [
        ("l1", 256, tables::DEFAULT_SLOTS),
        ("64k", 65_536.min(most), 2 * 65_536.min(most)),
    ] {
        threads::run(name, &Contexts::new(number, slots), effort);
    }
    evicted::run(&Contexts::new(4096, tables::DEFAULT_SLOTS), effort);
    replay::run(bench);
    fingerprint::run(effort.rounds);
    ExitCode::SUCCESS
}
