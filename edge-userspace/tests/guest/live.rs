//! Over a link that loses nothing: each client comes to what it should, at once, and each
//! hello is counted once.

use crate::scene::Scene;

const ROUNDS: usize = 4;

fn check(mode: &'static str) {
    let scene = Scene {
        mode,
        rounds: ROUNDS,
        spoil: |_| {},
    };
    let account = scene.play();
    account.print("live", mode);
    let faults = account.faults();
    assert!(faults.is_empty(), "{faults:#?}");
    account.assert_no_false_reject();
    let unfinished = account.count("hello_begun") - account.count("hellos_resumed");
    assert_eq!(unfinished, 0, "every hello came to its end");
    assert_eq!(account.count("hellos"), account.ends.len() as u64);
}

#[test]
fn clients_are_served_and_refused_in_driver_mode() {
    needs_kernel!();
    check("driver");
}

#[test]
fn clients_are_served_and_refused_in_generic_mode() {
    needs_kernel!();
    check("generic");
}
