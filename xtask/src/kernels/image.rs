//! Where the kernels come from: Debian's packages, unpacked and never installed.

use super::run;
use crate::ui;
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A kernel to boot.
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    /// Its modules' folder; `None` for an image by itself.
    pub(super) modules: Option<PathBuf>,
}

/// The newest kernel of a Debian series, downloaded once.
pub(super) fn of_series(folder: &Path, series: &str) -> anyhow::Result<Kernel> {
    let unpacked = folder.join(series);
    if let Some(kernel) = find(&unpacked) {
        return Ok(kernel);
    }
    ui::step(&format!("download Debian's kernel {series}"));
    let package = newest_package(series)?;
    fs::create_dir_all(&unpacked)?;
    run(Command::new("apt-get")
        .stdout(Stdio::null())
        .args(["download", &package])
        .current_dir(&unpacked))?;
    let archives = fs::read_dir(&unpacked)?.filter_map(|entry| Some(entry.ok()?.path()));
    let archive = archives
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get download left no archive of {package}"))?;
    run(Command::new("dpkg-deb")
        .arg("-x")
        .arg(&archive)
        .arg(&unpacked))?;
    fs::remove_file(archive)?;
    find(&unpacked).with_context(|| format!("{package} holds no boot/vmlinuz-*"))
}

fn find(unpacked: &Path) -> Option<Kernel> {
    let boot = files_in(&unpacked.join("boot"));
    let image = { boot }.find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    })?;
    // Debian is moving its modules to /usr.
    let places = ["lib/modules", "usr/lib/modules"].map(|place| unpacked.join(place));
    let modules = places.iter().find_map(|place| files_in(place).next());
    Some(Kernel { image, modules })
}

fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

/// The newest small ("cloud") kernel package of a series.
fn newest_package(series: &str) -> anyhow::Result<String> {
    let escaped = series.replace('.', r"\.");
    let pattern = format!(r"^linux-image-{escaped}\.[0-9].*-cloud-amd64$");
    let output = Command::new("apt-cache")
        .args(["search", "--names-only", &pattern])
        .output()
        .context("apt-cache (Debian only)")?;
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = listing
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names
        .max_by_key(|name| numbers(name))
        .map(str::to_owned)
        .with_context(|| {
            format!("Debian offers no kernel {series} here; run apt-get update, or give --image")
        })
}

/// The numbers in a package's name, for `6.1.0-9` comes before `6.1.0-10`.
fn numbers(name: &str) -> Vec<u64> {
    let parts = name.split(|character: char| !character.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_package_is_by_number_not_by_letter() {
        let older = numbers("linux-image-6.1.0-9-cloud-amd64");
        assert!(older < numbers("linux-image-6.1.0-10-cloud-amd64"));
        assert!(older < numbers("linux-image-6.12.1+deb12-cloud-amd64"));
    }
}
