//! `cargo xtask bench`: the benches of the package `bench`, by name.

use crate::{cargo, dist};
use std::process::ExitCode;

/// What there is to know of a bench before it is run.
struct About {
    name: &'static str,
    measures: &'static str,
    /// Once it is built; on two cores, all of it.
    takes: &'static str,
    needs: &'static str,
}

const BENCHES: &[About] = &[
    About {
        name: "affinity",
        measures: "conversations before upstreams that simulate a KV cache: the edge with and without memory, and beside cache-aware routers",
        takes: "twenty minutes; --quick: five",
        needs: "two CPUs; cargo xtask setup --peers for the routers; what is not there is skipped by name",
    },
    About {
        name: "edge",
        measures: "the edge beside nginx, HAProxy, Envoy and LLM gateways: CPU time for requests, streams, handshakes",
        takes: "forty minutes; --quick: some minutes, with the edge as cargo builds it, not as `cargo xtask dist` does",
        needs: "cargo xtask setup --peers, two CPUs, what `cargo xtask dist` needs; a peer that is not there is left out by name",
    },
    About {
        name: "flood",
        measures: "what a flood costs the edge, nginx, HAProxy and Envoy, and how honest clients fare meanwhile",
        takes: "a quarter of an hour, and a few minutes to compile; --quick: three",
        needs: "root, two CPUs; cargo xtask setup --peers for the others: what is not there is skipped by name",
    },
    About {
        name: "hello",
        measures: "a ClientHello in userspace: the scan, and scan and judge against 100,000 keys",
        takes: "half a minute",
        needs: "nothing",
    },
    About {
        name: "keys",
        measures: "a million keys: start, memory, and how soon a new or revoked one counts",
        takes: "five to ten minutes; --quick: a tenth of the keys",
        needs: "root, or CAP_BPF and CAP_NET_ADMIN",
    },
    About {
        name: "slots",
        measures: "the table of contexts beside other maps: look-ups, and hit rates on traces",
        takes: "a minute",
        needs: "nothing",
    },
    About {
        name: "stream",
        measures: "what reading along costs for each event of a stream, beside finding where events end",
        takes: "some seconds",
        needs: "nothing",
    },
    About {
        name: "tokens",
        measures: "token counts, exact and estimated, with every instruction set, beside other tokenizers",
        takes: "six minutes, and a few to compile; --quick: fewer texts and rounds",
        needs: "cargo xtask setup --references for other tokenizers and the texts; what is not there is skipped by name",
    },
    About {
        name: "usage",
        measures: "what the ledger of keys' usage takes of a request and of an event",
        takes: "some seconds",
        needs: "nothing",
    },
    About {
        name: "xdp",
        measures: "the XDP programs: nanoseconds a packet, and what the verifier counts",
        takes: "a minute",
        needs: "root, or CAP_BPF and CAP_NET_ADMIN",
    },
];

/// Run a bench; without a name, list them with what they measure, take and need
#[derive(clap::Args)]
#[command(after_help = after_help())]
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

fn after_help() -> String {
    let names: Vec<_> = BENCHES.iter().map(|about| about.name).collect();
    format!(
        "Benches:\n{}\nEvery figure is one line: figure NAME VALUE UNIT.\n\n{EXAMPLES}",
        list(&names)
    )
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench                 what there is
  cargo xtask bench hello           measure it
  cargo xtask bench hello --quick   fewer samples, for a first look
  cargo xtask bench tokens --fit    learn the weights of the estimate anew";

/// Some benches, one after the other.
fn list(names: &[&str]) -> String {
    let mut out = String::new();
    for name in names {
        match BENCHES.iter().find(|about| about.name == *name) {
            Some(about) => {
                out += &format!("  {name:8} {}\n", about.measures);
                out += &format!("  {:8} takes {}\n", "", about.takes);
                out += &format!("  {:8} needs {}\n", "", about.needs);
            }
            None => out += &format!("  {name}\n"),
        }
    }
    out
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
        print!("{}", list(&names));
        println!("Times are without the build.");
        return Ok(ExitCode::SUCCESS);
    };
    if !names.contains(&name.as_str()) {
        eprintln!("error: no bench `{name}`; there are: {}", names.join(", "));
        return Ok(ExitCode::from(2));
    }
    let mut bench = cargo::cargo();
    if name == "edge" && !args.quick && std::env::var_os("EDGE_BENCH_EDGE").is_none() {
        bench.env("EDGE_BENCH_EDGE", dist::build()?);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_says_what_it_measures_takes_and_needs() {
        let manifest = include_str!("../../bench/Cargo.toml");
        let benches = manifest.split("[[bench]]").skip(1);
        let names: Vec<&str> = benches
            .filter_map(|bench| bench.split('"').nth(1))
            .collect();
        assert!(names.len() >= 4, "{names:?}");
        for name in &names {
            assert!(BENCHES.iter().any(|about| about.name == *name), "{name}");
        }
        let listed = list(&names);
        assert_eq!(listed.lines().count(), 3 * names.len(), "{listed}");
    }
}
