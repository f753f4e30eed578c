//! One request's part of the ledger, from the moment it is let in until it has ended.

use super::account::Account;
use super::day;
use super::ledger::Ledger;
use super::used::{By, Stage};
use super::{Limits, Observed, Refused, Used};
use crate::api::error::ApiError;
use crate::charges::Now;
use crate::telemetry::{QuotaLimit, StreamEnd};
use http::StatusCode;
use std::sync::Arc;

/// Of a key without a cap tokens are booked this many at a time, for the alert's sake.
const AT_A_TIME: u64 = 256;

/// What a request has reserved and used. Dropped without [`Settlement::end`] it settles as if
/// the client had left, by what it saw last: no way out can forget it.
pub struct Settlement(Option<Box<Live>>);

/// Whether a response may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Go {
    /// It may.
    On,
    /// A hard cap is passed: this is what the client is told.
    Cut(ApiError),
}

struct Live {
    ledger: Arc<Ledger>,
    account: Arc<Account>,
    /// Those with which it was let in: what is taken is given back under the same limits.
    limits: Limits,
    stage: Stage,
    /// It is over a limit, so it has not been let in after all.
    is_refused: bool,
    /// The edge's count of its prompt, which is charged to the input.
    count: u64,
    /// What is held back for its answer.
    reserved_output: u64,
    /// What is charged to the output: what is held back, or more.
    charged_output: u64,
    /// Tokens that are booked, and the number of the day of which they are.
    booked: u64,
    booked_day: u64,
    last: Observed,
}

impl Settlement {
    /// Of a request that takes no tokens.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    pub(super) fn new(ledger: Arc<Ledger>, account: Arc<Account>, limits: Limits) -> Self {
        Self(Some(Box::new(Live {
            ledger,
            account,
            limits,
            stage: Stage::Here,
            is_refused: false,
            count: 0,
            reserved_output: 0,
            charged_output: 0,
            booked: 0,
            booked_day: 0,
            last: Observed::default(),
        })))
    }

    /// Holds back the prompt's count and what may come of its answer. Once a request.
    ///
    /// # Errors
    /// Which limit it is over. Then nothing is charged, not the request itself either.
    pub fn reserve(&mut self, count: u64, output: u64) -> Result<(), Refused> {
        let Some(live) = &mut self.0 else {
            return Ok(());
        };
        let outcome = live.reserve(count, output);
        live.is_refused = outcome.is_err();
        outcome
    }

    /// It is sent to an upstream, which may work for it from now on.
    pub fn sent(&mut self) {
        if let Some(live) = &mut self.0 {
            live.stage = Stage::Sent;
        }
    }

    /// No upstream answers: what was reserved is given back.
    pub fn failed(self) {
        self.end(StreamEnd::UpstreamBroke, &Observed::default());
    }

    /// The upstream answers with that status.
    pub fn answered(&mut self, status: StatusCode) {
        if let Some(live) = &mut self.0 {
            let success = status.is_success();
            live.stage = Stage::Answered { success };
        }
    }

    /// Whether its key has a hard cap, which is met the more exactly the oftener its answer is
    /// counted.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|live| live.limits.tokens_per_day > 0)
    }

    /// What has been seen so far, after each piece that changed a number; whether the response
    /// may go on.
    pub fn progress(&mut self, observed: &Observed) -> Go {
        match &mut self.0 {
            Some(live) => live.progress(observed),
            None => Go::On,
        }
    }

    /// The response has ended so, and this is all that was seen of it.
    pub fn end(mut self, end: StreamEnd, observed: &Observed) {
        if let Some(mut live) = self.0.take() {
            live.settle(By::of(end, observed), observed);
        }
    }
}

impl Live {
    fn reserve(&mut self, count: u64, output: u64) -> Result<(), Refused> {
        let now = self.ledger.now();
        let Self {
            ledger,
            account,
            limits,
            ..
        } = self;
        let now_ns = now.monotonic_ns;
        let (requests, input) = (limits.requests_per_minute, limits.input_tokens_per_minute);
        if !account.input.take(count, input, now_ns) {
            account.requests.give_back(1, requests, now_ns);
            return Err(ledger.refuse(QuotaLimit::Input, input));
        }
        let most_output = limits.output_tokens_per_minute;
        if !account.output.take(output, most_output, now_ns) {
            account.requests.give_back(1, requests, now_ns);
            account.input.give_back(count, input, now_ns);
            return Err(ledger.refuse(QuotaLimit::Output, most_output));
        }
        let day = limits.tokens_per_day;
        let today = ledger.spend(account, count, 0, now);
        if day > 0 && today > day {
            ledger.spend(account, 0, count, now);
            account.requests.give_back(1, requests, now_ns);
            account.input.give_back(count, input, now_ns);
            account.output.give_back(output, most_output, now_ns);
            return Err(ledger.refuse(QuotaLimit::Day, day));
        }
        ledger.reserved(account, count, output);
        self.booked = count;
        self.booked_day = day::number(now.unix_s);
        self.count = count;
        self.reserved_output = output;
        self.charged_output = output;
        Ok(())
    }

    fn progress(&mut self, observed: &Observed) -> Go {
        self.last = *observed;
        if self.stage != (Stage::Answered { success: true }) {
            return Go::On;
        }
        let output = (observed.relayed_output).max(observed.output.unwrap_or(0));
        let used = (observed.prompt().unwrap_or(self.count)).saturating_add(output);
        let day = self.limits.tokens_per_day;
        let at_a_time = if day > 0 { 1 } else { AT_A_TIME };
        if used.abs_diff(self.booked) < at_a_time {
            return Go::On;
        }
        let now = self.ledger.now();
        if output > self.charged_output {
            let more = output - self.charged_output;
            let limit = self.limits.output_tokens_per_minute;
            self.account.output.charge(more, limit, now.monotonic_ns);
            self.charged_output = output;
        }
        let today = self.book_today(used, now);
        if day > 0 && today > day {
            return Go::Cut(self.ledger.refuse(QuotaLimit::Day, day).into());
        }
        Go::On
    }

    /// All of it is booked now; what today's tokens are then. What was booked of a day that is
    /// over stays that day's: nothing of it is given back today.
    fn book_today(&mut self, used: u64, now: Now) -> u64 {
        let more = used.saturating_sub(self.booked);
        let mut less = self.booked.saturating_sub(used);
        let today = day::number(now.unix_s);
        if std::mem::replace(&mut self.booked_day, today) != today {
            less = 0;
        }
        self.booked = used;
        self.ledger.spend(&self.account, more, less, now)
    }

    fn settle(&mut self, by: By, observed: &Observed) {
        if !self.is_refused {
            let now = self.ledger.now();
            let used = Used::of(self.stage, by, self.count, observed);
            let limits = &self.limits;
            let (input, output) = (
                limits.input_tokens_per_minute,
                limits.output_tokens_per_minute,
            );
            let (account, now_ns) = (&self.account, now.monotonic_ns);
            (account.input).settle(self.count, used.prompt(), input, now_ns);
            (account.output).settle(self.charged_output, used.output, output, now_ns);
            (self.ledger).released(account, self.count, self.reserved_output);
            self.ledger.book(account, &used);
            if used.total() != self.booked {
                self.book_today(used.total(), now);
            }
        }
        self.ledger.left(&self.account);
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        if let Some(mut live) = self.0.take() {
            let last = live.last;
            live.settle(By::Us, &last);
        }
    }
}
