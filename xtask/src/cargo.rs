//! cargo, as it is asked things and given work.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// What `cargo metadata` knows of this workspace, as far as a command needs it.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// Where build results go.
    pub(crate) target_directory: PathBuf,
    /// The members.
    pub(crate) packages: Vec<Package>,
    /// Ids of the members that plain `cargo test` covers.
    pub(crate) workspace_default_members: Vec<String>,
}

/// A member.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The lowest Rust that it builds with.
    pub(crate) rust_version: Option<String>,
    pub(crate) targets: Vec<Target>,
}

/// A thing that a member builds.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    /// Whether plain `cargo test` runs it.
    pub(crate) test: bool,
}

/// The cargo that started this binary, else the one on the `PATH`, in the workspace.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::workspace());
    cargo
}

/// Asks for the workspace's metadata.
pub(crate) fn metadata() -> anyhow::Result<Metadata> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata's answer")
}

/// Where the sources of a crate are that some member depends on.
pub(crate) fn sources(name: &str) -> anyhow::Result<PathBuf> {
    #[derive(Deserialize)]
    struct Everything {
        packages: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
        manifest_path: PathBuf,
    }
    let output = cargo()
        .args(["metadata", "--format-version", "1"])
        .output()
        .context("cargo metadata")?;
    let everything: Everything =
        serde_json::from_slice(&output.stdout).context("cargo metadata's answer")?;
    let mut packages = everything.packages.into_iter();
    let manifest = packages.find(|package| package.name == name);
    let manifest = manifest.map(|package| package.manifest_path);
    let folder = manifest.and_then(|path| path.parent().map(PathBuf::from));
    folder.with_context(|| format!("no crate `{name}` among the dependencies"))
}

/// Runs a command to its end on this terminal; its success is ours.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<ExitCode> {
    let status = command
        .status()
        .with_context(|| command.get_program().to_string_lossy().into_owned())?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
