//! The tables of a full run, put into `docs/benchmarks.md` where two marks stand.

use crate::record::OF_STREAMS;
use std::fmt::Write as _;

/// What was measured: a median, by workload, subject and value.
pub(crate) type Medians<'a> = &'a dyn Fn(&str, &str, &str) -> Option<f64>;

/// The tables.
pub(crate) fn render(
    subjects: &[(&'static str, String)],
    workloads: &[&str],
    rounds: usize,
    of: Medians<'_>,
) -> String {
    let mut text = head(rounds);
    text += "\nCPU time of the server in microseconds, for each request, event (sse), connection \
             (handshake, resume, idle10k):\n\n| |";
    for workload in workloads {
        let _ = write!(text, " {workload} |");
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(workloads.len()));
    for (subject, _) in subjects {
        let _ = write!(text, "| {subject} |");
        for workload in workloads {
            let cpu = of(workload, subject, "cpu_us");
            let _ = write!(text, " {} |", cpu.map_or(String::new(), short));
        }
        text.push('\n');
    }
    text += "\nRequests, events, connections a second, as many as the clients and the upstream \
             on the other CPU ask for; memory at the end of `small`; what an idle connection \
             holds:\n\n| | small | handshake | resume | resident MiB | idle bytes |\n\
             |---|---|---|---|---|---|\n";
    for (subject, _) in subjects {
        let cells = [
            of("small", subject, "rate_per_s"),
            of("handshake", subject, "rate_per_s"),
            of("resume", subject, "rate_per_s"),
            of("small", subject, "resident_kib").map(|kib| kib / 1024.0),
            of("idle10k", subject, "idle_bytes"),
        ];
        row(&mut text, subject, &cells);
    }
    for workload in ["sse64", "sse1000"] {
        if !workloads.contains(&workload) {
            continue;
        }
        let _ = writeln!(
            text,
            "\n`{workload}`, microseconds, p50 and p99: from the request to the first event, from \
             the upstream's write of an event to the client's read, between two events; and gaps of \
             a round that were 20 ms longer than asked for, or more, and those of them that were \
             some 40 ms longer, as a delayed acknowledgement makes them:\n\n\
             | | first p50 | p99 | transit p50 | p99 | gap p50 | p99 | stalls | of 40 ms |\n\
             |---|---|---|---|---|---|---|---|---|"
        );
        for (subject, _) in subjects {
            let cells = OF_STREAMS.map(|name| of(workload, subject, name));
            row(&mut text, subject, &cells);
        }
    }
    text += "\nVersions: ";
    let versions = subjects
        .iter()
        .map(|(name, said)| format!("{name} ({said})"));
    text += &versions.collect::<Vec<_>>().join(", ");
    text += ".\n";
    text
}

fn row(text: &mut String, subject: &str, cells: &[Option<f64>]) {
    if cells.iter().all(Option::is_none) {
        return;
    }
    let _ = write!(text, "| {subject} |");
    for cell in cells {
        let _ = write!(text, " {} |", cell.map_or(String::new(), short));
    }
    text.push('\n');
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// When, on what, of which state.
fn head(rounds: usize) -> String {
    format!(
        "{}; up to {rounds} interleaved rounds, medians.\n\n\
         ![CPU time of each server for the same work](../bench/record/edge-cpu.svg)\n",
        bench::page::machine()
    )
}

/// Puts them where the marks are.
pub(crate) fn write(tables: &str) {
    bench::page::write("edge", tables);
}
