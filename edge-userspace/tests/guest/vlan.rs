//! Clients in a VLAN, their tags in the packets or beside them.

use crate::clients::{End, HANG, Offer};
use crate::network::{Link, VETH, can};
use crate::scene::{Account, Scene};
use std::time::Duration;

const NEEDED: [&str; 2] = [VETH, "ip link add link probe0 name probe0.5 type vlan id 5"];

fn play(mode: &'static str, link: Link, patience: Duration) -> Account {
    let scene = Scene {
        mode,
        link,
        rounds: 1,
        patience,
        spoil: |_| {},
    };
    let account = scene.play();
    account.show();
    account
}

#[test]
fn refused_clients_are_told_in_their_vlan() {
    needs_kernel!();
    if !can("vlan::refused_clients_are_told_in_their_vlan", &NEEDED) {
        return;
    }
    for (mode, link) in [
        ("driver", Link::TagsInside),
        ("generic", Link::TagsInside),
        ("generic", Link::TagsAside),
    ] {
        let account = play(mode, link, HANG);
        let faults = account.faults();
        assert!(faults.is_empty(), "{mode} {link:?}: {faults:#?}");
        account.assert_each_hello_counts_once();
    }
}

/// What the edge cannot do in driver mode it says, with the command that mends it; nobody is
/// served or refused who should not be.
#[test]
fn what_driver_mode_cannot_tell_refused_clients_is_said() {
    needs_kernel!();
    if !can(
        "vlan::what_driver_mode_cannot_tell_refused_clients_is_said",
        &NEEDED,
    ) {
        return;
    }
    // The refused ones wait for nothing.
    let account = play("driver", Link::TagsAside, Duration::from_secs(6));
    let said = &account.notes;
    for part in ["edge0: it takes off the VLAN tags of edge0.5", "txvlan off"] {
        assert!(said.contains(part), "{said}");
    }
    for (kind, end) in &account.ends {
        let is_bad = kind.offer == Offer::Bad;
        assert_eq!(*end == End::Served, !is_bad, "{kind:?}: {end:?}");
    }
    account.assert_each_hello_counts_once();
}
