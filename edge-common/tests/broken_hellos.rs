//! Broken and hostile hellos: no panic, no endless walk, and never a verdict that rustls
//! would not share. Whatever the scanner calls whole, rustls reads alike or refuses for a
//! part that the scanner does not look into; whatever it calls malformed, rustls refuses.
//! Random damage to hellos is in `rustls_oracle.rs`.

mod common;

use common::made::{self, Hello, length_fields};
use common::{Oracle, TOKEN, compare, files, oracle, scan};
use edge_common::client_hello::Scanned;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[test]
fn every_length_field_at_its_edges() {
    let mut reached = [0u32; 4];
    for fixture in files::captured() {
        let good = fixture.hello();
        for field in length_fields(good) {
            let value = field.value(good);
            let values = [
                0,
                1,
                value.wrapping_sub(1),
                value + 1,
                field.max() - 1,
                field.max(),
            ];
            for changed in values
                .into_iter()
                .filter(|v| *v != value && *v <= field.max())
            {
                let mut bytes = good.to_vec();
                field.set(&mut bytes, changed);
                let what = || {
                    format!(
                        "{}: {} at {} := {changed}",
                        fixture.name, field.what, field.at
                    )
                };
                let scanned = compare(&bytes);
                let scanned = scanned.unwrap_or_else(|why| panic!("{}: {why}", what()));
                // And with bytes behind, so that a field that grew finds some.
                bytes.extend([0x5a; 300]);
                let longer = compare(&bytes);
                longer.unwrap_or_else(|why| panic!("{}, longer: {why}", what()));
                reached[match scanned {
                    Scanned::Found | Scanned::Absent => 0,
                    Scanned::Malformed => 1,
                    Scanned::RecordFragmented => 2,
                    Scanned::NotTls => 3,
                    other => panic!("{}: {other:?}", what()),
                }] += 1;
            }
        }
    }
    println!("whole, malformed, fragmented, not TLS: {reached:?}");
    assert!(reached.iter().all(|count| *count > 0), "{reached:?}");
}

#[test]
fn random_bytes() {
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::default()
    });
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let outcome = runner.run(&bytes, |mut bytes| {
        scan(&bytes);
        // And with a header that makes the scanner go on.
        let rest = bytes.len();
        bytes.splice(0..0, [22, 3, 1, 0, (rest + 4) as u8, 1, 0, 0, rest as u8]);
        compare(&bytes).map(drop).map_err(TestCaseError::fail)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_hello_that_contradicts_itself() {
    let good = Hello::offering(&[b"h2", TOKEN.as_bytes()]);
    assert_eq!(compare(&good.record()), Ok(Scanned::Found));
    assert!(matches!(oracle(&good.record()), Oracle::Names(_)));

    let case = |what: &str, change: fn(&mut Hello)| {
        let mut hello = good.clone();
        change(&mut hello);
        let scanned = compare(&hello.record());
        assert_eq!(scanned, Ok(Scanned::Malformed), "{what}");
    };
    case("ALPN twice", |hello| {
        hello.add(16, made::alpn(&[b"h2"]));
    });
    case("a list of no names", |hello| {
        set_alpn(hello, vec![0, 0]);
    });
    case("an empty name", |hello| {
        set_alpn(hello, made::alpn(&[b"h2", b"", TOKEN.as_bytes()]));
    });
    case("a list shorter than its extension", |hello| {
        set_alpn(hello, vec![0, 3, 2, b'h', b'2', 0]);
    });
    case("a list longer than its extension", |hello| {
        set_alpn(hello, vec![0, 4, 2, b'h', b'2']);
    });
    case("an ALPN extension of one byte", |hello| {
        set_alpn(hello, vec![0]);
    });
    case("an empty ALPN extension", |hello| {
        set_alpn(hello, vec![]);
    });
    case("a name longer than its list", |hello| {
        set_alpn(hello, vec![0, 3, 3, b'h', b'2']);
    });
    case("no cipher suites", |hello| {
        hello.ciphers.clear();
    });
    case("no compression methods", |hello| {
        hello.compression.clear();
    });
    case("a session id of 33 bytes", |hello| {
        hello.session_id.push(5);
    });
    case("a session id of 255 bytes", |hello| {
        hello.session_id.resize(255, 5);
    });

    let mut two = made::record(&[good.message(), vec![0, 0, 0, 0]].concat());
    assert_eq!(
        compare(&two),
        Ok(Scanned::Malformed),
        "two messages, one record"
    );
    two.truncate(two.len() - 1);
    assert_eq!(compare(&two), Ok(Scanned::Malformed), "the same, cut");
}

fn set_alpn(hello: &mut Hello, body: Vec<u8>) {
    hello.extensions.as_mut().unwrap().last_mut().unwrap().1 = body;
}

#[test]
fn what_is_no_hello() {
    let good = Hello::offering(&[b"h2"]).record();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    for content_type in (0..=255).filter(|t| *t != 22) {
        assert_eq!(
            scan(&with(0, content_type)).0,
            Scanned::NotTls,
            "type {content_type}"
        );
    }
    for major in (0..=255).filter(|v| *v != 3) {
        assert_eq!(scan(&with(1, major)).0, Scanned::NotTls, "version {major}");
    }
    for message in (0..=255).filter(|m| *m != 1) {
        assert_eq!(
            scan(&with(5, message)).0,
            Scanned::NotTls,
            "message {message}"
        );
    }
    for text in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"PRI * HTTP/2.0\r\n",
        b"SSH-2.0-x\r\n",
        &[0x80, 46, 1, 3, 1],
    ] {
        assert_eq!(scan(text).0, Scanned::NotTls);
    }
    // An empty record, and one that is longer than a record may be.
    assert_eq!(scan(&[22, 3, 1, 0, 0, 1, 0, 0, 0]).0, Scanned::NotTls);
    assert_eq!(scan(&[22, 3, 1, 0x40, 1, 1, 0, 0, 0]).0, Scanned::NotTls);
    // The first byte, or two, may be enough.
    assert_eq!(scan(&[23]).0, Scanned::NotTls);
    assert_eq!(scan(&[22, 2]).0, Scanned::NotTls);
    assert_eq!(scan(&[22]).0, Scanned::Incomplete);
    assert_eq!(scan(&[]).0, Scanned::Incomplete);
}

#[test]
fn a_hello_in_several_records() {
    let message = Hello::offering(&[b"h2", TOKEN.as_bytes()]).message();
    for cut in 1..message.len() {
        let (first, second) = message.split_at(cut);
        let bytes = [made::record(first), made::record(second)].concat();
        assert_eq!(scan(&bytes).0, Scanned::RecordFragmented, "cut at {cut}");
        // Which is allowed: rustls reads it.
        assert!(matches!(oracle(&bytes), Oracle::Names(_)), "cut at {cut}");
    }
    assert_eq!(compare(&made::record(&message)), Ok(Scanned::Found));
}
