//! What the data path counts, and how it is shown.
//!
//! Every counter is an atomic that was made when the daemon started: counting is one
//! addition, with no look-up and no lock. The number of series is fixed, so nothing that a
//! client sends can make it grow. Not here: the address that serves them
//! ([`crate::admin`]), and the kernel half's own counters.

mod histogram;
mod log;
mod series;
mod verdict;

pub use histogram::Histogram;
pub use log::{Bounded, Permit};
pub use series::{
    CertificateReload, ConnectionEnd, ContextOutcome, Counters, Handshake, HintOutcome, Lane,
    Preheat, PromptRefusal, ProxyHeader, QuotaLimit, Requests, Series, StreamEnd, UnreadAnswer,
    UpstreamConnection, UsedTokens,
};
pub use verdict::Verdict;

use crate::config::Action;
use crate::prompt;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;

/// The `content-type` of [`Metrics::render`].
pub use prometheus_text::CONTENT_TYPE;

/// Everything that the data path counts.
pub struct Metrics {
    registry: Registry,
    /// Hellos by verdict, decided here (the kernel half has its own).
    pub verdicts: Counters<Verdict>,
    /// Hellos that a rule by fingerprint meant, by its action.
    pub client_rules: Counters<Action>,
    /// TLS handshakes by outcome.
    pub handshakes: Counters<Handshake>,
    /// Connections that accept(2) gave us. What the kernel half refuses is not among them.
    pub accepted_connections: Counters<()>,
    /// Connections to listeners that expect a PROXY header, by what became of it.
    pub proxy_headers: Counters<ProxyHeader>,
    /// Connections that were given to HTTP, by lane.
    pub connections: Counters<Lane>,
    /// Connections open now, from accept on.
    pub open_connections: Gauge,
    /// Connections without a token that wait for their handshake.
    pub waiting_handshakes: Gauge,
    /// Why connections were closed by the edge, or not taken.
    pub connection_ends: Counters<ConnectionEnd>,
    /// Requests by route and status.
    pub requests: Counters<Requests>,
    /// Requests whose prompts were counted, by kind of count.
    pub prompts: Counters<prompt::Kind>,
    /// Their tokens.
    pub prompt_tokens: Counters<prompt::Kind>,
    /// Requests that were refused for what their bodies hold.
    pub prompt_refusals: Counters<PromptRefusal>,
    /// Time that reading and counting one body took.
    pub prompt_counting: Histogram,
    /// Tokens that keys have used, by kind.
    pub used_tokens: Counters<UsedTokens>,
    /// Requests that were over a limit of their key, and streams that were cut by one.
    pub quota_refusals: Counters<QuotaLimit>,
    /// Bursts of keys' use.
    pub usage_bursts: Counters<()>,
    /// Requests by what was known of their beginning.
    pub contexts: Counters<ContextOutcome>,
    /// Time that looking for the known beginning of one request took.
    pub context_look_up: Histogram,
    /// Time that all of the edge's own work on a conversation that goes on took, up to where
    /// its upstream is chosen.
    pub context_path: Histogram,
    /// Tokens of prompts that need not be counted again.
    pub context_known_tokens: Counters<()>,
    /// Warm-ups by what they did.
    pub preheats: Counters<Preheat>,
    /// Prefix hints, and predictions that nobody was told.
    pub hints: Counters<HintOutcome>,
    /// From a request's head to the head of the upstream's response, seconds.
    pub first_byte: Histogram,
    /// Relayed responses by how they ended.
    pub streams: Counters<StreamEnd>,
    /// Responses being relayed now.
    pub open_streams: Gauge,
    /// Response body bytes handed to clients.
    pub relayed_bytes: Counters<()>,
    /// Events of streams that were too long to be read along; they were passed on.
    pub unread_events: Counters<()>,
    /// Answers that could not be read along whole, by the first reason.
    pub unread_answers: Counters<UnreadAnswer>,
    /// Upstream connections, by what happened to them.
    pub upstream_connections: Counters<UpstreamConnection>,
    /// Idle upstream connections kept now.
    pub idle_upstream_connections: Gauge,
    /// When the edge's certificate ends, Unix seconds.
    pub certificate_not_after_s: Gauge,
    /// Certificate files read again, by outcome.
    pub certificate_reloads: Counters<CertificateReload>,
}

/// The figures that `/status` shows of the data path.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Connections open now.
    pub open_connections: i64,
    /// Connections given to HTTP since the start.
    pub connections: u64,
    /// Responses being relayed now.
    pub open_streams: i64,
    /// Requests answered since the start.
    pub requests: u64,
    /// `[reason, count]` of every verdict given here, zeros left out.
    pub verdicts: Vec<(&'static str, u64)>,
    /// Idle upstream connections kept now.
    pub idle_upstream_connections: i64,
    /// When the edge's certificate ends, Unix seconds.
    pub certificate_not_after_s: i64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All counters at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("edge"),
            verdicts: Counters::default(),
            client_rules: Counters::default(),
            handshakes: Counters::default(),
            accepted_connections: Counters::default(),
            proxy_headers: Counters::default(),
            connections: Counters::default(),
            open_connections: Gauge::default(),
            waiting_handshakes: Gauge::default(),
            connection_ends: Counters::default(),
            requests: Counters::default(),
            prompts: Counters::default(),
            prompt_tokens: Counters::default(),
            prompt_refusals: Counters::default(),
            prompt_counting: Histogram::new(&[
                0.000_001, 0.000_002, 0.000_003, 0.000_004, 0.000_005, 0.000_007, 0.000_01,
                0.000_015, 0.000_02, 0.000_03, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002,
                0.005, 0.01, 0.05, 0.1, 0.5, 1.0,
            ]),
            used_tokens: Counters::default(),
            quota_refusals: Counters::default(),
            usage_bursts: Counters::default(),
            contexts: Counters::default(),
            context_look_up: Histogram::new(&[
                0.000_000_05,
                0.000_000_1,
                0.000_000_2,
                0.000_000_5,
                0.000_001,
                0.000_002,
                0.000_005,
                0.000_01,
                0.000_1,
                0.001,
            ]),
            context_path: Histogram::new(&[
                0.000_001, 0.000_002, 0.000_003, 0.000_004, 0.000_005, 0.000_006, 0.000_008,
                0.000_01, 0.000_012, 0.000_015, 0.000_02, 0.000_025, 0.000_03, 0.000_05, 0.000_1,
                0.000_2, 0.000_5, 0.001, 0.01, 0.1,
            ]),
            context_known_tokens: Counters::default(),
            preheats: Counters::default(),
            hints: Counters::default(),
            first_byte: Histogram::new(&[
                0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
                2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
            ]),
            streams: Counters::default(),
            open_streams: Gauge::default(),
            relayed_bytes: Counters::default(),
            unread_events: Counters::default(),
            unread_answers: Counters::default(),
            upstream_connections: Counters::default(),
            idle_upstream_connections: Gauge::default(),
            certificate_not_after_s: Gauge::default(),
            certificate_reloads: Counters::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let mut registry = std::mem::take(&mut self.registry);
        let r = &mut registry;
        r.register("verdicts", "Hellos by verdict", self.verdicts.clone());
        r.register(
            "client_rules",
            "Hellos that a rule by fingerprint meant",
            self.client_rules.clone(),
        );
        r.register("handshakes", "TLS handshakes", self.handshakes.clone());
        r.register(
            "accepted_connections",
            "Connections accepted",
            self.accepted_connections.clone(),
        );
        r.register(
            "proxy_headers",
            "Connections to listeners that expect a PROXY header",
            self.proxy_headers.clone(),
        );
        r.register(
            "connections",
            "Connections given to HTTP",
            self.connections.clone(),
        );
        r.register(
            "open_connections",
            "Connections open now",
            self.open_connections.clone(),
        );
        r.register(
            "waiting_handshakes",
            "Connections without a token that wait for their handshake",
            self.waiting_handshakes.clone(),
        );
        r.register(
            "connection_ends",
            "Connections that the edge closed or did not take",
            self.connection_ends.clone(),
        );
        r.register(
            "requests",
            "Requests by route and status",
            self.requests.clone(),
        );
        r.register(
            "prompts",
            "Requests whose prompts were counted",
            self.prompts.clone(),
        );
        r.register(
            "prompt_tokens",
            "Tokens of those prompts",
            self.prompt_tokens.clone(),
        );
        r.register(
            "prompt_refusals",
            "Requests that were refused for what their bodies hold",
            self.prompt_refusals.clone(),
        );
        r.register(
            "prompt_counting_seconds",
            "Time that reading and counting one body took",
            self.prompt_counting.clone(),
        );
        r.register(
            "used_tokens",
            "Tokens that keys have used, settled",
            self.used_tokens.clone(),
        );
        r.register(
            "quota_refusals",
            "Requests over a limit of their key, and streams cut by one",
            self.quota_refusals.clone(),
        );
        r.register(
            "usage_bursts",
            "Keys that used more than quotas.burst_tokens in five minutes",
            self.usage_bursts.clone(),
        );
        r.register(
            "contexts",
            "Requests by what was known of their beginning",
            self.contexts.clone(),
        );
        r.register(
            "context_look_up_seconds",
            "Time that looking for the known beginning of one request took",
            self.context_look_up.clone(),
        );
        r.register(
            "context_path_seconds",
            "Time that a conversation that goes on took to be read, named, found, counted and let in",
            self.context_path.clone(),
        );
        r.register(
            "context_known_tokens",
            "Tokens of prompts that were known and not counted again",
            self.context_known_tokens.clone(),
        );
        r.register("preheats", "Warm-ups", self.preheats.clone());
        r.register(
            "hints",
            "Prefix hints, and predictions that nobody was told",
            self.hints.clone(),
        );
        r.register(
            "upstream_first_byte_seconds",
            "From a request's head to the head of the upstream's response",
            self.first_byte.clone(),
        );
        r.register(
            "streams",
            "Relayed responses by how they ended",
            self.streams.clone(),
        );
        r.register(
            "open_streams",
            "Responses being relayed now",
            self.open_streams.clone(),
        );
        r.register(
            "relayed_bytes",
            "Response body bytes handed to clients",
            self.relayed_bytes.clone(),
        );
        r.register(
            "stream_unread_events",
            "Events that were too long to be read along",
            self.unread_events.clone(),
        );
        r.register(
            "unread_answers",
            "Answers that could not be read along whole, by the first reason; their keys may be charged by an estimate",
            self.unread_answers.clone(),
        );
        r.register(
            "upstream_connections",
            "Upstream connections by what happened to them",
            self.upstream_connections.clone(),
        );
        r.register(
            "idle_upstream_connections",
            "Idle upstream connections kept now",
            self.idle_upstream_connections.clone(),
        );
        r.register(
            "certificate_not_after_seconds",
            "When the edge's certificate ends, Unix time",
            self.certificate_not_after_s.clone(),
        );
        r.register(
            "certificate_reloads",
            "Certificate files read again",
            self.certificate_reloads.clone(),
        );
        self.registry = registry;
    }

    /// For those who have metrics of their own to add before the daemon serves.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Everything in the Prometheus text format, version 0.0.4 (see [`CONTENT_TYPE`]).
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(16_384);
        // Writing into a String does not fail; the encoder's own errors are of that kind.
        if prometheus_text::encode(&mut text, &self.registry).is_err() {
            text.clear();
        }
        text
    }

    /// The figures that `/status` shows.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let verdicts = Verdict::all().map(|verdict| (verdict.reason(), self.verdicts.get(verdict)));
        Summary {
            open_connections: self.open_connections.get(),
            connections: self.connections.sum(),
            open_streams: self.open_streams.get(),
            requests: self.requests.sum(),
            verdicts: verdicts.filter(|(_, count)| *count > 0).collect(),
            idle_upstream_connections: self.idle_upstream_connections.get(),
            certificate_not_after_s: self.certificate_not_after_s.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_common::policy::Reason;
    use std::time::Duration;

    #[test]
    fn renders_every_series_ahead_and_counts() {
        let metrics = Metrics::new();
        let verdict = Verdict::of(Reason::KeyUnknown);
        metrics.verdicts.add(verdict, 1);
        metrics.verdicts.add(verdict, 2);
        let overloaded = http::StatusCode::from_u16(529).unwrap();
        let request = Requests::new(crate::api::Route::Messages, overloaded);
        metrics.requests.one(request);
        metrics.first_byte.observe(Duration::from_millis(3));
        let text = metrics.render();
        for line in [
            r#"edge_verdicts_total{decided_by="userspace",verdict="reject",reason="key_unknown"} 3"#,
            r#"edge_verdicts_total{decided_by="userspace",verdict="accept",reason="accepted"} 0"#,
            r#"edge_requests_total{route="messages",status="529"} 1"#,
            r#"edge_upstream_first_byte_seconds_bucket{le="0.0025"} 0"#,
            r#"edge_upstream_first_byte_seconds_bucket{le="0.005"} 1"#,
            r#"edge_upstream_first_byte_seconds_bucket{le="+Inf"} 1"#,
            r#"edge_upstream_first_byte_seconds_count 1"#,
            "edge_relayed_bytes_total 0",
        ] {
            assert!(
                text.lines().any(|l| l == line),
                "no line {line:?} in\n{text}"
            );
        }
        let buckets = |l: &&str| l.starts_with("edge_upstream_first_byte_seconds_bucket{");
        // One for each bound, and the one of all.
        assert_eq!(text.lines().filter(buckets).count(), 20 + 1, "{text}");
        assert_eq!(metrics.summary().verdicts, [("key_unknown", 3)]);
    }

    #[test]
    fn every_reason_and_status_has_its_own_place() {
        for reason in Reason::ALL {
            let verdict = Verdict::of(*reason);
            assert_eq!(
                verdict.reason(),
                reason.name(),
                "the label is the reason's name"
            );
        }
        let places = |all: Vec<usize>| {
            let mut seen = all.clone();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen, (0..all.len()).collect::<Vec<_>>());
        };
        places(Verdict::all().map(Series::index).collect());
        places(Requests::all().map(Series::index).collect());
    }
}
