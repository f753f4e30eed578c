//! Two upstreams, and the edge with and without its memory: the time to the first token of
//! conversations in the Messages API, one after the other, on a connection each.
//!
//! Beside the edge as it is (`edge`): `no_memory`, the same edge without `[context]`, which
//! balances only, and `one_upstream`, where nothing is to be chosen and everything is cached,
//! but one upstream does the work of two. `killed` is the edge as it is, one of whose upstreams
//! is killed half-way.

use super::client::{Client, Turn};
use super::place::Place;
use bench::daemon::Daemon;
use bench::{figure, median};
use edge_userspace::demo_model::{DemoModel, Options};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// As many as there are upstreams, so that waiting for each other is not all.
const CLIENTS: usize = 2;
const TURNS: usize = 8;
/// What a conversation begins with: about 8,000 tokens, as the upstreams count.
const FIRST_BYTES: usize = 32_000;
/// And each later message: about 250.
const LATER_BYTES: usize = 1000;
/// What an upstream reads in a millisecond: the beginning takes 400 ms, a later message 12.
const TOKENS_PER_MS: u64 = 20;

/// Runs all of them.
pub(crate) fn run(is_quick: bool) {
    let conversations = if is_quick { 2 } else { 8 };
    let edge = hold_all("edge", 2, true, conversations, None);
    let no_memory = hold_all("no_memory", 2, false, conversations, None);
    hold_all("one_upstream", 1, true, conversations, None);
    hold_all(
        "killed",
        2,
        true,
        conversations,
        Some(CLIENTS * conversations * TURNS / 2),
    );
    assert!(
        edge.cached > no_memory.cached,
        "{} % and {} %: nothing was remembered",
        edge.cached,
        no_memory.cached
    );
    figure(
        "affinity.ratio.later_turns_vs_no_memory",
        no_memory.later_ms / edge.later_ms,
        "times",
    );
}

/// What came of a run.
struct Outcome {
    /// The mean of the turns after the first.
    later_ms: f64,
    /// Per cent of all tokens that were cached.
    cached: f64,
}

/// Holds the conversations; kills the last upstream when so many turns are over.
fn hold_all(
    name: &str,
    upstreams: usize,
    remembers: bool,
    conversations: usize,
    kill_after: Option<usize>,
) -> Outcome {
    let model = || {
        let options = Options {
            first_token: Duration::ZERO,
            inter_token: Duration::ZERO,
            tokens: 2,
            kv_cache_tokens: 10_000_000,
            prefill_tokens_per_ms: TOKENS_PER_MS,
            ..Options::default()
        };
        DemoModel::start(options).expect("a demo model")
    };
    let mut models: Vec<_> = (0..upstreams).map(|_| model()).collect();
    let addresses: Vec<_> = models.iter().map(DemoModel::address).collect();
    let place = Place::new(&addresses, remembers, TOKENS_PER_MS);
    let daemon = place.start();
    let (over, killed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (turns, in_flight) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (place, daemon, over, killed) = (&place, &daemon, &over, &killed);
                scope.spawn(move || hold(client, conversations, place, daemon, over, killed))
            })
            .collect();
        if let Some(after) = kill_after {
            while over.load(Ordering::Relaxed) < after {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(models.pop());
            killed.store(true, Ordering::SeqCst);
        }
        let held: Vec<_> = clients
            .into_iter()
            .map(|client| client.join().expect("a client"))
            .collect();
        let in_flight: usize = held.iter().map(|(_, failed)| failed).sum();
        let turns: Vec<_> = held.into_iter().flat_map(|(turns, _)| turns).collect();
        (turns, in_flight)
    });
    assert_eq!(turns.len(), CLIENTS * conversations * TURNS);
    if remembers {
        let (requests, seconds) = histogram(&daemon, "edge_context_look_up_seconds");
        assert_eq!(requests, turns.len() as f64 + in_flight as f64);
        // Two looks at the clock are in it.
        let ns = seconds * 1e9 / requests - clock_ns();
        figure(&format!("slots.in_edge_ns.{name}"), ns, "ns");
    }
    let of = |wanted: fn(&Turn) -> bool| -> Vec<f64> {
        let wanted = turns.iter().filter(|turn| wanted(turn));
        wanted
            .map(|turn| turn.first_token.as_secs_f64() * 1000.0)
            .collect()
    };
    let (first, later) = (of(|turn| turn.number == 0), of(|turn| turn.number > 0));
    let sum = |of: fn(&Turn) -> u64| turns.iter().map(of).sum::<u64>() as f64;
    let outcome = Outcome {
        later_ms: later.iter().sum::<f64>() / later.len() as f64,
        cached: sum(|turn| turn.cached) * 100.0 / sum(|turn| turn.tokens),
    };
    let told = |what: &str, value, unit| figure(&format!("affinity.{name}.{what}"), value, unit);
    told("first_turns_ms", median(first), "ms");
    told("later_turns_mean_ms", outcome.later_ms, "ms");
    told("later_turns_median_ms", median(later), "ms");
    told("cached_pct", outcome.cached, "%");
    if kill_after.is_some() {
        // What was asked after it was killed has been asserted to succeed.
        told("failed_in_flight", in_flight as f64, "requests");
    }
    outcome
}

/// How many there are of a histogram of seconds, and their sum.
fn histogram(daemon: &Daemon, name: &str) -> (f64, f64) {
    let text = daemon.metrics();
    let value = |what: &str| -> f64 {
        let name = format!("{name}_{what} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&name));
        value
            .and_then(|value| value.parse().ok())
            .expect("the metric")
    };
    (value("count"), value("sum"))
}

/// What two looks at the clock take by themselves.
fn clock_ns() -> f64 {
    const TIMES: u32 = 10_000;
    let between = (0..TIMES).map(|_| Instant::now().elapsed());
    between.sum::<Duration>().as_secs_f64() * 1e9 / f64::from(TIMES)
}

/// One client's conversations: all turns, and how many had to be asked again because their
/// upstream was killed with them.
fn hold(
    client: usize,
    conversations: usize,
    place: &Place,
    daemon: &Daemon,
    over: &AtomicUsize,
    killed: &AtomicBool,
) -> (Vec<Turn>, usize) {
    let mut turns = Vec::new();
    let mut failed = 0;
    let mut connection = Client::connect(place, daemon);
    for conversation in 0..conversations {
        let mut messages = String::new();
        for number in 0..TURNS {
            if number > 0 {
                messages += r#",{"role":"assistant","content":"Go on."},"#;
            }
            let seed = (client * conversations + conversation) * TURNS + number;
            let bytes = if number == 0 {
                FIRST_BYTES
            } else {
                LATER_BYTES
            };
            let text = text(seed as u64, bytes);
            messages += &format!(r#"{{"role":"user","content":"{text}"}}"#);
            let turn = loop {
                let was_killed = killed.load(Ordering::SeqCst);
                match connection.ask(number, &messages) {
                    Ok(turn) => break turn,
                    Err(error) => {
                        assert!(!was_killed, "asked after the kill: {error}");
                        failed += 1;
                        connection = Client::connect(place, daemon);
                    }
                }
            };
            assert_eq!(turn.answer, "the 🦀 ", "the demo model's first two tokens");
            turns.push(turn);
            over.fetch_add(1, Ordering::Relaxed);
        }
    }
    (turns, failed)
}

/// A message that no other is like.
fn text(seed: u64, bytes: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    while text.len() < bytes {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        text += &format!("{:x} ", state >> 40);
    }
    text
}
