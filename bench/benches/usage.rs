//! What the ledger takes of a request and of an event, for a key without limits and for one
//! with all of them, on one thread and when four share one key. `null` looks at the clocks as
//! often as a request does, twice, and keeps no books.
//!
//! Each figure is the least of several rounds that take turns. After the rounds the books are
//! compared with what was done.

use bench::figure;
use edge_common::token::KeyId;
use edge_userspace::charges::Now;
use edge_userspace::config;
use edge_userspace::keys::{Allowance, Edit, KeyRecord, Keyring, Quotas};
use edge_userspace::secret::KeyHash;
use edge_userspace::telemetry::{Metrics, StreamEnd};
use edge_userspace::usage::{Go, Held, Ledger, Observed};
use http::StatusCode;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: u64 = 15;
const REQUESTS: u64 = 20_000;
const EVENTS: u64 = 200_000;
const THREADS: u64 = 4;

fn key(id: u64, quotas: Quotas) -> KeyRecord {
    KeyRecord {
        id: KeyId(id),
        name: "bench".into(),
        key_hash: KeyHash::new([0; 32]),
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

/// One request as the API and the relay take it through.
fn request(ledger: &Arc<Ledger>, key: &KeyRecord) {
    let mut settlement = ledger.begin(key).expect("within its limits");
    let held = Held {
        input: 1000,
        output: 400,
        whole: 0,
    };
    settlement.reserve(held).expect("within its limits");
    settlement.sent();
    settlement.answered(StatusCode::OK);
    settlement.end(StreamEnd::Complete, &observed());
}

fn observed() -> Observed {
    Observed {
        input: Some(990),
        output: Some(300),
        is_finished: true,
        ..Observed::default()
    }
}

/// Nanoseconds for one of `count`.
fn timed(count: u64, work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64 / count as f64
}

fn requests(ledger: &Arc<Ledger>, key: &KeyRecord) -> f64 {
    timed(REQUESTS, || {
        for _ in 0..REQUESTS {
            request(ledger, black_box(key));
        }
    })
}

fn events(ledger: &Arc<Ledger>, key: &KeyRecord) -> f64 {
    let mut settlement = ledger.begin(key).expect("within its limits");
    settlement
        .reserve(Held::default())
        .expect("within its limits");
    settlement.answered(StatusCode::OK);
    let mut seen = Observed::default();
    let each = timed(EVENTS, || {
        for _ in 0..EVENTS {
            seen.relayed_output += 1;
            assert_eq!(settlement.progress(black_box(&seen)), Go::On);
        }
    });
    settlement.end(StreamEnd::ClientLeft, &seen);
    each
}

fn main() {
    let most = Some(Quotas::MOST);
    let (free, limited) = (
        key(1, Quotas::default()),
        key(2, Quotas::of([most, most, most, most, most])),
    );
    let keyring = Arc::new(Keyring::new(10));
    keyring.apply([free.clone(), limited.clone()].map(Edit::Put));
    let config = config::Quotas {
        burst_tokens: u64::MAX,
        ..config::Quotas::default()
    };
    let ledger = Ledger::new(&config, &keyring, &Arc::new(Metrics::new()));
    let mut least = [f64::MAX; 7];
    for _ in 0..ROUNDS {
        let null = timed(REQUESTS, || {
            for _ in 0..2 * REQUESTS {
                black_box(Now::read());
            }
        });
        let shared = timed(THREADS * REQUESTS, || {
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| requests(&ledger, &limited));
                }
            });
        });
        let standing = timed(REQUESTS, || {
            for _ in 0..REQUESTS {
                assert!(black_box(ledger.standing(black_box(&limited))).is_some());
            }
        });
        let round = [
            null,
            requests(&ledger, &free),
            requests(&ledger, &limited),
            shared,
            standing,
            events(&ledger, &free),
            events(&ledger, &limited),
        ];
        for (least, took) in least.iter_mut().zip(round) {
            *least = least.min(took);
        }
    }
    for (id, threads) in [(1, 1), (2, 1 + THREADS)] {
        let usage = ledger.usage(KeyId(id)).expect("an account");
        let requests = ROUNDS * REQUESTS * threads;
        assert_eq!(usage.requests, requests + ROUNDS);
        assert_eq!(usage.input, requests * 990);
        assert_eq!(usage.output, requests * 300 + ROUNDS * EVENTS);
        assert_eq!((usage.reserved_input, usage.running), (0, 0));
    }
    let names = [
        "null",
        "request_free",
        "request_limited",
        "request_limited_four_threads",
        "standing",
        "event_free",
        "event_limited",
    ];
    for (name, least) in names.iter().zip(least) {
        figure(&format!("usage.{name}_ns"), least, "ns");
    }
}
