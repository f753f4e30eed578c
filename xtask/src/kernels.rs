//! `cargo xtask kernels`: the packet fixtures, and a real edge with real clients, on other
//! kernels than this machine's.
//!
//! A verifier refuses what the next version accepts, so the object must be loaded where the
//! floor is; and a guest has what this machine may lack: a network that loses, doubles and
//! reorders packets, and VLANs. The kernels are Debian's, unpacked and not installed; each
//! boots in qemu under software emulation, in seconds, with the tests as its only programs.

mod console;
mod image;
mod modules;
mod pack;

use crate::cargo;
use crate::ui::{self, Tone};
use anyhow::{Context as _, bail};
use console::Boot;
use image::Kernel;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// What setup installs for this.
const PROGRAMS: [(&str, &str); 5] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("dpkg-deb", "dpkg"),
    ("tc", "iproute2"),
    ("ethtool", "ethtool"),
];

/// Debian's series that are booted unless others are named: the floor, and the current
/// long-term kernel.
const SERIES: [&str; 2] = ["6.1", "6.12"];

/// A boot with all parts takes a minute or two under emulation; this guards against a hang.
const HANG: Duration = Duration::from_secs(420);

/// Run the packet fixtures and a live edge on other kernels, in qemu
#[derive(clap::Args)]
#[command(after_help = "\
Needs Debian's apt-get and x86-64, and the packages qemu-system-x86, busybox-static, iproute2,
ethtool.
A part that needs what a kernel lacks is skipped by name; on Debian's kernels, which have it
all, that is a failure.

Examples:
  cargo xtask kernels                    the floor (6.1) and the current long-term kernel (6.12)
  cargo xtask kernels --kernel 6.1 --only netem
  cargo xtask kernels --image boot/vmlinuz-6.6.0 --modules lib/modules/6.6.0")]
pub(crate) struct Args {
    /// A Debian kernel series; may be repeated.
    #[arg(long, value_name = "SERIES", default_values = SERIES)]
    kernel: Vec<String>,

    /// A kernel image of your own instead, with BPF, BTF and a serial console built in.
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

    /// The folder of that image's modules, when veth or netem are not built in.
    #[arg(long, value_name = "FOLDER", requires = "image")]
    modules: Option<PathBuf>,

    /// Only this part; may be repeated.
    #[arg(long, value_name = "PART", default_values_t = Part::ALL)]
    only: Vec<Part>,
}

/// What is run in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The packet fixtures against the object, attached to nothing
    Fixtures,
    /// An edge and its clients over veth; what else the edge needs of a kernel
    Live,
    /// The same while packets are lost, doubled, delayed and reordered
    Netem,
}

impl Part {
    const ALL: [Self; 3] = [Self::Fixtures, Self::Live, Self::Netem];

    fn name(self) -> &'static str {
        match self {
            Self::Fixtures => "fixtures",
            Self::Live => "live",
            Self::Netem => "netem",
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for Args {
    fn default() -> Self {
        Self {
            kernel: SERIES.map(str::to_owned).to_vec(),
            image: None,
            modules: None,
            only: Part::ALL.to_vec(),
        }
    }
}

/// Boots each kernel and tells what its tests said; the error says what failed where.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let kernels = kernels(args)?;
    boot_all(args, &kernels)
}

/// The same for CI, where a kernel that cannot be had here is a skip that is named.
pub(crate) fn main_if_possible() -> anyhow::Result<ExitCode> {
    let args = Args::default();
    match kernels(&args) {
        Ok(kernels) => boot_all(&args, &kernels),
        Err(why) => {
            println!("SKIPPED other kernels: {why:#}");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The kernels to boot, downloaded if need be.
fn kernels(args: &Args) -> anyhow::Result<Vec<Kernel>> {
    for (program, package) in PROGRAMS {
        if which(program).is_none() {
            bail!("{program} is missing: apt-get install --no-install-recommends {package}");
        }
    }
    let folder = folder()?;
    match &args.image {
        Some(image) => Ok(vec![Kernel {
            image: image.clone(),
            modules: args.modules.clone(),
        }]),
        None => (args.kernel.iter())
            .map(|series| image::of_series(&folder, series))
            .collect(),
    }
}

fn folder() -> anyhow::Result<PathBuf> {
    let folder = cargo::metadata()?.target_directory.join("kernels");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

fn boot_all(args: &Args, kernels: &[Kernel]) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let folder = folder()?;
    let common = pack::pack(&folder, &pack::Binaries::build()?)?;
    let built = began.elapsed();
    let mut boots = Vec::new();
    for kernel in kernels {
        ui::step(&format!("boot {}", kernel.image.display()));
        let began = Instant::now();
        let modules = kernel.modules.as_deref();
        let archive = pack::pack_for(&folder, &common, modules, &args.only)?;
        let boot = console::read(boot(&kernel.image, &archive)?, &args.only);
        let passed = boot.parts.iter().all(|(_, outcome)| outcome.passed);
        let file = folder.join(format!("console-{}", boot.release));
        fs::write(&file, &boot.console)?;
        if !passed {
            show(&boot);
        }
        ui::step(&format!("the whole console: {}", file.display()));
        ui::step(&format!(
            "{} took {}",
            boot.release,
            ui::duration(began.elapsed())
        ));
        boots.push(boot);
    }
    let failures = report(&boots, args.image.is_some());
    println!(
        "kernels: built and packed in {}, all in {}",
        ui::duration(built),
        ui::duration(began.elapsed())
    );
    if !failures.is_empty() {
        bail!("{}", failures.join("\n  "));
    }
    Ok(ExitCode::SUCCESS)
}

/// The end of what a guest said in each part that failed.
fn show(boot: &Boot) {
    const LINES: usize = 100;
    const CHARACTERS: usize = 300;
    for (part, _) in boot.parts.iter().filter(|(_, outcome)| !outcome.passed) {
        let lines = console::lines_of(&boot.console, *part);
        ui::step(&format!("the console's last lines of {}:", part.name()));
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            let line: String = line.chars().take(CHARACTERS).collect();
            eprintln!("{line}");
        }
    }
}

/// Prints what the boots came to; what failed, a line each.
fn report(boots: &[Boot], may_skip: bool) -> Vec<String> {
    let mut failures = Vec::new();
    let mut rows = Vec::new();
    for boot in boots {
        for (part, outcome) in &boot.parts {
            let skips = outcome.skipped.len();
            let (tone, word) = match (outcome.passed, skips) {
                (true, 0) => (Tone::Good, "good"),
                (true, _) if may_skip => (Tone::Note, "skipped"),
                (true, _) => (Tone::Bad, "SKIPPED"),
                (false, _) => (Tone::Bad, "FAILED"),
            };
            let part_name = format!("{} {}", boot.release, part.name());
            if !outcome.passed {
                let reasons = console::reasons(&boot.console, *part, outcome);
                failures.extend(reasons.iter().map(|why| format!("{part_name}: {why}")));
            }
            for skipped in &outcome.skipped {
                println!("SKIPPED on {}: {skipped}", boot.release);
                if !may_skip {
                    failures.push(format!("{part_name}: skipped {skipped}"));
                }
            }
            rows.push((
                tone,
                [
                    word.to_owned(),
                    boot.release.clone(),
                    part.name().to_owned(),
                    outcome
                        .seconds
                        .map_or_else(|| "-".into(), |s| format!("{s}s")),
                    outcome.result.clone(),
                ],
            ));
        }
    }
    print_values(boots);
    println!();
    ui::table(["", "kernel", "part", "time", "result"], &rows);
    failures
}

/// Each figure and fact, one row, with a column for each kernel.
fn print_values(boots: &[Boot]) {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (column, boot) in boots.iter().enumerate() {
        let figures = boot.figures.iter();
        let figures = figures.map(|[name, value, _]| (format!("figure {name}"), value));
        let facts = boot.facts.iter();
        let facts = facts.map(|[name, value]| (format!("fact {name}"), value));
        for (name, value) in figures.chain(facts) {
            let row = values.entry(name).or_default();
            row.resize(column, "-".into());
            row.push(value.clone());
        }
    }
    let width = values.keys().map(String::len).max().unwrap_or(0);
    let releases: Vec<_> = boots.iter().map(|boot| &*boot.release).collect();
    println!("{:width$}  {}", "", releases.join("  "));
    for (name, row) in values {
        let cells = row.iter().zip(&releases);
        let cells = cells.map(|(value, release)| format!("{value:>0$}", release.len()));
        println!("{name:width$}  {}", cells.collect::<Vec<_>>().join("  "));
    }
}

/// Boots and reads the console until the machine is off.
fn boot(image: &Path, archive: &Path) -> anyhow::Result<String> {
    let mut qemu = Command::new("qemu-system-x86_64")
        .args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1536"])
        .args(["-nographic", "-no-reboot", "-nic", "none"])
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .arg("-kernel")
        .arg(image)
        .arg("-initrd")
        .arg(archive)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("qemu-system-x86_64")?;
    let mut output = qemu.stdout.take().context("qemu's console")?;
    let reader = std::thread::spawn(move || {
        let mut console = Vec::new();
        let _ = output.read_to_end(&mut console);
        String::from_utf8_lossy(&console).into_owned()
    });
    let deadline = Instant::now() + HANG;
    while qemu.try_wait()?.is_none() {
        if Instant::now() > deadline {
            qemu.kill()?;
            qemu.wait()?;
            eprintln!("qemu did not end within {HANG:?} and was stopped");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    reader
        .join()
        .map_err(|_| anyhow::anyhow!("the console's reader panicked"))
}

fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Runs a command that must succeed; what it prints is not wanted unless it was sent
/// somewhere.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| program.clone())?;
    if !status.success() {
        bail!("{program} failed: {status}");
    }
    Ok(())
}
