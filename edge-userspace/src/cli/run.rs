//! `edge run`.

use super::output::Outcome;
use crate::daemon;
use std::path::PathBuf;

/// Run the daemon.
///
/// Logs go to standard error. SIGTERM and SIGINT stop it: no new connections, running streams
/// may end within listen.drain_timeout, a second signal ends them at once.
#[derive(clap::Args)]
#[command(after_help = "Example:
  edge run --config /etc/edge/edge.toml")]
pub(super) struct Run {
    /// The configuration.
    #[arg(long, env = "EDGE_CONFIG", value_name = "FILE")]
    config: PathBuf,
}

impl Run {
    pub(super) fn run(self) -> Outcome {
        Ok(daemon::run(&self.config)?)
    }
}
