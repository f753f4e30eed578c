//! The official SDKs, which the tests run against the edge.
//!
//! They are put into a folder of the build directory (`EDGE_CLIENTS` names another).

use crate::cargo;
use crate::packages::Packages;
use std::path::PathBuf;

/// What `setup` installs.
pub(crate) const PURPOSE: &str = "tests run the official SDKs against the edge; skipped without";
/// What brings them.
pub(crate) const FIX: &str = "cargo xtask setup --clients";

/// Installs what is not there in its version.
///
/// # Errors
/// What could not be brought, and by which command.
pub(crate) fn install() -> anyhow::Result<()> {
    packages()?.install()
}

/// What is there; or what is not.
pub(crate) fn found() -> Result<String, String> {
    packages().map_err(|error| error.to_string())?.found()
}

fn packages() -> anyhow::Result<Packages> {
    let folder: PathBuf = match std::env::var_os("EDGE_CLIENTS") {
        Some(folder) => folder.into(),
        None => cargo::metadata()?.target_directory.join("clients"),
    };
    let lists = crate::workspace().join("edge-userspace/tests/sdk");
    Ok(Packages {
        folder,
        requirements: Some(lists.join("python/requirements.txt")),
        package: Some(lists.join("node/package.json")),
    })
}
