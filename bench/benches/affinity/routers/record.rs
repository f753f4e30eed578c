//! Writes the runs down, one a line, makes a table of them, and draws them.

use super::router::Router;
use super::{Measured, Scenario, middle};
use bench::{plot, record};
use std::fmt::Write as _;

/// To `bench/record/affinity.csv`, in place of what was there.
pub(crate) fn write(measured: &[Measured], versions: &[String]) {
    let load = bench::daemon::load_average();
    let mut text = format!("# {}; load average {load}\n", versions.join(", "));
    text += "scenario,router,round,requests,failed,hit_pct,first_event_p50_ms,\
             first_event_p99_ms,spread,read_spread,cpu_us_per_request\n";
    for run in measured {
        let _ = writeln!(
            text,
            "{},{},{},{},{},{:.2},{:.2},{:.2},{:.3},{:.3},{:.1}",
            run.scenario.name(),
            run.router.name(),
            run.round,
            run.requests,
            run.failed,
            run.hit_pct,
            run.p50_ms,
            run.p99_ms,
            run.spread,
            run.read_spread,
            run.cpu_us
        );
    }
    let path = record("affinity.csv");
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    println!("wrote {}", path.display());
}

/// Medians of the rounds, for `docs/benchmarks.md`. `possible_pct`: of a scenario, what one
/// endless cache for all upstreams would have.
pub(crate) fn table(
    routers: &[Router],
    measured: &[Measured],
    possible_pct: impl Fn(Scenario) -> f64,
    versions: &[String],
) -> String {
    let mut text = format!(
        "{}.\n\n| | tokens cached, % (possible) | first event p50, p99, ms | spread, read_spread | \
         broken off | router's CPU, µs a request |\n|---|---|---|---|---|---|\n",
        bench::page::machine()
    );
    for scenario in Scenario::ALL {
        for router in routers {
            let of = |value| middle(measured, scenario, *router, value);
            let runs = || (measured.iter()).filter(|run| run.is_of(scenario, *router));
            let cpu_us = match router.is_none() {
                true => "–".to_owned(),
                false => format!("{:.0}", of(|run| run.cpu_us)),
            };
            let _ = writeln!(
                text,
                "| {}, `{}` | {:.1} ({:.1}) | {:.1}, {:.1} | {:.2}, {:.2} | {} of {} | {cpu_us} |",
                scenario.name(),
                router.name(),
                of(|run| run.hit_pct),
                possible_pct(scenario),
                of(|run| run.p50_ms),
                of(|run| run.p99_ms),
                of(|run| run.spread),
                of(|run| run.read_spread),
                runs().map(|run| run.failed).sum::<usize>(),
                runs().map(|run| run.requests).sum::<usize>(),
            );
        }
    }
    let plots = ["hit_pct", "first_event_p99_ms", "cpu_us"];
    for plot in plots {
        let _ = writeln!(text, "\n![{plot}](../bench/record/affinity_{plot}.svg)");
    }
    let _ = writeln!(text, "\nVersions: {}.", versions.join(", "));
    text
}

/// A file, its title, a unit and what is drawn.
type Plot = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Measured) -> f64,
);

/// A plot each of what was cached, of the slowest first events and of processor time.
pub(crate) fn plot(routers: &[Router], measured: &[Measured]) {
    let plots: [Plot; 3] = [
        (
            "affinity_hit_pct.svg",
            "Tokens of prompts that were cached",
            "%",
            |run| run.hit_pct,
        ),
        (
            "affinity_first_event_p99_ms.svg",
            "First event, 99th percentile",
            "ms",
            |run| run.p99_ms,
        ),
        (
            "affinity_cpu_us.svg",
            "Processor time of the router for a request",
            "us",
            |run| run.cpu_us,
        ),
    ];
    let scenarios = Scenario::ALL.map(Scenario::name);
    for (file, title, unit, value) in plots {
        let bars: Vec<plot::Bars> = (routers.iter())
            .map(|router| {
                let of = |scenario| middle(measured, scenario, *router, value);
                (router.name().to_owned(), Scenario::ALL.map(of).to_vec())
            })
            .collect();
        let path = record(file);
        plot::bars(&path, title, unit, &scenarios, &bars).expect("a plot");
        println!("wrote {}", path.display());
    }
}
