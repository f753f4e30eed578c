//! `cargo xtask kernels`: the packet fixtures on other kernels than this machine's.
//!
//! A verifier refuses what the next version accepts, so the object must be loaded where
//! the floor is. The kernels are Debian's, unpacked and not installed; each boots in qemu
//! under software emulation, in seconds, with the test binary as its only program.

use crate::cargo;
use crate::ui::{self, Tone};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The test whose binary is booted.
const TEST: &str = "kernel_fixtures";

/// What setup installs for this.
const PROGRAMS: [(&str, &str); 3] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("dpkg-deb", "dpkg"),
];

/// Debian's series that are booted unless others are named: the floor, and the current
/// long-term kernel.
const SERIES: [&str; 2] = ["6.1", "6.12"];

/// A boot under emulation takes seconds; this only guards against a hang.
const HANG: Duration = Duration::from_secs(300);

/// Load the object and run the packet fixtures on other kernels, in qemu
#[derive(clap::Args)]
#[command(after_help = "\
Needs Debian's apt-get and x86-64, and the packages qemu-system-x86 and busybox-static.

Examples:
  cargo xtask kernels                    the floor (6.1) and the current long-term kernel (6.12)
  cargo xtask kernels --kernel 6.1
  cargo xtask kernels --image boot/vmlinuz-6.6.0")]
pub(crate) struct Args {
    /// A Debian kernel series; may be repeated.
    #[arg(long, value_name = "SERIES", default_values = SERIES)]
    kernel: Vec<String>,

    /// A kernel image of your own instead, with BPF, BTF and a serial console built in.
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

/// What one boot came to.
struct Boot {
    release: String,
    /// The test harness's closing line.
    result: Option<String>,
    /// The `figure` lines that the tests printed.
    figures: Vec<String>,
    console: String,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            kernel: SERIES.map(str::to_owned).to_vec(),
            image: None,
        }
    }
}

/// Boots each kernel and tells what its tests said.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let images = images(args)?;
    boot_all(&images)
}

/// The same for CI, where a kernel that cannot be had here is a skip that is named.
pub(crate) fn main_if_possible() -> anyhow::Result<ExitCode> {
    match images(&Args::default()) {
        Ok(images) => boot_all(&images),
        Err(why) => {
            println!("SKIPPED other kernels: {why:#}");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Where the kernels are, downloaded if need be.
fn images(args: &Args) -> anyhow::Result<Vec<PathBuf>> {
    for (program, package) in PROGRAMS {
        if which(program).is_none() {
            bail!("{program} is missing: apt-get install --no-install-recommends {package}");
        }
    }
    let folder = folder()?;
    match &args.image {
        Some(image) => Ok(vec![image.clone()]),
        None => (args.kernel.iter())
            .map(|series| image(&folder, series))
            .collect(),
    }
}

fn folder() -> anyhow::Result<PathBuf> {
    let folder = cargo::metadata()?.target_directory.join("kernels");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

fn boot_all(images: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let archive = pack(&folder()?, &build_test()?)?;
    let mut rows = Vec::new();
    let mut good = true;
    for image in images {
        ui::step(&format!("boot {}", image.display()));
        let began = Instant::now();
        let boot = boot(image, &archive)?;
        let passed = boot
            .result
            .as_ref()
            .is_some_and(|line| line.starts_with("test result: ok."));
        if !passed {
            eprintln!("{}", boot.console);
        }
        good &= passed;
        let result = boot
            .result
            .unwrap_or_else(|| "no result: see the console above".into());
        let tone = if passed { Tone::Good } else { Tone::Bad };
        rows.push((tone, [boot.release, ui::duration(began.elapsed()), result]));
        for figure in boot.figures {
            println!("{figure}");
        }
    }
    ui::table(["kernel", "time", "result"], &rows);
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds the test and tells where its binary is.
fn build_test() -> anyhow::Result<PathBuf> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
    }
    ui::step(&format!("build the test {TEST}"));
    let output = cargo::cargo()
        // Of all members, as `cargo xtask test` builds it, so that nothing is built twice.
        .args(["test", "--test", TEST, "--no-run"])
        .args(["--message-format", "json"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo test --no-run")?;
    if !output.status.success() {
        bail!("the test {TEST} does not build");
    }
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Message>();
    (messages.filter_map(|message| message.ok()?.executable))
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(TEST))
        })
        .context("cargo names no executable for the test")
}

/// The kernel image of a Debian series, downloaded once.
fn image(folder: &Path, series: &str) -> anyhow::Result<PathBuf> {
    let unpacked = folder.join(series);
    if let Some(image) = find_image(&unpacked) {
        return Ok(image);
    }
    ui::step(&format!("download Debian's kernel {series}"));
    let package = newest_package(series)?;
    fs::create_dir_all(&unpacked)?;
    run(Command::new("apt-get")
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
    find_image(&unpacked).with_context(|| format!("{package} holds no boot/vmlinuz-*"))
}

fn find_image(unpacked: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(unpacked.join("boot")).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| {
        path.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz"))
    })
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

/// An initial file system with the test, its data and libraries, and a first process.
fn pack(folder: &Path, test: &Path) -> anyhow::Result<PathBuf> {
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    for directory in ["bin", "proc", "sys", "tmp", "dev"] {
        fs::create_dir_all(root.join(directory))?;
    }
    let busybox = which("busybox").context("busybox")?;
    fs::copy(&busybox, root.join("bin/busybox"))?;
    symlink("busybox", root.join("bin/sh"))?;
    fs::copy(test, root.join("bin/test"))?;
    for library in libraries(test)? {
        copy_to_same_place(&library, &root)?;
    }
    // The tests find their data by the path at which they were compiled.
    copy_tree(&crate::workspace().join("edge-userspace/tests"), &root)?;
    copy_tree(&crate::workspace().join("edge-common/tests"), &root)?;

    let init = root.join("init");
    fs::write(&init, INIT)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;

    let archive = folder.join("initramfs");
    let pack = format!(
        "cd '{}' && find . | busybox cpio -o -H newc > '{}'",
        root.display(),
        archive.display()
    );
    run(Command::new("sh").args(["-c", &pack]).stderr(Stdio::null()))?;
    Ok(archive)
}

/// The first process. Whether the data is up to date needs Python and is no matter of the
/// kernel's.
const INIT: &str = "\
#!/bin/sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t bpf bpf /sys/fs/bpf
echo \"kernel $(/bin/busybox uname -r)\"
EDGE_SKIPPED_FILE=/tmp/skipped /bin/test --nocapture --test-threads 1 --skip generator 2>&1
# A test that skipped itself has not run: that is no pass here.
[ -s /tmp/skipped ] && /bin/busybox cat /tmp/skipped && echo 'test result: FAILED. skipped'
/bin/busybox poweroff -f
";

/// The shared libraries of a binary, its loader included.
fn libraries(binary: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(binary).output().context("ldd")?;
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = listing
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    Ok(words.map(PathBuf::from).collect())
}

fn copy_to_same_place(file: &Path, root: &Path) -> anyhow::Result<()> {
    let target = root.join(file.strip_prefix("/").unwrap_or(file));
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(file, &target).with_context(|| file.display().to_string())?;
    Ok(())
}

fn copy_tree(folder: &Path, root: &Path) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            copy_tree(&path, root)?;
        } else {
            copy_to_same_place(&path, root)?;
        }
    }
    Ok(())
}

/// Boots and reads the console until the machine is off.
fn boot(image: &Path, archive: &Path) -> anyhow::Result<Boot> {
    let mut qemu = Command::new("qemu-system-x86_64")
        .args([
            "-accel",
            "tcg",
            "-cpu",
            "max",
            "-m",
            "1024",
            "-nographic",
            "-no-reboot",
        ])
        .args(["-nic", "none", "-append", "console=ttyS0 quiet panic=-1"])
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
    let console = reader
        .join()
        .map_err(|_| anyhow::anyhow!("the console's reader panicked"))?;
    Ok(read_console(console))
}

fn read_console(console: String) -> Boot {
    // The firmware's escape sequences may stand before the first line.
    let lines = || console.lines().map(str::trim);
    let release = lines().find_map(|line| Some(line.split_once("kernel ")?.1));
    // The last one: a skip is told after the harness's own.
    let result = lines().rfind(|line| line.starts_with("test result:"));
    Boot {
        release: release.unwrap_or("unknown").to_owned(),
        result: result.map(str::to_owned),
        // The harness may have put the test's name before it.
        figures: lines()
            .filter_map(|line| Some(format!("figure {}", line.split_once("figure ")?.1)))
            .collect(),
        console,
    }
}

fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdout(Stdio::null())
        .status()
        .with_context(|| program.clone())?;
    if !status.success() {
        bail!("{program} failed: {status}");
    }
    Ok(())
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

    #[test]
    fn a_console_is_read_and_a_skip_is_no_pass() {
        let boot = read_console(
            "\x1b[2J kernel 6.1.0\r\nfigure verifier_instructions 7 1\r\n\
             test result: ok. 3 passed\r\nSKIPPED a: b\r\ntest result: FAILED. skipped\r\n"
                .into(),
        );
        assert_eq!(boot.release, "6.1.0");
        assert_eq!(boot.result.as_deref(), Some("test result: FAILED. skipped"));
        assert_eq!(boot.figures, ["figure verifier_instructions 7 1"]);
        assert_eq!(read_console("Kernel panic".into()).result, None);
    }
}
