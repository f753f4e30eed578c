//! `cargo xtask ci`: what a change has to pass, in the order in which it fails fastest.

use crate::tool::CI_TOOLS;
use crate::ui::{self, Tone, paint};
use crate::{build_ebpf, cargo, doctor, kernels, test};
use anyhow::Context as _;
use edge_ebpf_builder::{Toolchain, command};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Format, lints, doctor, rebuilt object, licences, all tests
#[derive(clap::Args)]
#[command(after_help = "\
Every step runs, also after one that failed; the tests come last. Skipped tests fail the run
unless --allow-skips is given.

Examples:
  sudo -E cargo xtask ci
  cargo xtask ci --allow-skips      as a plain user: kernel tests are skipped by name")]
pub(crate) struct Args {
    /// Let tests be skipped, and the doctor complain of missing rights.
    #[arg(long)]
    allow_skips: bool,
}

/// A step and what came of it.
struct Step {
    name: &'static str,
    outcome: anyhow::Result<ExitCode>,
    took: std::time::Duration,
}

/// Runs all steps; 1 when one failed.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let mut steps = Vec::new();
    let mut step = |name: &'static str, run: &mut dyn FnMut() -> anyhow::Result<ExitCode>| {
        ui::step(name);
        let start = Instant::now();
        let outcome = run();
        match &outcome {
            Ok(ExitCode::SUCCESS) => {}
            Ok(_) => eprintln!("{} {name}", paint(Tone::Bad, "failed:")),
            Err(error) => eprintln!("{} {name}: {error:#}", paint(Tone::Bad, "failed:")),
        }
        steps.push(Step {
            name,
            outcome,
            took: start.elapsed(),
        });
    };

    step("format", &mut format);
    step("licences, bans, sources", &mut deny);
    step("doctor", &mut || match doctor::pass() {
        Err(complaint) if !args.allow_skips => Err(complaint),
        _ => Ok(ExitCode::SUCCESS),
    });
    step("XDP object equals the prebuilt one", &mut || {
        build_ebpf::main(&build_ebpf::Args::check())
    });
    step("lints of the XDP program", &mut lint_ebpf);
    step("lints", &mut lint);
    step("other kernels", &mut kernels::main_if_possible);
    step("tests", &mut || {
        test::main(&test::Args::everything(!args.allow_skips))
    });

    let rows: Vec<_> = steps
        .iter()
        .map(|step| {
            let good = matches!(step.outcome, Ok(ExitCode::SUCCESS));
            let (tone, word) = if good {
                (Tone::Good, "good")
            } else {
                (Tone::Bad, "FAILED")
            };
            (
                tone,
                [
                    word.to_owned(),
                    ui::duration(step.took),
                    step.name.to_owned(),
                ],
            )
        })
        .collect();
    println!();
    ui::table(["step", "took", ""], &rows);
    // The step's own words are far up by now.
    for step in &steps {
        match &step.outcome {
            Ok(ExitCode::SUCCESS) => {}
            Ok(_) => println!("{} {}: see above", paint(Tone::Bad, "failed:"), step.name),
            Err(error) => println!("{} {}: {error:#}", paint(Tone::Bad, "failed:"), step.name),
        }
    }
    let good = steps
        .iter()
        .filter(|step| matches!(step.outcome, Ok(ExitCode::SUCCESS)))
        .count();
    println!(
        "ci: {good} of {} steps good in {}",
        steps.len(),
        ui::duration(start.elapsed())
    );
    Ok(if good == steps.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn format() -> anyhow::Result<ExitCode> {
    cargo::run(cargo::cargo().args(["fmt", "--all", "--check"]))
}

fn lint() -> anyhow::Result<ExitCode> {
    cargo::run(cargo::cargo().args(["clippy", "--all-targets", "--", "--deny", "warnings"]))
}

/// The XDP program builds for BPF alone, so its lints need the BPF toolchain's clippy.
fn lint_ebpf() -> anyhow::Result<ExitCode> {
    let toolchain = Toolchain::find().map_err(|missing| {
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}; run `cargo xtask setup --ci`", missing.join("; "))
    })?;
    let target_dir = cargo::metadata()?.target_directory.join("ebpf");
    let mut clippy = command(&toolchain, &crate::workspace(), &target_dir, "clippy");
    clippy.args(["--features", "log", "--", "--deny", "warnings"]);
    let program = clippy.get_program().to_string_lossy().into_owned();
    if std::path::Path::new(&program).exists() {
        return cargo::run(&mut clippy);
    }
    anyhow::bail!("{program} is missing; run `cargo xtask setup --ci`")
}

/// cargo-deny without its advisory database, which lives on a host that a build machine may
/// not reach.
fn deny() -> anyhow::Result<ExitCode> {
    let [cargo_deny, ..] = &CI_TOOLS;
    let program = cargo_deny
        .path()
        .with_context(|| format!("cargo-deny is missing; `{}`", cargo_deny.fix()))?;
    println!(
        "advisories are not checked here: run `cargo deny check advisories` where the network allows it"
    );
    cargo::run(Command::new(program).current_dir(crate::workspace()).args([
        "--all-features",
        "--locked",
        "check",
        "bans",
        "licenses",
        "sources",
    ]))
}
