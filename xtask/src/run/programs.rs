//! Finds the programs that the demo shows: built from this workspace, or lying beside xtask.

use super::interrupt::Interrupt;
use super::system;
use anyhow::{Context as _, bail};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// A hang guard: a cold build on a slow machine takes many minutes.
const BUILD_GUARD: Duration = Duration::from_secs(3600);
/// As xtask itself was built.
const RELEASE: bool = !cfg!(debug_assertions);

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
    pub(super) fn find(workspace: &Path, interrupt: &Interrupt) -> anyhow::Result<Self> {
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
        if let Some(edge) = chosen {
            let [edge_demo] = build(["edge-demo"], RELEASE, interrupt)?;
            return Self::checked(edge, edge_demo, "EDGE_BIN".to_owned());
        }
        let [edge, edge_demo] = build(["edge", "edge-demo"], RELEASE, interrupt)?;
        Self::checked(edge, edge_demo, "built from this workspace".to_owned())
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

/// Builds binaries, with cargo's own progress on stderr, and gives their paths.
///
/// In one go and without naming packages: so the features of what they share are those of a
/// plain `cargo build`, and nothing is built twice.
///
/// # Errors
/// When cargo cannot be run or fails.
pub(crate) fn build<const N: usize>(
    binaries: [&str; N],
    release: bool,
    interrupt: &Interrupt,
) -> anyhow::Result<[PathBuf; N]> {
    let mut command = crate::cargo::cargo();
    command
        .args(["build", "--message-format=json-render-diagnostics"])
        .args(binaries.iter().flat_map(|name| ["--bin", name]))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if release {
        command.arg("--release");
    }
    let mut cargo = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let mut messages = cargo.stdout.take().context("cargo has no stdout")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        messages.read_to_string(&mut text).map(|_| text)
    });
    let status = interrupt.wait_for("cargo", BUILD_GUARD, || Ok(cargo.try_wait()?));
    if status.is_err() {
        let _ = system::terminate(&cargo);
        let _ = cargo.wait();
    }
    let status = status?;
    if !status.success() {
        bail!(
            "cargo could not build {} ({status})",
            binaries.join(" and ")
        );
    }
    let messages = reader.join().ok().context("cargo's messages")??;
    // The path is cargo's to know: target directories can be anywhere.
    let path = |binary: &&str| {
        let path = messages.lines().find_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            let of_it = message["target"]["name"] == **binary;
            of_it.then(|| message["executable"].as_str().map(PathBuf::from))?
        });
        path.with_context(|| format!("cargo did not say where it put {binary}"))
    };
    let paths = binaries
        .iter()
        .map(path)
        .collect::<anyhow::Result<Vec<_>>>()?;
    paths.try_into().ok().context("as many paths as binaries")
}
