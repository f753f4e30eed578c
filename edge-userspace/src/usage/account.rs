//! One key's account: its buckets, its day, what it has used, what is reserved.

use super::bucket::{Bucket, Level};
use super::burst::Window;
use super::day::{self, Day};
use super::{Limits, Used};
use crate::charges::Now;
use edge_common::token::KeyId;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What is kept of a key.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) id: KeyId,
    pub(super) requests: Bucket,
    pub(super) input: Bucket,
    pub(super) output: Bucket,
    pub(super) day: Day,
    burst: Mutex<Window>,
    pub(super) running: AtomicU64,
    pub(super) reserved_input: AtomicU64,
    pub(super) reserved_output: AtomicU64,
    total: Total,
}

/// What the key has used.
#[derive(Debug, Default)]
struct Total {
    requests: AtomicU64,
    input: AtomicU64,
    cache_read: AtomicU64,
    cache_written: AtomicU64,
    output: AtomicU64,
}

/// One key's entry of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KeyUsage {
    /// Whose.
    #[serde(serialize_with = "as_text")]
    pub key_id: KeyId,
    /// Requests that were let in and have ended.
    pub requests: u64,
    /// Tokens of prompts that no cache had.
    pub input: u64,
    /// Tokens of prompts that upstreams read from their caches.
    pub cache_read: u64,
    /// Tokens of prompts that upstreams wrote to their caches.
    pub cache_written: u64,
    /// Tokens of answers.
    pub output: u64,
    /// Tokens of today (UTC), of what runs too.
    pub tokens_today: u64,
    /// Requests that run now.
    pub running: u64,
    /// Tokens of prompts that those have reserved.
    pub reserved_input: u64,
    /// Tokens of answers that those have reserved.
    pub reserved_output: u64,
}

/// How a key stands with its limits; none where it has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Requests a minute.
    pub requests: Option<Level>,
    /// Tokens of prompts a minute.
    pub input: Option<Level>,
    /// Tokens of answers a minute.
    pub output: Option<Level>,
    /// The one of those two, and of the day's tokens, of which the least remains.
    pub tokens: Option<Level>,
}

fn as_text<S: serde::Serializer>(id: &KeyId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

// As docs/usage.md says: there may be a million of them.
const _: () = assert!(size_of::<Account>() <= 256);

impl Account {
    pub(super) fn new(id: KeyId) -> Self {
        Self {
            id,
            requests: Bucket::default(),
            input: Bucket::default(),
            output: Bucket::default(),
            day: Day::default(),
            burst: Mutex::default(),
            running: AtomicU64::new(0),
            reserved_input: AtomicU64::new(0),
            reserved_output: AtomicU64::new(0),
            total: Total::default(),
        }
    }

    /// One more that runs, unless `most` do; 0: any number.
    pub(super) fn enter(&self, most: u64) -> bool {
        let more = |running| (most == 0 || running < most).then_some(running + 1);
        (self
            .running
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more))
        .is_ok()
    }

    /// So many tokens more or less were used today: what they are then, and how many those of
    /// the last five minutes are when a burst begins.
    pub(super) fn spend(&self, more: u64, less: u64, burst: u64, now: Now) -> (u64, Option<u64>) {
        let today = self.day.add(day::number(now.unix_s), more, less);
        let mut window = self.burst.lock().unwrap_or_else(PoisonError::into_inner);
        (today, window.add(now.unix_s, more, less, burst))
    }

    /// A request has ended that was let in and used so much.
    pub(super) fn ended(&self, used: &Used) {
        let Total {
            requests,
            input,
            cache_read,
            cache_written,
            output,
        } = &self.total;
        for (total, more) in [
            (requests, 1),
            (input, used.input),
            (cache_read, used.cache_read),
            (cache_written, used.cache_written),
            (output, used.output),
        ] {
            total.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Begins with what was used before.
    pub(super) fn resume(&self, usage: &KeyUsage, today: u64) {
        let Total {
            requests,
            input,
            cache_read,
            cache_written,
            output,
        } = &self.total;
        for (total, value) in [
            (requests, usage.requests),
            (input, usage.input),
            (cache_read, usage.cache_read),
            (cache_written, usage.cache_written),
            (output, usage.output),
        ] {
            total.store(value, Ordering::Relaxed);
        }
        self.day.add(today, usage.tokens_today, 0);
    }

    pub(super) fn usage(&self, now: Now) -> KeyUsage {
        let value = |total: &AtomicU64| total.load(Ordering::Relaxed);
        KeyUsage {
            key_id: self.id,
            requests: value(&self.total.requests),
            input: value(&self.total.input),
            cache_read: value(&self.total.cache_read),
            cache_written: value(&self.total.cache_written),
            output: value(&self.total.output),
            tokens_today: self.day.get(day::number(now.unix_s)),
            running: value(&self.running),
            reserved_input: value(&self.reserved_input),
            reserved_output: value(&self.reserved_output),
        }
    }

    pub(super) fn standing(&self, limits: &Limits, now: Now) -> Standing {
        let level =
            |bucket: &Bucket, limit| (limit > 0).then(|| bucket.level(limit, now.monotonic_ns));
        let input = level(&self.input, limits.input_tokens_per_minute);
        let output = level(&self.output, limits.output_tokens_per_minute);
        let day = (limits.tokens_per_day > 0).then(|| {
            let used = self.day.get(day::number(now.unix_s));
            let full_at_s = (used > 0).then(|| day::next(now.unix_s));
            let left_s = full_at_s.map_or(0, |at_s| at_s.saturating_sub(now.unix_s));
            Level {
                limit: limits.tokens_per_day,
                remaining: limits.tokens_per_day.saturating_sub(used),
                full_in: Duration::from_secs(left_s),
                full_at_s,
            }
        });
        let tokens = [input, output, day].into_iter().flatten();
        Standing {
            requests: level(&self.requests, limits.requests_per_minute),
            input,
            output,
            tokens: tokens.min_by_key(|level| level.remaining),
        }
    }
}
