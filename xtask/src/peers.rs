//! Proxies and gateways that the edge is measured beside.
//!
//! Those of Debian are installed as packages; of the others each has a folder of its own in the
//! build directory (`EDGE_PEERS` names another), for no two ask for the same versions of what
//! they are built on. Which, and in which versions, the lists in `bench/peers` say. Nothing here
//! runs one: the benches do, and go on without a peer that is not there.

use crate::cargo;
use crate::packages::Packages;
use crate::setup;
use crate::tool::{PEER_TOOLS, Source, Tool};
use crate::ui::{self, Tone, paint};
use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// What `setup` installs.
pub(crate) const PURPOSE: &str = "the edge is measured beside them; benches go on without";
/// What brings them.
pub(crate) const FIX: &str = "cargo xtask setup --peers";

/// Installs what is not there in its version; says what cannot be had.
///
/// # Errors
/// When the lists or the build directory cannot be read.
pub(crate) fn install() -> anyhow::Result<()> {
    debian();
    let folder = folder()?;
    for (name, packages) in all(&folder)? {
        let outcome = packages.install();
        let found = outcome.and_then(|()| packages.found().map_err(anyhow::Error::msg));
        match found {
            Ok(_) => println!("{} {name}", paint(Tone::Good, "ready:")),
            Err(why) => println!("{} {name}: {why:#}", paint(Tone::Note, "skipped:")),
        }
    }
    Ok(())
}

/// The names of those that are there in their versions; or what is not. Without Debian's.
pub(crate) fn found() -> Result<String, String> {
    let all = folder().and_then(|folder| all(&folder));
    let mut names = Vec::new();
    for (name, packages) in all.map_err(|error| format!("{error:#}"))? {
        packages.found().map_err(|why| format!("{name}: {why}"))?;
        names.push(name);
    }
    Ok(names.join(", "))
}

/// The programs that Debian has.
fn debian() {
    let missing = |tool: &&Tool| tool.version().is_err();
    let wanted = PEER_TOOLS.iter().filter(missing);
    let wanted: Vec<String> = wanted
        .filter_map(|tool| match tool.source {
            Source::Debian(package) => Some(package.into()),
            Source::Crate(_) => None,
        })
        .collect();
    if !wanted.is_empty() && setup::is_root() && setup::apt_get_is_here() {
        // Of several packages one that cannot be had keeps none of the others away.
        for package in wanted {
            if let Err(why) = setup::install(vec![package.clone()]) {
                ui::step(&format!("{package} was not installed: {why:#}"));
            }
        }
    }
    for tool in &PEER_TOOLS {
        match tool.version() {
            Ok(_) => println!("{} {}", paint(Tone::Good, "ready:"), tool.name),
            Err(why) => println!(
                "{} {}: {why}\n    {}",
                paint(Tone::Note, "skipped:"),
                tool.name,
                tool.fix()
            ),
        }
    }
}

/// Each list in `bench/peers`, by its folder's name.
fn all(folder: &Path) -> anyhow::Result<Vec<(String, Packages)>> {
    let lists = crate::workspace().join("bench/peers");
    let entries = std::fs::read_dir(&lists).with_context(|| lists.display().to_string())?;
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let list = |file: &str| Some(entry.path().join(file)).filter(|path| path.exists());
        let (requirements, package) = (list("requirements.txt"), list("package.json"));
        if requirements.is_some() || package.is_some() {
            let folder = folder.join(&name);
            all.push((
                name,
                Packages {
                    folder,
                    requirements,
                    package,
                },
            ));
        }
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(all)
}

fn folder() -> anyhow::Result<PathBuf> {
    Ok(match std::env::var_os("EDGE_PEERS") {
        Some(folder) => folder.into(),
        None => cargo::metadata()?.target_directory.join("peers"),
    })
}
