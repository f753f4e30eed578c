//! The tables of a full run, for `docs/benchmarks.md`: one for each attack.

use super::hellos::Attack;
use super::phase::Cell;
use super::summary::told;
use std::fmt::Write as _;

/// The tables.
pub(crate) fn render(attacks: &[Attack], cells: &[Cell], versions: &str) -> String {
    let mut text = format!(
        "{}.\n\nCPU of one attack connection in microseconds, by the whole machine and by the \
         server, the control taken off, at the highest rate (in brackets) at which the server had \
         room; then, at each rate, p50 and p99 of honest clients with a connection each, and \
         p99 of requests over one that was there before, in milliseconds, each beside the control's, and how many were turned away; connections and requests for one that were held in the end \
         of the highest.\n",
        bench::page::machine()
    );
    for attack in attacks {
        let cells: Vec<_> = cells.iter().filter(|cell| cell.attack == *attack).collect();
        let mut rates: Vec<_> = cells.iter().map(|cell| cell.rate).collect();
        rates.sort_unstable();
        rates.dedup();
        let mut names: Vec<String> = Vec::new();
        for cell in &cells {
            let name = cell.target.name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let _ = write!(text, "\n| `{}` | machine | server (at) |", attack.name());
        for rate in &rates {
            let _ = write!(text, " {rate}/s: p50 | p99 | kept p99 | turned away |");
        }
        let columns = 4 + 4 * rates.len();
        let _ = writeln!(text, " held |\n|{}", "---|".repeat(columns));
        for name in names {
            let own: Vec<_> = (cells.iter().copied())
                .filter(|cell| cell.target.name() == name)
                .collect();
            row(&mut text, &name, &own, &rates);
        }
        if attack.has_curves() {
            for (what, about) in [
                ("cpu", "server CPU a connection"),
                ("p99", "p99 of honest clients"),
            ] {
                let name = attack.name();
                let _ = writeln!(
                    text,
                    "\n![{name}: {about}](../bench/record/flood-{name}-{what}.svg)"
                );
            }
        }
    }
    let _ = writeln!(text, "\nVersions: {versions}.");
    text
}

fn row(text: &mut String, name: &str, own: &[&Cell], rates: &[u64]) {
    let _ = write!(text, "| {name} |");
    match told(own) {
        Some(cell) => {
            let (machine, server) = cell.cost_us();
            if cell.is_machine_told() {
                let _ = write!(text, " {machine:.1}");
            }
            let _ = write!(text, " | {server:.1} ({}/s) |", cell.rate);
        }
        None => *text += " | |",
    }
    for rate in rates {
        let at = own.iter().find(|cell| cell.rate == *rate);
        match at.filter(|cell| cell.target.serves()) {
            Some(cell) => {
                let (honest, control) = (&cell.attacked.honest, &cell.control.honest);
                let _ = write!(
                    text,
                    " {:.1} / {:.1} | {:.1} / {:.1} | {:.1} / {:.1} | {} of {} |",
                    honest.percentile_ms(50),
                    control.percentile_ms(50),
                    honest.percentile_ms(99),
                    control.percentile_ms(99),
                    honest.kept_percentile_ms(99),
                    control.kept_percentile_ms(99),
                    honest.errors.len(),
                    honest.asked(),
                );
            }
            None => *text += " | | | |",
        }
    }
    let held = own.iter().max_by_key(|cell| cell.rate);
    let (connections, requests) = held.map_or((0, 0), |cell| cell.attacked.sockets);
    let _ = writeln!(text, " {connections} + {requests} |");
}
