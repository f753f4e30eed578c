//! One key's account: its buckets, its day, what it has used, what is reserved.

use super::bucket::{Bucket, Level};
use super::burst::Window;
use super::day::{self, Day};
use super::{Held, Limits, Used};
use crate::charges::Now;
use crate::telemetry::{QuotaLimit, Series as _};
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
    /// Of the day, what running requests hold back for whole answers.
    held_whole: AtomicU64,
    /// What running requests have used so far, as far as it is booked of the day.
    running_input: AtomicU64,
    running_output: AtomicU64,
    refusals: [AtomicU64; QuotaLimit::COUNT],
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
    /// Tokens of today (UTC), of what runs too, as far as it has come.
    pub tokens_today: u64,
    /// Requests that run now.
    pub running: u64,
    /// Tokens of prompts that those have reserved.
    pub reserved_input: u64,
    /// Tokens of answers that those have reserved.
    pub reserved_output: u64,
    /// Tokens of today that those hold back for whole answers.
    pub reserved_today: u64,
}

/// Requests of a key that were refused since the start, by limit, and streams that were cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; QuotaLimit::COUNT]);

/// How a key stands with its limits; none where it has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Requests a minute.
    pub requests: Option<Level>,
    /// Tokens of prompts a minute.
    pub input: Option<Level>,
    /// Tokens of answers a minute.
    pub output: Option<Level>,
    /// Tokens a day, what is held back for whole answers taken off.
    pub day: Option<Level>,
}

/// Whether a day has enough left for what a request holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fits {
    /// It has.
    Now,
    /// It would if running requests held nothing back.
    WithoutOthers,
    /// It has not: so many are left.
    NotToday { left: u64 },
}

impl Refusals {
    /// `[limit, count]` of each limit that was met.
    pub fn met(&self) -> impl Iterator<Item = (QuotaLimit, u64)> {
        QuotaLimit::all()
            .zip(self.0)
            .filter(|(_, count)| *count > 0)
    }

    /// All of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Serialize for Refusals {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.met().map(|(limit, count)| (limit.name(), count)))
    }
}

impl Standing {
    /// The one of the tokens' limits of which the least remains.
    #[must_use]
    pub fn tokens(&self) -> Option<Level> {
        let tokens = [self.input, self.output, self.day].into_iter().flatten();
        tokens.min_by_key(|level| level.remaining)
    }
}

fn as_text<S: serde::Serializer>(id: &KeyId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// What of a request is booked of the day while it runs, tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Booked {
    /// Of all of the prompt.
    pub(super) input: u64,
    /// Of the answer.
    pub(super) output: u64,
}

impl Booked {
    pub(super) fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

// As docs/usage.md says: there may be a million of them.
const _: () = assert!(size_of::<Account>() <= 320);

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
            held_whole: AtomicU64::new(0),
            running_input: AtomicU64::new(0),
            running_output: AtomicU64::new(0),
            refusals: Default::default(),
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

    /// Books what a request holds back of the day, if that has so much left of `limit` (0: any
    /// number); and how many tokens of the last five minutes began a burst, if they did. One at
    /// a time, so that of several which fit alone one does.
    pub(super) fn take_of_day(
        &self,
        held: Held,
        limit: u64,
        burst: u64,
        now: Now,
    ) -> (Fits, Option<u64>) {
        let mut window = self.burst.lock().unwrap_or_else(PoisonError::into_inner);
        let today = day::number(now.unix_s);
        if limit > 0 {
            let left = limit.saturating_sub(self.day.get(today));
            let others = self.held_whole.load(Ordering::Relaxed);
            let needed = held.input.saturating_add(held.whole);
            if needed > left {
                return (Fits::NotToday { left }, None);
            }
            if needed > left.saturating_sub(others) {
                return (Fits::WithoutOthers, None);
            }
        }
        self.day.add(today, held.input, 0);
        self.running_input.fetch_add(held.input, Ordering::Relaxed);
        if held.whole > 0 {
            self.held_whole.fetch_add(held.whole, Ordering::Relaxed);
        }
        let began = window.add(now.unix_s, held.input, 0, burst);
        (Fits::Now, began)
    }

    /// A request ends that held back so much of the day for a whole answer, and of which so
    /// much was booked.
    pub(super) fn release(&self, whole: u64, booked: Booked) {
        if whole > 0 {
            self.held_whole.fetch_sub(whole, Ordering::Relaxed);
        }
        self.rebook_running(booked, Booked::default());
    }

    /// Of a running request so much was booked, and is now.
    pub(super) fn rebook_running(&self, before: Booked, now: Booked) {
        for (cell, before, now) in [
            (&self.running_input, before.input, now.input),
            (&self.running_output, before.output, now.output),
        ] {
            if now != before {
                // Wraps as it must where it is less.
                cell.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
            }
        }
    }

    /// A request was refused, or a stream cut.
    pub(super) fn refused(&self, limit: QuotaLimit) {
        self.refusals[limit.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// How many were, by limit.
    pub(super) fn refusals(&self) -> Refusals {
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Refusals(std::array::from_fn(|at| value(&self.refusals[at])))
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
            if more > 0 {
                total.fetch_add(more, Ordering::Relaxed);
            }
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
            reserved_today: value(&self.held_whole),
        }
    }

    /// What is kept over a restart: what runs counts as having ended with what it has used so
    /// far, for so it has if there is no other end.
    pub(super) fn kept(&self, now: Now) -> KeyUsage {
        let value = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let usage = self.usage(now);
        KeyUsage {
            requests: usage.requests + usage.running,
            input: usage.input.saturating_add(value(&self.running_input)),
            output: usage.output.saturating_add(value(&self.running_output)),
            running: 0,
            reserved_input: 0,
            reserved_output: 0,
            reserved_today: 0,
            ..usage
        }
    }

    pub(super) fn standing(&self, limits: &Limits, now: Now) -> Standing {
        let level =
            |bucket: &Bucket, limit| (limit > 0).then(|| bucket.level(limit, now.monotonic_ns));
        let day = (limits.tokens_per_day > 0).then(|| {
            let used = self.day.get(day::number(now.unix_s));
            let used = used.saturating_add(self.held_whole.load(Ordering::Relaxed));
            let full_at_s = (used > 0).then(|| day::next(now.unix_s));
            let left_s = full_at_s.map_or(0, |at_s| at_s.saturating_sub(now.unix_s));
            Level {
                limit: limits.tokens_per_day,
                remaining: limits.tokens_per_day.saturating_sub(used),
                full_in: Duration::from_secs(left_s),
                full_at_s,
            }
        });
        Standing {
            requests: level(&self.requests, limits.requests_per_minute),
            input: level(&self.input, limits.input_tokens_per_minute),
            output: level(&self.output, limits.output_tokens_per_minute),
            day,
        }
    }
}
