//! What a ClientHello costs in userspace: the scan alone, and scan and judge against 100,000
//! keys. `hello.scan_ns` is the scan of rustls' hello with a token, `hello.scan_pq_ns` the
//! same with a post-quantum key share.
//!
//! Beside each: `null` touches the first byte; `accept_all` and `drop_all` look at nothing;
//! `memmem` looks for the token's prefix in the whole hello, the trivial way to tell the
//! lanes apart (it knows no key, no time, no ALPN, and takes any five bytes for a token).

use bench::{KEY_ID, MAC_KEY, NOW_S, captured_hello, figure, median, replaced};
use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use edge_common::client_hello::{ClientHello, Scanned};
use edge_common::policy::{KeyPolicy, Reason, Verdict, Window, judge};
use edge_common::token::{KeyId, PREFIX};
use edge_userspace::keys::{Edit, KeyRecord, Keyring, Snapshot};
use edge_userspace::secret::KeyHash;
use std::hint::black_box;
use std::time::{Duration, Instant};

const WINDOW: Window = Window {
    back_s: 30,
    ahead_s: 5,
};
const KEYS: u64 = 100_000;

struct Case {
    name: &'static str,
    hello: Vec<u8>,
    reason: Reason,
}

fn cases() -> Vec<Case> {
    let captured = |name, file, reason| Case {
        name,
        hello: captured_hello(file),
        reason,
    };
    let classic = captured_hello("rustls-classic-token");
    let changed = |name, old: &[u8], new: &[u8], reason| Case {
        name,
        hello: replaced(&classic, old, new),
        reason,
    };
    vec![
        captured("rustls_token", "rustls-classic-token", Reason::Accepted),
        captured(
            "rustls_post_quantum_token",
            "rustls-post-quantum-token",
            Reason::Accepted,
        ),
        captured("openssl_token", "openssl-token", Reason::Accepted),
        captured("go_token", "go-token", Reason::Accepted),
        captured("rustls_plain", "rustls-classic-plain", Reason::NoToken),
        captured("python_plain", "python-plain", Reason::NoToken),
        captured("chromium_plain", "chromium-plain", Reason::NoToken),
        changed("unknown_key", b"16c90ee8", b"26c90ee8", Reason::KeyUnknown),
        changed("wrong_tag", b"6928a260", b"6928a261", Reason::TagWrong),
        changed(
            "malformed_token",
            b"6928a260",
            b"6928a26x",
            Reason::TokenMalformed,
        ),
    ]
}

fn keys() -> Snapshot {
    let ring = Keyring::new(KEYS as u32);
    let ids = (1..KEYS).map(|n| KeyId(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let good = KeyId::from_hex(KEY_ID).expect("sixteen digits");
    ring.apply(ids.chain([good]).map(|id| {
        Edit::Put(KeyRecord {
            id,
            name: "bench".into(),
            key_hash: KeyHash::new([0; 32]),
            policy: Some(KeyPolicy {
                mac_key: MAC_KEY,
                not_before_s: 0,
                not_after_s: u64::MAX,
                flags: 0,
                ..KeyPolicy::UNLIMITED
            }),
            not_before_s: 0,
            not_after_s: u64::MAX,
            alpn_only: false,
            rates: Default::default(),
            max_prompt_tokens: None,
            allowance: None,
            revoked: false,
        })
    }));
    Snapshot::clone(&ring.snapshot())
}

fn scan_and_judge(hello: &[u8], keys: &Snapshot) -> Reason {
    let mut scan = ClientHello::at_record();
    let scanned = scan.advance(hello);
    judge(&scan, scanned, keys, NOW_S, WINDOW)
}

fn scan(hello: &[u8]) -> Scanned {
    let mut scan = ClientHello::at_record();
    let scanned = scan.advance(hello);
    // The token is part of the answer.
    black_box(&scan);
    scanned
}

/// Times `work`, whose answer must be `expected` every time; returns the median, ns.
fn time<T: PartialEq + std::fmt::Debug + Copy>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    hello: &[u8],
    expected: T,
    work: impl Fn(&[u8]) -> T,
) -> Option<f64> {
    let mut samples: Vec<(u64, Duration)> = Vec::new();
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            let began = Instant::now();
            for _ in 0..times {
                assert_eq!(work(black_box(hello)), expected);
            }
            let took = began.elapsed();
            samples.push((times, took));
            took
        });
    });
    // The warm-up's short runs are left out.
    let longest = samples.iter().map(|(times, _)| *times).max()?;
    let long = samples.iter().filter(|(times, _)| times * 10 >= longest);
    let each = long.map(|(times, took)| took.as_nanos() as f64 / *times as f64);
    Some(median(each.collect()))
}

fn main() {
    let mut criterion = Criterion::default()
        .configure_from_args()
        .without_plots()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    let keys = keys();
    let mut figures = Vec::new();
    for case in cases() {
        let Case {
            name,
            hello,
            reason,
        } = case;
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1));
        let offers = reason != Reason::NoToken;
        let first = hello[0];
        let null = time(&mut group, "null", &hello, first, |hello| hello[0]);
        let all = |verdict| move |_: &[u8]| black_box(verdict);
        let accept_all = time(
            &mut group,
            "accept_all",
            &hello,
            Verdict::Accept,
            all(Verdict::Accept),
        );
        let drop_all = time(
            &mut group,
            "drop_all",
            &hello,
            Verdict::Reject,
            all(Verdict::Reject),
        );
        let finder = memchr::memmem::Finder::new(PREFIX);
        let memmem = time(&mut group, "memmem", &hello, offers, |hello| {
            finder.find(hello).is_some()
        });
        let expected = if offers {
            Scanned::Found
        } else {
            Scanned::Absent
        };
        let scanned = time(&mut group, "scan", &hello, expected, scan);
        let judged = time(&mut group, "scan_and_judge", &hello, reason, |hello| {
            scan_and_judge(hello, &keys)
        });
        group.finish();
        figures.push((
            name,
            hello.len(),
            [null, accept_all, drop_all, memmem, scanned, judged],
        ));
    }
    criterion.final_summary();
    println!("{KEYS} keys; the answer is asserted in every turn");
    for (name, bytes, times) in figures {
        let [
            Some(null),
            Some(accept_all),
            Some(drop_all),
            Some(memmem),
            Some(scanned),
            Some(judged),
        ] = times
        else {
            // Left out by the filter, or criterion only listed or tested.
            continue;
        };
        figure(&format!("hello.{name}.bytes"), bytes as f64, "B");
        figure(&format!("hello.{name}.null"), null, "ns");
        figure(&format!("hello.{name}.accept_all"), accept_all, "ns");
        figure(&format!("hello.{name}.drop_all"), drop_all, "ns");
        figure(&format!("hello.{name}.memmem"), memmem, "ns");
        figure(&format!("hello.{name}.scan"), scanned, "ns");
        figure(&format!("hello.{name}.scan_and_judge"), judged, "ns");
        figure(&format!("hello.{name}.over_memmem"), judged / memmem, "x");
        let short = match name {
            "rustls_token" => "scan",
            "rustls_post_quantum_token" => "scan_pq",
            _ => continue,
        };
        figure(&format!("hello.{short}_ns"), scanned, "ns");
        // A byte a nanosecond is a gigabyte a second.
        let rate = bytes as f64 / scanned;
        figure(&format!("hello.{short}_gb_per_s"), rate, "GB/s");
    }
}
