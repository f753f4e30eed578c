//! What `/status` and `/usage` say of what keys have used.

use super::View;
use crate::telemetry::{QuotaLimit, Series as _, UsedTokens};
use crate::usage::{self, Entry, KeepStatus};
use edge_common::token::KeyId;
use serde::Serialize;

/// Keys that `/status` names: those that used most today.
const MOST_SHOWN: usize = 10;

/// What there is to say of usage.
#[derive(Debug, Serialize)]
pub struct Usage {
    /// Limits, and what runs.
    #[serde(flatten)]
    pub ledger: usage::Status,
    /// `[kind, tokens]` that keys have used since the start, settled.
    pub used_tokens: Vec<(&'static str, u64)>,
    /// `[limit, count]` of requests that were over it, and of streams that it cut.
    pub refused: Vec<(&'static str, u64)>,
    /// Bursts since the start.
    pub bursts: u64,
    /// The keys that used most tokens today (UTC), at most ten; `/usage` has all.
    pub most_today: Vec<Entry>,
    /// The keys of which most requests were refused since the start, at most ten.
    pub most_refused: Vec<Entry>,
    /// Where it is kept, if it is.
    pub kept: Option<KeepStatus>,
}

impl Usage {
    pub(super) fn of(view: &View) -> Self {
        let metrics = &view.metrics;
        Self {
            ledger: view.ledger.status(),
            used_tokens: UsedTokens::all()
                .map(|kind| (kind.name(), metrics.used_tokens.get(kind)))
                .collect(),
            refused: QuotaLimit::all()
                .map(|limit| (limit.name(), metrics.quota_refusals.get(limit)))
                .collect(),
            bursts: metrics.usage_bursts.get(()),
            most_today: view.ledger.most_today(MOST_SHOWN),
            most_refused: view.ledger.most_refused(MOST_SHOWN),
            kept: view.usage_file.as_ref().map(|file| file.status()),
        }
    }
}

/// The entry of one key, `null` when it has none: `/usage/KEY_ID`.
pub(super) fn one(view: &View, id: KeyId) -> serde_json::Result<String> {
    serde_json::to_string(&view.ledger.entry(id))
}

/// One entry a key, by id: `/usage`.
pub(super) fn all(view: &View) -> serde_json::Result<String> {
    let mut keys = view.ledger.entries();
    keys.sort_unstable_by_key(|key| key.usage.key_id.to_bytes());
    serde_json::to_string(&keys)
}
