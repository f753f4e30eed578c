//! The ledger as a whole: whatever becomes of requests, what is reserved comes back.

mod combinations;
mod saved;
mod whole;

use super::{Go, Held, Ledger, Level, Limits, Observed, OfDay, Settlement, Until};
use crate::charges::Now;
use crate::config;
use crate::keys::{Allowance, Edit, KeyRecord, Keyring, Quotas, derive};
use crate::secret::ApiKey;
use crate::telemetry::{Metrics, QuotaLimit, StreamEnd, UsedTokens};
use edge_common::token::KeyId;
use http::StatusCode;
use std::cell::Cell;
use std::sync::Arc;

fn record(name: &str, quotas: Quotas) -> KeyRecord {
    let key = ApiKey::new(name.as_bytes().to_vec());
    KeyRecord {
        id: derive::key_id(&key),
        name: name.into(),
        key_hash: derive::key_hash(&key),
        policy: None,
        not_before_s: 0,
        not_after_s: u64::MAX,
        alpn_only: false,
        rates: Default::default(),
        max_prompt_tokens: None,
        allowance: Allowance {
            quotas,
            models: Box::default(),
        }
        .boxed(),
        revoked: false,
    }
}

/// What a stream holds back.
fn held(input: u64, output: u64) -> Held {
    Held {
        input,
        output,
        whole: 0,
    }
}

struct Books {
    keyring: Arc<Keyring>,
    metrics: Arc<Metrics>,
    ledger: Arc<Ledger>,
    key: KeyRecord,
}

impl Books {
    fn new(quotas: Quotas) -> Self {
        let keyring = Arc::new(Keyring::new(10));
        let key = record("alice", quotas);
        keyring.apply([Edit::Put(key.clone())]);
        let metrics = Arc::new(Metrics::new());
        let config = config::Quotas {
            reserve_output_percent: 10,
            default_max_tokens: 4096,
            reserve_each_choice: true,
            burst_tokens: 1_000_000,
            ..config::Quotas::default()
        };
        Self {
            ledger: Ledger::with_clock(&config, &keyring, &metrics, clock),
            keyring,
            metrics,
            key,
        }
    }

    fn begin(&self) -> Settlement {
        self.ledger.begin(&self.key).unwrap()
    }

    fn id(&self) -> KeyId {
        self.key.id
    }

    fn usage(&self) -> super::KeyUsage {
        self.ledger.usage(self.id()).unwrap()
    }

    fn remaining(&self) -> [u64; 4] {
        let standing = self.ledger.standing(&self.key).unwrap();
        let of = |level: Option<Level>| level.map_or(0, |level| level.remaining);
        [
            of(standing.requests),
            of(standing.input),
            of(standing.output),
            of(standing.tokens()),
        ]
    }

    fn assert_nothing_is_held_back(&self, what: &str) {
        let usage = self.usage();
        let held = [
            usage.running,
            usage.reserved_input,
            usage.reserved_output,
            usage.reserved_today,
        ];
        assert_eq!(held, [0; 4], "{what}: {usage:?}");
        let status = self.ledger.status();
        let held = [
            status.running,
            status.reserved_input,
            status.reserved_output,
        ];
        assert_eq!(held, [0; 3], "{what}: {status:?}");
    }
}

thread_local! {
    /// How far the tests' clock has gone on, seconds. Else it stands, so that no bucket fills.
    static LATER_S: Cell<u64> = const { Cell::new(0) };
}

fn clock() -> Now {
    let later_s = LATER_S.get();
    Now {
        unix_s: 1_800_000_000 + later_s,
        monotonic_ns: (1_000_000 + later_s) * 1_000_000_000,
    }
}

#[test]
fn each_limit_refuses_what_is_over_it_and_charges_nothing() {
    let over = |quotas: Quotas, limit: QuotaLimit, begins: bool, count: u64, output: u64| {
        let books = Books::new(quotas);
        let mut first = books.begin();
        first.reserve(held(60, 60)).unwrap();
        let before = books.remaining();
        let refused = match books.ledger.begin(&books.key) {
            Err(refused) => {
                assert!(!begins, "{limit:?}");
                refused
            }
            Ok(mut second) => {
                assert!(begins, "{limit:?}");
                second.reserve(held(count, output)).unwrap_err()
            }
        };
        assert_eq!(refused.limit, limit);
        assert_eq!(books.metrics.quota_refusals.get(limit), 1);
        assert_eq!(books.remaining(), before, "{limit:?}");
        assert_eq!(
            books.usage().requests,
            0,
            "{limit:?}: none has ended that was let in"
        );
        drop(first);
        books.assert_nothing_is_held_back(limit.name());
    };
    let hundred = Some(100);
    let requests_of = |number| Quotas {
        requests_per_minute: Some(number),
        ..Quotas::default()
    };
    over(requests_of(1), QuotaLimit::Requests, false, 0, 0);
    let input = Quotas {
        input_tokens_per_minute: hundred,
        requests_per_minute: hundred,
        ..Quotas::default()
    };
    over(input, QuotaLimit::Input, true, 41, 0);
    let output = Quotas {
        output_tokens_per_minute: hundred,
        ..input
    };
    over(output, QuotaLimit::Output, true, 1, 41);
    let concurrent = Quotas {
        concurrent_requests: Some(1),
        ..output
    };
    over(concurrent, QuotaLimit::Concurrent, false, 0, 0);
    let day = Quotas {
        tokens_per_day: hundred,
        ..requests_of(100)
    };
    over(day, QuotaLimit::Day, true, 40 + 1, 0);
}

#[test]
fn a_stream_that_passes_the_days_cap_is_cut_and_nothing_follows_it() {
    let books = Books::new(Quotas {
        tokens_per_day: Some(200),
        ..Quotas::default()
    });
    let mut settlement = books.begin();
    settlement.reserve(held(100, 0)).unwrap();
    settlement.sent();
    settlement.answered(StatusCode::OK);
    let mut observed = Observed::default();
    let mut events = 0;
    let error = loop {
        observed.relayed_output += 9;
        events += 1;
        match settlement.progress(&observed) {
            Go::On => assert!(events < 12),
            Go::Cut(error) => break error,
        }
    };
    assert_eq!(events, 12, "100 + 12 x 9 is the first sum over 200");
    assert_eq!(error.status(), 429);
    settlement.end(StreamEnd::Capped, &observed);
    books.assert_nothing_is_held_back("cut");
    assert_eq!(books.usage().tokens_today, 208);
    let refused = books.ledger.begin(&books.key).err().unwrap();
    assert_eq!(refused.limit, QuotaLimit::Day);
    LATER_S.set(86_400);
    drop(books.begin());
    assert_eq!(books.usage().tokens_today, 0, "a new day");
}

#[test]
fn what_was_booked_yesterday_is_not_given_back_today() {
    let books = Books::new(Quotas {
        tokens_per_day: Some(10_000),
        ..Quotas::default()
    });
    let mut over_midnight = books.begin();
    over_midnight.reserve(held(5000, 0)).unwrap();
    over_midnight.sent();
    LATER_S.set(86_400);
    let mut today = books.begin();
    today.reserve(held(500, 0)).unwrap();
    assert_eq!(books.usage().tokens_today, 500);
    over_midnight.failed();
    assert_eq!(books.usage().tokens_today, 500);
    drop(today);
    assert_eq!(books.usage().tokens_today, 0, "it was never sent");
}

#[test]
fn an_answer_beyond_its_reservation_is_charged_as_it_comes() {
    let books = Books::new(Quotas {
        output_tokens_per_minute: Some(1000),
        ..Quotas::default()
    });
    let mut settlement = books.begin();
    settlement.reserve(held(10, 100)).unwrap();
    settlement.sent();
    settlement.answered(StatusCode::OK);
    assert_eq!(books.remaining()[2], 900);
    let observed = Observed {
        relayed_output: 600,
        ..Observed::default()
    };
    assert_eq!(settlement.progress(&observed), Go::On);
    assert_eq!(books.remaining()[2], 400);
    LATER_S.set(30);
    assert_eq!(books.remaining()[2], 900);
    settlement.end(StreamEnd::ClientLeft, &observed);
    assert_eq!(books.remaining()[2], 900);
}

#[test]
fn those_that_ask_for_64_thousand_tokens_are_not_starved() {
    let books = Books::new(Quotas {
        output_tokens_per_minute: Some(80_000),
        ..Quotas::default()
    });
    let each = books.ledger.held(1000, Some(64_000), 1, true);
    let mut running = Vec::new();
    for _ in 0..12 {
        let mut settlement = books.begin();
        settlement.reserve(each).unwrap();
        running.push(settlement);
    }
    let mut one_more = books.begin();
    let refused = one_more.reserve(each).unwrap_err();
    assert_eq!(refused.limit, QuotaLimit::Output);
    // They use few hundred each: then nearly all is there again.
    for mut settlement in running {
        settlement.sent();
        settlement.answered(StatusCode::OK);
        let used = Observed {
            output: Some(300),
            is_finished: true,
            ..Observed::default()
        };
        settlement.end(StreamEnd::Complete, &used);
    }
    assert_eq!(books.remaining()[2], 80_000 - 12 * 300);
    drop(one_more);
    books.assert_nothing_is_held_back("all of them");
}

#[test]
fn a_burst_is_counted_once() {
    let books = Books::new(Quotas::default());
    for _ in 0..3 {
        let mut settlement = books.begin();
        settlement.reserve(held(600_000, 0)).unwrap();
        settlement.sent();
        settlement.answered(StatusCode::OK);
        settlement.end(StreamEnd::Complete, &Observed::default());
    }
    assert_eq!(books.metrics.usage_bursts.get(()), 1);
}

#[test]
fn limits_change_while_requests_run() {
    let books = Books::new(Quotas::default());
    let first = books.begin();
    let changed = config::Quotas {
        limits: Quotas {
            concurrent_requests: Some(1),
            ..Quotas::default()
        },
        ..config::Quotas::default()
    };
    books.ledger.follow(&changed);
    let refused = books.ledger.begin(&books.key).err().unwrap();
    assert_eq!(
        (refused.limit, refused.allowed),
        (QuotaLimit::Concurrent, 1)
    );
    drop(first);
    drop(books.begin());
    assert_eq!(books.ledger.status().limits, Limits::of(&changed));
    let own = record(
        "alice",
        Quotas {
            concurrent_requests: Some(0),
            ..Quotas::default()
        },
    );
    let (_one, _two) = (
        books.ledger.begin(&own).unwrap(),
        books.ledger.begin(&own).unwrap(),
    );
    assert_eq!(books.ledger.standing(&own), None);
}

#[test]
fn an_account_goes_with_its_key_and_stays_when_it_is_revoked() {
    let books = Books::new(Quotas::default());
    let running = books.begin();
    books.keyring.apply([Edit::Revoke(books.id())]);
    assert_eq!(books.usage().running, 1);
    books.keyring.apply([Edit::Remove(books.id())]);
    assert_eq!(books.ledger.usage(books.id()), None);
    drop(running);
    let status = books.ledger.status();
    assert_eq!((status.accounts, status.running), (0, 0));
    // No account is made for a key that is not there.
    drop(books.begin());
    assert_eq!(books.ledger.status().accounts, 0);
}
