//! The guest's file system: the test binaries with their data and libraries, the network
//! tools, and a first process that loads modules, runs the parts and switches off.

use super::{Part, modules, run, which};
use crate::{cargo, ui};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is booted, built.
pub(super) struct Binaries {
    fixtures: PathBuf,
    guest: PathBuf,
    /// The daemon, which the guest's tests start by the path that cargo told them.
    edge: PathBuf,
}

/// What the guest's tests call.
const TOOLS: [&str; 4] = ["ip", "tc", "ss", "ethtool"];

/// A part of this many seconds hangs: under emulation all of them take some tens.
const PART_S: u32 = 200;

impl Binaries {
    pub(super) fn build() -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Message {
            target: Option<Target>,
            executable: Option<PathBuf>,
        }
        #[derive(Deserialize)]
        struct Target {
            name: String,
        }
        ui::step("build the tests kernel_fixtures and guest");
        let output = cargo::cargo()
            // Of all members, as `cargo xtask test` builds it, so that nothing is built twice.
            .args(["test", "--test", "kernel_fixtures", "--test", "guest"])
            .args(["--no-run", "--message-format", "json"])
            .stderr(Stdio::inherit())
            .output()
            .context("cargo test --no-run")?;
        if !output.status.success() {
            bail!("the tests do not build");
        }
        let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Message>();
        let built: Vec<_> = messages
            .filter_map(|message| message.ok())
            .filter_map(|message| Some((message.target?.name, message.executable?)))
            .collect();
        let find = |name: &str| {
            let found = built.iter().find(|(target, _)| target == name);
            let (_, path) = found.with_context(|| format!("cargo names no executable {name}"))?;
            anyhow::Ok(path.clone())
        };
        Ok(Self {
            fixtures: find("kernel_fixtures")?,
            guest: find("guest")?,
            edge: find("edge")?,
        })
    }
}

/// The part of the archive that is the same for every kernel.
pub(super) fn pack(folder: &Path, binaries: &Binaries) -> anyhow::Result<PathBuf> {
    let root = empty(&folder.join("root"))?;
    for directory in ["bin", "proc", "sys", "tmp", "dev", "run"] {
        fs::create_dir_all(root.join(directory))?;
    }
    let busybox = which("busybox").context("busybox")?;
    fs::copy(&busybox, root.join("bin/busybox"))?;
    symlink("busybox", root.join("bin/sh"))?;
    let places = [
        (&binaries.fixtures, root.join("bin/kernel_fixtures")),
        (&binaries.guest, root.join("bin/guest")),
        (&binaries.edge, in_root(&root, &binaries.edge)),
    ];
    for (binary, place) in places {
        put_binary(binary, &place, &root)?;
    }
    for tool in TOOLS {
        // A test that needs one that is missing fails by its name.
        if let Some(program) = which(tool) {
            put_binary(&program, &root.join("bin").join(tool), &root)?;
        }
    }
    // The tests find their data by the path at which they were compiled.
    copy_tree(&crate::workspace().join("edge-userspace/tests"), &root)?;
    copy_tree(&crate::workspace().join("edge-common/tests"), &root)?;
    archive(&root, &folder.join("common.cpio"))
}

/// The whole archive for one kernel, with its modules and the first process.
pub(super) fn pack_for(
    folder: &Path,
    common: &Path,
    kernel_modules: Option<&Path>,
    parts: &[Part],
) -> anyhow::Result<PathBuf> {
    let root = empty(&folder.join("own"))?;
    let target = root.join("modules");
    fs::create_dir_all(&target)?;
    let order = match kernel_modules {
        Some(modules) => modules::gather(modules, &target)?,
        None => Vec::new(),
    };
    let init = root.join("init");
    fs::write(&init, first_process(&order, parts))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    // The kernel unpacks archives that follow each other into one tree.
    let own = archive(&root, &folder.join("own.cpio"))?;
    let whole = folder.join("initramfs");
    let mut to = fs::File::create(&whole)?;
    for from in [common, &own] {
        std::io::copy(&mut fs::File::open(from)?, &mut to)?;
    }
    Ok(whole)
}

/// What it prints is read by [`super::console`].
fn first_process(modules: &[String], parts: &[Part]) -> String {
    let mut script = String::from(
        "#!/bin/sh\n\
         export PATH=/bin EDGE_SKIPPED_FILE=/tmp/skipped\n\
         busybox mount -t proc proc /proc\n\
         busybox mount -t sysfs sysfs /sys\n\
         busybox mount -t devtmpfs devtmpfs /dev\n\
         busybox mount -t bpf bpf /sys/fs/bpf\n\
         echo; echo \"kernel $(busybox uname -r)\"\n\
         seconds() { busybox cut -d. -f1 /proc/uptime; }\n\
         part() {\n\
         name=$1; shift; began=$(seconds); : > /tmp/skipped\n\
         echo \"part $name begins\"\n",
    );
    script += &format!("busybox timeout {PART_S} \"$@\" --nocapture --test-threads 1 2>&1\n");
    script += "status=$?\n\
               busybox sed \"s/^/part $name /\" /tmp/skipped\n\
               echo \"part $name ends with $status after $(($(seconds) - began)) s\"\n\
               }\n";
    for module in modules {
        script += &format!("busybox insmod /modules/{module}.ko || echo 'module {module} fails'\n");
    }
    for part in parts {
        // Whether the packets' data is up to date needs Python and is no matter of the kernel's.
        let command = match part {
            Part::Fixtures => "kernel_fixtures --skip generator",
            Part::Live => "guest --skip netem::",
            Part::Netem => "guest netem::",
        };
        script += &format!("part {} {command}\n", part.name());
    }
    script + "busybox poweroff -f\n"
}

fn empty(folder: &Path) -> anyhow::Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    Ok(folder.to_owned())
}

fn archive(root: &Path, archive: &Path) -> anyhow::Result<PathBuf> {
    let pack = format!(
        "cd '{}' && find . | busybox cpio -o -H newc > '{}'",
        root.display(),
        archive.display()
    );
    run(Command::new("sh").args(["-c", &pack]).stderr(Stdio::null()))?;
    Ok(archive.to_owned())
}

fn in_root(root: &Path, file: &Path) -> PathBuf {
    root.join(file.strip_prefix("/").unwrap_or(file))
}

/// A program with its libraries, without the debug information that would be most of it.
fn put_binary(binary: &Path, place: &Path, root: &Path) -> anyhow::Result<()> {
    copy(binary, place)?;
    if let Some(strip) = which("strip") {
        run(Command::new(strip).arg("--strip-debug").arg(place))?;
    }
    let output = Command::new("ldd").arg(binary).output().context("ldd")?;
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let libraries = listing
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for library in libraries.map(Path::new) {
        copy(library, &in_root(root, library))?;
    }
    Ok(())
}

fn copy(file: &Path, place: &Path) -> anyhow::Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(file, place).with_context(|| file.display().to_string())?;
    Ok(())
}

fn copy_tree(folder: &Path, root: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            copy_tree(&path, root)?;
        } else {
            copy(&path, &in_root(root, &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_loads_in_order_and_runs_what_was_asked_for() {
        let script = first_process(&["garp".into(), "8021q".into()], &[Part::Netem]);
        let at = |text: &str| {
            script
                .find(text)
                .unwrap_or_else(|| panic!("{text}: {script}"))
        };
        assert!(at("insmod /modules/garp.ko") < at("insmod /modules/8021q.ko"));
        assert!(at("8021q.ko") < at("part netem guest netem::\n"));
        assert!(!script.contains("part live"));
        assert!(script.ends_with("busybox poweroff -f\n"));
    }
}
