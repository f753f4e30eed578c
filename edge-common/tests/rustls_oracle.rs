//! Differential: what the scanner reads is what rustls's own server side reads, in fresh
//! hellos of rustls (which shuffles its extensions), in generated ones, and in damaged ones.
//!
//! `EDGE_HELLOS=5000000 EDGE_SEED=7 cargo test -p edge-common --test rustls_oracle` runs
//! more of them, and others.

mod common;

use common::generated::{Random, Stream, pieces};
use common::rustls_client::{self, Kind};
use common::{Offer, Oracle, TOKEN, compare, files, oracle, scan, scan_segments};
use edge_common::client_hello::Scanned;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

#[test]
fn generated_and_damaged_hellos() {
    let (cases, seed) = (number("EDGE_HELLOS", 100_000), number("EDGE_SEED", 1));
    let whole =
        |fixture: &files::Fixture| matches!(fixture.scanned, Scanned::Found | Scanned::Absent);
    let files = files::all().into_iter().filter(whole).map(|f| f.bytes);
    let mut stream = Stream::new(seed, files);
    let mut seen = BTreeMap::<_, u64>::new();
    let mut read = 0;
    for case in 0..cases {
        let bytes = stream.next().unwrap();
        let what = || format!("EDGE_SEED={seed}, case {case}: {}", hex::encode(&bytes));
        let scanned = compare(&bytes).unwrap_or_else(|why| panic!("{}: {why}", what()));
        read += u64::from(matches!(oracle(&bytes), Oracle::Names(_)));
        *seen.entry(format!("{scanned:?}")).or_default() += 1;

        let (_, whole) = scan(&bytes);
        for count in [1, 2] {
            let cuts = stream.random.cuts(bytes.len(), count);
            let (in_pieces, hello) = scan_segments(pieces(&bytes, &cuts));
            let same = Offer::seen(in_pieces, &hello) == Offer::seen(scanned, &whole);
            assert!(
                same,
                "{in_pieces:?}, whole {scanned:?}, at {cuts:?}, {}",
                what()
            );
        }
        // What a part is called, the whole is.
        let part = &bytes[..stream.random.below(bytes.len() + 1)];
        let (of_part, _) = scan(part);
        let final_ = of_part == Scanned::Incomplete || of_part == scanned;
        assert!(final_, "{of_part:?} up to {}, {}", part.len(), what());
    }
    println!("seed {seed}: {seen:?}; rustls reads {read} of {cases}");
    // Damage that broke everything, or nothing, would prove little.
    for (what, at_least) in [
        ("Found", 10),
        ("Absent", 20),
        ("Malformed", 20),
        ("RecordFragmented", 100),
        ("NotTls", 200),
        ("Incomplete", 200),
    ] {
        let count = seen.get(what).copied().unwrap_or_default();
        assert!(count > cases / at_least, "{what}: {count} of {cases}");
    }
    assert!(read > cases / 3, "rustls reads {read} of {cases}");
}

#[test]
fn the_same_seed_makes_the_same_hellos() {
    let of = |seed| Stream::new(seed, []).take(50).collect::<Vec<_>>();
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
    let mut random = Random(3);
    assert!((0..100).all(|_| random.below(7) < 7));
}

/// Names of every sort: plain, tokens, near misses.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let near = |text: &str| Just(text.as_bytes().to_vec());
    prop_oneof![
        3 => near("h2"),
        2 => near("http/1.1"),
        3 => near(TOKEN),
        1 => near("acme-tls/1"),
        1 => near("acme-tls/2"),
        1 => near("ezl1-"),
        1 => near("ezl1"),
        1 => near("ezl2-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260"),
        1 => near("EZL1-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260"),
        1 => near("ezl1-16C90EE8F37EA61F6B49D2000001020304050607FAEE5D056928A260"),
        1 => "ezl1-[0-9a-f]{56}".prop_map(String::into_bytes),
        1 => "ezl1-[0-9a-f]{0,80}".prop_map(String::into_bytes),
        2 => proptest::collection::vec(any::<u8>(), 1..=255),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    // Those with a handshake before them are dear, and differ little.
    prop_oneof![
        8 => Just(Kind::Classic),
        4 => Just(Kind::PostQuantum),
        4 => Just(Kind::Tls12),
        4 => Just(Kind::EchGrease),
        1 => Just(Kind::Resumption),
        1 => Just(Kind::EarlyData),
        1 => Just(Kind::Retry),
    ]
}

proptest! {
    // The default number of cases; PROPTEST_CASES sets another.
    #[test]
    fn reads_what_was_offered(
        kind in kind(),
        names in proptest::collection::vec(name(), 0..12),
        splits in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let list: Vec<_> = names.iter().map(Vec::as_slice).collect();
        // A server that knows `h2` alone ends a handshake with one that does not offer it.
        let needs_h2 = matches!(kind, Kind::Resumption | Kind::EarlyData);
        prop_assume!(!needs_h2 || names.is_empty() || list.contains(&b"h2".as_slice()));
        let bytes = rustls_client::hello(kind, &list);

        match oracle(&bytes) {
            Oracle::Names(seen) => prop_assert_eq!(&seen, &names),
            other => prop_assert!(false, "rustls cannot read itself: {:?}", other),
        }
        let offer = Offer::of(&names);
        let (scanned, hello) = scan(&bytes);
        prop_assert_eq!(&Offer::seen(scanned, &hello), &offer);

        let mut at: Vec<_> = splits.iter().map(|split| split.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        at.push(bytes.len());
        let mut begin = 0;
        let segments = at.iter().map(|end| &bytes[std::mem::replace(&mut begin, *end)..*end]);
        let (scanned, hello) = scan_segments(segments);
        prop_assert_eq!(Offer::seen(scanned, &hello), offer);
    }
}
