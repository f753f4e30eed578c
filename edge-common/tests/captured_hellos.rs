//! The hellos of real clients: what the scanner reads in them is what they were told to
//! offer and what rustls reads, whole and in pieces.

mod common;

use common::{Offer, Oracle, TOKEN, fixtures, oracle, scan, scan_segments};
use edge_common::client_hello::{ClientHello, Scanned};

#[test]
fn each_offers_what_its_maker_was_told_to_offer() {
    for fixture in fixtures() {
        let (scanned, hello) = scan(&fixture.bytes);
        let offer = Offer::of(&fixture.names);
        assert_eq!(Offer::seen(scanned, &hello), offer, "{}", fixture.name);
        let token = fixture.names.iter().any(|name| name == TOKEN.as_bytes());
        assert_eq!(fixture.name.ends_with("-token"), token, "{}", fixture.name);
        assert_eq!(hello.token().is_some(), token, "{}", fixture.name);
        // No need of more items than the kernel follows.
        let kernel = ClientHello::at_record().advance(&fixture.bytes[..]);
        assert_eq!(kernel, offer.scanned, "{}", fixture.name);
    }
}

#[test]
fn rustls_reads_the_same_names() {
    for fixture in fixtures() {
        match oracle(&fixture.bytes) {
            Oracle::Names(names) => {
                // Chromium and its imitators put a GREASE name or none before the others.
                assert_eq!(names, fixture.names, "{}", fixture.name);
            }
            other => panic!("{}: {other:?}", fixture.name),
        }
    }
}

#[test]
fn the_same_without_its_record() {
    for fixture in fixtures() {
        let mut hello = ClientHello::at_handshake();
        let scanned = hello.advance(&fixture.hello()[5..]);
        assert_eq!(
            Offer::seen(scanned, &hello),
            Offer::of(&fixture.names),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn no_prefix_gives_a_verdict() {
    for fixture in fixtures() {
        let whole = fixture.hello();
        for length in 0..whole.len() {
            let (scanned, _) = scan(&whole[..length]);
            assert_eq!(
                scanned,
                Scanned::Incomplete,
                "{} up to {length}",
                fixture.name
            );
        }
    }
}

#[test]
fn what_follows_the_hello_changes_nothing() {
    for fixture in fixtures() {
        let offer = Offer::of(&fixture.names);
        for tail in [
            &[0][..],
            &[22, 3, 1, 0, 4, 1, 0],
            &[20, 3, 3, 0, 1, 1, 23, 3, 3],
            &[255; 3000],
        ] {
            let bytes = [fixture.hello(), tail].concat();
            let (scanned, hello) = scan(&bytes);
            assert_eq!(Offer::seen(scanned, &hello), offer, "{}", fixture.name);
        }
    }
}

#[test]
fn two_segments_are_as_good_as_one() {
    for fixture in fixtures() {
        let offer = Offer::of(&fixture.names);
        for split in 0..=fixture.bytes.len() {
            let (first, second) = fixture.bytes.split_at(split);
            let (scanned, hello) = scan_segments([first, second]);
            assert_eq!(
                Offer::seen(scanned, &hello),
                offer,
                "{} at {split}",
                fixture.name
            );
        }
    }
}

#[test]
fn three_segments_are_as_good_as_one() {
    for fixture in fixtures() {
        let offer = Offer::of(&fixture.names);
        let length = fixture.bytes.len();
        // A prime step, so that the grid is not in tune with any field's length; about
        // 2,000 pairs a fixture.
        let step = (length / 61).max(1) | 1;
        for first in (0..length).step_by(step) {
            for second in (first..=length).step_by(step) {
                let bytes = &fixture.bytes;
                let segments = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let (scanned, hello) = scan_segments(segments);
                let seen = Offer::seen(scanned, &hello);
                assert_eq!(seen, offer, "{} at {first}, {second}", fixture.name);
            }
        }
    }
}

#[test]
fn any_size_of_segment_will_do() {
    for fixture in fixtures() {
        let offer = Offer::of(&fixture.names);
        for size in 1..=130 {
            let (scanned, hello) = scan_segments(fixture.bytes.chunks(size));
            assert_eq!(
                Offer::seen(scanned, &hello),
                offer,
                "{} by {size}",
                fixture.name
            );
            // Nor may small segments use up what the kernel follows in one go.
            let mut hello = ClientHello::at_record();
            let mut kept = Vec::new();
            for segment in fixture.bytes.chunks(size) {
                kept.extend_from_slice(segment);
                let scanned = hello.advance(&kept[..]);
                assert_ne!(scanned, Scanned::TooLong, "{} by {size}", fixture.name);
                kept.drain(..hello.consume(kept.len() as u32) as usize);
            }
        }
    }
}

#[test]
fn a_scan_begun_anew_remembers_nothing() {
    let fixtures = fixtures();
    for before in &fixtures {
        let mut hello = ClientHello::at_record();
        hello.advance(&before.bytes[..]);
        for after in &fixtures {
            hello.restart(&after.bytes[..]);
            let scanned = hello.advance(&after.bytes[..]);
            let offer = Offer::of(&after.names);
            let seen = Offer::seen(scanned, &hello);
            assert_eq!(seen, offer, "{} after {}", after.name, before.name);
        }
    }
}
