//! How time is taken: on one core, everything warm, in nanoseconds.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Binds this process, and those that it starts, to the last core that it may use; its
/// number.
pub(crate) fn one_core() -> Result<usize, String> {
    let told = |error: nix::Error| error.to_string();
    let here = Pid::from_raw(0);
    let allowed = sched_getaffinity(here).map_err(told)?;
    let mut cores = (0..CpuSet::count()).filter(|core| allowed.is_set(*core) == Ok(true));
    let core = cores.next_back().ok_or("no core is allowed")?;
    let mut one = CpuSet::new();
    one.set(core).map_err(told)?;
    sched_setaffinity(here, &one).map_err(told)?;
    Ok(core)
}

/// Nanoseconds of one call of `work`, the mean over at least `least`, and one call.
pub(crate) fn mean_ns(least: Duration, mut work: impl FnMut()) -> f64 {
    let began = Instant::now();
    let mut calls = 0_u32;
    loop {
        work();
        calls += 1;
        let elapsed = began.elapsed();
        if elapsed >= least {
            return elapsed.as_nanos() as f64 / f64::from(calls);
        }
    }
}

/// Nanoseconds of one call of `work`, over so many.
pub(crate) fn passes_ns(passes: u32, mut work: impl FnMut()) -> f64 {
    let began = Instant::now();
    for _ in 0..passes {
        work();
    }
    began.elapsed().as_nanos() as f64 / f64::from(passes)
}

/// Megabytes (10^6) a second.
pub(crate) fn mb_s(bytes: usize, ns: f64) -> f64 {
    bytes as f64 * 1e3 / ns
}
