//! Puts the parts together: start, reload, drain, stop.

use crate::config;
use std::path::Path;

/// Why the daemon ended with a failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// This build has no data path to run yet.
    #[error("this build cannot serve yet: it has no data path")]
    NoDataPath,
}

/// Runs until a signal stops it.
///
/// # Errors
/// When it cannot start.
pub fn run(config: &Path) -> Result<(), Error> {
    config::load(config)?;
    Err(Error::NoDataPath)
}
