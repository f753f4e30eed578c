//! Clients in a VLAN, their tags in the packets or beside them.

use crate::clients::Offer;
use crate::network::{Link, VETH, can};
use crate::scene::{Account, Scene};
use edge_common::policy::Reason;

const NEEDED: [&str; 2] = [VETH, "ip link add link probe0 name probe0.5 type vlan id 5"];

fn play(mode: &'static str, link: Link) -> Account {
    let scene = Scene {
        mode,
        link,
        rounds: 1,
        spoil: |_| {},
    };
    let account = scene.play();
    account.show();
    let faults = account.faults();
    assert!(faults.is_empty(), "{mode} {link:?}: {faults:#?}");
    account.assert_each_hello_counts_once();
    account
}

#[test]
fn refused_clients_are_told_in_their_vlan() {
    needs_kernel!();
    if !can("vlan::refused_clients_are_told_in_their_vlan", &NEEDED) {
        return;
    }
    for link in [Link::TagsInside, Link::TagsAside] {
        let account = play("generic", link);
        let bad = account.connections(&[Offer::Bad]);
        assert_eq!(account.count(Reason::TagWrong.name()), bad, "{link:?}");
    }
}

/// A veth does not tell where its peer puts the tags, so both are taken for kept aside.
#[test]
fn what_driver_mode_cannot_answer_in_a_vlan_the_daemon_refuses_and_the_status_says_so() {
    needs_kernel!();
    if !can(
        "vlan::what_driver_mode_cannot_answer_in_a_vlan_the_daemon_refuses_and_the_status_says_so",
        &NEEDED,
    ) {
        return;
    }
    for link in [Link::TagsInside, Link::TagsAside] {
        let account = play("driver", link);
        let said = &account.notes;
        for part in ["edge0: it takes off the VLAN tags of edge0.5", "txvlan off"] {
            assert!(said.contains(part), "{said}");
        }
        let bad = account.connections(&[Offer::Bad]);
        assert_eq!(account.count(Reason::TagStripped.name()), bad, "{link:?}");
    }
}
