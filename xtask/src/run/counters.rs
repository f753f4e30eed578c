//! What the edge counted: read from its admin address before and after each row, never
//! assumed.

use super::network::Place;
use anyhow::{Context as _, bail};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A hang guard.
const HANG_GUARD: Duration = Duration::from_secs(10);

/// One look at the edge's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// The kernel half's, by name.
    pub(super) kernel: BTreeMap<String, u64>,
    /// Hellos that userspace judged, by reason.
    pub(super) userspace: BTreeMap<String, u64>,
    /// Connections that the daemon accepted.
    pub(super) accepted: u64,
    /// Requests by what was known of their beginning.
    pub(super) contexts: BTreeMap<String, u64>,
    /// Tokens that were known and not counted again.
    pub(super) known_tokens: u64,
}

impl Counters {
    /// What has been counted since `earlier`; zeros left out.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let difference = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            now.iter()
                .map(|(name, value)| (name.clone(), value - then.get(name).unwrap_or(&0)))
                .filter(|(_, value)| *value > 0)
                .collect()
        };
        Self {
            kernel: difference(&self.kernel, &earlier.kernel),
            userspace: difference(&self.userspace, &earlier.userspace),
            accepted: self.accepted - earlier.accepted,
            contexts: difference(&self.contexts, &earlier.contexts),
            known_tokens: self.known_tokens - earlier.known_tokens,
        }
    }
}

/// Where the daemons answer questions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admin {
    /// The edge's admin address.
    pub(super) edge: SocketAddr,
    /// The demo model.
    pub(super) model: SocketAddr,
}

impl Admin {
    /// Whether `/readyz` says yes. A daemon that does not listen yet is not ready.
    pub(super) fn is_ready(&self, place: &Place) -> anyhow::Result<bool> {
        place.run(|| Ok(matches!(get(self.edge, "/readyz"), Ok((200, _)))))
    }

    /// `/status`.
    pub(super) fn status(&self, place: &Place) -> anyhow::Result<serde_json::Value> {
        let text = place.run(|| text(self.edge, "/status"))?;
        serde_json::from_str(&text).context("/status")
    }

    /// All counters.
    pub(super) fn counters(&self, place: &Place) -> anyhow::Result<Counters> {
        let (metrics, status) = place.run(|| {
            let metrics = text(self.edge, "/metrics")?;
            Ok((metrics, text(self.edge, "/status")?))
        })?;
        let status: serde_json::Value = serde_json::from_str(&status).context("/status")?;
        let mut counters = Counters::default();
        for pair in status["kernel"]["counters"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let (name, value) = (pair[0].as_str(), pair[1].as_u64());
            let pair = name.zip(value).context("/status: kernel.counters")?;
            counters.kernel.insert(pair.0.to_owned(), pair.1);
        }
        for (name, labels, value) in samples(&metrics) {
            match name {
                "edge_verdicts_total" if label(labels, "decided_by") == Some("userspace") => {
                    let reason = label(labels, "reason").context("/metrics: edge_verdicts")?;
                    *counters.userspace.entry(reason.to_owned()).or_default() += value;
                }
                "edge_accepted_connections_total" => counters.accepted += value,
                "edge_contexts_total" => {
                    let outcome = label(labels, "outcome").context("/metrics: edge_contexts")?;
                    *counters.contexts.entry(outcome.to_owned()).or_default() += value;
                }
                "edge_context_known_tokens_total" => counters.known_tokens += value,
                _ => {}
            }
        }
        Ok(counters)
    }

    /// `/demo/stats` of the model.
    pub(super) fn model_stats(&self, place: &Place) -> anyhow::Result<serde_json::Value> {
        let text = place.run(|| text(self.model, "/demo/stats"))?;
        serde_json::from_str(&text).context("/demo/stats")
    }
}

fn text(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    match get(address, path).with_context(|| format!("http://{address}{path}"))? {
        (200, body) => Ok(body),
        (status, body) => bail!("http://{address}{path}: {status} {}", body.trim()),
    }
}

/// A GET of HTTP/1.0 (RFC 1945): the answer ends where the connection does.
fn get(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut tcp = TcpStream::connect_timeout(&address, HANG_GUARD)?;
    tcp.set_read_timeout(Some(HANG_GUARD))?;
    write!(
        tcp,
        "GET {path} HTTP/1.0\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    tcp.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Ok((status.context("no HTTP status")?, body.to_owned()))
}

/// Whole-number samples of the Prometheus text format: name, labels, value.
fn samples(text: &str) -> impl Iterator<Item = (&str, &str, u64)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            Some((name, labels.trim_end_matches('}'), value.parse().ok()?))
        })
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key.trim() == name).then(|| value.trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_and_without_labels() {
        let text = "# HELP x y\nedge_verdicts_total{decided_by=\"userspace\",reason=\"tag_wrong\"} 3\n\
                    edge_accepted_connections_total 7\nedge_seconds 0.5\n";
        let samples: Vec<_> = samples(text).collect();
        assert_eq!(samples.len(), 2, "fractions are no counters: {samples:?}");
        assert_eq!(label(samples[0].1, "reason"), Some("tag_wrong"));
        assert_eq!(samples[1], ("edge_accepted_connections_total", "", 7));
    }

    #[test]
    fn only_what_moved_is_told() {
        let counters = |pairs: &[(&str, u64)]| Counters {
            kernel: pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect(),
            ..Counters::default()
        };
        let moved =
            counters(&[("a", 3), ("b", 1), ("c", 2)]).since(&counters(&[("a", 1), ("b", 1)]));
        assert_eq!(moved, counters(&[("a", 2), ("c", 2)]));
    }
}
