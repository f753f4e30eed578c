//! What a million keys cost: from a daemon's start until it serves, in its steps; the
//! memory of the daemon and of the kernel's maps; and how long `edge keys new` and `revoke`
//! take until the kernel's map shows what they did.
//!
//! The daemon is a process of its own (this program again, as `edge`), with the kernel half
//! on a loopback device of the bench's own. The steps are the functions that the daemon
//! calls, timed here one by one. Beside them: `null` is a daemon with one key;
//! `read_nothing` reads the file and counts its lines; `hash_map` fills a `HashMap` of std
//! with the same policies; `one_call_a_key` fills the kernel's map the plain way.
//!
//! `--quick` takes 100,000 keys. Without the rights it says so and measures nothing.

#[path = "keys/place.rs"]
mod place;

use aya::maps::{HashMap as KernelMap, Map, MapData};
use bench::{figure, figure_exact, median};
use edge_common::policy::KeyPolicy;
use edge_common::token::KeyId;
use edge_userspace::charges::Charges;
use edge_userspace::config::Config;
use edge_userspace::kernel::{KernelHalf, Loaded, Program, ProgramError, Sizes, object};
use edge_userspace::keys::store::follow::{Follower, Found};
use edge_userspace::keys::{Keyring, Snapshot, store};
use place::{Daemon, Place};
use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A hang guard.
const PATIENCE: Duration = Duration::from_secs(120);
// include/uapi/asm-generic/errno-base.h
const EPERM: i32 = 1;

/// How much.
#[derive(Clone, Copy)]
struct Effort {
    keys: u32,
    rounds: usize,
}

/// As in the program `edge`, which this one can be.
#[global_allocator]
static ALLOCATOR: edge_userspace::memory::Allocator = edge_userspace::memory::Allocator;

fn main() -> ExitCode {
    if bench::daemon::is_edge() {
        return edge_userspace::cli::main();
    }
    let said = |argument: &str| std::env::args().any(|said| said == argument);
    if said("--list") {
        return ExitCode::SUCCESS;
    }
    if let Err(error) = Program::load(object::OBJECT, &Sizes::SMALL) {
        let refused = error.os_error().is_some_and(|e| e.raw_os_error() == EPERM);
        assert!(refused, "{error}");
        println!("SKIPPED keys: {error} (needs root, or CAP_BPF and CAP_NET_ADMIN)");
        return ExitCode::SUCCESS;
    }
    if let Err(error) = place::own_network() {
        println!("SKIPPED keys: no network namespace of its own: {error}");
        return ExitCode::SUCCESS;
    }
    let (keys, rounds) = match (said("--bench"), said("--quick")) {
        // `cargo test --benches`: only whether everything gets its answer.
        (false, _) => (2_000, 1),
        (true, true) => (100_000, 5),
        (true, false) => (1_000_000, 5),
    };
    let effort = Effort { keys, rounds };
    println!(
        "{keys} keys; the load was {}",
        bench::daemon::load_average()
    );

    let null = Place::new(1, keys);
    let full = Place::new(keys, keys);
    steps(&full, effort);
    maps(&full, effort);
    daemons(&null, &full, effort);
    println!("the load was {}", bench::daemon::load_average());
    ExitCode::SUCCESS
}

/// The steps of a start, one by one.
fn steps(place: &Place, effort: Effort) {
    let config = place.config();
    let path = &config.keys.store;
    seconds("keys.read_nothing_s", effort.rounds, || {
        let text = std::fs::read(path).expect("the store");
        let lines = memchr::memchr_iter(b'\n', &text).count();
        assert_eq!(lines, effort.keys as usize + 1);
    });
    seconds("keys.journal_read_s", effort.rounds, || {
        let mut records = 0;
        store::read(path, |_| records += 1).expect("a good store");
        assert_eq!(records, effort.keys);
    });
    let mut loaded = Vec::new();
    let mut last = None;
    for _ in 0..effort.rounds {
        // To free the one before is no part of it.
        drop(last.take());
        let began = Instant::now();
        let keyring = keyring(&config, effort);
        loaded.push(began.elapsed().as_secs_f64());
        last = Some(keyring);
    }
    // Both, and one goes on while the other does.
    figure_exact("keys.journal_and_table_s", median(loaded), "s");

    let keyring = last.expect("a round");
    let snapshot = keyring.snapshot();
    let mut samples = Samples::default();
    for _ in 0..effort.rounds {
        samples.start(&config, &keyring, &snapshot);
    }
    figure_exact("keys.buckets_s", median(samples.buckets), "s");
    figure_exact("keys.program_load_s", median(samples.program_load), "s");
    let attach = median(samples.attach);
    let kernel_map = median(samples.kernel_map) - attach;
    figure_exact("keys.attach_s", attach, "s");
    // With the buckets, which are given out on the way.
    figure_exact("keys.kernel_map_s", kernel_map, "s");
    figure_exact("keys.kernel_map_again_s", median(samples.again), "s");
}

/// What the last steps took, seconds.
#[derive(Default)]
struct Samples {
    program_load: Vec<f64>,
    buckets: Vec<f64>,
    attach: Vec<f64>,
    /// With keys, attached too.
    kernel_map: Vec<f64>,
    /// Every policy anew, as after a change of `keys.connections_per_second_hard`.
    again: Vec<f64>,
}

impl Samples {
    /// Loads the kernel half and fills it, as the daemon does.
    fn start(&mut self, config: &Config, keyring: &Arc<Keyring>, snapshot: &Snapshot) {
        // Attached without keys first: that is no part of filling the map.
        let mut loaded = load(config);
        let charges = Charges::new(config, keyring, loaded.take_charged()).expect("tables");
        let began = Instant::now();
        for record in snapshot.iter() {
            assert!(charges.bucket(record.id).is_some());
        }
        self.buckets.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        let half = loaded.attach(config, &[], false, charges);
        let half = half.expect("attached").expect("attached");
        self.attach.push(began.elapsed().as_secs_f64());
        drop(half);

        let began = Instant::now();
        let mut loaded = load(config);
        self.program_load.push(began.elapsed().as_secs_f64());

        let given = Charges::new(config, keyring, loaded.take_charged()).expect("tables");
        let began = Instant::now();
        let half = loaded.attach(
            config,
            snapshot.iter(),
            snapshot.complete(),
            Arc::clone(&given),
        );
        let half = half.expect("attached").expect("attached");
        self.kernel_map.push(began.elapsed().as_secs_f64());
        let (status, places) = (half.status(), given.status().key_buckets);
        assert_eq!((status.keys, places), (snapshot.len() as u64, status.keys));
        assert!(status.policy_complete);

        let began = Instant::now();
        keyring.tell(&*half.observer());
        self.again.push(began.elapsed().as_secs_f64());
        assert_eq!(half.status().keys, snapshot.len() as u64);
    }
}

fn load(config: &Config) -> Loaded {
    let loaded = KernelHalf::load(config).expect("the kernel half");
    loaded.unwrap_or_else(|status| panic!("{:?}", status.notes))
}

/// Trivial ways to fill a map with these policies.
fn maps(place: &Place, effort: Effort) {
    let keyring = keyring(&place.config(), effort);
    let policies: Vec<(KeyId, KeyPolicy)> = (keyring.snapshot().iter())
        .map(|record| (record.id, record.policy.expect("for this audience")))
        .collect();
    seconds("keys.hash_map_s", effort.rounds, || {
        let mut map = HashMap::new();
        for (id, policy) in &policies {
            map.insert(id.0, *policy);
        }
        assert_eq!(map.len(), policies.len());
    });
    let sizes = Sizes {
        keys: effort.keys,
        ..Sizes::SMALL
    };
    let samples = (0..effort.rounds).map(|_| {
        let mut program = Program::load(object::OBJECT, &sizes).expect("as above");
        let began = Instant::now();
        let new = (policies.iter())
            .map(|(id, policy)| program.put_key(*id, policy))
            .collect::<Result<Vec<bool>, ProgramError>>();
        let took_s = began.elapsed().as_secs_f64();
        assert!(new.expect("there is room").into_iter().all(|new| new));
        took_s
    });
    figure_exact("keys.one_call_a_key_s", median(samples.collect()), "s");
}

/// Whole daemons, one at a time: both want the same device.
fn daemons(null: &Place, full: &Place, effort: Effort) {
    let mut null_load_s = Vec::new();
    let mut load_s = Vec::new();
    let mut load_cpu_s = Vec::new();
    for round in 1..=effort.rounds {
        let daemon = Daemon::start(null, 1);
        let nothing = Memory::of(&daemon);
        null_load_s.push(daemon.load.as_secs_f64());
        drop(daemon);
        let daemon = Daemon::start(full, effort.keys);
        load_s.push(daemon.load.as_secs_f64());
        load_cpu_s.push(daemon.load_cpu_s);
        if round == effort.rounds {
            Memory::of(&daemon).print_over(&nothing);
            effects(full, &daemon, effort);
        }
    }
    figure_exact("keys.null_load_s", median(null_load_s), "s");
    figure_exact("keys.load_s", median(load_s), "s");
    figure_exact("keys.load_cpu_s", median(load_cpu_s), "s");
}

/// What a daemon takes, bytes.
struct Memory {
    resident: u64,
    peak: u64,
    maps: u64,
}

impl Memory {
    fn of(daemon: &Daemon) -> Self {
        Self {
            resident: daemon.memory_bytes("VmRSS"),
            peak: daemon.memory_bytes("VmHWM"),
            maps: daemon.map("KEYS").bytes + daemon.map("KEY_BUCKETS").bytes,
        }
    }

    fn print_over(&self, null: &Self) {
        let growth = |of: fn(&Self) -> u64| of(self) as f64 - of(null) as f64;
        figure("keys.memory_bytes", growth(|of| of.resident), "bytes");
        figure("keys.memory_peak_bytes", growth(|of| of.peak), "bytes");
        figure("keys.kernel_memory_bytes", self.maps as f64, "bytes");
        figure("keys.null_kernel_memory_bytes", null.maps as f64, "bytes");
    }
}

/// From a command's start until the kernel's map shows what it did.
fn effects(place: &Place, daemon: &Daemon, effort: Effort) {
    let map = MapData::from_id(daemon.map("KEYS").id).expect("the daemon's map");
    let map: KernelMap<_, u64, KeyPolicy> = (Map::HashMap(map).try_into()).expect("typed");
    let (mut add_ms, mut revoke_ms, mut command_ms) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..effort.rounds.max(5) {
        let began = Instant::now();
        let id = place.new_key(&format!("late-{round}"));
        let command = began.elapsed();
        wait_until(|| map.get(&id.0, 0).is_ok());
        add_ms.push(began.elapsed().as_secs_f64() * 1e3);
        command_ms.push(command.as_secs_f64() * 1e3);
        assert_eq!(map.get(&id.0, 0).expect("added").flags, 0);

        let began = Instant::now();
        let mut command = place.revoke(id);
        wait_until(|| map.get(&id.0, 0).expect("stays").flags == KeyPolicy::REVOKED);
        revoke_ms.push(began.elapsed().as_secs_f64() * 1e3);
        assert!(command.wait().expect("edge keys revoke").success());
    }
    figure("keys.new_command_ms", median(command_ms), "ms");
    figure("keys.add_effect_ms", median(add_ms.clone()), "ms");
    figure("keys.add_effect_worst_ms", worst(&add_ms), "ms");
    figure("keys.revoke_effect_ms", median(revoke_ms.clone()), "ms");
    figure("keys.revoke_effect_worst_ms", worst(&revoke_ms), "ms");
}

fn worst(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(0.0, f64::max)
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it does not come");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The store, read as the daemon does.
fn keyring(config: &Config, effort: Effort) -> Arc<Keyring> {
    let keyring = Arc::new(Keyring::new(config.keys.capacity));
    let mut follower = Follower::new(&config.keys.store, &config.keys.audience);
    let found = follower.follow(&keyring).expect("a good store");
    assert_eq!(found, Found::Replaced(effort.keys.into()));
    let snapshot = keyring.snapshot();
    assert_eq!(snapshot.for_audience(), effort.keys as usize);
    assert!(snapshot.complete());
    keyring
}

/// Prints and returns the median time of `work`.
fn seconds(name: &str, rounds: usize, mut work: impl FnMut()) -> f64 {
    let samples = (0..rounds).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed().as_secs_f64()
    });
    let seconds = median(samples.collect());
    figure_exact(name, seconds, "s");
    seconds
}
