//! The hellos of real clients: what the scanner reads in them is what they were told to
//! offer and what rustls reads. They, and those made by hand, come to the same whole and in
//! pieces.

mod common;

use common::generated::{Random, pieces};
use common::{Offer, Oracle, TOKEN, files, oracle, scan, scan_segments};
use edge_common::client_hello::{ClientHello, Scanned};

#[test]
fn each_offers_what_its_maker_was_told_to_offer() {
    for fixture in files::captured() {
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
    for fixture in files::captured() {
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
    for fixture in files::captured() {
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
    for fixture in files::all() {
        let (whole, _) = scan(&fixture.bytes);
        let end = match whole {
            Scanned::Found | Scanned::Absent => fixture.hello().len(),
            _ => fixture.bytes.len(),
        };
        for length in 0..end {
            let (scanned, _) = scan(&fixture.bytes[..length]);
            // What is wrong with a hello may show before its end; what it offers may not.
            let wrong = !matches!(whole, Scanned::Found | Scanned::Absent) && scanned == whole;
            assert!(
                scanned == Scanned::Incomplete || wrong,
                "{} up to {length}: {scanned:?}",
                fixture.name
            );
        }
    }
}

#[test]
fn what_follows_the_hello_changes_nothing() {
    for fixture in files::captured() {
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

/// What a scan of the whole shows, held against what the file says.
fn whole(fixture: &files::Fixture) -> Offer {
    let (scanned, hello) = scan(&fixture.bytes);
    assert_eq!(scanned, fixture.scanned, "{}", fixture.name);
    Offer::seen(scanned, &hello)
}

#[test]
fn two_segments_are_as_good_as_one() {
    for fixture in files::all() {
        let whole = whole(&fixture);
        for split in 0..=fixture.bytes.len() {
            let (first, second) = fixture.bytes.split_at(split);
            let (scanned, hello) = scan_segments([first, second]);
            assert_eq!(
                Offer::seen(scanned, &hello),
                whole,
                "{} at {split}",
                fixture.name
            );
        }
    }
}

#[test]
fn three_segments_are_as_good_as_one() {
    let mut random = Random(3);
    for fixture in files::all() {
        let whole = whole(&fixture);
        for _ in 0..2000 {
            let cuts = random.cuts(fixture.bytes.len(), 2);
            let (scanned, hello) = scan_segments(pieces(&fixture.bytes, &cuts));
            let seen = Offer::seen(scanned, &hello);
            assert_eq!(seen, whole, "{} at {cuts:?}", fixture.name);
        }
    }
}

#[test]
fn any_size_of_segment_will_do() {
    for fixture in files::all() {
        let whole = whole(&fixture);
        for size in 1..=130 {
            let (scanned, hello) = scan_segments(fixture.bytes.chunks(size));
            let seen = Offer::seen(scanned, &hello);
            assert_eq!(seen, whole, "{} by {size}", fixture.name);
        }
    }
}

#[test]
fn small_segments_use_up_no_items() {
    for fixture in files::captured() {
        for size in 1..=130 {
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
    let fixtures = files::captured();
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
