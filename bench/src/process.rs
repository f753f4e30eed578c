//! What a running server costs: CPU time and memory of a process and all that it started.
//!
//! CPU time is read where the scheduler adds it up, in nanoseconds (`/proc/PID/task/*/schedstat`);
//! `/proc/PID/stat` has it in hundredths of a second. What the kernel does for a connection in an
//! interrupt is charged to whoever ran then, here as there.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// The process and its descendants.
#[must_use]
pub fn tree(root: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|id| id.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The program's name stands in brackets and may hold anything.
        let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        if let Some(Ok(parent)) = after.split(' ').nth(1).map(str::parse::<u32>) {
            parents.push((id, parent));
        }
    }
    let mut all = vec![root];
    let mut next = 0;
    while let Some(&parent) = all.get(next) {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        all.extend(children.map(|(id, _): &(u32, u32)| *id));
        next += 1;
    }
    all
}

/// CPU time of all threads that the process and its descendants have now.
///
/// A thread or a process that has ended is not in it: ask before and after, of servers that keep
/// theirs.
#[must_use]
pub fn cpu(root: u32) -> Duration {
    tree(root).into_iter().map(own_cpu).sum()
}

/// The same of that process alone.
#[must_use]
pub fn own_cpu(id: u32) -> Duration {
    let mut sum_ns: u64 = 0;
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter();
    for task in tasks.flatten().flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let ran = text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
        sum_ns += ran.unwrap_or(0);
    }
    Duration::from_nanos(sum_ns)
}

/// Resident memory of the process and its descendants, in bytes; what they share is counted for
/// each.
#[must_use]
pub fn resident_bytes(root: u32) -> u64 {
    let kilobytes = |id: u32| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    tree(root).into_iter().filter_map(kilobytes).sum::<u64>() * 1024
}

/// That program, on that CPU alone. It ends with the thread that starts it, however that ends.
#[must_use]
pub fn pinned(cpu: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &cpu.to_string()]);
    command.args(["setpriv", "--pdeathsig", "KILL", "--"]);
    command.arg(program);
    command
}

/// Lets a thread run on that CPU alone; 0 is the calling one, with what it starts from now on.
///
/// # Errors
/// When there is no such thread or CPU.
pub fn pin(thread: u32, cpu: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    let pinned = set
        .set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(thread as i32), &set));
    pinned.map_err(|error| format!("pinning to CPU {cpu}: {error}"))
}

/// Lets the calling thread, and what it starts from now on, run on that CPU alone.
///
/// # Panics
/// When there is no such CPU.
pub fn pin_to(cpu: usize) {
    pin(0, cpu).unwrap_or_else(|why| panic!("{why}"));
}

/// Starts something on that CPU, where it stays; the calling thread goes back to its own.
///
/// # Panics
/// When there is no such CPU.
pub fn on<T>(cpu: usize, start: impl FnOnce() -> T) -> T {
    let this = Pid::from_raw(0);
    let before = sched_getaffinity(this).expect("a thread of ours");
    pin_to(cpu);
    let started = start();
    sched_setaffinity(this, &before).expect("where it was before");
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_works_is_counted_and_one_that_ended_is_not_there() {
        let before = cpu(std::process::id());
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let spent = |than: Duration| cpu(child.id()) > than;
        let began = std::time::Instant::now();
        while !spent(Duration::from_millis(20)) && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(spent(Duration::from_millis(20)));
        assert!(tree(std::process::id()).contains(&child.id()));
        assert!(cpu(std::process::id()) > before + Duration::from_millis(20));
        assert!(resident_bytes(child.id()) > 100_000);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!tree(std::process::id()).contains(&child.id()));
        assert_eq!(resident_bytes(child.id()), 0);
    }
}
