//! Connections that do not begin with TLS: refused before the daemon accepts them, unless they
//! begin as HTTP does, for the daemon tells such a client to use https. Only their first bytes
//! are held against them.

mod counters;
#[macro_use]
mod net;
#[macro_use]
mod skip;

use edge_common::policy::Reason;
use net::client::{Clients, Shape, connect};
use net::edge::Edge;
use net::process::{self, token};
use net::sockets::sockets;
use net::wire::{Conditions, Family, Wire};
use rustls::StreamOwned;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// RFC 8446 section 6: a fatal alert, access_denied.
const DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// What comes back on a connection that begins with these bytes, in a write each.
fn said(family: Family, n: u32, pieces: &[&[u8]]) -> Vec<u8> {
    let mut tcp = connect(family.own(n), family.server()).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    for piece in pieces {
        if tcp.write_all(piece).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    heard(&mut tcp)
}

fn heard(tcp: &mut TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    // It may end with a reset.
    let _ = tcp.read_to_end(&mut heard);
    heard
}

fn check(mode: &str) {
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start(mode, 1, |text| text);
        let accepted = || {
            let text = edge.daemon.admin("/metrics").1;
            let mut lines = text.lines();
            let line = lines.find(|line| line.starts_with("edge_accepted_connections_total "));
            line.map(str::to_owned).expect("the metric")
        };
        let none = accepted();
        let random: &[u8] = &[0x9c; 300];
        // A record of TLS with something else than a ClientHello in it.
        let no_hello: &[u8] = b"\x16\x03\x01\x00\x20\x02\0\0\x1c\x03\x03abcdefghijklmnopqrstuvwxyz";
        let mut count = 0;
        wire.client.run(|| {
            for family in Family::BOTH {
                let cases: [&[&[u8]]; 5] = [
                    &[random],
                    &[b"\0"],
                    &[b"ssh"],
                    &[no_hello],
                    &[random, random],
                ];
                for (n, pieces) in (0..).zip(cases) {
                    assert_eq!(said(family, n, pieces), DENIED, "{family:?} {pieces:?}");
                    count += 1;
                }
            }
        });
        let counters = edge.counters();
        println!("{mode}: {}", counters.show());
        assert_eq!(counters.of(Reason::NotTls), count);
        assert_eq!(accepted(), none, "the daemon has seen none of them");
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(sockets(), [], "the server's end");

        let http = wire.client.run(|| {
            Family::BOTH.map(|family| said(family, 9, &[b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"]))
        });
        for http in http {
            let text = String::from_utf8_lossy(&http).into_owned();
            assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
        }
        assert_eq!(edge.counters().of(Reason::NotTls), count);
        counters::add_up(|name| edge.counters().named(name));
        edge.daemon.stop();
    });
}

#[test]
fn what_begins_with_no_tls_is_refused_in_the_kernel_in_driver_mode() {
    needs_kernel!();
    check("driver");
}

#[test]
fn what_begins_with_no_tls_is_refused_in_the_kernel_in_generic_mode() {
    needs_kernel!();
    check("generic");
}

/// What a connection says later may be the first that the kernel half sees of it: one that was
/// there before the kernel half forgot it, or before it was attached.
#[test]
fn what_a_served_connection_says_is_not_held_against_it() {
    needs_kernel!();
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        // Few places, so that connections lose theirs.
        let edge = Edge::start("driver", 1, |text| {
            text.replace("interfaces", "flows = 64\ninterfaces")
        });
        let clients = Clients::of(&edge.place);
        let key = &edge.keys[0];
        let open = |n: u32| {
            let from = Family::V4.neighbour(1, n);
            let tcp = wire
                .client
                .run(|| connect(from, Family::V4.server()))
                .unwrap();
            let mut tls = StreamOwned::new(clients.session(Shape::Classic, Some(token(key))), tcp);
            let head = process::ask(&mut tls, &key.text).unwrap();
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            tls
        };
        let mut served: Vec<_> = (0..200).map(open).collect();
        for (n, tls) in served.iter_mut().enumerate() {
            let head = process::ask(tls, &key.text);
            let head = head.unwrap_or_else(|error| panic!("connection {n}: {error}"));
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        }
        let counters = edge.counters();
        assert_eq!(counters.of(Reason::NotTls), 0);
        assert!(counters.of(Reason::NotHello) >= 200, "{}", counters.show());
        counters::add_up(|name| counters.named(name));
        edge.daemon.stop();
    });
}
