//! What came of all rounds: figures as they come, a table, and a record for `bench/record`.

use crate::subject::Subject;
use crate::table;
use crate::workload::{Sample, Workload};
use bench::peers::GATEWAYS;
use bench::{percentile, plot};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Every sample so far.
pub(crate) struct Record {
    subjects: Vec<(&'static str, String)>,
    /// By workload and subject, in rounds.
    rows: Vec<Row>,
}

struct Row {
    workload: &'static str,
    subject: &'static str,
    round: usize,
    values: BTreeMap<&'static str, f64>,
}

/// What a row may have, in the record's order.
const VALUES: [&[&str]; 3] = [
    &["cpu_us", "rate_per_s", "resident_kib"],
    &OF_STREAMS,
    &[
        "idle_bytes",
        "counting_p50_us",
        "look_up_p50_us",
        "context_path_p50_us",
    ],
];
/// What a row of streams has beside.
pub(crate) const OF_STREAMS: [&str; 8] = [
    "first_p50_us",
    "first_p99_us",
    "transit_p50_us",
    "transit_p99_us",
    "gap_p50_us",
    "gap_p99_us",
    "stalls",
    "of_40_ms",
];

impl Record {
    pub(crate) fn new(subjects: &[Subject]) -> Self {
        let subjects = subjects.iter();
        Self {
            subjects: subjects
                .map(|subject| (subject.name, subject.version.clone()))
                .collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, workload: &Workload, subject: &Subject, round: usize, of: Sample) {
        let mut values = BTreeMap::new();
        let units = of.units as f64;
        values.insert("cpu_us", of.cpu.as_secs_f64() * 1e6 / units);
        values.insert("rate_per_s", units / of.took.as_secs_f64());
        values.insert("resident_kib", of.resident_bytes as f64 / 1024.0);
        if let Some(times) = of.times {
            let mut add = |p50, p99, samples: Vec<f64>| {
                values.insert(p50, percentile(&samples, 50));
                values.insert(p99, percentile(&samples, 99));
            };
            add("first_p50_us", "first_p99_us", times.first);
            add("transit_p50_us", "transit_p99_us", times.transit);
            add("gap_p50_us", "gap_p99_us", times.gaps);
            values.insert("stalls", times.stalls as f64);
            values.insert("of_40_ms", times.of_40_ms as f64);
        }
        if let Some(bytes) = of.idle_bytes {
            values.insert("idle_bytes", bytes);
        }
        let names = ["counting_p50_us", "look_up_p50_us", "context_path_p50_us"];
        for (name, value) in names.into_iter().zip(of.inside_us) {
            if let Some(value) = value {
                values.insert(name, value);
            }
        }
        self.rows.push(Row {
            workload: workload.name,
            subject: subject.name,
            round,
            values,
        });
    }

    /// The median of a value over all rounds, and how far apart half of them are, in per cent.
    fn median(&self, workload: &str, subject: &str, value: &str) -> Option<(f64, f64)> {
        let rows = self.rows.iter();
        let rows = rows.filter(|row| row.workload == workload && row.subject == subject);
        let values: Vec<f64> = rows
            .filter_map(|row| row.values.get(value).copied())
            .collect();
        if values.is_empty() {
            return None;
        }
        let middle = percentile(&values, 50);
        let spread = percentile(&values, 75) - percentile(&values, 25);
        Some((middle, spread * 100.0 / middle))
    }

    /// Figures of a workload.
    pub(crate) fn tell(&self, workload: &Workload) {
        let name = workload.name;
        println!(
            "\n{name}, CPU us of the server for each {}, medians (spread of the middle half)",
            workload.unit
        );
        for (subject, _) in &self.subjects {
            let Some((cpu, spread)) = self.median(name, subject, "cpu_us") else {
                continue;
            };
            let value = |value| self.median(name, subject, value).map_or(f64::NAN, |m| m.0);
            let mut line = format!(
                "{subject:14} {cpu:8.2} us (±{spread:4.1} %) {:9.0}/s {:8.1} MiB",
                value("rate_per_s"),
                value("resident_kib") / 1024.0
            );
            if value("first_p50_us").is_finite() {
                let _ = write!(
                    line,
                    "  first {:.0}, {:.0} us; transit {:.0}, {:.0} us; gap {:.0}, {:.0} us, {} stalls, {} of them of 40 ms",
                    value("first_p50_us"),
                    value("first_p99_us"),
                    value("transit_p50_us"),
                    value("transit_p99_us"),
                    value("gap_p50_us"),
                    value("gap_p99_us"),
                    value("stalls"),
                    value("of_40_ms")
                );
            }
            if value("idle_bytes").is_finite() {
                let _ = write!(line, "  {:.0} bytes each", value("idle_bytes"));
            }
            if value("counting_p50_us").is_finite() {
                let _ = write!(
                    line,
                    "  inside: {:.1} us reading and counting, {:.2} us looking up",
                    value("counting_p50_us"),
                    value("look_up_p50_us")
                );
            }
            println!("{line}");
        }
        for (subject, _) in &self.subjects {
            if subject.starts_with("edge") {
                continue;
            }
            // Who speaks OpenAI's shape is held against the edge speaking it.
            let is_gateway = GATEWAYS.iter().any(|gateway| gateway.name == *subject);
            let us = if is_gateway { "edge_chat" } else { "edge" };
            let ours = |value| self.median(name, us, value).map(|median| median.0);
            for (what, value) in [("cpu_ratio", "cpu_us"), ("rps_ratio", "rate_per_s")] {
                let theirs = self.median(name, subject, value);
                if let (Some(ours), Some((theirs, _))) = (ours(value), theirs) {
                    bench::figure_exact(
                        &format!("edge.{what}.{name}.vs_{subject}"),
                        ours / theirs,
                        "times",
                    );
                }
            }
        }
        let of = |value| self.median(name, "edge", value).map(|median| median.0);
        if let (Some(path), "conversation4k") = (of("context_path_p50_us"), name) {
            bench::figure_exact("edge.context_path_p50_us", path, "us");
        }
        if let Some(bytes) = of("idle_bytes") {
            bench::figure("edge.idle_connection_bytes", bytes, "bytes");
        }
        if ["sse64", "sse1000"].contains(&name) {
            let of = |subject| self.median(name, subject, "first_p99_us");
            if let (Some((ours, _)), Some((direct, _))) = (of("edge"), of("direct")) {
                let figure = match name {
                    "sse64" => "edge.stream.added_first_event_p99_us".to_owned(),
                    _ => format!("edge.stream.added_first_event_p99_us.{name}"),
                };
                bench::figure(&figure, ours - direct, "us");
            }
        }
        if let (Some(gap_p50), Some(gap_p99), Some(of_40_ms)) =
            (of("gap_p50_us"), of("gap_p99_us"), of("of_40_ms"))
        {
            bench::figure(&format!("edge.stream.gap_p50_us.{name}"), gap_p50, "us");
            bench::figure(&format!("edge.stream.gap_p99_us.{name}"), gap_p99, "us");
            bench::figure(
                &format!("edge.stream.gaps_of_40_ms.{name}"),
                of_40_ms,
                "gaps",
            );
            if of_40_ms > 0.0 {
                println!("edge: gaps as a delayed acknowledgement makes them, or a busy machine");
            }
        }
        println!();
    }

    /// The record and the plots, when they are to be kept.
    pub(crate) fn end(&self, keep: bool) {
        if !keep {
            return;
        }
        let names = VALUES.concat();
        let mut text = format!("workload,subject,round,{}\n", names.join(","));
        for row in &self.rows {
            let value = |name: &&str| {
                row.values
                    .get(name)
                    .map_or(String::new(), |v| format!("{v:.3}"))
            };
            let values: Vec<_> = names.iter().map(value).collect();
            let _ = writeln!(
                text,
                "{},{},{},{}",
                row.workload,
                row.subject,
                row.round,
                values.join(",")
            );
        }
        std::fs::write(bench::record("edge.csv"), text).expect("room on the disk");
        let mut workloads: Vec<&str> = self.rows.iter().map(|row| row.workload).collect();
        workloads.dedup();
        self.plot(&workloads);
        let rounds = self.rows.iter().map(|row| row.round + 1).max().unwrap_or(0);
        let of = |workload: &str, subject: &str, value: &str| {
            self.median(workload, subject, value).map(|median| median.0)
        };
        table::write(&table::render(&self.subjects, &workloads, rounds, &of));
    }

    fn plot(&self, workloads: &[&str]) {
        // Those in Python and JavaScript would make the rest invisible.
        let subjects = self.subjects.iter();
        let subjects = subjects.filter(|(name, _)| !["litellm", "portkey"].contains(name));
        let series = subjects.map(|(subject, _)| {
            let ratio = |workload: &&str| {
                let of = |subject| self.median(workload, subject, "cpu_us").map(|m| m.0);
                match (of(subject), of("edge")) {
                    (Some(theirs), Some(ours)) => theirs / ours,
                    _ => f64::NAN,
                }
            };
            ((*subject).to_owned(), workloads.iter().map(ratio).collect())
        });
        let series: Vec<plot::Bars> = series.collect();
        let title = "CPU time of the server for the same work, the edge's = 1";
        let path = bench::record("edge-cpu.svg");
        if let Err(why) = plot::bars(&path, title, "times the edge's", workloads, &series) {
            println!("no plot: {why}");
        }
    }
}
