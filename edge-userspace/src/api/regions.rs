//! `/v1/regions`: this node and the others, for clients that choose.
//!
//! Of itself a node says how much of what it has is taken. Of the others it says where they
//! are: how they fare is to be asked there, which measures the way to them as well.

use crate::config::{Config, Region};
use crate::prompt::Prompts;
use crate::telemetry::Metrics;
use crate::upstream::Upstreams;
use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often clients should have their systems look whether a silent connection lives. Some
/// translators of addresses forget one after a minute.
const KEEPALIVE_S: u32 = 30;
/// The processor's share is of at least so long.
const CPU_LOOK: Duration = Duration::from_millis(500);

/// What does not change, and the last look at the processor.
pub(super) struct Regions {
    id: String,
    url: Option<String>,
    zone: Option<String>,
    audience: String,
    others: Vec<Region>,
    max_connections: usize,
    threads: usize,
    cpu: Mutex<Cpu>,
}

/// One node, as clients are told of it.
#[derive(Serialize)]
struct Told<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    audience: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<&'a str>,
    capacity_percent: Option<f64>,
    connections: Option<u64>,
    latency_ms: Option<f64>,
    is_self: bool,
    preferred_tcp_keepalive_s: u32,
    max_tokens_per_minute: Option<u64>,
}

impl Regions {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            id: config.api.node.clone(),
            url: config.api.url.clone(),
            zone: config.api.zone.clone(),
            audience: config.keys.audience.clone(),
            others: config.regions.clone(),
            max_connections: config.listen.max_connections,
            threads: config.listen.threads.get(),
            cpu: Mutex::new(Cpu::now()),
        }
    }

    #[cfg(test)]
    pub(super) fn of_nothing() -> Self {
        Self {
            id: String::new(),
            url: None,
            zone: None,
            audience: String::new(),
            others: Vec::new(),
            max_connections: 0,
            threads: 1,
            cpu: Mutex::new(Cpu::now()),
        }
    }

    /// The answer's body, as of now.
    pub(super) fn json(
        &self,
        metrics: &Metrics,
        prompts: &Prompts,
        upstreams: &Upstreams,
    ) -> Bytes {
        #[derive(Serialize)]
        struct Body<'a> {
            regions: Vec<Told<'a>>,
        }
        let connections = u64::try_from(metrics.open_connections.get()).unwrap_or(0);
        let places = upstreams.places().saturating_mul(self.threads as u64);
        let shares = [
            share(connections, self.max_connections as u64),
            share(prompts.room().bytes(), prompts.room().most_bytes()),
            share(upstreams.running(), places),
            self.cpu_share(),
        ];
        let used = shares.into_iter().fold(0.0, f64::max).min(1.0);
        let own = Told {
            id: &self.id,
            url: self.url.as_deref(),
            audience: &self.audience,
            zone: self.zone.as_deref(),
            // One decimal.
            capacity_percent: Some((used * 1000.0).round() / 10.0),
            connections: Some(connections),
            latency_ms: None,
            is_self: true,
            preferred_tcp_keepalive_s: KEEPALIVE_S,
            max_tokens_per_minute: None,
        };
        let others = self.others.iter().map(|other| Told {
            id: &other.id,
            url: Some(&other.url),
            audience: other.audience.as_deref().unwrap_or(&self.audience),
            zone: other.zone.as_deref(),
            capacity_percent: None,
            connections: None,
            latency_ms: None,
            is_self: false,
            preferred_tcp_keepalive_s: KEEPALIVE_S,
            max_tokens_per_minute: None,
        });
        let body = Body {
            regions: std::iter::once(own).chain(others).collect(),
        };
        // Texts and finite numbers always serialise.
        Bytes::from(serde_json::to_vec(&body).unwrap_or_default())
    }

    /// What the process takes of the processors that its serving threads could fill.
    fn cpu_share(&self) -> f64 {
        let mut cpu = self.cpu.lock().unwrap_or_else(PoisonError::into_inner);
        cpu.look(self.threads);
        cpu.share
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no 53 bits")]
fn share(used: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        used as f64 / of as f64
    }
}

/// A look at the processor time that the process has had.
struct Cpu {
    at: Instant,
    spent: Duration,
    share: f64,
}

impl Cpu {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            spent: spent(),
            share: 0.0,
        }
    }

    /// Since the last look, if that is long enough ago.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no 53 bits")]
    fn look(&mut self, threads: usize) {
        let passed = self.at.elapsed();
        if passed < CPU_LOOK {
            return;
        }
        let spent = spent();
        let share = spent.saturating_sub(self.spent).as_secs_f64() / passed.as_secs_f64();
        *self = Self {
            at: self.at + passed,
            spent,
            share: share / threads.max(1) as f64,
        };
    }
}

fn spent() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap_or_default(),
        time.tv_nsec.try_into().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen_as_a_share_of_what_the_threads_could_do() {
        let mut cpu = Cpu::now();
        let begun = Instant::now();
        while begun.elapsed() < CPU_LOOK * 2 {
            std::hint::black_box(0);
        }
        cpu.look(1);
        assert!(cpu.share > 0.0, "{}", cpu.share);
        let before = cpu.share;
        cpu.look(1);
        assert_eq!(cpu.share, before, "not looked again at once");
    }
}
