//! How fast tokens are counted: exactly and as an estimate, with every set of instructions
//! that this machine has, beside other tokenizers, warm and cold.
//!
//! Everything runs on one core, in one run, in turn, and is timed by what its process takes
//! of the processor. Counts are compared before anything is
//! timed. `tokens.ratio.*` says how many times as long a peer takes (more is better for
//! us), as the median of the rounds' ratios; `vs_gigatoken` is its `encode` and the length
//! of what that gives, timed inside its Python process; `vs_gigatoken_without_ids` the same
//! work with no ids handed to Python, which is no count but shows what they cost. A sum of
//! bytes is the null baseline; see `tokens/ceilings.rs`.
//!
//! `--fit` learns the estimate's weights anew and writes them into the package; a full run
//! says how far off the estimate is on texts that had no part in that.
//!
//! `--quick` takes fewer texts, sizes and rounds. What is not here is `SKIPPED` by name.

#[path = "tokens/ceilings.rs"]
mod ceilings;
#[path = "tokens/child.rs"]
mod child;
#[path = "tokens/clock.rs"]
mod clock;
#[path = "tokens/cold.rs"]
mod cold;
#[path = "tokens/fit/mod.rs"]
mod fit;
#[path = "tokens/gigatoken.rs"]
mod gigatoken;
#[path = "tokens/memory.rs"]
mod memory;
#[path = "tokens/ours.rs"]
mod ours;
#[path = "tokens/peers.rs"]
mod peers;
#[path = "tokens/ratios.rs"]
mod ratios;
#[path = "../../edge-userspace/tokens/tests/reference/mod.rs"]
mod reference;
#[path = "tokens/speed.rs"]
mod speed;
#[path = "tokens/summary.rs"]
mod summary;
#[path = "tokens/texts.rs"]
mod texts;

use edge_userspace::tokens::{Isa, Vocabulary};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};
use summary::Summary;

/// How much.
#[derive(Clone, Copy)]
struct Effort {
    /// Of a corpus, for the ratios.
    corpus_bytes: usize,
    /// Rounds of those that are fast.
    rounds: usize,
    /// Rounds of those that take their time.
    slow_rounds: usize,
    /// Samples of a figure, and what one takes at least.
    speed_rounds: usize,
    least: Duration,
    cold_rounds: usize,
    adversarial_bytes: usize,
    /// Of random text, after which memory is looked at.
    memory_bytes: usize,
}

const FULL: Effort = Effort {
    corpus_bytes: 4 << 20,
    rounds: 9,
    slow_rounds: 2,
    speed_rounds: 5,
    least: Duration::from_millis(3),
    cold_rounds: 3,
    adversarial_bytes: 1 << 20,
    memory_bytes: 1_000_000_000,
};
const QUICK: Effort = Effort {
    corpus_bytes: 1 << 20,
    rounds: 5,
    slow_rounds: 1,
    speed_rounds: 3,
    least: Duration::from_millis(1),
    cold_rounds: 2,
    adversarial_bytes: 1 << 20,
    memory_bytes: 50_000_000,
};
/// `cargo test --benches`: only whether everything gives its answer.
const TRIAL: Effort = Effort {
    corpus_bytes: 1 << 16,
    rounds: 1,
    slow_rounds: 1,
    speed_rounds: 1,
    least: Duration::ZERO,
    cold_rounds: 1,
    adversarial_bytes: 1 << 16,
    memory_bytes: 5_000_000,
};

const SIZES: [(&str, usize); 5] = [
    ("512b", 512),
    ("2kb", 2 << 10),
    ("32kb", 32 << 10),
    ("1mb", 1 << 20),
    ("16mb", 16 << 20),
];

fn main() -> ExitCode {
    if let Some(code) = child::main() {
        return code;
    }
    let said = |argument: &str| std::env::args().any(|said| said == argument);
    if said("--list") {
        return ExitCode::SUCCESS;
    }
    let effort = match (said("--bench"), said("--quick")) {
        (false, _) => TRIAL,
        (true, true) => QUICK,
        (true, false) => FULL,
    };
    let is_full = said("--bench") && !said("--quick");
    if said("--fit") {
        return fitted();
    }
    let began = Instant::now();
    match clock::one_core() {
        Ok(core) => println!("everything on core {core}, one at a time"),
        Err(why) => println!("not bound to a core: {why}"),
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("the load was {}", load.trim());
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        println!("SKIPPED tokens.*.{isa}.*: this machine does not have it");
    }
    let (mut corpora, missing) = texts::corpora(effort.corpus_bytes);
    for why in missing {
        println!("SKIPPED tokens.*.{why}");
    }
    if !is_full {
        corpora.truncate(6);
    }
    let hard = texts::adversarial(effort.adversarial_bytes);
    let sizes = match is_full {
        true => &SIZES[..],
        false => &SIZES[..2],
    };
    if let Some(corpus) = corpora.first() {
        ceilings::run(&corpus.text, &SIZES[2..4], effort);
        speed::estimate_in_cache(&corpus.text, effort);
    }
    let mut summaries = Vec::new();
    for vocabulary in Vocabulary::EMBEDDED {
        println!("-- {vocabulary} after {:.0?}", began.elapsed());
        let mut summary = Summary::default();
        let embedded = ours::vocabulary(vocabulary);
        let normal: Vec<_> = corpora.iter().map(|it| it.normal(&embedded)).collect();
        ratios::run(vocabulary, &normal, effort, &mut summary);
        cold::run(vocabulary, &normal, SIZES[1], effort, &mut summary);
        cold::run(vocabulary, &normal, SIZES[3], effort, &mut summary);
        speed::exact(vocabulary, &corpora, sizes, effort);
        speed::adversarial(vocabulary, &hard, "1mb", effort);
        speed::estimate(vocabulary, &corpora, sizes, effort);
        memory::run(vocabulary, effort.memory_bytes);
        summaries.push((vocabulary, summary));
    }
    if is_full {
        println!("-- errors of the estimate after {:.0?}", began.elapsed());
        if let Err(why) = fit::errors(&reference::corpora::folder()) {
            println!("SKIPPED tokens.estimate.error_pct.*: {why}");
        }
    }
    for (vocabulary, summary) in summaries {
        summary.print(vocabulary);
    }
    println!("done in {:.0?}", began.elapsed());
    ExitCode::SUCCESS
}

/// The weights of the estimate, learnt anew.
fn fitted() -> ExitCode {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edge-userspace/tokens/weights");
    let today = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    match fit::run(&reference::corpora::folder(), &weights, &today[..10]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
