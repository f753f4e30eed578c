//! `[quotas]`: how much keys may use.

use super::load::Loader;
use crate::keys;
use crate::usage::snapshot;
use std::path::PathBuf;

/// `[quotas]`: how much keys may use. All but the file may change while the daemon runs.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    /// Limits of keys without their own; 0, the default of each, for none.
    pub limits: keys::Quotas,
    /// How much of the most that a request asks for is reserved for its answer, per cent.
    /// Default 10.
    pub reserve_output_percent: u32,
    /// What counts as asked for when a request does not say. Default 4096.
    pub default_max_tokens: u64,
    /// Whether each of several choices (`n`) is reserved for. Default true.
    pub reserve_each_choice: bool,
    /// Tokens in five minutes beyond which a key has a burst; 0: nothing is one. Default a
    /// million.
    pub burst_tokens: u64,
    /// Where the usage of keys is kept over a restart; none: it begins at zero.
    pub usage_file: Option<PathBuf>,
}

impl Loader<'_, '_> {
    pub(super) fn quotas(&mut self) -> Quotas {
        let usage_file = self.path("quotas.usage_file");
        if let Some(path) = &usage_file
            // What it holds may be damaged: then the daemon begins anew, and says so.
            && let Err(error @ snapshot::Error::Io { .. }) = snapshot::read(path)
        {
            self.wrong(
                "quotas.usage_file",
                error.to_string(),
                "name a file that the daemon may read and write, in a directory that is there",
            );
        }
        let limit = |name| self.values.integer(name);
        Quotas {
            limits: keys::Quotas {
                requests_per_minute: limit("quotas.requests_per_minute"),
                input_tokens_per_minute: limit("quotas.input_tokens_per_minute"),
                output_tokens_per_minute: limit("quotas.output_tokens_per_minute"),
                concurrent_requests: limit("quotas.concurrent_requests"),
                tokens_per_day: limit("quotas.tokens_per_day"),
            },
            reserve_output_percent: self.integer("quotas.reserve_output_percent") as u32,
            default_max_tokens: self.integer("quotas.default_max_tokens"),
            reserve_each_choice: self.boolean("quotas.reserve_each_choice"),
            burst_tokens: self.integer("quotas.burst_tokens"),
            usage_file,
        }
    }
}
