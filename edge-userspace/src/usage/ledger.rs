//! The accounts of all keys, and the limits that they have.

mod entry;

pub use entry::{Entry, Left};

use super::account::{Account, Fits};
use super::day;
use super::settlement::Settlement;
use super::snapshot::Saved;
use super::{Held, KeyUsage, Limits, OfDay, Refused, Reserve, Standing, Until, Used};
use crate::charges::Now;
use crate::config;
use crate::keys::table::IdMap;
use crate::keys::{Change, KeyRecord, Keyring, Observer};
use crate::telemetry::{Metrics, QuotaLimit, UsedTokens};
use arc_swap::ArcSwap;
use edge_common::token::KeyId;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const SHARDS: usize = 64;

/// The accounts. As many as there are keys that ever asked for something, which
/// `keys.capacity` bounds: that of a key that is removed goes with it.
pub struct Ledger {
    shards: Box<[Mutex<IdMap<Arc<Account>>>]>,
    settings: ArcSwap<Settings>,
    keyring: Arc<Keyring>,
    metrics: Arc<Metrics>,
    clock: fn() -> Now,
    /// Requests that run, all keys together, and what they have reserved.
    running: AtomicU64,
    reserved_input: AtomicU64,
    reserved_output: AtomicU64,
    /// Counts what was changed since the start, so that nothing is written without need.
    changes: AtomicU64,
}

/// What changes while the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings {
    limits: Limits,
    reserve: Reserve,
    burst_tokens: u64,
}

/// What `/status` and `/metrics` show of the ledger.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Limits of keys without their own; 0: none.
    pub limits: Limits,
    /// How much of an answer is reserved.
    pub reserve: Reserve,
    /// Tokens in five minutes beyond which a key has a burst; 0: none is looked for.
    pub burst_tokens: u64,
    /// Keys with an account.
    pub accounts: u64,
    /// Requests that run now.
    pub running: u64,
    /// Tokens of prompts that those have reserved.
    pub reserved_input: u64,
    /// Tokens of answers that those have reserved.
    pub reserved_output: u64,
}

impl Ledger {
    /// Nothing used yet. Keys of `keyring` are followed from now on.
    #[must_use]
    pub fn new(
        config: &config::Quotas,
        keyring: &Arc<Keyring>,
        metrics: &Arc<Metrics>,
    ) -> Arc<Self> {
        Self::with_clock(config, keyring, metrics, Now::of_last_tick)
    }

    /// The same, by another clock than the system's.
    pub(super) fn with_clock(
        config: &config::Quotas,
        keyring: &Arc<Keyring>,
        metrics: &Arc<Metrics>,
        clock: fn() -> Now,
    ) -> Arc<Self> {
        let ledger = Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            settings: ArcSwap::from_pointee(Settings::of(config)),
            keyring: Arc::clone(keyring),
            metrics: Arc::clone(metrics),
            clock,
            running: AtomicU64::new(0),
            reserved_input: AtomicU64::new(0),
            reserved_output: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        });
        keyring.observe(Arc::new(Removals(Arc::downgrade(&ledger))));
        ledger
    }

    /// Goes by other limits from now on; requests that run keep theirs.
    pub fn follow(&self, config: &config::Quotas) {
        self.settings.store(Arc::new(Settings::of(config)));
    }

    /// Lets a request of that key in, which lasts until its settlement ends.
    ///
    /// # Errors
    /// Which limit it is over. Then nothing is charged.
    pub fn begin(self: &Arc<Self>, key: &KeyRecord) -> Result<Settlement, Refused> {
        let now = self.now();
        let Some(account) = self.account(key.id) else {
            // The key goes at this moment, and its connection with it.
            return Ok(Settlement::none());
        };
        let settings = **self.settings.load();
        let limits = settings.limits.with(&key.quotas());
        let day = limits.tokens_per_day;
        if day > 0 && account.day.get(day::number(now.unix_s)) >= day {
            let until = Until::NextDay {
                needs: OfDay::default(),
                left: 0,
                after: day::left(now.unix_s),
            };
            return Err(self.refuse(&account, QuotaLimit::Day, day, until));
        }
        let concurrent = limits.concurrent_requests;
        if !account.enter(concurrent) {
            let until = Until::OthersEnd;
            return Err(self.refuse(&account, QuotaLimit::Concurrent, concurrent, until));
        }
        let requests = limits.requests_per_minute;
        if let Err(until) = (account.requests).take(1, requests, now.monotonic_ns) {
            account.running.fetch_sub(1, Ordering::Relaxed);
            return Err(self.refuse(&account, QuotaLimit::Requests, requests, until));
        }
        self.running.fetch_add(1, Ordering::Relaxed);
        let burst = settings.burst_tokens;
        Ok(Settlement::new(Arc::clone(self), account, limits, burst))
    }

    /// How that key stands with its limits; none: it has none.
    #[must_use]
    pub fn standing(&self, key: &KeyRecord) -> Option<Standing> {
        let limits = self.limits_of(key);
        if limits.is_none() {
            return None;
        }
        Some(self.account(key.id)?.standing(&limits, self.now()))
    }

    /// What to hold back for a prompt of `input` tokens and its answer: of at most `max_tokens`,
    /// `choices` times.
    #[must_use]
    pub fn held(&self, input: u64, max_tokens: Option<u64>, choices: u64, is_stream: bool) -> Held {
        let reserve = self.settings.load().reserve;
        Held {
            input,
            output: reserve.output(max_tokens, choices),
            whole: match is_stream {
                true => 0,
                false => reserve.most(max_tokens, choices),
            },
        }
    }

    /// What a key has used; none when it has not asked for anything.
    #[must_use]
    pub fn usage(&self, id: KeyId) -> Option<KeyUsage> {
        let account = self.shard(id).get(&id).cloned()?;
        Some(account.usage(self.now()))
    }

    /// A look at the ledger.
    #[must_use]
    pub fn status(&self) -> Status {
        let Settings {
            limits,
            reserve,
            burst_tokens,
        } = **self.settings.load();
        Status {
            limits,
            reserve,
            burst_tokens,
            accounts: self
                .shards
                .iter()
                .map(|shard| lock(shard).len() as u64)
                .sum(),
            running: self.running.load(Ordering::Relaxed),
            reserved_input: self.reserved_input.load(Ordering::Relaxed),
            reserved_output: self.reserved_output.load(Ordering::Relaxed),
        }
    }

    /// Changes so far; while they are the same, what is saved is.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// What is to be kept over a restart, a part of the keys at a time.
    pub fn saved(&self) -> impl Iterator<Item = Saved> {
        let now = self.now();
        let saved = move |account: &Arc<Account>| Saved {
            usage: account.kept(now),
            day: day::number(now.unix_s),
            debts_ns: [&account.requests, &account.input, &account.output]
                .map(|bucket| bucket.debt_ns(now.monotonic_ns)),
        };
        let of_shard = move |shard: &Mutex<IdMap<Arc<Account>>>| {
            lock(shard).values().map(saved).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard)
    }

    /// Begins with what was kept `age_ns` ago. Keys that are gone meanwhile are left out.
    pub fn resume(&self, saved: &[Saved], age_ns: u64) {
        let now = self.now();
        for entry in saved {
            let Some(account) = self.account(entry.usage.key_id) else {
                continue;
            };
            account.resume(&entry.usage, entry.day);
            let buckets = [&account.requests, &account.input, &account.output];
            for (bucket, debt_ns) in buckets.into_iter().zip(entry.debts_ns) {
                bucket.set_debt_ns(debt_ns.saturating_sub(age_ns), now.monotonic_ns);
            }
        }
    }

    /// The clocks as they stand.
    pub(super) fn now(&self) -> Now {
        (self.clock)()
    }

    /// A request holds back so much more, or less.
    pub(super) fn reserved(&self, account: &Account, input: u64, output: u64) {
        for (cell, more) in [
            (&self.reserved_input, input),
            (&account.reserved_input, input),
            (&self.reserved_output, output),
            (&account.reserved_output, output),
        ] {
            if more > 0 {
                cell.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// The same amounts are not held back any more.
    pub(super) fn released(&self, account: &Account, input: u64, output: u64) {
        for (cell, less) in [
            (&self.reserved_input, input),
            (&account.reserved_input, input),
            (&self.reserved_output, output),
            (&account.reserved_output, output),
        ] {
            if less > 0 {
                cell.fetch_sub(less, Ordering::Relaxed);
            }
        }
    }

    /// Tokens more or less of today, and of the last minutes, where more than `burst` are a burst;
    /// what those of today are then.
    pub(super) fn spend(
        &self,
        account: &Account,
        more: u64,
        less: u64,
        burst: u64,
        now: Now,
    ) -> u64 {
        let (today, began) = account.spend(more, less, burst, now);
        self.spent(account, began, burst);
        today
    }

    /// Books what a request holds back of the day, if that has as much; `burst`: as above.
    pub(super) fn take_of_day(
        &self,
        account: &Account,
        held: Held,
        limit: u64,
        burst: u64,
        now: Now,
    ) -> Fits {
        let (fits, began) = account.take_of_day(held, limit, burst, now);
        self.spent(account, began, burst);
        fits
    }

    fn spent(&self, account: &Account, burst_began: Option<u64>, burst: u64) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        if let Some(tokens) = burst_began {
            self.metrics.usage_bursts.one(());
            tracing::warn!(
                key = %account.id,
                tokens,
                more_than = burst,
                "a burst: the key used more tokens in five minutes than quotas.burst_tokens"
            );
        }
    }

    /// A request that was let in is over.
    pub(super) fn left(&self, account: &Account) {
        account.running.fetch_sub(1, Ordering::Relaxed);
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// What it used is in the books.
    pub(super) fn book(&self, account: &Account, used: &Used) {
        account.ended(used);
        for (kind, tokens) in [
            (UsedTokens::Input, used.input),
            (UsedTokens::CacheRead, used.cache_read),
            (UsedTokens::CacheWritten, used.cache_written),
            (UsedTokens::Output, used.output),
        ] {
            self.metrics.used_tokens.add(kind, tokens);
        }
    }

    /// Counts a request, or the rest of one, that is not let in.
    pub(super) fn refuse(
        &self,
        account: &Account,
        limit: QuotaLimit,
        allowed: u64,
        until: Until,
    ) -> Refused {
        self.metrics.quota_refusals.one(limit);
        account.refused(limit);
        Refused {
            limit,
            allowed,
            until,
        }
    }

    fn limits_of(&self, key: &KeyRecord) -> Limits {
        self.settings.load().limits.with(&key.quotas())
    }

    /// The account of a key, made now when it has none; none when there is no such key.
    fn account(&self, id: KeyId) -> Option<Arc<Account>> {
        let mut shard = self.shard(id);
        if let Some(account) = shard.get(&id) {
            return Some(Arc::clone(account));
        }
        // Asked while nobody can take it out again.
        self.keyring.find(id)?;
        let account = Arc::new(Account::new(id));
        shard.insert(id, Arc::clone(&account));
        Some(account)
    }

    fn shard(&self, id: KeyId) -> MutexGuard<'_, IdMap<Arc<Account>>> {
        lock(&self.shards[id.0 as usize % SHARDS])
    }
}

impl Settings {
    fn of(config: &config::Quotas) -> Self {
        Self {
            limits: Limits::of(config),
            reserve: Reserve::of(config),
            burst_tokens: config.burst_tokens,
        }
    }
}

/// Takes out the accounts of keys that are gone.
struct Removals(Weak<Ledger>);

impl Observer for Removals {
    fn changed(&self, changes: &[Change], _complete: bool) {
        let Some(ledger) = self.0.upgrade() else {
            return;
        };
        for change in changes {
            if let Change::Removed(id) = change {
                ledger.shard(*id).remove(id);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
