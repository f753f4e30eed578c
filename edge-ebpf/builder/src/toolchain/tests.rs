//! The search, on machines made of scripts.

use super::*;
use crate::test_workspace::write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

const RUSTC: &str = "/usr/bin/rustc";
const LINKER: &str = "/bin/bpf-linker";

/// One machine at a time: a child that another test starts inherits, for a moment, the
/// handle through which a script is being written, and the kernel refuses to run such a file.
static ONE: Mutex<()> = Mutex::new(());

/// A machine made of scripts.
struct Machine {
    _one: MutexGuard<'static, ()>,
    root: tempfile::TempDir,
    search: Search,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let search = Search {
            debian_prefix: root.path().join("usr"),
            is_debian: true,
            rustup: None,
            linker_dirs: vec![root.path().join("absent"), root.path().join("bin")],
        };
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self { _one, root, search }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn script(&self, path: &str, text: &str) {
        let path = self.path(path);
        write(&path, format!("#!/bin/sh\n{text}\n").as_bytes());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn compiler(&self, path: &str, llvm: &str) {
        let sysroot = self.path(path);
        let sysroot = sysroot
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .display()
            .to_string();
        self.script(
            path,
            &format!(
                "case $1 in -vV) echo 'release: 1.96.0'; echo 'commit-hash: ac68faa'; \
                 echo 'LLVM version: {llvm}';; *) echo {sysroot};; esac"
            ),
        );
        self.script(&path.replace("rustc", "cargo"), "exit 1");
    }

    fn linker(&self, llvm: &str) {
        self.script(
            LINKER,
            &format!(
                "case $1 in --version) echo 'bpf-linker 0.13.0';; \
                 --llvm-args=--version) echo 'Debian LLVM version {llvm}';; esac"
            ),
        );
    }

    fn core(&self) {
        write(
            &self.path("usr/lib/rustlib/bpfel-unknown-none/lib/libcore-1.rlib"),
            b"",
        );
    }

    fn missing(&self) -> Vec<Missing> {
        self.search.examine().into_toolchain().unwrap_err()
    }
}

#[test]
fn a_complete_debian_toolchain_is_found() {
    let machine = Machine::new();
    machine.compiler(RUSTC, "22.1.8");
    machine.core();
    machine.linker("22.1.8");
    let found = machine.search.examine().into_toolchain().unwrap();
    assert_eq!(found.way, Way::Debian);
    assert_eq!(found.sysroot, machine.path("usr"));
    assert_eq!(
        found.versions,
        Versions {
            rustc: "1.96.0".into(),
            rustc_commit: "ac68faa".into(),
            llvm: "22.1.8".into(),
            bpf_linker: "0.13.0".into(),
            core: "precompiled".into(),
        }
    );
}

#[test]
fn a_rustup_nightly_with_its_sources_is_found() {
    let mut machine = Machine::new();
    let rustc = machine.path("nightly/bin/rustc");
    machine.compiler("nightly/bin/rustc", "22.1.8");
    machine.linker("22.1.8");
    machine.script("bin/rustup", &format!("echo {}", rustc.display()));
    machine.search.rustup = Some(machine.path("bin/rustup"));
    machine.search.is_debian = false;
    assert!(matches!(
        &machine.missing()[..],
        [Missing::Core {
            way: Way::Rustup,
            ..
        }]
    ));
    write(
        &machine.path("nightly/lib/rustlib/src/rust/library/core/src/lib.rs"),
        b"",
    );
    let found = machine.search.examine().into_toolchain().unwrap();
    assert_eq!(
        (found.way, &*found.versions.core),
        (Way::Rustup, "build-std")
    );
}

#[test]
fn every_missing_part_is_named_with_a_command() {
    let machine = Machine::new();
    let names = |missing: Vec<Missing>| -> Vec<String> {
        assert!(missing.iter().all(|part| !part.fix().is_empty()));
        missing.iter().map(|part| format!("{part:?}")).collect()
    };
    let bare = names(machine.missing());
    assert!(
        bare[0].starts_with("Compiler") && bare[1].starts_with("Linker"),
        "{bare:?}"
    );

    machine.compiler(RUSTC, "22.1.8");
    std::fs::remove_file(machine.path("usr/bin/cargo")).unwrap();
    assert!(names(machine.missing())[0].starts_with("Cargo"));

    machine.compiler(RUSTC, "22.1.8");
    let half = machine.missing();
    assert!(
        half[0].fix().contains("libstd-rust-web-dev-bpf"),
        "{}",
        half[0].fix()
    );
    for part in [
        "llvm-22-dev",
        "LLVM_PREFIX=/usr/lib/llvm-22",
        "--features llvm-22",
    ] {
        assert!(half[1].fix().contains(part), "{}", half[1].fix());
    }
}

#[test]
fn llvm_must_match_to_the_patch_level() {
    let machine = Machine::new();
    machine.compiler(RUSTC, "22.1.8");
    machine.core();
    machine.linker("22.1.7");
    let missing = machine.missing();
    assert!(
        matches!(&missing[..], [Missing::LlvmMismatch { .. }]),
        "{missing:?}"
    );
    let said = missing[0].to_string();
    assert!(said.contains("22.1.7") && said.contains("22.1.8"), "{said}");
}

#[test]
fn tools_that_do_not_say_what_they_are_are_not_trusted() {
    let machine = Machine::new();
    machine.compiler(RUSTC, "unknown");
    machine.script(LINKER, "echo 'LLVM ERROR: no' >&2; exit 3");
    let missing = machine.missing();
    assert!(
        matches!(
            &missing[..],
            [Missing::CompilerUnreadable { .. }, Missing::LinkerUnreadable { said, .. }]
                if said.contains("LLVM ERROR: no")
        ),
        "{missing:?}"
    );
}
