//! `cargo xtask test`: every test there is, and the name of each that did not run.
//!
//! The tests are cargo's. What is added: groups, so that the kernel's run one at a time; the
//! collection of what was skipped (see `edge-userspace/tests/skip/mod.rs`) or ignored; and a
//! closing count over all of them.

mod tally;

use crate::cargo;
use crate::ui::{self, Tone, paint};
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use tally::Tally;

/// Run all tests and name the skipped ones
#[derive(clap::Args)]
#[command(after_help = "\
Groups:
  unit         tests beside the code, of every crate
  integration  files tests/*.rs
  kernel       files tests/kernel_*.rs: real BPF, one at a time; skipped without the rights
  doc          examples in the documentation
A file of tests/ by its name is a group too.

Examples:
  cargo xtask test                            everything
  cargo xtask test --only kernel              what needs root
  cargo xtask test --only kernel_fixtures -- ipv6
  cargo xtask test --only sdk                 the official SDKs; cargo xtask setup --clients
  sudo -E cargo xtask test --no-skips         fail when anything was skipped
  cargo xtask test --exhaustive --only token_references")]
pub(crate) struct Args {
    /// Only this group; may be repeated.
    #[arg(long, value_name = "GROUP")]
    only: Vec<String>,

    /// Fail when a test was skipped or ignored, unless what it needs is optional.
    #[arg(long)]
    pub(crate) no_skips: bool,

    /// Go on after a group in which a test failed.
    #[arg(long)]
    pub(crate) no_fail_fast: bool,

    /// A million random texts and every document where a test takes a part of them every day:
    /// token counts against other tokenizers', about half an hour. And the ledger of 1,000 keys
    /// for five minutes.
    #[arg(long)]
    exhaustive: bool,

    /// For the tests themselves: a filter, or libtest's options.
    #[arg(last = true)]
    pass: Vec<String>,
}

/// Marks a test that was skipped for want of something that no machine is asked to have.
const OPTIONAL: &str = ": optional: ";

impl Args {
    /// Everything, as CI wants it.
    pub(crate) fn everything(no_skips: bool) -> Self {
        Self {
            only: Vec::new(),
            no_skips,
            no_fail_fast: true,
            exhaustive: false,
            pass: Vec::new(),
        }
    }
}

/// A selection of tests that one `cargo test` runs.
struct Group {
    name: String,
    selection: Vec<String>,
    one_at_a_time: bool,
}

/// Runs the groups that are asked for.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let (outcome, total) = run(args)?;
    println!("{total}");
    Ok(outcome)
}

/// [`main`] without its last line, which is handed back: the count over all tests.
pub(crate) fn run(args: &Args) -> anyhow::Result<(ExitCode, String)> {
    let files = test_files(&cargo::metadata()?);
    let groups = match select(&files, &args.only) {
        Ok(groups) => groups,
        Err(unknown) => {
            eprintln!(
                "error: no group `{unknown}`; there are: unit, integration, kernel, doc, {}",
                files.iter().cloned().collect::<Vec<_>>().join(", ")
            );
            return Ok((ExitCode::from(2), "total: 0 passed, 0 failed".into()));
        }
    };
    let skipped_file = SkippedFile::new()?;
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for group in &groups {
        ui::step(&format!("tests: {}", group.name));
        if !run_group(group, args, &skipped_file.path, &mut tally)? {
            failed.push(group.name.as_str());
            if !args.no_fail_fast {
                break;
            }
        }
    }
    tally.skipped_themselves(skipped_file.lines()?);
    println!();
    for skipped in &tally.skipped {
        println!("{} {skipped}", paint(Tone::Note, "skipped:"));
    }
    for wrong in &tally.wrong {
        println!("{} {wrong}", paint(Tone::Bad, "failed:"));
    }
    if !failed.is_empty() {
        println!("{} in {}", paint(Tone::Bad, "failed:"), failed.join(", "));
    }
    let counts = |skipped: &String| !skipped.contains(OPTIONAL);
    let skips_forbidden = args.no_skips && tally.skipped.iter().any(counts);
    if skips_forbidden {
        println!("{} --no-skips", paint(Tone::Bad, "skipped in spite of"));
    }
    let good = failed.is_empty() && !skips_forbidden;
    // The plain form that summaries of test runs are searched for.
    let total = format!(
        "total: {} passed, {} failed, {} skipped",
        tally.passed,
        tally.failed,
        tally.skipped.len()
    );
    Ok((
        if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        },
        total,
    ))
}

/// Names of the files in `tests/` of the default members that run on this machine; the others
/// are for [`crate::kernels`].
fn test_files(metadata: &cargo::Metadata) -> BTreeSet<String> {
    let members = &metadata.workspace_default_members;
    metadata
        .packages
        .iter()
        .filter(|package| members.contains(&package.id))
        .flat_map(|package| &package.targets)
        .filter(|target| target.test && target.kind.iter().any(|kind| kind == "test"))
        .map(|target| target.name.clone())
        .collect()
}

/// The groups for `only`, all when it is empty; the unknown name otherwise.
fn select(files: &BTreeSet<String>, only: &[String]) -> Result<Vec<Group>, String> {
    let of_files = |name: &str, chosen: Vec<&String>| Group {
        name: name.into(),
        selection: chosen
            .into_iter()
            .flat_map(|file| ["--test".into(), file.clone()])
            .collect(),
        one_at_a_time: name.starts_with("kernel"),
    };
    let plain = |name: &str, selection: &[&str]| Group {
        name: name.into(),
        selection: selection.iter().map(ToString::to_string).collect(),
        one_at_a_time: false,
    };
    let (kernel, integration): (Vec<_>, Vec<_>) =
        files.iter().partition(|file| file.starts_with("kernel_"));
    let mut all = vec![plain("unit", &["--lib", "--bins"])];
    if !integration.is_empty() {
        all.push(of_files("integration", integration));
    }
    if !kernel.is_empty() {
        all.push(of_files("kernel", kernel));
    }
    all.push(plain("doc", &["--doc"]));
    if only.is_empty() {
        return Ok(all);
    }
    only.iter()
        .map(|name| {
            if let Some(index) = all.iter().position(|group| group.name == *name) {
                return Ok(all.swap_remove(index));
            }
            files
                .get(name)
                .map(|file| of_files(name, vec![file]))
                .ok_or_else(|| name.clone())
        })
        .collect()
}

/// Runs one group, its output on the terminal as it comes. `false` when a test failed.
fn run_group(
    group: &Group,
    args: &Args,
    skipped: &Path,
    tally: &mut Tally,
) -> anyhow::Result<bool> {
    let failed_before = tally.failed;
    let mut command: Command = cargo::cargo();
    command.arg("test").args(&group.selection);
    if args.no_fail_fast {
        command.arg("--no-fail-fast");
    }
    command.arg("--").args(&args.pass);
    if group.one_at_a_time {
        command.arg("--test-threads=1");
    }
    if args.exhaustive {
        command
            .env("EDGE_TOKENS_FUZZ_TEXTS", "1000000")
            .env("EDGE_LEDGER_KEYS", "1000")
            .env("EDGE_LEDGER_SECONDS", "300");
    }
    command
        .env("EDGE_SKIPPED_FILE", skipped)
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cargo test")?;
    let stdout = child
        .stdout
        .take()
        .context("cargo test without standard output")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tally.read(&line);
    }
    let good = child.wait()?.success();
    // A test that aborts, or that does not build, has no line that says FAILED.
    if !good && tally.failed == failed_before {
        tally.failed += 1;
    }
    Ok(good)
}

/// The file in which tests say that they were skipped; gone when dropped.
struct SkippedFile {
    path: PathBuf,
}

impl SkippedFile {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("edge-skipped-{}", std::process::id()));
        std::fs::write(&path, "").with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    /// `name: why` of each.
    fn lines(&self) -> anyhow::Result<Vec<String>> {
        let text = std::fs::read_to_string(&self.path)?;
        Ok(text
            .lines()
            .map(|line| line.trim_start_matches("SKIPPED ").to_owned())
            .collect())
    }
}

impl Drop for SkippedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> BTreeSet<String> {
        ["kernel_live", "streams", "kernel_fixtures"]
            .map(str::to_owned)
            .into()
    }

    #[test]
    fn every_file_is_in_exactly_one_group() {
        let groups = select(&files(), &[]).unwrap();
        let names: Vec<_> = groups.iter().map(|group| &*group.name).collect();
        assert_eq!(names, ["unit", "integration", "kernel", "doc"]);
        assert_eq!(groups[1].selection, ["--test", "streams"]);
        assert_eq!(
            groups[2].selection,
            ["--test", "kernel_fixtures", "--test", "kernel_live"]
        );
        let one_at_a_time: Vec<_> = groups.iter().map(|group| group.one_at_a_time).collect();
        assert_eq!(one_at_a_time, [false, false, true, false]);
    }

    #[test]
    fn groups_and_files_can_be_asked_for() {
        let only = [
            "doc".to_owned(),
            "kernel_live".to_owned(),
            "streams".to_owned(),
        ];
        let groups = select(&files(), &only).unwrap();
        assert_eq!(groups[1].selection, ["--test", "kernel_live"]);
        assert!(groups[1].one_at_a_time && !groups[2].one_at_a_time);
        assert_eq!(
            select(&files(), &["nonsense".to_owned()]).err().unwrap(),
            "nonsense"
        );
    }
}
