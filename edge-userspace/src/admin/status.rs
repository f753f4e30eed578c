//! What `/status` says, for `edge status` and for programs.

use super::View;
use super::contexts::Contexts;
use super::prompts::Prompts;
use super::usage::Usage;
use crate::charges;
use crate::daemon;
use crate::kernel;
use crate::keys::watch;
use crate::prompt::calibration;
use crate::telemetry;
use crate::upstream;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One look at the daemon.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The daemon's version.
    pub version: &'static str,
    /// Its process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// `ready`, or why not.
    pub ready: &'static str,
    /// The configuration's path.
    pub config: PathBuf,
    /// How its file has been followed since the start.
    pub configuration: daemon::Configuration,
    /// Where clients connect.
    pub listen: Vec<SocketAddr>,
    /// The kernel half.
    pub kernel: kernel::Status,
    /// The table of keys and the store behind it.
    pub keys: Keys,
    /// The tables of used tokens, source prefixes and keys, and the limits they go by.
    pub charges: charges::Status,
    /// How prompts are counted, and what became of them.
    pub prompts: Prompts,
    /// What is remembered of conversations, if anything is.
    pub contexts: Option<Contexts>,
    /// What is learnt of models whose tokenizer is not published.
    pub calibration: Vec<calibration::Learnt>,
    /// What keys have used, and may use.
    pub usage: Usage,
    /// Where requests go, and what is outstanding there.
    pub upstreams: Vec<upstream::Status>,
    /// What the data path has done.
    pub traffic: telemetry::Summary,
}

/// The table of keys and the store behind it.
#[derive(Debug, Serialize)]
pub struct Keys {
    /// Keys in the table.
    pub keys: u64,
    /// Those of them that are for this edge's audience; all others are refused.
    pub for_audience: u64,
    /// Most that it takes.
    pub capacity: u64,
    /// Keys of the store that had no room.
    pub refused_for_capacity: u64,
    /// Whether every key of the store is in the table.
    pub complete: bool,
    /// Counts the batches that changed the table.
    pub generation: u64,
    /// The store.
    pub store: watch::Status,
}

impl Status {
    pub(super) fn of(view: &View) -> Self {
        let snapshot = view.keyring.snapshot();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_s: view.started.elapsed().as_secs(),
            ready: view.phase.ready().unwrap_or_else(|why| why),
            config: view.config.clone(),
            configuration: (view.configuration)(),
            listen: view.listen.clone(),
            kernel: (view.kernel)(),
            keys: Keys {
                keys: snapshot.len() as u64,
                for_audience: snapshot.for_audience() as u64,
                capacity: snapshot.capacity() as u64,
                refused_for_capacity: snapshot.refused_for_capacity(),
                complete: snapshot.complete(),
                generation: snapshot.generation(),
                store: view.store.status(),
            },
            charges: (view.charges)(),
            prompts: Prompts::of(view),
            contexts: Contexts::of(view),
            calibration: view.prompts.calibration().learnt(),
            usage: Usage::of(view),
            upstreams: view.upstreams.status(),
            traffic: view.metrics.summary(),
        }
    }
}
