//! `cargo xtask run`: the edge at work. Real clients against the real daemon, in network
//! namespaces of its own; one row for each client, with what it saw and what the edge counted.
//!
//! Order of the parts: [`programs`] are found, a [`network`] is built, a [`scene`] is set with
//! [`edge`] commands, [`rows`] are played ([`act`], [`clients`], [`connect`]), held against what was
//! expected ([`judge`]) and shown ([`report`]). Nothing of it outlives the command.

mod act;
mod clients;
mod connect;
mod counters;
mod edge;
mod interrupt;
mod judge;
mod model;
mod network;
mod process;
mod programs;
mod report;
mod row;
mod rows;
mod scene;
mod stay;
mod system;
mod talk;

pub(crate) use interrupt::Interrupt;
pub(crate) use programs::build;

use interrupt::Interrupted;
use programs::Programs;
use report::Report;
use scene::{Scene, Stage};
use std::process::ExitCode;
use std::time::Instant;

/// Show the edge at work.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// End after the table instead of running until Ctrl-C; exits 0 only when every row is as
    /// expected.
    #[arg(long)]
    once: bool,

    /// Decide everything in userspace, as on a machine without BPF.
    #[arg(long)]
    no_xdp: bool,

    /// Rows as JSON lines.
    #[arg(long)]
    json: bool,
}

/// Runs the demo.
///
/// # Errors
/// When it could not be started; a row that is not as expected is an exit code of 1.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    match run(args, &interrupt) {
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("interrupted; everything has been taken down");
            Ok(ExitCode::FAILURE)
        }
        other => other,
    }
}

fn run(args: &Args, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let mut report = Report::new(args.json);
    let stage = Stage::best(!args.no_xdp)?;
    report.say(&stage.describe())?;
    let programs = Programs::find(&crate::workspace(), interrupt)?;
    let (found, started) = (started.elapsed(), Instant::now());
    report.say(&format!(
        "{} ({})",
        programs.edge.display(),
        programs.origin
    ))?;
    interrupt.check()?;
    let mut scene = Scene::set(stage, programs, interrupt)?;
    report.say(&scene.describe_kernel_half()?)?;

    for (title, rows) in rows::sections() {
        report.section(title)?;
        for row in rows {
            scene.check_alive()?;
            match act::play(&scene, &row, interrupt)? {
                Err(why) => report.skip(&row, &why)?,
                Ok(played) => {
                    let outcome = judge::judge(&row, scene.stage.kernel_half(), &played);
                    report.row(&row, &played, &outcome)?;
                }
            }
        }
    }
    report.end(started.elapsed(), found)?;
    let good = report.is_good();
    if !good && !args.json {
        report.say(&format!("The edge's last words:\n{}", scene.last_words()))?;
    }
    if !args.once {
        stay::stay(&mut scene, interrupt, args.json)?;
    }
    scene.strike()?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
