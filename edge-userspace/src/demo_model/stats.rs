//! What the demo model counts.

use super::ledger::{Ledger, Outcome};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Counters since the start. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Stats(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    connections: AtomicU64,
    requests: AtomicU64,
    active: AtomicU64,
    cancelled: AtomicU64,
    last_cancelled_unix_ns: AtomicU64,
    body_bytes: AtomicU64,
    prompts: AtomicU64,
    prompt_tokens: AtomicU64,
    cached_tokens: AtomicU64,
    ledger: Ledger,
}

/// The counters at one moment, as `/demo/stats` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Connections accepted.
    pub connections: u64,
    /// Requests begun.
    pub requests: u64,
    /// Requests being answered.
    pub active: u64,
    /// Requests whose client left before the answer's end.
    pub cancelled: u64,
    /// When it last noticed that one had left, Unix time in nanoseconds; 0: never.
    pub last_cancelled_unix_ns: u64,
    /// Bytes of answers handed to connections.
    pub body_bytes: u64,
    /// Prompts that it has read.
    pub prompts: u64,
    /// Tokens of all of them.
    pub prompt_tokens: u64,
    /// Those of them that were in its simulated cache.
    pub cached_tokens: u64,
}

/// One request being answered; dropped before [`Request::finish`], it was cancelled.
#[derive(Debug)]
pub(super) struct Request {
    stats: Stats,
    outcome: Outcome,
    account: Option<String>,
    input_tokens: u64,
    output_tokens: u64,
    has_said: bool,
}

impl Stats {
    /// The counters now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let read = |cell: &AtomicU64| cell.load(Ordering::Acquire);
        Figures {
            connections: read(&self.0.connections),
            requests: read(&self.0.requests),
            active: read(&self.0.active),
            cancelled: read(&self.0.cancelled),
            last_cancelled_unix_ns: read(&self.0.last_cancelled_unix_ns),
            body_bytes: read(&self.0.body_bytes),
            prompts: read(&self.0.prompts),
            prompt_tokens: read(&self.0.prompt_tokens),
            cached_tokens: read(&self.0.cached_tokens),
        }
    }

    /// What was made for whom.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    pub(super) fn connection(&self) {
        self.0.connections.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn begin(&self) -> Request {
        self.0.requests.fetch_add(1, Ordering::AcqRel);
        self.0.active.fetch_add(1, Ordering::AcqRel);
        Request {
            stats: self.clone(),
            outcome: Outcome::Cancelled,
            account: None,
            input_tokens: 0,
            output_tokens: 0,
            has_said: false,
        }
    }
}

impl Request {
    /// Puts it to an account; tells which of the account's requests it is, from 1 on.
    pub(super) fn put_to(&mut self, account: &str) -> u64 {
        self.account = Some(account.to_owned());
        self.stats.ledger().begin(account)
    }

    /// Whether its tokens are booked.
    pub(super) fn has_account(&self) -> bool {
        self.account.is_some()
    }

    /// Its answer has begun, and what was handed over of it has so many tokens.
    pub(super) fn made(&mut self, output_tokens: u64) {
        self.output_tokens = output_tokens;
        self.has_said = true;
    }

    /// So many bytes of its answer are handed to the connection.
    pub(super) fn gave(&self, bytes: usize) {
        let given = &self.stats.0.body_bytes;
        given.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// Its prompt has so many tokens, and so many of them were cached.
    pub(super) fn read(&mut self, tokens: u64, cached: u64) {
        self.input_tokens = tokens;
        let cells = &self.stats.0;
        cells.prompts.fetch_add(1, Ordering::AcqRel);
        cells.prompt_tokens.fetch_add(tokens, Ordering::AcqRel);
        cells.cached_tokens.fetch_add(cached, Ordering::AcqRel);
    }

    /// Its answer has been handed over whole, or as much of it as was to be.
    pub(super) fn finish(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let cells = &self.stats.0;
        if let Some(account) = &self.account {
            let input = if self.has_said { self.input_tokens } else { 0 };
            let output = self.output_tokens;
            cells.ledger.end(account, self.outcome, input, output);
        }
        if self.outcome == Outcome::Cancelled {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now_ns = now.map_or(0, |now| now.as_nanos());
            let now_ns = u64::try_from(now_ns).unwrap_or(u64::MAX);
            cells
                .last_cancelled_unix_ns
                .store(now_ns, Ordering::Release);
            cells.cancelled.fetch_add(1, Ordering::AcqRel);
        }
        cells.active.fetch_sub(1, Ordering::AcqRel);
    }
}
