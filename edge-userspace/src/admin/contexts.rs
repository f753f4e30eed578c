//! What `/status` says of contexts: requests by what was known of them, the table, hints.

use super::View;
use crate::context::slots::Counters;
use crate::telemetry::{ContextOutcome, HintOutcome, Metrics, Preheat, Series};
use serde::Serialize;

/// What there is to say of contexts; none when conversations are not remembered.
#[derive(Debug, Serialize)]
pub struct Contexts {
    /// `[outcome, count]` of requests by what was known of their beginning.
    pub requests: Vec<(&'static str, u64)>,
    /// Tokens that were known and not counted again.
    pub known_tokens: u64,
    /// Slots that hold a prefix.
    pub slots: u64,
    /// Slots that there are.
    pub slots_capacity: u64,
    /// Prefixes that had to go for others while they were still good.
    pub evicted: u64,
    /// `[outcome, count]` of warm-ups.
    pub preheats: Vec<(&'static str, u64)>,
    /// `[what, count]` of prefix hints and quiet predictions.
    pub hints: Vec<(&'static str, u64)>,
    /// Of the hints that were told, how many in a hundred were right; none before the first.
    pub hints_right_percent: Option<f64>,
}

impl Contexts {
    pub(super) fn of(view: &View) -> Option<Self> {
        let contexts = view.contexts.as_ref()?;
        let metrics: &Metrics = &view.metrics;
        let Counters {
            occupied,
            capacity,
            evicted,
            ..
        } = contexts.slots().counters();
        let [right, wrong] =
            [HintOutcome::Right, HintOutcome::Wrong].map(|what| metrics.hints.get(what));
        Some(Self {
            requests: list(&metrics.contexts, ContextOutcome::name),
            known_tokens: metrics.context_known_tokens.get(()),
            slots: occupied,
            slots_capacity: capacity,
            evicted,
            preheats: list(&metrics.preheats, Preheat::name),
            hints: list(&metrics.hints, HintOutcome::name),
            hints_right_percent: (right + wrong > 0)
                .then(|| right as f64 * 100.0 / (right + wrong) as f64),
        })
    }
}

fn list<S: Series>(
    counters: &crate::telemetry::Counters<S>,
    name: fn(S) -> &'static str,
) -> Vec<(&'static str, u64)> {
    S::all()
        .map(|series| (name(series), counters.get(series)))
        .collect()
}
