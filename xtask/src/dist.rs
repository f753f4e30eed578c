//! `cargo xtask dist`: the edge as it is to be installed, laid out by what it does under load.
//!
//! The compiler is told how often each piece of code runs (profile-guided optimisation): the edge
//! is built so that it counts, does for some seconds what the bench `edge` asks of it, and is
//! built anew by what it counted. Each step is left out when what it makes is there; a profile
//! belongs to the program that made it, and its name says to which.

use crate::cargo;
use crate::setup::{apt_get_is_here, demand, install, is_root};
use crate::ui::{self, Tone, paint};
use anyhow::{Context as _, bail, ensure};
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// What it does meanwhile: workloads of `cargo xtask bench edge`, by both APIs.
const WORKLOADS: &str =
    "small,body256k,upload256k,prompt4k,prompt100k,conversation4k,sse64,handshake,resume";
const SUBJECTS: &str = "edge,edge_chat";
/// The load generator of some of them, and its Debian package.
const H2LOAD: (&str, &str) = ("h2load", "nghttp2-client");

/// Build the edge for use: optimised by what it does under load
#[derive(clap::Args)]
#[command(after_help = "\
Prints the path of the program, DIST/edge in the build directory. The first time takes a quarter
of an hour on two cores: the edge is built twice, and once with its bench. Needs two CPUs, h2load
and LLVM's llvm-profdata of the compiler's version; says where they come from.
`cargo build --release -p edge-userspace` needs none of that; the edge then takes some 5 to 20 %
more CPU time for a request (docs/benchmarks.md).

Examples:
  cargo xtask dist
  sudo install -m 755 \"$(cargo xtask dist)\" /usr/local/bin/edge")]
pub(crate) struct Args {}

/// Builds it, and prints where it is.
pub(crate) fn main(_: &Args) -> anyhow::Result<ExitCode> {
    println!("{}", build()?.display());
    Ok(ExitCode::SUCCESS)
}

/// Where the edge is, built for use.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    let began = Instant::now();
    let folder = cargo::metadata()?.target_directory.join("dist");
    let compiler = Compiler::ask()?;
    let merge = llvm_profdata(&compiler)?;
    load_generator()?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    ensure!(
        cpus >= 2,
        "two CPUs are needed: one for the edge, one for its clients"
    );

    ui::step("1 of 4: the edge, so that it counts what it does");
    let raw = folder.join("raw");
    let counts = format!("-Cprofile-generate={}", raw.display());
    let counting = edge(&compiler, &folder.join("counting"), &counts)?;
    let profile = folder.join(format!("edge-{:016x}.profdata", digest(&counting)?));
    if !profile.is_file() {
        ui::step("2 of 4: who asks it");
        let driver = ["bench", "--package", "bench", "--bench", "edge"];
        demand(cargo::cargo().args(driver).arg("--no-run"))?;
        ui::step("3 of 4: what it does under load; the log is training.log beside it");
        remove(&raw)?;
        fs::create_dir_all(&raw).with_context(|| raw.display().to_string())?;
        let log = folder.join("training.log");
        train(cargo::cargo().args(driver), &counting, &raw, &log)?;
        remove(&folder.join("optimised"))?;
        merged(&merge, &raw, &profile)?;
        remove(&raw)?;
    }
    ui::step("4 of 4: the edge by what it did");
    let uses = format!("-Cprofile-use={}", profile.display());
    let built = edge(&compiler, &folder.join("optimised"), &uses)?;
    let path = folder.join("edge");
    // Never half of it under that name; and a running one keeps its file.
    let beside = folder.join("edge.new");
    fs::copy(&built, &beside).with_context(|| format!("copying {}", built.display()))?;
    fs::rename(&beside, &path).with_context(|| path.display().to_string())?;
    let took = began.elapsed().as_secs();
    eprintln!(
        "{} in {}m{:02}s",
        paint(Tone::Good, "built"),
        took / 60,
        took % 60
    );
    Ok(path)
}

/// Builds the edge with that flag, for this machine, in a build directory of its own.
fn edge(compiler: &Compiler, folder: &Path, flag: &str) -> anyhow::Result<PathBuf> {
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    flags = flags
        .split_whitespace()
        .map(|flag| format!("{flag}\x1f"))
        .collect();
    let mut build = cargo::cargo();
    build
        .args(["build", "--release", "-p", "edge-userspace", "--bin", "edge"])
        // With a target named, flags are not those of build scripts.
        .args(["--target", &compiler.host, "--target-dir"])
        .arg(folder)
        .env("CARGO_ENCODED_RUSTFLAGS", flags + flag)
        .stdout(Stdio::null());
    demand(&mut build)?;
    Ok(folder.join(&compiler.host).join("release/edge"))
}

/// Has the edge that counts do what the bench asks, and write what it counted.
fn train(bench: &mut Command, counting: &Path, raw: &Path, log: &Path) -> anyhow::Result<()> {
    let file = File::create(log).with_context(|| log.display().to_string())?;
    let status = bench
        .args(["--", "--quick"])
        .env("EDGE_BENCH_EDGE", counting)
        .env("EDGE_BENCH_SUBJECTS", SUBJECTS)
        .env("EDGE_BENCH_WORKLOADS", WORKLOADS)
        .env("LLVM_PROFILE_FILE", raw.join("%p-%m.profraw"))
        .stdout(file)
        .status()
        .context("cargo bench")?;
    ensure!(
        status.success(),
        "the load failed ({status}); see {}",
        log.display()
    );
    Ok(())
}

/// Makes one profile of all that was counted.
fn merged(merge: &Path, raw: &Path, profile: &Path) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(raw)? {
        files.push(entry?.path());
    }
    ensure!(
        !files.is_empty(),
        "the edge wrote no counts into {}",
        raw.display()
    );
    let beside = profile.with_extension("new");
    let mut command = Command::new(merge);
    demand(command.arg("merge").arg("-o").arg(&beside).args(files))?;
    fs::rename(&beside, profile).with_context(|| profile.display().to_string())?;
    Ok(())
}

/// Which program that is.
fn digest(path: &Path) -> anyhow::Result<u64> {
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    let (mut hasher, mut piece) = (DefaultHasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finish()),
            count => hasher.write(&piece[..count]),
        }
    }
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

/// The compiler that cargo uses.
#[derive(Debug, PartialEq, Eq)]
struct Compiler {
    host: String,
    /// Major version of its LLVM.
    llvm: u32,
    sysroot: PathBuf,
}

impl Compiler {
    fn ask() -> anyhow::Result<Self> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let said = |arguments: &[&str]| -> anyhow::Result<String> {
            let mut command = Command::new(&rustc);
            let output = command
                .args(arguments)
                .current_dir(crate::workspace())
                .output()
                .with_context(|| rustc.to_string_lossy().into_owned())?;
            ensure!(
                output.status.success(),
                "rustc {}: {}",
                arguments.join(" "),
                output.status
            );
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let sysroot = said(&["--print", "sysroot"])?;
        Self::read(&said(&["-vV"])?, sysroot.trim())
            .context("rustc -vV does not say its host and its LLVM")
    }

    fn read(said: &str, sysroot: &str) -> Option<Self> {
        let after = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
        Some(Self {
            host: after("host: ")?.trim().to_owned(),
            llvm: major(after("LLVM version: ")?)?,
            sysroot: sysroot.into(),
        })
    }
}

fn major(version: &str) -> Option<u32> {
    version.trim().split('.').next()?.parse().ok()
}

/// The program that makes a profile of counts: of the compiler's LLVM or a later one, which reads
/// what an older one wrote.
fn llvm_profdata(compiler: &Compiler) -> anyhow::Result<PathBuf> {
    let llvm = compiler.llvm;
    let own = (compiler.sysroot.join("lib/rustlib").join(&compiler.host)).join("bin");
    let places: [OsString; 4] = [
        own.join("llvm-profdata").into(),
        format!("/usr/lib/llvm-{llvm}/bin/llvm-profdata").into(),
        format!("llvm-profdata-{llvm}").into(),
        "llvm-profdata".into(),
    ];
    for place in places {
        let output = Command::new(&place).arg("--version").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        if text.is_ok_and(|text| version_told(&text).is_some_and(|found| found >= llvm)) {
            return Ok(place.into());
        }
    }
    bail!(
        "llvm-profdata of LLVM {llvm} is needed: `rustup component add llvm-tools`, or the \
         package llvm-{llvm} of Debian (`cargo xtask setup` installs it where it can)"
    )
}

/// `… LLVM version 22.1.2` of some line.
fn version_told(text: &str) -> Option<u32> {
    let after = text
        .lines()
        .find_map(|line| line.split_once("LLVM version "));
    major(after?.1)
}

fn load_generator() -> anyhow::Result<()> {
    let (program, package) = H2LOAD;
    let is_here = || Command::new(program).arg("--version").output().is_ok();
    if !is_here() && is_root() && apt_get_is_here() {
        install(vec![package.to_owned()])?;
    }
    ensure!(
        is_here(),
        "{program} is needed: it comes with nghttp2 (Debian: {package})"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_tells_its_host_and_its_llvm() {
        let said = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\n\
                    host: x86_64-unknown-linux-gnu\nrelease: 1.95.0\nLLVM version: 22.1.2\n";
        let expected = Compiler {
            host: "x86_64-unknown-linux-gnu".into(),
            llvm: 22,
            sysroot: "/opt/rust".into(),
        };
        assert_eq!(Compiler::read(said, "/opt/rust"), Some(expected));
        assert_eq!(Compiler::read("rustc 1.95.0", "/opt/rust"), None);
    }

    #[test]
    fn llvm_tells_its_version_in_some_line() {
        assert_eq!(
            version_told("LLVM (http://llvm.org/):\n  LLVM version 22.1.8\n"),
            Some(22)
        );
        assert_eq!(
            version_told("Debian LLVM version 14.0.6\n  Optimized build.\n"),
            Some(14)
        );
        assert_eq!(version_told("profdata"), None);
    }

    #[test]
    fn what_it_is_trained_with_is_what_the_bench_has() {
        let workloads = include_str!("../../bench/benches/edge/workload.rs");
        for name in WORKLOADS.split(',') {
            assert!(workloads.contains(&format!("name: \"{name}\"")), "{name}");
        }
        let subjects = include_str!("../../bench/benches/edge.rs");
        for name in SUBJECTS.split(',') {
            assert!(subjects.contains(&format!("    \"{name}\",")), "{name}");
        }
    }

    #[test]
    fn a_program_is_told_from_another() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, vec![7; 3 << 20]).unwrap();
        fs::write(&other, vec![7; (3 << 20) + 1]).unwrap();
        assert_ne!(digest(&one).unwrap(), digest(&other).unwrap());
        fs::copy(&one, &other).unwrap();
        assert_eq!(digest(&one).unwrap(), digest(&other).unwrap());
    }
}
