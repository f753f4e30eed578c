//! Over a link that loses, doubles, delays and reorders packets in both directions: no
//! honest client is lost or refused, bad ones are told so or reset, and none of it makes a hello
//! count twice.

use crate::clients::Offer;
use crate::network::{Link, VETH, can, run};
use crate::scene::Scene;
use edge_common::policy::Reason;

/// Of each of the twelve kinds.
const ROUNDS: usize = 25;

/// Every tenth segment meets something, and most overtake another now and then.
fn spoil(device: &str) {
    run(
        "tc",
        &format!(
            "qdisc add dev {device} root netem delay 6ms 4ms loss 3% duplicate 3% reorder 20% 50%"
        ),
    );
}

fn check(mode: &'static str, test: &str) {
    if !can(test, &[VETH, "tc qdisc add dev lo root netem delay 1ms"]) {
        return;
    }
    let scene = Scene {
        mode,
        link: Link::Plain,
        rounds: ROUNDS,
        spoil,
    };
    let account = scene.play();
    account.show();
    account.print_figures("netem", mode);
    assert!(
        account.sent_again > 0,
        "nothing was lost: netem did nothing"
    );
    let faults = account.unserved();
    assert!(faults.is_empty(), "{faults:#?}");
    // Whom the kernel refused it answers again and again. Userspace, where a hello came out of
    // order, says its word for half a second, then resets: that may be lost, seldom all of it.
    let by_userspace = account.connections(&[Offer::Bad]) - account.count(Reason::TagWrong.name());
    let not_denied = account.not_denied();
    assert!(not_denied.len() as u64 <= by_userspace, "{not_denied:#?}");
    let untold = account.untold();
    assert!(untold.len() <= 1, "{untold:#?}");
    account.assert_each_hello_counts_once();
}

#[test]
fn no_honest_client_is_lost_in_driver_mode() {
    needs_kernel!();
    check("driver", "netem::no_honest_client_is_lost_in_driver_mode");
}

#[test]
fn no_honest_client_is_lost_in_generic_mode() {
    needs_kernel!();
    check("generic", "netem::no_honest_client_is_lost_in_generic_mode");
}
