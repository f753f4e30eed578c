//! Metrics that are read when they are asked for: the kernel half, the keys, the process.
//!
//! What the data path counts is in [`crate::telemetry`].

mod contexts;
mod prompts;
mod upstreams;
mod usage;

use super::View;
use crate::charges;
use crate::daemon;
use crate::kernel;
use crate::kernel::agreement::Comparisons;
use crate::kernel::flows::Usage;
use crate::kernel::reaper::Reaped;
use edge_common::policy::{Counter, Reason, Verdict};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// Registered before the daemon serves; shows nothing until [`Target::set`] says of what.
pub struct Collect(Target);

/// Where a [`Collect`] looks.
#[derive(Clone, Default)]
pub struct Target(Arc<OnceLock<Weak<View>>>);

impl Target {
    /// From now on `view` is shown. The first one stays.
    pub fn set(&self, view: &Arc<View>) {
        let _ = self.0.set(Arc::downgrade(view));
    }
}

impl Collect {
    /// Looks where `target` will be set to.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self(target)
    }
}

impl fmt::Debug for Collect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collect")
    }
}

impl Collector for Collect {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(view) = self.0.0.get().and_then(Weak::upgrade) else {
            return Ok(());
        };
        let mut families = Families(encoder);
        process(&view, &mut families)?;
        configuration(&(view.configuration)(), &mut families)?;
        keys(&view, &mut families)?;
        charges(&(view.charges)(), &mut families)?;
        prompts::prompts(&view.prompts, &mut families)?;
        upstreams::upstreams(&view.upstreams, &mut families)?;
        usage::usage(&view, &mut families)?;
        if let Some(contexts) = &view.contexts {
            contexts::contexts(contexts, &mut families)?;
        }
        kernel(&(view.kernel)(), &mut families)
    }
}

fn process(view: &View, families: &mut Families<'_>) -> fmt::Result {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    families.gauges("build_info", "The daemon's version.", [(version, 1)])?;
    families.gauge(
        "start_time_seconds",
        "When the daemon started, Unix time.",
        view.started_at_s,
    )?;
    families.counter(
        "log_lines_lost",
        "Log lines that no one took in time.",
        (view.log_lines_lost)(),
    )?;
    families.gauge(
        "ready",
        "1 while connections are served.",
        u64::from(view.phase.ready().is_ok()),
    )
}

fn keys(view: &View, families: &mut Families<'_>) -> fmt::Result {
    let snapshot = view.keyring.snapshot();
    let store = view.store.status();
    families.gauge("keys", "Keys in the table.", snapshot.len() as u64)?;
    families.gauge(
        "keys_capacity",
        "Most keys that the table takes.",
        snapshot.capacity() as u64,
    )?;
    families.gauge(
        "keys_refused_for_capacity",
        "Keys of the store that had no room.",
        snapshot.refused_for_capacity(),
    )?;
    families.gauge(
        "keys_complete",
        "1 while every key of the store is in the table.",
        u64::from(snapshot.complete()),
    )?;
    families.counter(
        "keys_changes",
        "Batches that changed the table.",
        snapshot.generation(),
    )?;
    families.gauge(
        "key_store_records",
        "Records in the key store, dead ones too.",
        store.records,
    )?;
    families.gauge(
        "key_store_applied_seconds",
        "When the store's last change was taken, Unix time.",
        store.applied_at_s,
    )?;
    families.counter(
        "key_store_errors",
        "Times that the key store was refused.",
        store.errors,
    )?;
    families.gauge(
        "key_store_failing",
        "1 while the key store is refused and older keys are in use.",
        u64::from(store.error.is_some()),
    )
}

fn configuration(status: &daemon::Configuration, families: &mut Families<'_>) -> fmt::Result {
    let reloads = [
        ([("outcome", "taken")], status.taken),
        ([("outcome", "refused")], status.refused),
    ];
    families.counters(
        "configuration_reloads",
        "Times that the configuration was read again.",
        reloads,
    )?;
    families.gauge(
        "configuration_failing",
        "1 while the configuration's file is no good and what it said before is in effect.",
        u64::from(status.error.is_some()),
    )?;
    families.gauge(
        "configuration_needs_restart",
        "Fields that were changed and wait for a restart.",
        status.needs_restart.len() as u64,
    )
}

fn charges(status: &charges::Status, families: &mut Families<'_>) -> fmt::Result {
    for (name, help, value) in [
        (
            "replay_entries",
            "Used tokens that are remembered.",
            status.replay_entries,
        ),
        (
            "replay_capacity",
            "Places for used tokens.",
            status.replay_capacity,
        ),
        (
            "prefix_entries",
            "Source prefixes with a bucket in use.",
            status.prefix_entries,
        ),
        (
            "prefix_capacity",
            "Places for source prefixes.",
            status.prefix_capacity,
        ),
        ("key_buckets", "Keys with a bucket.", status.key_buckets),
        (
            "key_buckets_capacity",
            "Places for key buckets.",
            status.key_buckets_capacity,
        ),
        (
            "limit_window_back_seconds",
            "How old a token may be.",
            status.limits.window_back_s.into(),
        ),
        (
            "limit_window_ahead_seconds",
            "How far ahead a token may be.",
            status.limits.window_ahead_s.into(),
        ),
        (
            "limit_key_connections_per_second",
            "Soft rate of a key without its own; 0 for none.",
            status.limits.key_per_second.into(),
        ),
        (
            "limit_key_connections_per_second_hard",
            "Hard rate of a key without its own; 0 for none.",
            status.limits.key_per_second_hard.into(),
        ),
        (
            "limit_legacy_connections_per_second",
            "Rate of a source prefix without tokens; 0 for none.",
            status.limits.legacy_per_second.into(),
        ),
        (
            "limit_legacy_connections_per_second_total",
            "Rate of all source prefixes together without tokens; 0 for none.",
            status.limits.legacy_total_per_second.into(),
        ),
    ] {
        families.gauge(name, help, value)?;
    }
    families.counter(
        "replay_full",
        "Good tokens that could not be remembered.",
        status.replay_full,
    )?;
    families.counter(
        "prefix_evicted",
        "Source prefixes that lost a bucket in use.",
        status.prefix_evicted,
    )
}

fn kernel(status: &kernel::Status, families: &mut Families<'_>) -> fmt::Result {
    let attached = (status.interfaces.iter()).map(|interface| {
        (
            [("interface", &*interface.name), ("mode", interface.mode)],
            1,
        )
    });
    families.gauges(
        "kernel_attached",
        "Interfaces with the XDP program.",
        attached,
    )?;
    families.gauge(
        "kernel_addresses",
        "Addresses in the kernel's table that hellos are judged to.",
        status.addresses,
    )?;
    families.gauge(
        "kernel_keys",
        "Keys in the kernel's policy map.",
        status.keys,
    )?;
    families.gauge(
        "kernel_policy_complete",
        "1 while the kernel may refuse unknown keys.",
        u64::from(status.policy_complete),
    )?;
    let value = |name: &str| {
        let found = status.counters.iter().find(|(other, _)| *other == name);
        found.map_or(0, |(_, value)| *value)
    };
    let verdicts = (Reason::ALL.iter()).map(|reason| {
        let labels = [
            ("verdict", verdict_name(reason.verdict())),
            ("reason", reason.name()),
        ];
        (labels, value(reason.name()))
    });
    families.counters(
        "kernel_verdicts",
        "Packets and hellos by the kernel's verdict and its reason.",
        verdicts,
    )?;
    for (name, help, counter) in [
        (
            "kernel_packets",
            "Packets that entered the XDP program.",
            Counter::Packets,
        ),
        (
            "kernel_hellos",
            "ClientHellos that the kernel saw.",
            Counter::Hellos,
        ),
    ] {
        families.counter(name, help, value(counter.name()))?;
    }
    let labelled = |pairs: &[(&'static str, Counter)], label: &'static str| -> Vec<_> {
        let series = pairs
            .iter()
            .map(|(text, counter)| ([(label, *text)], value(counter.name())));
        series.collect()
    };
    let answers = [
        ("alert", Counter::AnsweredAlert),
        ("rst", Counter::AnsweredRst),
        ("drop", Counter::AnsweredDrop),
        ("server_first", Counter::AnsweredUp),
        ("failed", Counter::AnswerFailed),
    ];
    families.counters(
        "kernel_answers",
        "Refused hellos by answer.",
        labelled(&answers, "answer"),
    )?;
    let events = [
        ("sent", Counter::EventsSent),
        ("suppressed", Counter::EventsSuppressed),
        ("lost", Counter::EventsLost),
    ];
    families.counters(
        "kernel_events",
        "Sampled verdicts by outcome.",
        labelled(&events, "outcome"),
    )?;
    flows(&status.flows, families)?;
    reaped(&status.reaped, value(Counter::RejectsLost.name()), families)?;
    comparisons(&status.comparisons, families)
}

fn flows(usage: &Usage, families: &mut Families<'_>) -> fmt::Result {
    families.gauge(
        "kernel_flows_capacity",
        "Connections that the kernel can follow at a time.",
        usage.capacity,
    )?;
    let series = [
        ("recent", usage.recent),
        ("old", usage.used.saturating_sub(usage.recent)),
    ];
    families.gauges(
        "kernel_flows",
        "Connections in the kernel's flow table, by whether their hello began or was judged within a minute.",
        series.map(|(age, value)| ([("age", age)], value)),
    )?;
    families.gauge(
        "kernel_flows_unfinished",
        "Hellos in the kernel's flow table that have begun within a minute and not ended.",
        usage.unfinished,
    )
}

fn reaped(reaped: &Reaped, lost: u64, families: &mut Families<'_>) -> fmt::Result {
    let series = [
        ("destroyed", reaped.destroyed),
        ("closed", reaped.closed),
        ("gone", reaped.gone),
        ("spared", reaped.spared),
        ("failed", reaped.failed),
        ("untold", lost),
    ];
    families.counters(
        "kernel_rejects_followed",
        "Refused connections by what became of the server's socket.",
        series.map(|(outcome, value)| ([("outcome", outcome)], value)),
    )?;
    families.counter(
        "kernel_rejects_hurried",
        "Refused connections that got no time to acknowledge because too many waited.",
        reaped.overflowed,
    )?;
    families.gauge(
        "kernel_rejects_waiting",
        "Refused connections that have time to acknowledge.",
        reaped.waiting,
    )
}

fn comparisons(comparisons: &Comparisons, families: &mut Families<'_>) -> fmt::Result {
    let outcomes =
        (comparisons.outcomes.iter()).map(|(outcome, value)| ([("outcome", *outcome)], *value));
    families.counters(
        "kernel_comparisons",
        "Hellos read whole, by whether the kernel had said the same.",
        outcomes,
    )?;
    let pairs = (comparisons.differences.iter()).map(|(kernel, userspace, value)| {
        ([("kernel", *kernel), ("userspace", *userspace)], *value)
    });
    families.counters(
        "kernel_disagreements",
        "Hellos of which the kernel had said something else, and nothing explains it.",
        pairs,
    )
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accept => "accept",
        Verdict::Reject => "reject",
        Verdict::Legacy => "legacy",
        Verdict::Undecided => "undecided",
        Verdict::Pass => "pass",
        Verdict::Unconnected => "unconnected",
    }
}

type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// Writes families one after the other.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let gauge = ConstGauge::new(whole(value));
        let encoder = (self.0).encode_descriptor(name, help, None, gauge.metric_type())?;
        gauge.encode(encoder)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        let encoder = (self.0).encode_descriptor(name, help, None, counter.metric_type())?;
        counter.encode(encoder)
    }

    fn gauges<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
    ) -> fmt::Result {
        let mut family = (self.0).encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            ConstGauge::new(whole(value)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn counters<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
    ) -> fmt::Result {
        let mut family = (self.0).encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Gauges are signed; none of ours comes near the bound.
fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
