//! A daemon that stands still while its program stays attached: the kernel half then holds
//! nothing against anyone, and judges again when the daemon is back.

mod counters;
mod net;
#[macro_use]
mod skip;

use edge_common::policy::Reason;
use net::client::{Clients, Shape, connect};
use net::edge::Edge;
use net::process::{PATIENCE, token};
use net::sockets::sockets;
use net::wire::{Conditions, Family, Wire};
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

/// RFC 8446 section 6: a fatal alert, `access_denied`.
const DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

fn check(mode: &str) {
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start(mode, 1, |text| {
            text.replace("[kernel]", "[kernel]\nheartbeat_max_age = \"2s\"")
        });
        let clients = Clients::of(&edge.place);
        let mut bad = token(&edge.keys[0]);
        let last = bad.last_mut().unwrap();
        *last = if *last == b'0' { b'1' } else { b'0' };
        let shapes = [Shape::Classic, Shape::PostQuantum];
        let hellos = shapes.map(|shape| clients.hello(shape, Some(bad.clone())));
        let send = |family: Family, hello: &[u8]| {
            wire.client.run(|| {
                let mut tcp = connect(family.own(1), family.server()).unwrap();
                tcp.write_all(hello).unwrap();
                tcp
            })
        };
        // A moment passes between the daemon's going on and its heart's first beat.
        let refused_by_the_kernel = || {
            let since = Instant::now();
            loop {
                let before = edge.counters();
                for (family, hello) in Family::BOTH.iter().zip(&hellos) {
                    let mut answer = Vec::new();
                    send(*family, hello).read_to_end(&mut answer).unwrap();
                    assert_eq!(answer, DENIED);
                }
                let seen = edge.counters().since(&before);
                if seen.of(Reason::HeartbeatStale) == 0 {
                    assert_eq!(seen.of(Reason::TagWrong), 2, "{}", seen.show());
                    return;
                }
                assert!(since.elapsed() < PATIENCE, "{}", seen.show());
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        refused_by_the_kernel();

        let before = edge.counters();
        edge.daemon.signal(Signal::STOP);
        // Older than its heart may be, and than any clock's grain.
        std::thread::sleep(Duration::from_millis(3500));
        let mut waiting = Vec::new();
        for family in Family::BOTH {
            for hello in &hellos {
                waiting.push((send(family, hello), hello.len() as u32));
            }
        }
        // All of each lies in a socket that nobody reads.
        let since = Instant::now();
        for (tcp, bytes) in &waiting {
            let peer = tcp.local_addr().unwrap();
            let reached = || {
                sockets()
                    .iter()
                    .any(|s| s.peer == peer && s.unread_bytes == *bytes)
            };
            while !reached() {
                assert!(
                    since.elapsed() < PATIENCE,
                    "{peer}: not all of it: {:?}",
                    sockets()
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        edge.daemon.signal(Signal::CONT);
        for (mut tcp, _) in waiting {
            // The daemon itself refuses them.
            let mut answer = Vec::new();
            tcp.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, DENIED);
        }
        let seen = edge.counters().since(&before);
        println!("{mode}, while it stood still: {}", seen.show());
        assert_eq!(seen.of(Reason::HeartbeatStale), 4, "{}", seen.show());
        assert_eq!(seen.of(Reason::TagWrong), 0, "{}", seen.show());

        refused_by_the_kernel();
        let counters = edge.counters();
        counters::add_up(|name| counters.named(name));
        edge.daemon.stop();
    });
}

#[test]
fn a_standing_daemon_lets_everything_pass_until_it_goes_on_in_driver_mode() {
    needs_kernel!();
    check("driver");
}

#[test]
fn a_standing_daemon_lets_everything_pass_until_it_goes_on_in_generic_mode() {
    needs_kernel!();
    check("generic");
}
