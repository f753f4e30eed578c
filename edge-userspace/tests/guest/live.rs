//! Over a link that loses nothing: each client comes to what it should, at once, and each
//! hello is counted once.

use crate::clients::Offer;
use crate::network::{Link, VETH, can};
use crate::scene::Scene;
use edge_common::policy::{Counter, Reason};

const ROUNDS: usize = 4;

fn check(mode: &'static str, test: &str) {
    if !can(test, &[VETH]) {
        return;
    }
    let scene = Scene {
        mode,
        link: Link::Plain,
        rounds: ROUNDS,
        spoil: |_| {},
    };
    let account = scene.play();
    account.show();
    account.print_figures("live", mode);
    let faults = account.faults();
    assert!(faults.is_empty(), "{faults:#?}");
    let counted = |reason: Reason| account.count(reason.name());
    let verdicts = [Reason::Accepted, Reason::NoToken, Reason::TagWrong].map(counted);
    let offers = [Offer::Good, Offer::Nothing, Offer::Bad];
    assert_eq!(verdicts, offers.map(|offer| account.connections(&[offer])));
    account.assert_each_hello_counts_once();
    let split = account
        .ends
        .iter()
        .filter(|(kind, _)| kind.post_quantum)
        .count() as u64;
    let resumed = account.count(Counter::HellosResumed.name());
    assert_eq!((counted(Reason::HelloBegun), resumed), (split, split));
}

#[test]
fn clients_are_served_and_refused_in_driver_mode() {
    needs_kernel!();
    check(
        "driver",
        "live::clients_are_served_and_refused_in_driver_mode",
    );
}

#[test]
fn clients_are_served_and_refused_in_generic_mode() {
    needs_kernel!();
    check(
        "generic",
        "live::clients_are_served_and_refused_in_generic_mode",
    );
}
