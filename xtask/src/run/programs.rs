//! Finds the programs that the demo shows: built from this workspace, or lying beside xtask.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The two programs.
#[derive(Debug)]
pub(super) struct Programs {
    /// The edge itself.
    pub(super) edge: PathBuf,
    /// Its demo client and authority.
    pub(super) edge_demo: PathBuf,
    /// Where they come from, for people.
    pub(super) origin: String,
}

impl Programs {
    /// `EDGE_BIN` when set, else built when the workspace is here, else those beside xtask.
    ///
    /// # Errors
    /// When the build fails or a program is missing.
    pub(super) fn find(workspace: &Path) -> anyhow::Result<Self> {
        let chosen = std::env::var_os("EDGE_BIN").map(PathBuf::from);
        if !workspace.join("Cargo.toml").exists() {
            let own = std::env::current_exe().context("where is xtask?")?;
            let beside = |name: &str| own.with_file_name(name);
            return Self::checked(
                chosen.unwrap_or_else(|| beside("edge")),
                beside("edge-demo"),
                "no workspace here".to_owned(),
            );
        }
        let edge_demo = build(workspace, "edge-demo", "edge-demo")?;
        match chosen {
            Some(edge) => Self::checked(edge, edge_demo, "EDGE_BIN".to_owned()),
            None => {
                let edge = build(workspace, "edge-userspace", "edge")?;
                Self::checked(edge, edge_demo, "built from this workspace".to_owned())
            }
        }
    }

    fn checked(edge: PathBuf, edge_demo: PathBuf, origin: String) -> anyhow::Result<Self> {
        for path in [&edge, &edge_demo] {
            if !path.is_file() {
                bail!(
                    "{} is not there ({origin}); set EDGE_BIN, put it beside xtask, or run in the workspace",
                    path.display()
                );
            }
        }
        Ok(Self {
            edge,
            edge_demo,
            origin,
        })
    }
}

/// Builds a binary, with cargo's own progress on stderr, and gives its path.
fn build(workspace: &Path, package: &str, binary: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(workspace)
        .args(["build", "--package", package, "--bin", binary])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!(
            "`cargo build --package {package}` failed ({})",
            output.status
        );
    }
    // The path is cargo's to know: target directories can be anywhere.
    let path = String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            let of_it = message["target"]["name"] == binary;
            of_it.then(|| message["executable"].as_str().map(PathBuf::from))?
        });
    path.with_context(|| format!("cargo did not say where it put {binary}"))
}
