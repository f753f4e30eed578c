//! Clients by library whose token is bad: each is told at once, by an alert that it
//! understands, and a second later neither end has a socket for it.

mod counters;
#[macro_use]
mod net;
#[macro_use]
mod skip;

use edge_common::policy::{Counter, Reason};
use net::client::{Clients, Shape, connect};
use net::edge::Edge;
use net::process::token;
use net::sockets::{sockets, sockets_to_edge};
use net::wire::{Conditions, Family, Wire};
use rustls::AlertDescription;
use std::time::{Duration, Instant};

/// Clients of each shape and family.
const EACH: u32 = 100;

/// What the library says, and how long after its hello was written.
fn shake(clients: &Clients, shape: Shape, bad: &[u8], family: Family, n: u32) -> Duration {
    let mut tls = clients.session(shape, Some(bad.to_vec()));
    let mut tcp = connect(family.own(n), family.server()).unwrap();
    let began = Instant::now();
    let error = loop {
        if let Err(error) = tls.complete_io(&mut tcp) {
            break error;
        }
    };
    let took = began.elapsed();
    let said = error.get_ref().and_then(|error| error.downcast_ref());
    let denied = rustls::Error::AlertReceived(AlertDescription::AccessDenied);
    assert_eq!(said, Some(&denied), "{shape:?} {family:?}: {error}");
    took
}

fn check(mode: &str, conditions: Conditions) {
    let wire = Wire::new(conditions);
    wire.server.run(|| {
        let edge = Edge::start(mode, 1, |text| text);
        let clients = Clients::of(&edge.place);
        let mut bad = token(&edge.keys[0]);
        let last = bad.last_mut().unwrap();
        *last = if *last == b'0' { b'1' } else { b'0' };
        for shape in [Shape::Classic, Shape::PostQuantum] {
            let mut took: Vec<Duration> = wire.client.run(|| {
                let numbers = Family::BOTH
                    .iter()
                    .flat_map(|f| (0..EACH).map(move |n| (*f, n)));
                numbers
                    .map(|(family, n)| shake(&clients, shape, &bad, family, n))
                    .collect()
            });
            took.sort();
            let at = |percent: usize| took[took.len() * percent / 100];
            println!(
                "{mode} {conditions:?} {shape:?}: alert after {:.0?} (p50), {:.0?} (p99)",
                at(50),
                at(99)
            );
        }
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(sockets(), [], "the server's end");
        // State 6, TIME_WAIT, is no socket any more.
        let theirs = wire.client.run(sockets_to_edge);
        let theirs: Vec<_> = theirs.iter().filter(|socket| socket.state != 6).collect();
        assert!(
            theirs.is_empty(),
            "the client's end: {} {:?}",
            theirs.len(),
            theirs[0]
        );
        let counters = edge.counters();
        println!("  edge: {}", counters.show());
        let all = u64::from(4 * EACH);
        assert_eq!(counters.of(Reason::TagWrong), all);
        assert_eq!(counters.count(Counter::HellosResumed), all / 2);
        assert_eq!(
            counters.count(Counter::AnsweredAlert),
            all + counters.of(Reason::RejectedAgain)
        );
        counters::add_up(|name| counters.named(name));
        edge.daemon.stop();
    });
}

#[test]
fn a_bad_tokens_client_is_told_and_nothing_stays_in_driver_mode() {
    needs_kernel!();
    check("driver", Conditions::default());
}

#[test]
fn a_bad_tokens_client_is_told_and_nothing_stays_in_generic_mode() {
    needs_kernel!();
    check("generic", Conditions::default());
}

#[test]
fn a_bad_tokens_client_is_told_and_nothing_stays_in_a_vlan() {
    needs_kernel!();
    needs_tcx!();
    for mode in ["driver", "generic"] {
        let conditions = Conditions {
            vlan: Some(7),
            ..Conditions::default()
        };
        check(mode, conditions);
    }
}
