//! `cargo xtask setup`: installs what is missing, where it can; elsewhere says what to do.
//!
//! It can on a Debian system as root: packages by apt-get, the BPF linker and cargo-deny by
//! cargo. A second run finds everything there and is done in a second.

use crate::cargo;
use crate::clients;
use crate::peers;
use crate::references;
use crate::tool::{CI_TOOLS, Source, TOOLS};
use crate::ui::{self, Tone, paint};
use anyhow::{Context as _, bail};
use edge_ebpf_builder::{Examination, Missing, Search, Way, linker_install_args, linker_packages};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Compiler with `core` for BPF, its cargo, and the precompiled `core`.
const BPF_COMPILER: [&str; 3] = ["rustc-web", "cargo-web", "libstd-rust-web-dev-bpf"];

/// Install the BPF toolchain and what the demo and the tests start
#[derive(clap::Args)]
#[command(after_help = "\
As root on Debian it installs; elsewhere it prints one command for each missing part and
exits 1 while any is missing. It changes nothing that is there already.

Examples:
  sudo -E cargo xtask setup
  sudo -E cargo xtask setup --ci    also cargo-deny, the linter for the XDP program, the SDKs,
                                    and the tokenizers and texts that counts are compared with
  cargo xtask setup --references    those last alone, as any user: into the build directory
  cargo xtask setup --clients       the SDKs alone, likewise
  cargo xtask setup --peers         what the edge is measured beside: other proxies and gateways")]
pub(crate) struct Args {
    /// Also what `cargo xtask ci` alone needs.
    #[arg(long)]
    ci: bool,

    /// Only the tokenizers and texts that token counts are compared with.
    #[arg(long, conflicts_with = "ci")]
    references: bool,

    /// Only the official SDKs that the tests run.
    #[arg(long, conflicts_with = "ci")]
    clients: bool,

    /// Only the proxies and gateways that the edge is measured beside. What cannot be had is
    /// named, and the benches go on without it.
    #[arg(long, conflicts_with = "ci")]
    peers: bool,
}

/// Installs or tells.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    if args.references || args.clients || args.peers {
        if args.references {
            references::install()?;
        }
        if args.clients {
            clients::install()?;
        }
        if args.peers {
            peers::install()?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let search = Search::from_env();
    let root = is_root();
    if !(root && search.is_debian && apt_get_is_here()) {
        return tell(&search, args.ci);
    }
    packages(&search, args.ci)?;
    linker(&Search::from_env().examine())?;
    if args.ci {
        crates()?;
        references::install()?;
        clients::install()?;
    }
    bpffs()?;
    let found = Search::from_env().examine();
    match found.into_toolchain() {
        Ok(toolchain) => {
            let versions = toolchain.versions;
            println!(
                "{} rustc {}, LLVM {}, bpf-linker {}; `cargo xtask doctor` looks at the rest",
                paint(Tone::Good, "ready:"),
                versions.rustc,
                versions.llvm,
                versions.bpf_linker
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(missing) => {
            print_missing(&missing);
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Not ours to install: one command for each missing part.
fn tell(search: &Search, ci: bool) -> anyhow::Result<ExitCode> {
    let mut complete = true;
    if let Err(missing) = search.examine().into_toolchain() {
        complete = false;
        print_missing(&missing);
    }
    for tool in TOOLS.iter().chain(CI_TOOLS.iter().filter(|_| ci)) {
        if let Err(why) = tool.version() {
            complete = false;
            println!(
                "{} {}: {why}\n    {}",
                paint(Tone::Bad, "missing:"),
                tool.name,
                tool.fix()
            );
        }
    }
    if let (true, Err(why)) = (ci, references::found()) {
        complete = false;
        let missing = paint(Tone::Bad, "missing:");
        println!(
            "{missing} reference tokenizers: {why}\n    {}",
            references::FIX
        );
    }
    if let (true, Err(why)) = (ci, clients::found()) {
        complete = false;
        let missing = paint(Tone::Bad, "missing:");
        println!("{missing} SDKs: {why}\n    {}", clients::FIX);
    }
    if complete {
        println!("{} everything is here", paint(Tone::Good, "ready:"));
        return Ok(ExitCode::SUCCESS);
    }
    println!("\nAs root on Debian this command runs them itself. Without the BPF toolchain");
    println!("`cargo build` embeds the prebuilt object as long as it fits the sources.");
    Ok(ExitCode::FAILURE)
}

fn print_missing(missing: &[Missing]) {
    for part in missing {
        println!(
            "{} {part}\n    {}",
            paint(Tone::Bad, "missing:"),
            part.fix()
        );
    }
}

/// Everything that apt-get brings, in at most two calls: the compiler decides which LLVM the
/// linker is built against.
fn packages(search: &Search, ci: bool) -> anyhow::Result<()> {
    let mut wanted: Vec<String> = Vec::new();
    let found = search.examine();
    if found
        .toolchain
        .as_ref()
        .is_none_or(|toolchain| toolchain.way == Way::Debian)
    {
        wanted.extend(BPF_COMPILER.map(str::to_owned));
    }
    for tool in TOOLS.iter().chain(CI_TOOLS.iter().filter(|_| ci)) {
        if let (Source::Debian(package), Err(_)) = (tool.source, tool.version()) {
            wanted.push(package.into());
        }
    }
    install(wanted)?;
    let found = search.examine();
    if found.linker.is_ok() && found.llvm.as_ref().is_some_and(Result::is_ok) {
        return Ok(()); // built already; its libraries are here or it would not have answered
    }
    match found.compiler_llvm {
        Some(llvm) if found.way == Way::Debian => install(linker_packages(llvm.major).into()),
        _ => Ok(()),
    }
}

/// Installs those of `wanted` that are not installed.
pub(crate) fn install(wanted: Vec<String>) -> anyhow::Result<()> {
    let missing = not_installed(wanted)?;
    if missing.is_empty() {
        return Ok(());
    }
    ui::step(&format!("apt-get install {}", missing.join(" ")));
    let install = || {
        let mut install = apt_get();
        install
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&missing);
        install
    };
    // The package lists may be absent, or older than what the mirror still has.
    if !install().status().context("apt-get")?.success() {
        ui::step("apt-get update, and once more");
        demand(apt_get().arg("update"))?;
        demand(&mut install())?;
    }
    Ok(())
}

fn not_installed(wanted: Vec<String>) -> anyhow::Result<Vec<String>> {
    if wanted.is_empty() {
        return Ok(wanted);
    }
    // An unknown package is an error for dpkg-query; the known ones are listed all the same.
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Abbrev}${Package}\n"])
        .args(&wanted)
        .output()
        .context("dpkg-query")?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let installed: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("ii "))
        .map(str::trim)
        .collect();
    Ok(wanted
        .into_iter()
        .filter(|package| !installed.contains(&package.as_str()))
        .collect())
}

/// Builds bpf-linker against the compiler's LLVM unless one is there that matches.
fn linker(found: &Examination) -> anyhow::Result<()> {
    if found.linker.is_ok() && found.llvm.as_ref().is_none_or(Result::is_ok) {
        return Ok(());
    }
    let Some(llvm) = found.compiler_llvm.filter(|_| found.way == Way::Debian) else {
        return Ok(()); // told at the end
    };
    let prefix = format!("/usr/lib/llvm-{}", llvm.major);
    ui::step(&format!("bpf-linker against {prefix} (about a minute)"));
    demand(
        cargo::cargo()
            .arg("install")
            .args(linker_install_args(llvm.major))
            // Otherwise the build takes whichever llvm-config comes first.
            .env("LLVM_PREFIX", prefix),
    )
}

/// Crates with a binary that CI runs, unless they are there.
fn crates() -> anyhow::Result<()> {
    for tool in &CI_TOOLS {
        if let (Source::Crate(name), Err(_)) = (tool.source, tool.version()) {
            ui::step(&format!("{name} (some minutes)"));
            // It runs for a second at a time: what it is compiled with hardly matters.
            demand(
                cargo::cargo()
                    .args(["install", name, "--locked", "--debug"])
                    .env("CARGO_PROFILE_DEV_DEBUG", "0"),
            )?;
        }
    }
    Ok(())
}

/// Mounts the BPF file system where every tool looks for it.
fn bpffs() -> anyhow::Result<()> {
    const PLACE: &str = "/sys/fs/bpf";
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    if mounts
        .lines()
        .any(|mount| mount.contains(" /sys/fs/bpf bpf "))
    {
        return Ok(());
    }
    ui::step(&format!("mounting the BPF file system on {PLACE}"));
    let mounted = Command::new("mount")
        .args(["-t", "bpf", "bpf", PLACE])
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        // A container without the right: the build does not need it.
        println!(
            "{} {PLACE} could not be mounted; nothing can be pinned",
            paint(Tone::Note, "note:")
        );
    }
    Ok(())
}

pub(crate) fn apt_get() -> Command {
    let mut apt_get = Command::new("apt-get");
    apt_get
        .args([
            "-o",
            "DPkg::Lock::Timeout=300",
            "-o",
            "Dpkg::Use-Pty=0",
            "--quiet=2",
        ])
        .env("DEBIAN_FRONTEND", "noninteractive");
    apt_get
}

pub(crate) fn apt_get_is_here() -> bool {
    ["/usr/bin/apt-get", "/bin/apt-get"]
        .iter()
        .any(|path| Path::new(path).exists())
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

pub(crate) fn demand(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| program.clone())?;
    if !status.success() {
        let args: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        bail!("{program} {}: {status}", args.join(" "));
    }
    Ok(())
}
