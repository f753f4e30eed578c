//! The figures: what a connection of each attack costs each server, and how honest clients
//! fare, ours beside the best of the others.

use super::hellos::Attack;
use super::phase::Cell;
use bench::{figure, figure_exact};
use std::cmp::Ordering;

/// What the others are compared with: the edge as it is meant to run.
const OURS: &str = "edge_driver";

/// Prints them.
pub(crate) fn print(attacks: &[Attack], cells: &[Cell]) {
    for attack in attacks {
        let cells: Vec<_> = cells.iter().filter(|cell| cell.attack == *attack).collect();
        let mut names: Vec<String> = Vec::new();
        for cell in &cells {
            let name = cell.target.name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let of = |name: &str| -> Vec<&Cell> {
            let of = cells.iter().filter(|cell| cell.target.name() == name);
            of.copied().collect()
        };
        let figure_name = |what: &str| format!("flood.{}.{what}", attack.name());
        for name in &names {
            if let Some(cell) = told(&of(name)) {
                tell_cost(&figure_name, name, cell);
            }
        }
        let highest: Vec<_> = names.iter().filter_map(|name| told(&of(name))).collect();
        tell_ratios(&figure_name, "", &highest);
        // At one rate, the highest at which everyone had room.
        let has_room = |rate: u64| {
            let mut at = cells.iter().filter(|cell| cell.rate == rate);
            at.all(|cell| cell.has_room())
        };
        let rates = cells.iter().map(|cell| cell.rate);
        if let Some(rate) = rates.filter(|rate| has_room(*rate)).max() {
            let at = cells.iter().filter(|cell| cell.rate == rate);
            figure(&figure_name("same_rate"), rate as f64, "connections/s");
            tell_ratios(&figure_name, ".same_rate", &at.copied().collect::<Vec<_>>());
        }
        let (cell, all_suffered) = compared(&cells);
        let Some(ours) = cell else { continue };
        let name = match all_suffered {
            true => "peers_suffer_at",
            false => "compared_at",
        };
        figure(&figure_name(name), ours.rate as f64, "connections/s");
        let errors = ours.attacked.honest.errors.len() as f64;
        figure(&figure_name("legit_errors"), errors, "requests");
        figure_exact(&figure_name("legit_p99_ratio"), ours.p99_ratio(), "times");
        for cell in cells
            .iter()
            .filter(|cell| cell.rate == ours.rate && cell.target.serves())
        {
            let name = cell.target.name();
            let honest = &cell.attacked.honest;
            let errors = honest.errors.len() as f64;
            figure(
                &figure_name(&format!("legit_errors.{name}")),
                errors,
                "requests",
            );
            let ratio = format!("legit_p99_ratio.{name}");
            figure_exact(&figure_name(&ratio), cell.p99_ratio(), "times");
            let ratio = format!("legit_kept_p99_ratio.{name}");
            figure_exact(&figure_name(&ratio), cell.kept_p99_ratio(), "times");
        }
    }
}

fn tell_cost(figure_name: &impl Fn(&str) -> String, name: &str, cell: &Cell) {
    let (machine, server) = cell.cost_us();
    if cell.is_machine_told() {
        figure(&figure_name(&format!("cpu_us.{name}")), machine, "us");
    } else {
        println!(
            "no {}: the machine had no idle time",
            figure_name(&format!("cpu_us.{name}"))
        );
    }
    figure(&figure_name(&format!("server_cpu_us.{name}")), server, "us");
}

/// Ours over the best peer's, among these cells.
fn tell_ratios(figure_name: &impl Fn(&str) -> String, which: &str, cells: &[&Cell]) {
    let Some(ours) = cells.iter().find(|cell| cell.target.name() == OURS) else {
        return;
    };
    let peers: Vec<_> = cells.iter().filter(|cell| cell.target.is_peer()).collect();
    let least = |of: fn(&Cell) -> f64| peers.iter().map(|cell| of(cell)).min_by(f64::total_cmp);
    let told = peers.iter().all(|cell| cell.is_machine_told()) && ours.is_machine_told();
    if let Some(best) = least(|cell| cell.cost_us().0).filter(|_| told) {
        let name = figure_name(&format!("cpu_ratio.vs_best_peer{which}"));
        figure_exact(&name, ours.cost_us().0 / best, "times");
    }
    if let Some(best) = least(|cell| cell.cost_us().1) {
        let name = figure_name(&format!("server_cpu_ratio.vs_best_peer{which}"));
        figure_exact(&name, ours.cost_us().1 / best, "times");
    }
}

/// The cell that tells a server's cost: at the highest rate at which it had room for all; else
/// the lowest there is, whose cost is then too little rather than too much.
pub(crate) fn told<'a>(cells: &[&'a Cell]) -> Option<&'a Cell> {
    let with_room = cells.iter().filter(|cell| cell.has_room());
    let highest = with_room.max_by_key(|cell| cell.rate);
    let lowest = || cells.iter().min_by_key(|cell| cell.rate);
    highest.or_else(lowest).copied()
}

/// Ours at the lowest rate at which every peer's clients suffered (or it was down before), and
/// whether there is such a rate; else at the highest.
fn compared<'a>(cells: &[&'a Cell]) -> (Option<&'a Cell>, bool) {
    let mut ours: Vec<&Cell> = cells.to_vec();
    ours.retain(|cell| cell.target.name() == OURS);
    ours.sort_by_key(|cell| cell.rate);
    let peers = || cells.iter().filter(|cell| cell.target.is_peer());
    let suffers = |name: &str, rate: u64| {
        let mut own = peers().filter(|cell| cell.target.name() == name);
        own.any(|cell| match cell.rate.cmp(&rate) {
            Ordering::Equal => cell.has_suffered(),
            Ordering::Less => cell.is_down(),
            Ordering::Greater => false,
        })
    };
    let all = |rate: u64| peers().all(|cell| suffers(&cell.target.name(), rate));
    let found = ours
        .iter()
        .find(|cell| peers().count() > 0 && all(cell.rate));
    match found {
        Some(cell) => (Some(cell), true),
        None => (ours.last().copied(), false),
    }
}
