//! `cargo xtask bench`: the benches of the package `bench`, by name.

use crate::cargo;
use std::process::ExitCode;

/// Run a bench; without a name, list them
#[derive(clap::Args)]
#[command(after_help = "\
Every figure is one line: figure NAME VALUE UNIT.

Examples:
  cargo xtask bench                 what there is
  cargo xtask bench hello           measure it
  cargo xtask bench hello --quick   fewer samples, for a first look
  cargo xtask bench tokens --fit    learn the weights of the estimate anew")]
pub(crate) struct Args {
    /// The bench, as `cargo xtask bench` lists it.
    name: Option<String>,

    /// Fewer samples, wider error.
    #[arg(long, requires = "name")]
    quick: bool,

    /// Of `tokens`: learn the estimate's weights from the corpora and write them.
    #[arg(long, requires = "name", conflicts_with = "quick")]
    fit: bool,
}

/// Lists or runs.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let metadata = cargo::metadata()?;
    let names: Vec<&str> = metadata
        .packages
        .iter()
        .filter(|package| package.name == "bench")
        .flat_map(|package| &package.targets)
        .filter(|target| target.kind.iter().any(|kind| kind == "bench"))
        .map(|target| target.name.as_str())
        .collect();
    let Some(name) = &args.name else {
        names.iter().for_each(|name| println!("{name}"));
        return Ok(ExitCode::SUCCESS);
    };
    if !names.contains(&name.as_str()) {
        eprintln!("error: no bench `{name}`; there are: {}", names.join(", "));
        return Ok(ExitCode::from(2));
    }
    let mut bench = cargo::cargo();
    bench.args(["bench", "--package", "bench", "--bench", name]);
    if args.fit && name != "tokens" {
        eprintln!("error: --fit is for `cargo xtask bench tokens`");
        return Ok(ExitCode::from(2));
    }
    if args.quick {
        bench.args(["--", "--quick"]);
    } else if args.fit {
        bench.args(["--", "--fit"]);
    }
    cargo::run(&mut bench)
}
