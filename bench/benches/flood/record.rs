//! The record, in `bench/record`: a line of CSV for each phase of each cell, and for each
//! attack at several rates curves of what it costs and of how honest clients fare.

use super::hellos::Attack;
use super::phase::{Cell, Phase};
use bench::plot;
use std::fs;

/// Writes them.
pub(crate) fn write(attacks: &[Attack], cells: &[Cell]) {
    for attack in attacks.iter().filter(|attack| attack.has_curves()) {
        draw(*attack, cells);
    }
    let path = bench::record("flood.csv");
    let head = "attack,server,rate_per_s,phase,opened,connected,frames,answers,ends,resets,lasted_ms,\
                machine_ms,idle_share,stolen_ms,server_ms,receiving_ms,xdp_ms,xdp_runs,\
                honest_asked,honest_errors,honest_p50_ms,honest_p99_ms,kept_p99_ms,sockets,requests,\
                resident_kb,slab_kb";
    let lines = cells.iter().flat_map(|cell| {
        [("control", &cell.control), ("attack", &cell.attacked)].map(|(name, phase)| {
            let (attack, server) = (cell.attack.name(), cell.target.name());
            format!("{attack},{server},{},{name},{}", cell.rate, fields(phase))
        })
    });
    let text: Vec<_> = std::iter::once(head.to_owned()).chain(lines).collect();
    fs::write(&path, text.join("\n") + "\n").expect("room on the disk");
    println!("record: {}", path.display());
}

/// A curve for each server.
fn draw(attack: Attack, cells: &[Cell]) {
    let cells: Vec<_> = cells.iter().filter(|cell| cell.attack == attack).collect();
    let curves = |of: fn(&Cell) -> f64| {
        let mut curves: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for cell in &cells {
            let (name, point) = (cell.target.name(), (cell.rate as f64, of(cell)));
            if !(point.1.is_finite() && point.1 > 0.0) {
                continue;
            }
            match curves.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push(point),
                None => curves.push((name, vec![point])),
            }
        }
        curves
    };
    let save = |what: &str, y: &str, curves: &[(String, Vec<(f64, f64)>)]| {
        if curves.is_empty() {
            return;
        }
        let path = bench::record(&format!("flood-{}-{what}.svg", attack.name()));
        let title = format!("{}: {y}", attack.name());
        let x = "attack connections a second";
        plot::lines(&path, &title, (x, y), curves).unwrap_or_else(|why| println!("no plot: {why}"));
    };
    let p99 = curves(|cell| cell.attacked.honest.percentile_ms(99));
    save("p99", "p99 of honest clients, ms", &p99);
    let cost = curves(|cell| cell.cost_us().1);
    save("cpu", "server CPU a connection, us", &cost);
}

fn fields(phase: &Phase) -> String {
    let Phase {
        done,
        cost,
        honest,
        sockets,
        resident_bytes,
        slab_bytes,
    } = phase;
    let numbers = [
        done.opened,
        done.connected,
        done.frames,
        done.answers,
        done.ends,
        done.resets,
    ];
    let numbers = numbers.map(|number| number.to_string()).join(",");
    let ms = |time: std::time::Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
    format!(
        "{numbers},{},{},{:.3},{},{},{},{},{},{},{},{:.3},{:.3},{:.3},{},{},{},{}",
        ms(cost.lasted),
        ms(cost.machine),
        cost.idle_share,
        ms(cost.stolen),
        ms(cost.server),
        ms(cost.receiving),
        ms(cost.program),
        cost.program_runs,
        honest.asked(),
        honest.errors.len(),
        honest.percentile_ms(50),
        honest.percentile_ms(99),
        honest.kept_percentile_ms(99),
        sockets.0,
        sockets.1,
        resident_bytes / 1024,
        slab_bytes / 1024,
    )
}
