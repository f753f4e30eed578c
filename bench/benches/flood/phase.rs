//! One attack at one rate on one server: the control, then the attack, and what came of both.

use super::attackers::{Attackers, Done, Manner};
use super::clients::{self, Honest};
use super::cost::{self, Cost, Look};
use super::hellos::Attack;
use super::net::{Net, PORT};
use super::place::Place;
use super::servers::Target;
use super::sockets;
use bench::process;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

/// Where it all happens.
pub(crate) struct World {
    net: Net,
    place: Place,
    /// While it lives the kernel counts what XDP programs take.
    _statistics: std::os::fd::OwnedFd,
}

impl World {
    pub(crate) fn new(net: Net, place: Place) -> Self {
        let statistics = aya::sys::enable_stats(aya::sys::Stats::RunTime);
        Self {
            net,
            place,
            _statistics: statistics.expect("BPF statistics (Linux 5.8)"),
        }
    }
}

/// What was seen in one phase.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    pub(crate) done: Done,
    pub(crate) cost: Cost,
    pub(crate) honest: Honest,
    /// Connections at the end of it, and requests for one.
    pub(crate) sockets: (usize, usize),
    /// What the server had in memory more than at its beginning, at the end of it.
    pub(crate) resident_bytes: i64,
    /// What the kernel had for its own objects more than at its beginning.
    pub(crate) slab_bytes: i64,
}

/// Control and attack.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) attack: Attack,
    pub(crate) target: Target,
    /// Attack connections a second that were asked for.
    pub(crate) rate: u64,
    pub(crate) control: Phase,
    pub(crate) attacked: Phase,
}

/// A server without any idle time left does not show what a connection costs it.
const IDLE_LEFT: f64 = 0.05;

impl Cell {
    /// Attack connections that were made.
    pub(crate) fn connections(&self) -> u64 {
        match self.attack {
            Attack::Syn => self.attacked.done.opened,
            _ => self.attacked.done.connected,
        }
    }

    /// What one connection cost, in microseconds: of the whole machine, and of the server with
    /// what receives for it. The control is taken off.
    pub(crate) fn cost_us(&self) -> (f64, f64) {
        let (attacked, control) = (&self.attacked, &self.control);
        // Of the control as much as the attack lasted.
        let scale = attacked.cost.lasted.as_secs_f64() / control.cost.lasted.as_secs_f64();
        let each = |of: fn(&Cost) -> Duration| {
            let beyond = of(&attacked.cost).as_secs_f64() - of(&control.cost).as_secs_f64() * scale;
            beyond * 1e6 / self.connections() as f64
        };
        (
            each(|cost| cost.machine),
            each(|cost| cost.server + cost.receiving),
        )
    }

    /// Whether the server had time left and nobody waited for it, so that its cost is that of
    /// all connections.
    pub(crate) fn has_room(&self) -> bool {
        let Phase { done, cost, .. } = &self.attacked;
        let busy = (cost.server + cost.receiving).as_secs_f64() / cost.lasted.as_secs_f64();
        let most = |count: u64, of: u64| count as f64 > 0.98 * of as f64;
        // The kernel half leaves most of those that it refuses without an answer.
        let answers = match (self.attack, self.target) {
            (Attack::Syn | Attack::Slow, _) | (_, Target::Edge("driver" | "generic")) => true,
            _ => most(done.answers + done.ends + done.resets, done.connected),
        };
        busy < 1.0 - IDLE_LEFT && most(self.connections(), done.opened) && answers
    }

    /// Whether the machine had time left in the control: else what it spends beyond says nothing.
    pub(crate) fn is_machine_told(&self) -> bool {
        self.control.cost.idle_share > IDLE_LEFT && self.attacked.cost.idle_share > IDLE_LEFT
    }

    /// p99 of honest clients over that of the control; nothing when none was answered.
    pub(crate) fn p99_ratio(&self) -> f64 {
        self.attacked.honest.percentile_ms(99) / self.control.honest.percentile_ms(99)
    }

    /// The same of requests over a connection that was there before.
    pub(crate) fn kept_p99_ratio(&self) -> f64 {
        let of = |phase: &Phase| phase.honest.kept_percentile_ms(99);
        of(&self.attacked) / of(&self.control)
    }

    /// Whether honest clients were turned away, or waited more than five times as long.
    pub(crate) fn has_suffered(&self) -> bool {
        !self.attacked.honest.errors.is_empty() || self.p99_ratio() > 5.0
    }

    /// Whether most of them were turned away.
    pub(crate) fn is_down(&self) -> bool {
        let honest = &self.attacked.honest;
        honest.errors.len() * 2 > honest.asked()
    }

    /// For people, in a line.
    pub(crate) fn show(&self) -> String {
        let (machine, server) = self.cost_us();
        let Phase {
            done,
            cost,
            honest,
            sockets,
            ..
        } = &self.attacked;
        let program = cost.program.as_nanos() as f64 / cost.program_runs.max(1) as f64;
        let error = honest
            .errors
            .first()
            .map(String::as_str)
            .unwrap_or_default();
        format!(
            "{:16} {:6}/s {:12} {:6} of {:6} connected, {machine:6.1} us of the machine, {server:6.1} of the server \
             (XDP {program:.0} ns), idle {:2.0} %, honest {} of {}, p50 {:.2} ms p99 {:.2} ms, \
             control {:.2} {:.2}, kept p99 {:.2} control {:.2}, {} + {} sockets, back {} {} {} {} {error}",
            self.attack.name(),
            self.rate,
            self.target.name(),
            done.connected,
            done.opened,
            cost.idle_share * 100.0,
            honest.times.len() + honest.kept.len(),
            honest.asked(),
            honest.percentile_ms(50),
            honest.percentile_ms(99),
            self.control.honest.percentile_ms(50),
            self.control.honest.percentile_ms(99),
            honest.kept_percentile_ms(99),
            self.control.honest.kept_percentile_ms(99),
            sockets.0,
            sockets.1,
            done.answers,
            done.ends,
            done.resets,
            done.unseen,
        )
    }
}

/// Runs both, against a server of their own.
pub(crate) fn run(
    world: &World,
    attack: Attack,
    target: Target,
    rate: u64,
    time: Duration,
) -> Result<Cell, String> {
    let program = cost::newest_program();
    let server = target.start(&world.place)?;
    let run = Run {
        world,
        target,
        manner: attack.manner(&world.place),
        prefixes: attack.prefixes(),
        rate,
        time,
        server: server.id(),
        program,
    };
    if target.serves() {
        let warm = clients::run(&world.net, &world.place, Duration::from_millis(500));
        if let Some(error) = warm.errors.first() {
            return Err(format!("it does not serve: {error}"));
        }
    }
    let (control, attacked) = (run.phase(true), run.phase(false));
    drop(server);
    forget_connections()?;
    Ok(Cell {
        attack,
        target,
        rate,
        control,
        attacked,
    })
}

/// What a server that was ended leaves to its peers, who never acknowledge, is ended too: the
/// next server is not to bear it.
fn forget_connections() -> Result<(), String> {
    for _ in 0..20 {
        if cost::sockets(PORT) == (0, 0) {
            return Ok(());
        }
        let port = format!("sport = :{PORT}");
        let killed = Command::new("ss")
            .args(["--kill", "--tcp", "--all", "--no-header", &port])
            .output();
        killed.map_err(|error| format!("ss (iproute2): {error}"))?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("connections of an ended server stay".to_owned())
}

/// What both phases have in common.
struct Run<'a> {
    world: &'a World,
    target: Target,
    manner: Manner,
    prefixes: u64,
    rate: u64,
    time: Duration,
    /// Its process.
    server: u32,
    /// The newest BPF program before it was started.
    program: u32,
}

impl Run<'_> {
    fn phase(&self, is_control: bool) -> Phase {
        let World { net, place, .. } = self.world;
        let resident = process::resident_bytes(self.server) as i64;
        let slab = cost::slab_bytes() as i64;
        let look = || Look::take(self.server, &net.receivers, self.program);
        let (tell_ready, ready) = mpsc::sync_channel(1);
        let (tell_go, go) = mpsc::sync_channel(1);
        let phase = std::thread::scope(|scope| {
            let attackers = scope.spawn(move || {
                net.attackers.enter();
                let mut attackers = Attackers::new(&self.manner, self.prefixes, is_control);
                tell_ready.send(()).expect("the bench waits");
                go.recv().expect("the bench goes on");
                match &self.manner {
                    // A stack cannot send without being answered: their control is nobody.
                    Manner::Sockets(_) if is_control => {
                        std::thread::sleep(self.time);
                        Done::default()
                    }
                    Manner::Sockets(hello) => sockets::run(hello, self.rate, self.time),
                    _ => attackers.run(self.rate, self.time),
                }
            });
            ready.recv().expect("attackers");
            let before = look();
            tell_go.send(()).expect("attackers");
            let honest = scope.spawn(|| match self.target.serves() {
                true => clients::run(net, place, self.time),
                false => Honest::default(),
            });
            let done = attackers.join().expect("attackers");
            let cost = look().since(&before);
            let held = cost::sockets(PORT);
            Phase {
                done,
                cost,
                sockets: held,
                resident_bytes: process::resident_bytes(self.server) as i64 - resident,
                slab_bytes: cost::slab_bytes() as i64 - slab,
                honest: honest.join().expect("clients"),
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        phase
    }
}
