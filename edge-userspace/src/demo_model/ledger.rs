//! What was made for whom: `GET /demo/ledger`.
//!
//! A request is put to the account that its header `x-demo-account` names, and to none without
//! it. Only requests for a message or a completion are. What an answer's tokens are, see
//! [`super::Options::vocabulary`].

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Accounts at most; requests of others are put to the one of the name `others`.
const MAX_ACCOUNTS: usize = 100_000;
const OTHERS: &str = "others";

/// All accounts since the start. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<String, Account>>>);

/// What came of the requests of one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Requests that came, those under way among them.
    pub requests: u64,
    /// Answered to the end.
    pub finished: Taken,
    /// Refused with an error instead of an answer: a status, or an event that is the first.
    pub failed: Taken,
    /// Broken off by a fault that was asked for.
    pub broken: Taken,
    /// Left by the client before the end.
    pub cancelled: Taken,
}

/// What some requests took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// How many.
    pub requests: u64,
    /// Tokens of the prompts of those whose answer had begun: its first event was handed to
    /// the connection, or all of it where it is one JSON text.
    pub input_tokens: u64,
    /// Tokens of what was handed to their connections, in whole events. An event stream of
    /// messages says 1 as it begins, so it has 1 at least.
    pub output_tokens: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    Finished,
    Failed,
    Broken,
    #[default]
    Cancelled,
}

impl Ledger {
    /// All accounts now.
    #[must_use]
    pub fn accounts(&self) -> BTreeMap<String, Account> {
        self.lock().clone()
    }

    /// Takes a request in; tells which of the account's it is, from 1 on.
    pub(super) fn begin(&self, account: &str) -> u64 {
        self.change(account, |account| {
            account.requests += 1;
            account.requests
        })
    }

    /// Books how one ended.
    pub(super) fn end(&self, account: &str, outcome: Outcome, input: u64, output: u64) {
        self.change(account, |account| {
            let taken = match outcome {
                Outcome::Finished => &mut account.finished,
                Outcome::Failed => &mut account.failed,
                Outcome::Broken => &mut account.broken,
                Outcome::Cancelled => &mut account.cancelled,
            };
            taken.requests += 1;
            taken.input_tokens += input;
            taken.output_tokens += output;
        });
    }

    fn change<T>(&self, account: &str, change: impl FnOnce(&mut Account) -> T) -> T {
        let mut accounts = self.lock();
        let is_known = accounts.len() < MAX_ACCOUNTS || accounts.contains_key(account);
        let account = if is_known { account } else { OTHERS };
        match accounts.get_mut(account) {
            Some(account) => change(account),
            None => change(accounts.entry(account.to_owned()).or_default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Account>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_booked_apart() {
        let ledger = Ledger::default();
        for n in 1..=3 {
            assert_eq!(ledger.begin("a"), n);
        }
        assert_eq!(ledger.begin("b"), 1);
        ledger.end("a", Outcome::Finished, 7, 3);
        ledger.end("a", Outcome::Cancelled, 5, 1);
        let accounts = ledger.accounts();
        let taken = |requests, input_tokens, output_tokens| Taken {
            requests,
            input_tokens,
            output_tokens,
        };
        let expected = Account {
            requests: 3,
            finished: taken(1, 7, 3),
            cancelled: taken(1, 5, 1),
            ..Account::default()
        };
        assert_eq!(accounts["a"], expected);
        assert_eq!(accounts["b"].finished, Taken::default());
    }
}
