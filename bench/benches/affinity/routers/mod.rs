//! The edge beside cache-aware routers: growing conversations of Chat Completions before four
//! upstreams, the same for all, each with fresh upstreams of its own.
//!
//! What was cached is read where it was: from the upstreams' own counters. Every request must
//! be answered, with the bytes that an upstream asked directly gives. `round_robin` and
//! `sticky` are clients that ask the upstreams directly: what no router, and what the simplest
//! rule comes to. Upstreams and clients run on one processor, the router on
//! another.

mod conversations;
mod drive;
mod fleet;
mod http;
mod record;
mod router;

use bench::process;
use bench::trace::Trace;
use bench::{figure, figure_exact, median, percentile};
use conversations::Conversations;
use drive::Outcome;
use fleet::{Fleet, Work};
use http::Connection;
use router::Router;
use std::time::Duration;

/// What is done to the upstreams, or asked of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// Nothing.
    Plain,
    /// One tenant asks as often as all others together.
    Skewed,
    /// One upstream reads half as fast; no router is told.
    Slow,
    /// One upstream is killed half-way, and comes back with nothing in its cache.
    Restart,
}

/// What one router did in one run.
struct Measured {
    scenario: Scenario,
    router: Router,
    round: usize,
    requests: usize,
    failed: usize,
    hit_pct: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// The most requests of an upstream, over the mean.
    spread: f64,
    /// The same of tokens that had to be read.
    read_spread: f64,
    cpu_us: f64,
}

impl Measured {
    fn is_of(&self, scenario: Scenario, router: Router) -> bool {
        self.scenario == scenario && self.router == router
    }
}

/// Where clients and upstreams run.
const OTHER_CPU: usize = 0;
/// Where a router runs, alone.
const ROUTER_CPU: usize = 1;
/// Rounds of a full run.
const ROUNDS: usize = 3;
/// So much of the trace is asked in a run.
const SECONDS: u64 = 15;
const QUICK_SECONDS: u64 = 8;

impl Scenario {
    const ALL: [Self; 4] = [Self::Plain, Self::Skewed, Self::Slow, Self::Restart];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Skewed => "skewed",
            Self::Slow => "slow",
            Self::Restart => "restart",
        }
    }
}

/// Runs all of them.
pub(crate) fn run(is_quick: bool) {
    process::pin_to(OTHER_CPU);
    let (rounds, seconds) = if is_quick {
        (1, QUICK_SECONDS)
    } else {
        (ROUNDS, SECONDS)
    };
    let mut routers = Vec::new();
    let mut versions = Vec::new();
    for router in Router::ALL {
        match router.version() {
            Ok(version) => {
                versions.push(format!("{} {version}", router.name()));
                routers.push(router);
            }
            Err(why) => println!("skipped: {}: {why}", router.name()),
        }
    }
    println!("routers: {}", versions.join(", "));
    let (answer, expected) = answer();
    let workload = |has_favourite| {
        let trace = Trace::fleet(has_favourite);
        Conversations::new(&trace, seconds, &answer)
    };
    let (even, skewed) = (workload(false), workload(true));
    let of = |scenario| match scenario {
        Scenario::Skewed => &skewed,
        _ => &even,
    };
    let mut measured = Vec::new();
    for scenario in Scenario::ALL {
        let conversations = of(scenario);
        let name = scenario.name();
        figure(
            &format!("affinity.{name}.possible_hit_pct"),
            conversations.possible_pct,
            "%",
        );
        for round in 0..rounds {
            // In another order each time.
            let first = round * routers.len() / rounds;
            for at in 0..routers.len() {
                let router = routers[(first + at) % routers.len()];
                if round > 0 && router.is_none() {
                    continue;
                }
                let run = one(scenario, router, round, conversations, &expected);
                println!(
                    "{name} round {round} {}: {:.1} % cached, first event {:.1} and {:.1} ms, \
                     {:.0} us a request",
                    router.name(),
                    run.hit_pct,
                    run.p50_ms,
                    run.p99_ms,
                    run.cpu_us
                );
                measured.push(run);
            }
        }
    }
    tell(&routers, &measured);
    if !is_quick {
        record::write(&measured, &versions);
        record::plot(&routers, &measured);
        let possible_pct = |scenario| of(scenario).possible_pct;
        let table = record::table(&routers, &measured, possible_pct, &versions);
        bench::page::write("affinity", &table);
    }
}

/// What every answer says, and all of its bytes, from an upstream asked directly.
fn answer() -> (String, Vec<u8>) {
    let fleet = Fleet::new(false);
    let running = Router::RoundRobin.start(fleet.addresses());
    let asks = running.target.request(&format!(
        r#"{{"model":"claude-demo","max_tokens":{},"stream":true,"messages":[{{"role":"user","content":"?"}}]}}"#,
        conversations::ANSWER_TOKENS
    ));
    let connection = Connection::new(fleet.addresses()[0], None);
    let answer = connection.and_then(|mut connection| connection.ask(&asks));
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 200);
    let events = String::from_utf8(answer.body.clone()).expect("text");
    assert!(events.ends_with("data: [DONE]\n\n"), "{events}");
    let pieces = events.split("\"content\":\"").skip(1);
    let text: String = pieces.filter_map(|piece| piece.split('"').next()).collect();
    (text, answer.body)
}

/// One router before upstreams of its own.
fn one(
    scenario: Scenario,
    router: Router,
    round: usize,
    conversations: &Conversations,
    expected: &[u8],
) -> Measured {
    let mut fleet = Fleet::new(scenario == Scenario::Slow);
    let running = router.start(fleet.addresses());
    let requests = &conversations.requests;
    let before = running.processor_time();
    let half = requests[requests.len() / 2].due;
    let back = half + half / 5;
    let (mut is_killed, mut is_back) = (false, false);
    let outcome = drive::drive(requests, &running.target, expected, |now| {
        if scenario != Scenario::Restart {
            return;
        }
        if now >= half && !is_killed {
            fleet.kill_last();
            is_killed = true;
        }
        if now >= back && !is_back {
            fleet.restart_last();
            is_back = true;
        }
    });
    let took = running.processor_time() - before;
    assert_eq!(is_back, scenario == Scenario::Restart);
    if let Some(failure) = &outcome.failure {
        let failure: String = failure.chars().take(200).collect();
        println!(
            "{}: a request failed and was asked again: {failure}",
            router.name()
        );
        let is_allowed = router != Router::Edge || scenario == Scenario::Restart;
        assert!(
            is_allowed,
            "the edge fails no request before well upstreams"
        );
    }
    let work = fleet.work();
    let prompts: u64 = work.iter().map(|work| work.prompts).sum();
    assert!(
        prompts >= requests.len() as u64,
        "{prompts} prompts of {}",
        requests.len()
    );
    measure(scenario, router, round, outcome, &work, took)
}

fn measure(
    scenario: Scenario,
    router: Router,
    round: usize,
    outcome: Outcome,
    work: &[Work],
    took: Duration,
) -> Measured {
    let requests = outcome.first_events.len();
    let ms = outcome.first_events.iter();
    let ms: Vec<_> = ms.map(|time| time.as_secs_f64() * 1000.0).collect();
    let sum = |of: fn(&Work) -> u64| work.iter().map(of).sum::<u64>() as f64;
    let spread = |of: fn(&Work) -> u64| {
        let most = work.iter().map(of).max().unwrap_or(0) as f64;
        most * work.len() as f64 / sum(of)
    };
    Measured {
        scenario,
        router,
        round,
        requests,
        failed: outcome.failed,
        hit_pct: sum(|work| work.cached) * 100.0 / sum(|work| work.tokens),
        p50_ms: percentile(&ms, 50),
        p99_ms: percentile(&ms, 99),
        spread: spread(|work| work.prompts),
        read_spread: spread(|work| work.tokens - work.cached),
        cpu_us: took.as_secs_f64() * 1e6 / requests as f64,
    }
}

/// The middle one of a router's rounds.
fn middle(
    measured: &[Measured],
    scenario: Scenario,
    router: Router,
    value: fn(&Measured) -> f64,
) -> f64 {
    let runs = measured.iter().filter(|run| run.is_of(scenario, router));
    median(runs.map(value).collect())
}

/// Prints the figures: of each the middle one of its rounds.
fn tell(routers: &[Router], measured: &[Measured]) {
    for scenario in Scenario::ALL {
        for router in routers {
            let of = |value| middle(measured, scenario, *router, value);
            let name =
                |what: &str| format!("affinity.{}.{}.{what}", scenario.name(), router.name());
            figure(&name("hit_pct"), of(|run| run.hit_pct), "%");
            figure(&name("first_event_p50_ms"), of(|run| run.p50_ms), "ms");
            figure(&name("first_event_p99_ms"), of(|run| run.p99_ms), "ms");
            figure_exact(&name("spread"), of(|run| run.spread), "times");
            figure_exact(&name("read_spread"), of(|run| run.read_spread), "times");
            figure(&name("failed"), of(|run| run.failed as f64), "tries");
            if !router.is_none() {
                figure(&name("cpu_us_per_request"), of(|run| run.cpu_us), "us");
            }
        }
    }
}
