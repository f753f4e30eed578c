//! The hand-made hellos: each comes to what its first lines say, for the scanner and for
//! rustls.

mod common;
#[path = "../../edge-userspace/tests/skip/mod.rs"]
mod skip;

use common::files::{self, Rustls};
use common::generated::fields_of;
use common::{Offer, Oracle, compare, oracle, scan};
use edge_common::client_hello::{ClientHello, MAX_ITEMS, Scanned};
use std::process::Command;

#[test]
fn each_comes_to_what_its_file_says() {
    for fixture in files::handmade() {
        let (scanned, hello) = scan(&fixture.bytes);
        assert_eq!(scanned, fixture.scanned, "{}", fixture.name);
        if matches!(scanned, Scanned::Found | Scanned::Absent) {
            let seen = Offer::seen(scanned, &hello);
            assert_eq!(seen, Offer::of(&fixture.names), "{}", fixture.name);
        }
    }
}

#[test]
fn the_kernel_follows_as_many_items_as_it_says() {
    let mut too_long = 0;
    for fixture in files::handmade() {
        if !matches!(fixture.scanned, Scanned::Found | Scanned::Absent) {
            continue;
        }
        let fields = fields_of(&fixture.bytes);
        let item = |what: &str| matches!(what, "extension" | "ALPN name");
        let items = fields.iter().filter(|field| item(field.what)).count();
        let expected = if items > MAX_ITEMS as usize {
            too_long += 1;
            Scanned::TooLong
        } else {
            fixture.scanned
        };
        let scanned = ClientHello::at_record().advance(&fixture.bytes[..]);
        assert_eq!(scanned, expected, "{}: {items} items", fixture.name);
    }
    assert!(too_long >= 2, "files with more items than are followed");
}

#[test]
fn rustls_reads_refuses_and_waits_as_their_files_say() {
    let mut faults = Vec::new();
    for fixture in files::handmade() {
        let name = &fixture.name;
        match (oracle(&fixture.bytes), fixture.rustls) {
            (Oracle::Names(names), Rustls::Reads) => {
                let whole = matches!(fixture.scanned, Scanned::Found | Scanned::Absent);
                assert!(!whole || names == fixture.names, "{name}: {names:?}");
            }
            (Oracle::Refuses(_), Rustls::Refuses) | (Oracle::Waits, Rustls::Waits) => {}
            (other, expected) => faults.push(format!("{name}: {other:?}, not {expected:?}")),
        }
        compare(&fixture.bytes).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn they_are_what_their_generator_makes() {
    let check = Command::new("python3")
        .arg(files::folder().join("handmade.py"))
        .arg("--check")
        .output();
    let Ok(check) = check else {
        fn here() {}
        skip::skipped(skip::caller(&here), "needs python3");
        return;
    };
    let said = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{said}");
}
