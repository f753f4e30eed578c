//! What a sidecar tells of itself.

use super::choose::Why;
use super::forward::Counts;
use super::held::Room;
use super::nodes::Nodes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A sidecar's state, as JSON has it.
#[derive(Debug, serde::Serialize)]
pub struct Status {
    /// Requests that came.
    pub requests: u64,
    /// Times that a request went to one more edge.
    pub sent_on: u64,
    /// Requests that no edge answered.
    pub unanswered: u64,
    /// Requests that could not be sent on because they were not kept whole.
    pub not_kept: u64,
    /// Times that requests went elsewhere from then on.
    pub switches: u64,
    /// Times that all edges were checked.
    pub rounds: u64,
    /// What is kept of requests' bodies now.
    pub held_bytes: u64,
    /// Local connections that are open.
    pub connections: usize,
    /// The edges.
    pub edges: Vec<Edge>,
}

/// One edge.
#[derive(Debug, serde::Serialize)]
pub struct Edge {
    /// Its URL.
    pub url: String,
    /// Requests go there now.
    pub is_current: bool,
    /// Smoothed over health checks.
    pub round_trip_ms: Option<f64>,
    /// How much of itself it uses, as it says.
    pub capacity_percent: Option<f64>,
    /// Why it is not asked now.
    pub away: Option<Why>,
    /// How far its clock is ahead of the system's.
    pub clock_ahead_ms: i64,
    /// Connections to it.
    pub connections: usize,
    /// Requests that run there.
    pub running: usize,
    /// Requests that it answered.
    pub answered: u64,
    /// Requests that it refused, or that did not reach it.
    pub not_taken: u64,
}

impl Status {
    pub(super) fn of(nodes: &Nodes, counts: &Counts, room: &Room, connections: usize) -> Self {
        let now = Instant::now();
        let current = nodes.current().map(|node| node.number);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let edges = nodes.known().into_iter().map(|(node, known)| {
            let (connections, running) = node.client.open();
            Edge {
                url: node.client.endpoint().to_string(),
                is_current: current == Some(node.number),
                round_trip_ms: known.round_trip.map(|trip| trip.as_secs_f64() * 1000.0),
                capacity_percent: known.capacity_percent,
                away: known
                    .away
                    .filter(|(_, until)| *until > now)
                    .map(|(why, _)| why),
                clock_ahead_ms: node.client.tokens().clock().ahead_ms(),
                connections,
                running,
                answered: count(&node.answered),
                not_taken: count(&node.not_taken),
            }
        });
        Self {
            requests: count(&counts.requests),
            sent_on: count(&counts.sent_on),
            unanswered: count(&counts.unanswered),
            not_kept: count(&counts.not_kept),
            switches: nodes.switches(),
            rounds: nodes.rounds(),
            held_bytes: room.taken_bytes(),
            connections,
            edges: edges.collect(),
        }
    }

    /// As a document.
    #[must_use]
    pub fn json(&self) -> String {
        // Numbers and texts alone always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}
