//! The edge beside other proxies: one machine, one run, the same upstream, the same clients.
//!
//! Each server has one worker and CPU 0 to itself; clients and the upstream have CPU 1. Rounds of
//! all are interleaved, so that what the machine does meanwhile falls on each. What counts first is
//! the CPU time of the server for what it did: it survives noise and does not depend on how fast
//! the clients are, which the rate does.
//!
//! Beside them: `direct`, the upstream itself on CPU 0, and `splice`, which passes bytes through
//! and looks at none. Both take HTTP/1.1 without TLS, since nothing in them could end it.
//!
//! What cannot be had is named and left out. `--quick`: fewer and shorter rounds.
//! A full run writes `bench/record/edge.csv`, a plot, and the tables of `docs/benchmarks.md`.
//! `EDGE_BENCH_WORKLOADS` and `EDGE_BENCH_SUBJECTS`, names with commas between, choose some, and
//! nothing is written. `EDGE_BENCH_EDGE` names the edge's program where it is not to be this one:
//! `cargo xtask bench edge` names what `cargo xtask dist` builds. `edge_plain` is this one then.

#[path = "edge/client.rs"]
mod client;
#[path = "edge/connections.rs"]
mod connections;
#[path = "edge/h2load.rs"]
mod h2load;
#[path = "edge/prompts.rs"]
mod prompts;
#[path = "edge/record.rs"]
mod record;
#[path = "edge/splice.rs"]
mod splice;
#[path = "edge/streams.rs"]
mod streams;
#[path = "edge/subject.rs"]
mod subject;
#[path = "edge/table.rs"]
mod table;
#[path = "edge/target.rs"]
mod target;
#[path = "edge/upstream.rs"]
mod upstream;
#[path = "edge/workload.rs"]
mod workload;

use bench::is_wanted;
use record::Record;
use std::process::ExitCode;
use subject::{Subject, World};
use workload::{WORKLOADS, Workload};

/// Ours first; those that it is held against last.
const SUBJECTS: [&str; 13] = [
    "edge",
    "nginx",
    "haproxy",
    "envoy",
    "edge_chat",
    "edge_plain",
    "litellm",
    "smg",
    "vllm-router",
    "sglang-router",
    "portkey",
    "splice",
    "direct",
];

/// How much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Whether each answer is right.
    Test,
    Quick,
    Full,
}

/// As in the program `edge`, which this one can be.
#[global_allocator]
static ALLOCATOR: edge_userspace::memory::Allocator = edge_userspace::memory::Allocator;

fn main() -> ExitCode {
    if bench::daemon::is_edge() {
        return edge_userspace::cli::main();
    }
    if let Ok(role) = std::env::var(subject::ROLE) {
        let words: Vec<_> = role.split(' ').collect();
        match words[..] {
            ["upstream", address] => upstream::serve(address),
            ["splice", address, upstream] => splice::serve(address, upstream),
            _ => panic!("no such role: {role}"),
        }
    }
    let said = |argument: &str| std::env::args().any(|said| said == argument);
    if said("--list") {
        return ExitCode::SUCCESS;
    }
    let effort = match (said("--bench"), said("--quick")) {
        (false, _) => Effort::Test,
        (true, true) => Effort::Quick,
        (true, false) => Effort::Full,
    };
    println!("load average {}", bench::daemon::load_average());
    quieten();
    bench::process::pin_to(subject::CLIENTS_CPU);
    let world = World::new();
    let subjects = start(&world, effort);
    let mut record = Record::new(&subjects);
    for workload in WORKLOADS {
        if is_wanted("EDGE_BENCH_WORKLOADS", workload.name) {
            measure(&world, &subjects, workload, effort, &mut record);
        }
    }
    let is_all = ["EDGE_BENCH_WORKLOADS", "EDGE_BENCH_SUBJECTS"]
        .iter()
        .all(|variable| std::env::var_os(variable).is_none());
    record.end(effort == Effort::Full && is_all);
    ExitCode::SUCCESS
}

/// A claim that fails for each of a thousand streams is printed once.
fn quieten() {
    let printed = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string);
        let Ok(mut printed) = printed.lock() else {
            return;
        };
        if printed.insert(place) {
            usual(panic);
        }
    }));
}

/// Does the work on the calling thread.
fn block_on<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

/// Starts what can be started, and names the rest.
fn start(world: &World, effort: Effort) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for name in SUBJECTS {
        let is_ours = ["edge", "splice", "direct"].contains(&name);
        if !is_wanted("EDGE_BENCH_SUBJECTS", name) || (effort == Effort::Test && !is_ours) {
            continue;
        }
        match world.start(name) {
            Ok(subject) => {
                println!("subject {name}: {}", subject.version);
                subjects.push(subject);
            }
            Err(why) => println!("skipped {name}: {why}"),
        }
    }
    subjects
}

/// All rounds of a workload. Who fails one is named and left out of the rest of it: those of nine
/// others would be lost with it. Ours failing is a failure of the bench.
fn measure(
    world: &World,
    subjects: &[Subject],
    workload: &Workload,
    effort: Effort,
    record: &mut Record,
) {
    let mut taking_part = Vec::new();
    for subject in subjects {
        if let Some(why) = workload.skips(subject, effort) {
            println!("{}: {} is left out: {why}", workload.name, subject.name);
            continue;
        }
        // How much of it takes each about a second; this is also the warm-up.
        if let Some(sizes) = caught(workload, subject, || workload.sizes(world, subject, effort)) {
            taking_part.push((subject, sizes));
        }
    }
    let rounds = workload.rounds(effort);
    for round in 0..rounds {
        println!("{}: round {} of {rounds}", workload.name, round + 1);
        // Each begins a round in its turn.
        let number = taking_part.len();
        taking_part.rotate_left(1.min(number));
        taking_part.retain(|(subject, sizes)| {
            let sample = caught(workload, subject, || workload.run(world, subject, sizes));
            let sample = sample.map(|sample| record.add(workload, subject, round, sample));
            sample.is_some()
        });
    }
    record.tell(workload);
}

/// What `work` gives; or nothing when a claim of it did not hold, which has been printed.
fn caught<T>(workload: &Workload, subject: &Subject, work: impl FnOnce() -> T) -> Option<T> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    match outcome {
        Ok(outcome) => Some(outcome),
        Err(panic) if subject.name.starts_with("edge") => std::panic::resume_unwind(panic),
        Err(_) => {
            println!("{}: {} FAILED, see above", workload.name, subject.name);
            None
        }
    }
}
