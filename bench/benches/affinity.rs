//! What it is worth that a conversation goes on where its beginning is cached, through running
//! routers before upstreams that simulate a KV cache each.
//!
//! The routers are processes of their own (the edge is this program again, as `edge`), the
//! upstreams and the clients are threads of this one, so times hold what the machine adds;
//! what the simulated reading of prompts takes is far more.
//!
//! [`two`] is the edge with and without its memory before two upstreams; [`routers`] the edge
//! beside cache-aware routers before four. `--quick` holds fewer conversations.

#[path = "affinity/client.rs"]
mod client;
#[path = "affinity/place.rs"]
mod place;
#[path = "affinity/routers/mod.rs"]
mod routers;
#[path = "affinity/two.rs"]
mod two;

use std::process::ExitCode;
use std::time::Duration;

/// A hang guard.
const PATIENCE: Duration = Duration::from_secs(120);

/// As in the program `edge`, which this one can be.
#[global_allocator]
static ALLOCATOR: edge_userspace::memory::Allocator = edge_userspace::memory::Allocator;

fn main() -> ExitCode {
    if bench::daemon::is_edge() {
        return edge_userspace::cli::main();
    }
    let said = |argument: &str| std::env::args().any(|said| said == argument);
    if said("--list") {
        return ExitCode::SUCCESS;
    }
    // `cargo test --benches` asks for no record either.
    let is_quick = said("--quick") || !said("--bench");
    println!("load average {}", bench::daemon::load_average());
    two::run(is_quick);
    routers::run(is_quick);
    ExitCode::SUCCESS
}
