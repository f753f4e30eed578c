//! One request's part of the ledger, from the moment it is let in until it has ended.

use super::account::{Account, Booked, Fits};
use super::day;
use super::ledger::Ledger;
use super::used::{By, Stage};
use super::{Held, Limits, Observed, OfDay, Refused, Until, Used};
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
    /// Tokens of five minutes beyond which its key has a burst; 0: none is looked for.
    burst: u64,
    stage: Stage,
    /// It is over a limit, so it has not been let in after all.
    is_refused: bool,
    /// What it holds back; its input is the edge's count of its prompt.
    held: Held,
    /// What is charged to the output: what is held back, or more.
    charged_output: u64,
    /// What is booked, and the number of the day of which it is.
    booked: Booked,
    booked_day: u64,
    last: Observed,
}

impl Settlement {
    /// Of a request that takes no tokens.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    pub(super) fn new(
        ledger: Arc<Ledger>,
        account: Arc<Account>,
        limits: Limits,
        burst: u64,
    ) -> Self {
        Self(Some(Box::new(Live {
            ledger,
            account,
            limits,
            burst,
            stage: Stage::Here,
            is_refused: false,
            held: Held::default(),
            charged_output: 0,
            booked: Booked::default(),
            booked_day: 0,
            last: Observed::default(),
        })))
    }

    /// Holds back the prompt's count and what may come of its answer. Once a request.
    ///
    /// # Errors
    /// Which limit it is over. Then nothing is charged, not the request itself either.
    pub fn reserve(&mut self, held: Held) -> Result<(), Refused> {
        let Some(live) = &mut self.0 else {
            return Ok(());
        };
        let outcome = live.reserve(held);
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
    fn reserve(&mut self, mut held: Held) -> Result<(), Refused> {
        let now = self.ledger.now();
        let Self {
            ledger,
            account,
            limits,
            burst,
            ..
        } = self;
        let Held { input: count, .. } = held;
        let now_ns = now.monotonic_ns;
        let (requests, input) = (limits.requests_per_minute, limits.input_tokens_per_minute);
        if let Err(until) = account.input.take(count, input, now_ns) {
            account.requests.give_back(1, requests, now_ns);
            return Err(ledger.refuse(account, QuotaLimit::Input, input, until));
        }
        let most_output = limits.output_tokens_per_minute;
        if let Err(until) = account.output.take(held.output, most_output, now_ns) {
            account.requests.give_back(1, requests, now_ns);
            account.input.give_back(count, input, now_ns);
            return Err(ledger.refuse(account, QuotaLimit::Output, most_output, until));
        }
        let day = limits.tokens_per_day;
        if day == 0 {
            // A client may ask for any number; what is held back never is more than a day.
            held.whole = 0;
        }
        let fits = ledger.take_of_day(account, held, day, *burst, now);
        if let Some(until) = until(fits, held, day, now) {
            account.requests.give_back(1, requests, now_ns);
            account.input.give_back(count, input, now_ns);
            account.output.give_back(held.output, most_output, now_ns);
            return Err(ledger.refuse(account, QuotaLimit::Day, day, until));
        }
        ledger.reserved(account, count, held.output);
        self.booked.input = count;
        self.booked_day = day::number(now.unix_s);
        self.held = held;
        self.charged_output = held.output;
        Ok(())
    }

    fn progress(&mut self, observed: &Observed) -> Go {
        self.last = *observed;
        if self.stage != (Stage::Answered { success: true }) {
            return Go::On;
        }
        let output = (observed.relayed_output).max(observed.output.unwrap_or(0));
        let used = Booked {
            input: observed.prompt().unwrap_or(self.held.input),
            output,
        };
        let day = self.limits.tokens_per_day;
        let at_a_time = if day > 0 { 1 } else { AT_A_TIME };
        if used.total().abs_diff(self.booked.total()) < at_a_time {
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
            let until = Until::NextDay {
                needs: OfDay::default(),
                left: 0,
                after: day::left(now.unix_s),
            };
            let refused = self
                .ledger
                .refuse(&self.account, QuotaLimit::Day, day, until);
            return Go::Cut(refused.into());
        }
        Go::On
    }

    /// All of it is booked now; what today's tokens are then. What was booked of a day that is
    /// over stays that day's: nothing of it is given back today.
    fn book_today(&mut self, used: Booked, now: Now) -> u64 {
        let (before, after) = (self.booked.total(), used.total());
        let more = after.saturating_sub(before);
        let mut less = before.saturating_sub(after);
        let today = day::number(now.unix_s);
        if std::mem::replace(&mut self.booked_day, today) != today {
            less = 0;
        }
        self.account.rebook_running(self.booked, used);
        self.booked = used;
        self.ledger
            .spend(&self.account, more, less, self.burst, now)
    }

    fn settle(&mut self, by: By, observed: &Observed) {
        if !self.is_refused {
            let now = self.ledger.now();
            let used = Used::of(self.stage, by, self.held.input, observed);
            let limits = &self.limits;
            let (input, output) = (
                limits.input_tokens_per_minute,
                limits.output_tokens_per_minute,
            );
            let (account, now_ns) = (&self.account, now.monotonic_ns);
            (account.input).settle(self.held.input, used.prompt(), input, now_ns);
            (account.output).settle(self.charged_output, used.output, output, now_ns);
            (self.ledger).released(account, self.held.input, self.held.output);
            let in_books = Booked {
                input: used.prompt(),
                output: used.output,
            };
            if in_books != self.booked {
                self.book_today(in_books, now);
            }
            // Not before it is booked: what is free of the day is never more than there is.
            self.account.release(self.held.whole, self.booked);
            self.ledger.book(&self.account, &used);
        }
        self.ledger.left(&self.account);
    }
}

/// Until when a day that has not enough refuses; none: it has.
fn until(fits: Fits, held: Held, limit: u64, now: Now) -> Option<Until> {
    let needs = OfDay {
        prompt: held.input,
        answer: held.whole,
    };
    match fits {
        Fits::Now => None,
        Fits::WithoutOthers => Some(Until::OthersEnd),
        Fits::NotToday { .. } if needs.sum() > limit => Some(Until::Never(needs)),
        Fits::NotToday { left } => Some(Until::NextDay {
            needs,
            left,
            after: day::left(now.unix_s),
        }),
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
