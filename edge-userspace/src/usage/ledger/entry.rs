//! What there is to say of keys: whose an account is, what it has used, what is left of its limits.
//!
//! Not here: who asks ([`crate::admin`]).

use super::super::account::{Account, Refusals};
use super::super::{KeyUsage, Level, Limits};
use super::{Ledger, lock};
use crate::charges::Now;
use edge_common::token::KeyId;
use serde::Serialize;
use std::cmp::Reverse;
use std::sync::Arc;

/// What there is to say of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// What it has used, and its id.
    #[serde(flatten)]
    pub usage: KeyUsage,
    /// Its public name.
    pub name: Box<str>,
    /// It is let in no more.
    pub revoked: bool,
    /// What holds for it: its own limits and, where it has none, those of all; 0: none.
    pub limits: Limits,
    /// How much of each is left.
    pub left: Left,
    /// How often it was refused since the start, by limit, and how many streams were cut.
    pub refused: Refusals,
}

/// What a key may still use; `null` where it has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Requests of this minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens of prompts of this minute.
    pub input_tokens_per_minute: Option<u64>,
    /// Tokens of answers of this minute.
    pub output_tokens_per_minute: Option<u64>,
    /// Requests that may run beside those that do.
    pub concurrent_requests: Option<u64>,
    /// Tokens of today.
    pub tokens_per_day: Option<u64>,
}

impl Ledger {
    /// What there is to say of a key; none when it has not asked for anything.
    #[must_use]
    pub fn entry(&self, id: KeyId) -> Option<Entry> {
        let account = self.shard(id).get(&id).cloned()?;
        self.entry_of(&account, self.now())
    }

    /// What there is to say of each key that has asked for anything.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let now = self.now();
        let mut entries = Vec::new();
        for shard in &self.shards {
            // Not under the lock: a look at a million of keys holds up no request.
            let accounts: Vec<_> = lock(shard).values().cloned().collect();
            let of = |account: &Arc<Account>| self.entry_of(account, now);
            entries.extend(accounts.iter().filter_map(of));
        }
        entries
    }

    /// The keys that used most tokens today, at most so many of them.
    #[must_use]
    pub fn most_today(&self, most: usize) -> Vec<Entry> {
        let now = self.now();
        self.most_by(most, |account| account.usage(now).tokens_today)
    }

    /// The keys of which most requests were refused since the start, at most so many of them.
    #[must_use]
    pub fn most_refused(&self, most: usize) -> Vec<Entry> {
        self.most_by(most, |account| account.refusals().sum())
    }

    fn most_by(&self, most: usize, figure: impl Fn(&Account) -> u64) -> Vec<Entry> {
        let mut accounts: Vec<(u64, Arc<Account>)> = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let figures = shard.values().map(|account| (figure(account), account));
            let figures = figures.filter(|(figure, _)| *figure > 0);
            accounts.extend(figures.map(|(figure, account)| (figure, Arc::clone(account))));
            accounts.sort_unstable_by_key(|(figure, account)| (Reverse(*figure), account.id.0));
            accounts.truncate(most);
        }
        let now = self.now();
        let of = |(_, account): &(u64, Arc<Account>)| self.entry_of(account, now);
        accounts.iter().filter_map(of).collect()
    }

    /// None: the key is gone.
    fn entry_of(&self, account: &Account, now: Now) -> Option<Entry> {
        let key = self.keyring.find(account.id)?;
        let limits = self.limits_of(&key);
        let standing = account.standing(&limits, now);
        let left = |level: Option<Level>| level.map(|level| level.remaining);
        let usage = account.usage(now);
        Some(Entry {
            usage,
            name: key.name.clone(),
            revoked: key.revoked,
            limits,
            left: Left {
                requests_per_minute: left(standing.requests),
                input_tokens_per_minute: left(standing.input),
                output_tokens_per_minute: left(standing.output),
                concurrent_requests: (limits.concurrent_requests > 0)
                    .then(|| limits.concurrent_requests.saturating_sub(usage.running)),
                tokens_per_day: left(standing.day),
            },
            refused: account.refusals(),
        })
    }
}
