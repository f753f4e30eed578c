//! What cargo cannot do: set the machine up, build the BPF object, show the edge at work,
//! run every test, and do it all as CI does.
//!
//! One module a command. A command returns the exit code: 0 good, 1 failed; clap answers
//! wrong usage with 2.

#[cfg(test)]
#[macro_use]
#[path = "../../edge-userspace/tests/skip/mod.rs"]
mod skip;

mod arm;
mod bench;
mod build_ebpf;
mod capabilities;
mod cargo;
mod ci;
mod clients;
mod container;
mod dist;
mod doctor;
mod kernels;
mod packages;
mod peers;
mod references;
mod run;
mod setup;
mod test;
mod tool;
mod ui;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// What cargo cannot do for the edge.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Arm(arm::Args),
    Bench(bench::Args),
    BuildEbpf(build_ebpf::Args),
    Ci(ci::Args),
    Dist(dist::Args),
    Doctor(doctor::Args),
    Run(run::Args),
    Setup(setup::Args),
    Container(container::Args),
    Kernels(kernels::Args),
    Test(test::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Arm(args) => arm::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::BuildEbpf(args) => build_ebpf::main(&args),
        Command::Ci(args) => ci::main(&args),
        Command::Dist(args) => dist::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Setup(args) => setup::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Container(args) => container::main(&args),
        Command::Kernels(args) => kernels::main(&args),
        Command::Test(args) => test::main(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// The root of the workspace: of the checkout that `cargo xtask` was called in, which need
/// not be the one that built this binary when several share a build directory.
fn workspace() -> PathBuf {
    let member = std::env::var_os("CARGO_MANIFEST_DIR");
    let mut root = PathBuf::from(member.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()));
    root.pop();
    root
}
