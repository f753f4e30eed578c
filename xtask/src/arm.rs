//! `cargo xtask arm`: the token counter's routines for 64-bit Arm, under an emulator.
//!
//! Not part of CI. On Arm itself it is `cargo test`. Elsewhere it needs three things: a standard
//! library for Arm, a linker, and qemu's user emulation. Whoever has a rustup toolchain adds the
//! target to it; on Debian the library for Arm is downloaded and unpacked into the build
//! directory, so that the system keeps its one architecture.

use crate::cargo;
use crate::setup::{apt_get, apt_get_is_here, demand, install, is_root};
use crate::ui::{self, Tone, paint};
use anyhow::{Context as _, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Where Debian's cross packages put the C library, for the emulator to find.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];
/// Debian's compiler and the package with its standard library.
const COMPILER: (&str, &str) = ("rustc-web", "libstd-rust-web-dev");
/// A linker with its C library, and the emulator.
const CROSS: [&str; 3] = [
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "qemu-user-static",
];
/// Random texts a test, unless the variable says otherwise: an emulator is slow.
const FUZZ: (&str, &str) = ("EDGE_TOKENS_FUZZ_TEXTS", "300");

/// Run the token counter's tests for 64-bit Arm, in qemu
#[derive(clap::Args)]
#[command(after_help = "\
As root on Debian it installs the linker and the emulator; the standard library goes into the
build directory. Elsewhere it says what is missing. EDGE_TOKENS_FUZZ_TEXTS sets the number of
random texts, 300 unless given.

Examples:
  cargo xtask arm
  cargo xtask arm -- exact::       only tests with that in their name")]
pub(crate) struct Args {
    /// What the test binary is given.
    #[arg(last = true, value_name = "ARGS")]
    pass: Vec<String>,
}

/// Runs the tests; their success is ours.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let mut command = cargo::cargo();
    command.args(["test", "-p", "edge-tokens", "--lib"]);
    let native = cfg!(all(target_arch = "aarch64", target_os = "linux"));
    if !native {
        emulated(&mut command)?;
    }
    if std::env::var_os(FUZZ.0).is_none() && !native {
        command.env(FUZZ.0, FUZZ.1);
    }
    ui::step("the tests of edge-tokens for Arm");
    let code = cargo::run(command.arg("--").args(&args.pass))?;
    println!(
        "{} what x86-64 alone has (AVX2, AVX-512); the comparisons with other tokenizers in \
         edge-userspace/tokens/tests; the rest of the workspace",
        paint(Tone::Note, "SKIPPED:")
    );
    if !native {
        println!(
            "{} how fast it is: an emulator does not tell",
            paint(Tone::Note, "SKIPPED:")
        );
    }
    Ok(code)
}

/// Has the tests built for Arm and run in the emulator.
fn emulated(command: &mut Command) -> anyhow::Result<()> {
    let folder = cargo::metadata()?.target_directory.join("arm");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    cross_programs()?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if !has_library(Path::new(&rustc)) {
        let library = debian_library(&folder)?;
        command.env("RUSTC", "/usr/bin/rustc").env(
            // In this form a path may hold spaces. With --target it is not for build scripts.
            "CARGO_ENCODED_RUSTFLAGS",
            format!("--sysroot\x1f{}", library.display()),
        );
    }
    command.args(["--target", TARGET, "--target-dir"]);
    command.arg(folder.join("target"));
    let linker = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER";
    if std::env::var_os(linker).is_none() {
        command.env(linker, LINKER);
    }
    let runner = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER";
    if let (None, Some(emulator)) = (std::env::var_os(runner), emulator()) {
        let libraries = match Path::new(LIBRARIES).exists() {
            true => format!(" -L {LIBRARIES}"),
            false => String::new(), // QEMU_LD_PREFIX may say where they are
        };
        command.env(runner, format!("{emulator}{libraries}"));
    }
    Ok(())
}

/// Sees to it that a linker and the emulator are there.
fn cross_programs() -> anyhow::Result<()> {
    let complete = || starts(LINKER) && emulator().is_some();
    if complete() {
        return Ok(());
    }
    if is_root() && apt_get_is_here() {
        install(CROSS.map(str::to_owned).to_vec())?;
    }
    ensure!(
        complete(),
        "{LINKER} and one of {} are needed. As root on Debian this command installs them \
         (apt-get install {}); elsewhere install a GCC for {TARGET} with its C library, and \
         qemu's user emulation",
        EMULATORS.join(", "),
        CROSS.join(" ")
    );
    Ok(())
}

fn emulator() -> Option<&'static str> {
    EMULATORS.into_iter().find(|program| starts(program))
}

fn starts(program: &str) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// Whether a compiler brings the standard library for Arm.
fn has_library(rustc: &Path) -> bool {
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(crate::workspace())
        .output();
    output.is_ok_and(|output| {
        output.status.success()
            && Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
    })
}

/// A folder with the library for Arm that belongs to Debian's compiler: in its place under
/// `lib/rustlib`.
fn debian_library(folder: &Path) -> anyhow::Result<PathBuf> {
    let (compiler, library) = COMPILER;
    if !apt_get_is_here() {
        bail!("this Rust has no library for Arm: rustup target add {TARGET}");
    }
    if is_root() {
        install(vec![compiler.into(), library.into()])?;
    }
    let version = Command::new("dpkg-query")
        .args(["--show", "--showformat=${Version}", library])
        .output()
        .context("dpkg-query")?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    if version.is_empty() {
        bail!(
            "this Rust has no library for Arm: rustup target add {TARGET}, or as root \
             apt-get install {compiler} {library}"
        );
    }
    // The name of a folder may not hold the colon of an epoch.
    let unpacked = folder.join(version.replace(':', "_"));
    let sysroot = unpacked.join("usr");
    if sysroot.join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(sysroot);
    }
    ui::step(&format!("download {library} {version} for arm64"));
    let lists = folder.join("lists");
    let archives = folder.join("archives");
    for folder in [&lists, &archives] {
        fs::create_dir_all(folder.join("partial"))?;
    }
    // With lists of its own, so that the system's need not know of another architecture.
    let apt = || {
        let mut apt = apt_get();
        apt.args(["-o", "APT::Architectures::=arm64", "-o"])
            .arg(format!("Dir::State::Lists={}", lists.display()))
            .args([
                "-o",
                "Dir::Cache::pkgcache=",
                "-o",
                "Dir::Cache::srcpkgcache=",
            ])
            .args(["-o", "APT::Sandbox::User=root"])
            .current_dir(&archives);
        apt
    };
    demand(apt().arg("update"))?;
    demand(
        apt()
            .arg("download")
            .arg(format!("{library}:arm64={version}")),
    )?;
    let mut files = fs::read_dir(&archives)?.filter_map(|entry| Some(entry.ok()?.path()));
    let archive = files
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get download left no archive of {library}"))?;
    demand(
        Command::new("dpkg-deb")
            .arg("-x")
            .arg(&archive)
            .arg(&unpacked),
    )?;
    fs::remove_file(archive)?;
    fs::remove_dir_all(lists)?;
    ensure!(
        sysroot.join("lib/rustlib").join(TARGET).is_dir(),
        "{library} holds no usr/lib/rustlib/{TARGET}"
    );
    Ok(sysroot)
}
