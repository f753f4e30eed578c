//! What a flood costs the one that is flooded, and those who come with good tokens meanwhile:
//! the edge with its kernel half in driver mode, in generic mode and without it, beside nginx,
//! HAProxy and Envoy, on the same machine in the same run.
//!
//! Honest clients come at a fixed rate, each with a connection of its own; attackers by raw
//! frames from another network namespace, at rising rates. Servers have one CPU, with what the
//! kernel does to receive for them; clients, attackers and the upstream have the other. Each
//! pair of phases begins with the control: the same server, the same clients, the same frames
//! sent where a program drops them all. What an attack costs is what the machine (or the
//! server) spends beyond its control. `floor` accepts connections and closes them: what a
//! server pays for TCP alone.
//!
//! `--quick` has one attack and short phases; `EDGE_FLOOD_ATTACKS=syn,slow` names the attacks,
//! `EDGE_FLOOD_TARGETS` the servers, `EDGE_FLOOD_RATES` the rates. A full run, of which nothing
//! is chosen, takes a quarter of an hour and writes `bench/record/flood.csv`, its plots, and the
//! tables in `docs/benchmarks.md`. It needs root; everything that it
//! makes ends with its process, however that ends.

#[path = "flood/attackers.rs"]
mod attackers;
#[path = "flood/clients.rs"]
mod clients;
#[path = "flood/cost.rs"]
mod cost;
#[path = "flood/hellos.rs"]
mod hellos;
#[path = "flood/net.rs"]
mod net;
#[path = "flood/phase.rs"]
mod phase;
#[path = "flood/place.rs"]
mod place;
#[path = "flood/record.rs"]
mod record;
#[path = "flood/servers.rs"]
mod servers;
#[path = "flood/shared.rs"]
mod shared;
#[path = "flood/sockets.rs"]
mod sockets;
#[path = "flood/summary.rs"]
mod summary;
#[path = "flood/table.rs"]
mod table;
#[path = "flood/upstream.rs"]
mod upstream;

use bench::{is_wanted, process};
use hellos::Attack;
use net::Net;
use phase::{Cell, World};
use place::Place;
use servers::Target;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What chooses a part of it: attacks, servers, rates, with commas between.
const CHOICES: [&str; 3] = [
    "EDGE_FLOOD_ATTACKS",
    "EDGE_FLOOD_TARGETS",
    "EDGE_FLOOD_RATES",
];

/// How much.
struct Effort {
    attacks: Vec<Attack>,
    targets: Vec<Target>,
    /// Connections a second; none: each attack's own.
    rates: Vec<u64>,
    /// Of a phase.
    time: Duration,
}

/// As in the program `edge`, which this one can be.
#[global_allocator]
static ALLOCATOR: edge_userspace::memory::Allocator = edge_userspace::memory::Allocator;

fn main() -> ExitCode {
    if servers::is_floor() {
        servers::be_floor();
        return ExitCode::SUCCESS;
    }
    if bench::daemon::is_edge() {
        return edge_userspace::cli::main();
    }
    let said = |argument: &str| std::env::args().any(|said| said == argument);
    if said("--list") {
        return ExitCode::SUCCESS;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED flood: it needs two CPUs");
        return ExitCode::SUCCESS;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED flood: it needs root, for network namespaces and XDP");
        return ExitCode::SUCCESS;
    }
    let effort = match (said("--bench"), said("--quick")) {
        // `cargo test --benches`: only whether everything gets its answer.
        (false, _) => Effort::of(&[Attack::BadToken], &[200], 1),
        (true, true) => Effort::of(&[Attack::BadToken], &[1000, 4000, 16_000], 2),
        (true, false) => Effort::of(&Attack::ALL, &[], 3),
    };
    println!("the load was {}", bench::daemon::load_average());
    process::pin_to(net::OTHER_CPU);
    let net = match Net::new() {
        Ok(net) => net,
        Err(why) => {
            println!("SKIPPED flood: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let place = Place::new(upstream::start());
    let world = World::new(net, place);
    let (targets, versions) = present(&effort.targets);
    let mut cells = Vec::new();
    for attack in &effort.attacks {
        cells.extend(flood(&world, *attack, &targets, &effort));
    }
    println!("the load was {}", bench::daemon::load_average());
    if !said("--bench") {
        for cell in &cells {
            let honest = [&cell.control.honest, &cell.attacked.honest];
            let is_well = honest.iter().all(|honest| honest.errors.is_empty());
            assert!(is_well, "{}", cell.show());
        }
        println!("everything gets its answer");
        return ExitCode::SUCCESS;
    }
    summary::print(&effort.attacks, &cells);
    let versions: Vec<_> = (targets.iter().zip(&versions))
        .map(|(target, version)| format!("{} ({version})", target.name()))
        .collect();
    let tables = table::render(&effort.attacks, &cells, &versions.join(", "));
    if !said("--quick") && CHOICES.iter().all(|name| std::env::var_os(name).is_none()) {
        record::write(&effort.attacks, &cells);
        bench::page::write("flood", &tables);
    } else {
        println!("{tables}");
    }
    ExitCode::SUCCESS
}

impl Effort {
    fn of(attacks: &[Attack], rates: &[u64], seconds: u64) -> Self {
        let [in_attacks, in_targets, in_rates] = CHOICES;
        let attacks = match std::env::var_os(in_attacks) {
            Some(_) => &Attack::ALL,
            None => attacks,
        };
        let rates = std::env::var(in_rates).map_or(rates.to_vec(), |list| {
            let numbers = list.split(',');
            numbers.map(|rate| rate.parse().expect("a rate")).collect()
        });
        Self {
            attacks: (attacks.iter().copied())
                .filter(|attack| is_wanted(in_attacks, attack.name()))
                .collect(),
            targets: (Target::all().into_iter())
                .filter(|target| is_wanted(in_targets, &target.name()))
                .collect(),
            rates,
            time: Duration::from_secs(seconds),
        }
    }
}

/// Those that are there, and their versions; the others are named.
fn present(targets: &[Target]) -> (Vec<Target>, Vec<String>) {
    let version = |target: &Target| match target.version() {
        Ok(version) => {
            println!("{}: {version}", target.name());
            Some((*target, version))
        }
        Err(why) => {
            println!("SKIPPED {}: {why}", target.name());
            None
        }
    };
    targets.iter().filter_map(version).unzip()
}

/// One attack on each of them, at each rate. Who serves hardly anyone any more is not attacked
/// at a higher one.
fn flood(world: &World, attack: Attack, targets: &[Target], effort: &Effort) -> Vec<Cell> {
    let began = Instant::now();
    let mut cells: Vec<Cell> = Vec::new();
    let rates = match effort.rates.is_empty() {
        true => attack.rates(),
        false => &effort.rates,
    };
    for rate in rates {
        for target in targets {
            let name = target.name();
            if cells
                .iter()
                .any(|cell| cell.target.name() == name && cell.is_down())
            {
                println!(
                    "{} {rate}/s {name}: it was down at a lower rate",
                    attack.name()
                );
                continue;
            }
            match phase::run(world, attack, *target, *rate, effort.time) {
                Ok(cell) => {
                    println!("[{:4.0} s] {}", began.elapsed().as_secs_f64(), cell.show());
                    cells.push(cell);
                }
                Err(why) => println!("SKIPPED {name}: {why}"),
            }
        }
    }
    cells
}
