//! What the machine and the server have spent, between two looks: busy time of all CPUs by
//! the kernel's count of their idle time (softirqs are in it, whoever they ran for); the time
//! of the server's threads and of those that receive for it; the XDP program's own.

use aya::programs::loaded_programs;
use bench::process;
use std::fs;
use std::time::{Duration, Instant};

/// Clock ticks of /proc/stat (USER_HZ, which is 100 on every machine there is).
const TICK: Duration = Duration::from_millis(10);

/// One look.
pub(crate) struct Look {
    at: Instant,
    cpus: u32,
    idle: Duration,
    stolen: Duration,
    server: Duration,
    receiving: Duration,
    program: Duration,
    program_runs: u64,
}

/// What was spent between two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// How long it was.
    pub(crate) lasted: Duration,
    /// Of all CPUs, anything but idle.
    pub(crate) machine: Duration,
    /// Of how much there was, so much was idle.
    pub(crate) idle_share: f64,
    /// What the hypervisor took, which is in none of those.
    pub(crate) stolen: Duration,
    /// By the server's processes.
    pub(crate) server: Duration,
    /// By the kernel's threads that receive for the server: XDP and the stack.
    pub(crate) receiving: Duration,
    /// By the XDP program, which is in the former.
    pub(crate) program: Duration,
    /// How often it ran.
    pub(crate) program_runs: u64,
}

impl Look {
    /// At that process and what it started, at these receiving threads, and at the edge's
    /// programs that were loaded after `program`.
    pub(crate) fn take(server: u32, receivers: &[u32], program: u32) -> Self {
        let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
        let mut lines = stat.lines();
        let all: Vec<u32> = (lines.next().unwrap_or_default().split_ascii_whitespace())
            .skip(1)
            .filter_map(|field| field.parse().ok())
            .collect();
        let ticks = |field: usize| TICK * all.get(field).copied().unwrap_or(0);
        let edge = loaded_programs()
            .flatten()
            .filter(|info| info.id() > program && info.name_as_str() == Some("edge_xdp"));
        let (mut time, mut runs) = (Duration::ZERO, 0);
        for info in edge {
            time += info.run_time();
            runs += info.run_count();
        }
        Self {
            at: Instant::now(),
            cpus: lines.take_while(|line| line.starts_with("cpu")).count() as u32,
            // user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)).
            idle: ticks(3) + ticks(4),
            stolen: ticks(7),
            server: process::cpu(server),
            receiving: receivers.iter().map(|pid| process::own_cpu(*pid)).sum(),
            program: time,
            program_runs: runs,
        }
    }

    /// What was spent since an earlier one.
    pub(crate) fn since(&self, earlier: &Self) -> Cost {
        let lasted = self.at - earlier.at;
        let (there, idle) = (lasted * self.cpus, self.idle - earlier.idle);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        Cost {
            lasted,
            machine: there.saturating_sub(idle + stolen),
            idle_share: idle.as_secs_f64() / there.as_secs_f64(),
            stolen,
            server: self.server.saturating_sub(earlier.server),
            receiving: self.receiving.saturating_sub(earlier.receiving),
            program: self.program.saturating_sub(earlier.program),
            program_runs: self.program_runs.saturating_sub(earlier.program_runs),
        }
    }
}

/// The number of the newest program that is loaded now.
pub(crate) fn newest_program() -> u32 {
    let ids = loaded_programs().flatten().map(|info| info.id());
    ids.max().unwrap_or(0)
}

/// What the kernel has for its own objects, sockets among them, in bytes.
pub(crate) fn slab_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// TCP sockets of the calling thread's namespace at that port: those that have a connection,
/// and requests for one (state SYN_RECV). Listening ones and those in TIME_WAIT left out.
pub(crate) fn sockets(port: u16) -> (usize, usize) {
    // include/net/tcp_states.h
    const SYN_RECV: &str = "03";
    const NONE: [&str; 2] = ["06", "0A"];
    let port = format!(":{port:04X}");
    let (mut connected, mut asking) = (0, 0);
    for table in ["tcp", "tcp6"] {
        let path = format!("/proc/thread-self/net/{table}");
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let is_ours = fields.next().is_some_and(|local| local.ends_with(&port));
            match fields.nth(1) {
                Some(SYN_RECV) if is_ours => asking += 1,
                Some(state) if is_ours && !NONE.contains(&state) => connected += 1,
                _ => {}
            }
        }
    }
    (connected, asking)
}
