//! How time is taken: on one core, in nanoseconds of the processor, of this process alone.
//! On a machine that does nothing else that is the time on the wall; on another, what others
//! take meanwhile is not in it.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use rustix::time::ClockId;
use std::time::Duration;

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

/// A point in the processor's time.
#[derive(Clone, Copy)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Self {
        let now = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        let (s, ns) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
        Self(Duration::from_secs(s) + Duration::from_nanos(ns))
    }

    /// What this process has taken since.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

/// Nanoseconds of one call of `work`, the mean over at least `least`, and one call.
pub(crate) fn mean_ns(least: Duration, mut work: impl FnMut()) -> f64 {
    let began = Moment::now();
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
    let began = Moment::now();
    for _ in 0..passes {
        work();
    }
    began.elapsed().as_nanos() as f64 / f64::from(passes)
}

/// Megabytes (10^6) a second.
pub(crate) fn mb_s(bytes: usize, ns: f64) -> f64 {
    bytes as f64 * 1e3 / ns
}
