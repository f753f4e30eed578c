//! `cargo xtask container`: the image of deploy/Containerfile, and the demo inside it.
//!
//! Works where images can be pulled and where they cannot: then the base is made with
//! debootstrap. Asks podman for no more than this process may give, so it also works inside a
//! virtual machine or a container that is itself confined.

use crate::capabilities;
use crate::run::Interrupt;
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The image's name.
const IMAGE: &str = "localhost/edge";
/// The base that the Containerfile names.
const BASE: &str = "docker.io/library/debian:bookworm-slim";
/// The base that we make when that one cannot be had.
const OWN_BASE: &str = "localhost/edge-base:bookworm";
/// What goes into the image.
const PROGRAMS: [&str; 3] = ["edge", "edge-demo", "xtask"];

/// Build the container image, and run the demo in it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the demo in it, once, privileged and without a network.
    #[arg(long)]
    run: bool,

    /// Binaries as they are released; otherwise as cargo builds them by default.
    #[arg(long)]
    release: bool,

    /// Base image instead of Debian's own.
    #[arg(long)]
    base: Option<String>,
}

/// Builds the image, and runs it when asked to.
///
/// # Errors
/// When podman is missing, no base can be had, or the build fails.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let workspace = crate::workspace();
    let podman = Podman::find()?;
    let interrupt = Interrupt::install()?;
    let context = stage(&workspace, args.release, &interrupt)?;
    let base = match &args.base {
        Some(base) => base.clone(),
        None => podman.base()?,
    };
    let mut build = podman.command("build");
    // The build's steps need no namespaces of their own.
    build.args(["--isolation=chroot", "--tag", IMAGE]);
    build.args(["--build-arg", &format!("BASE={base}")]);
    run(build.arg(context.path()))?;
    if !args.run {
        println!("built {IMAGE}; `cargo xtask container --run` runs the demo in it");
        return Ok(ExitCode::SUCCESS);
    }
    let mut demo = podman.command("run");
    demo.args(["--rm", "--privileged", "--network=none"])
        .args(&podman.limits)
        .args([IMAGE, "xtask", "run", "--once"]);
    let status = demo.status().context("cannot run podman")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// podman, and how it has to be called here.
struct Podman {
    /// Before the subcommand.
    global: &'static [&'static str],
    /// For `run`.
    limits: Vec<String>,
}

impl Podman {
    fn find() -> anyhow::Result<Self> {
        let version = Command::new("podman").arg("--version").output();
        if version.is_err() {
            bail!("podman is missing (apt-get install podman runc)");
        }
        // crun refuses control groups of the first version; runc takes them.
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let global: &[_] = if unified {
            &[]
        } else {
            &["--runtime", "runc", "--cgroup-manager=cgroupfs"]
        };
        Ok(Self {
            global,
            limits: affordable_limits()?,
        })
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new("podman");
        command.args(self.global).arg(subcommand);
        command
    }

    /// A base image: what is here, what can be pulled, or what debootstrap makes.
    fn base(&self) -> anyhow::Result<String> {
        for image in [BASE, OWN_BASE] {
            let exists = self.command("image").args(["exists", image]).status();
            if exists.is_ok_and(|status| status.success()) {
                return Ok(image.to_owned());
            }
        }
        let pulled = self.command("pull").arg(BASE).stdin(Stdio::null()).status();
        if pulled.is_ok_and(|status| status.success()) {
            return Ok(BASE.to_owned());
        }
        println!("{BASE} cannot be pulled; making a base with debootstrap");
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .arg("--variant=minbase")
            .arg("--include=iproute2,openssl,curl,python3,ca-certificates")
            .arg("bookworm")
            .arg(directory.path());
        run(&mut debootstrap).context("is debootstrap installed, and are we root?")?;
        let mut archive = Command::new("tar")
            .arg("-C")
            .arg(directory.path())
            .args([
                "--exclude=./var/cache/apt/archives/*.deb",
                "--exclude=./var/lib/apt/lists/*",
            ])
            .args(["-c", "."])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run tar")?;
        let mut import = self.command("import");
        import.args(["-", OWN_BASE]);
        import.stdin(archive.stdout.take().context("tar has no stdout")?);
        run(&mut import)?;
        if !archive.wait()?.success() {
            bail!("tar could not read {}", directory.path().display());
        }
        Ok(OWN_BASE.to_owned())
    }
}

/// Limits as `--ulimit` options where podman's own, which are higher than ours, would be
/// refused: without CAP_SYS_RESOURCE nobody raises a limit.
fn affordable_limits() -> anyhow::Result<Vec<String>> {
    /// Enough for the demo, and below what podman has left itself.
    const ENOUGH: u64 = 16_384;
    if capabilities::ours() >> capabilities::SYS_RESOURCE & 1 == 1 {
        return Ok(Vec::new());
    }
    let read = |path: &str| std::fs::read_to_string(path).with_context(|| path.to_owned());
    let limits = read("/proc/self/limits")?;
    let option = |title: &str, name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(title))?;
        let hard = line.split_whitespace().nth(1)?;
        let limit = hard.parse().unwrap_or(ENOUGH).min(ENOUGH);
        Some(format!("--ulimit={name}={limit}:{limit}"))
    };
    let options = [
        option("Max open files", "nofile"),
        option("Max processes", "nproc"),
    ];
    Ok(options.into_iter().flatten().collect())
}

/// A directory with the binaries and the Containerfile.
fn stage(
    workspace: &Path,
    release: bool,
    interrupt: &Interrupt,
) -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let built = crate::run::build(PROGRAMS, release, interrupt)?;
    for (binary, built) in PROGRAMS.iter().zip(&built) {
        copy(built, &directory.path().join(binary))?;
    }
    let file = "Containerfile";
    copy(
        &workspace.join("deploy").join(file),
        &directory.path().join(file),
    )?;
    Ok(directory)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}
