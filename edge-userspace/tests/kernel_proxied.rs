//! Behind a balancer that speaks the PROXY protocol, with the kernel half attached: whether
//! header and hello come together or apart, good tokens are served and bad ones refused.

mod counters;
mod net;
#[macro_use]
mod skip;

use edge_common::policy::Reason;
use net::client::{Clients, Shape, connect};
use net::edge::{Counters, Edge};
use net::process::{self, Key, token};
use net::wire::{Conditions, Family, Wire};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// How header and hello are cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The header in a segment of its own.
    Between,
    /// Both in the same segment, as far as they fit.
    Nowhere,
    /// Within the hello's first bytes.
    Behind,
}

const CUTS: [Cut; 3] = [Cut::Between, Cut::Nowhere, Cut::Behind];
const SHAPES: [Shape; 2] = [Shape::Classic, Shape::PostQuantum];

/// Version 1 for IPv4, version 2 for IPv6, so that both are there.
fn header(family: Family) -> Vec<u8> {
    match family {
        Family::V4 => b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\n".to_vec(),
        Family::V6 => {
            let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24".to_vec();
            header.extend([0x20; 16]);
            header.extend([0x30; 16]);
            header.extend([0xc7, 0x38, 0x01, 0xbb]);
            header
        }
    }
}

/// Sends the header and the hello, cut so, and shakes hands.
fn shake_hands(
    family: Family,
    cut: Cut,
    mut session: ClientConnection,
) -> io::Result<process::Tls> {
    let mut bytes = header(family);
    let at = match cut {
        Cut::Between => bytes.len(),
        Cut::Nowhere => 0,
        Cut::Behind => bytes.len() + 20,
    };
    session.write_tls(&mut bytes)?;
    let mut tcp = connect(family.own(1), family.server())?;
    for piece in [&bytes[..at], &bytes[at..]] {
        tcp.write_all(piece)?;
        // So that the pieces are segments of their own.
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut tls = StreamOwned::new(session, tcp);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    Ok(tls)
}

fn one(clients: &Clients, key: &Key, family: Family, cut: Cut, shape: Shape) {
    let what = format!("{cut:?} {shape:?} {:?}", family.server());
    let good = clients.session(shape, Some(token(key)));
    let mut tls = shake_hands(family, cut, good).unwrap_or_else(|error| panic!("{what}: {error}"));
    let head = process::ask(&mut tls, &key.text).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{what}: {head}");
    let mut bad = token(key);
    let last = bad.last_mut().unwrap();
    *last = if *last == b'0' { b'1' } else { b'0' };
    let bad = clients.session(shape, Some(bad));
    let error = shake_hands(family, cut, bad).expect_err(&what).to_string();
    assert!(error.contains("AccessDenied"), "{what}: {error}");
}

fn run(mode: &str) {
    let wire = Wire::new(Conditions::default());
    let counters: Counters = wire.server.run(|| {
        let edge = Edge::start(mode, 1, |text| {
            let addresses = Family::BOTH.map(|family: Family| -> SocketAddr { family.server() });
            let [four, six] = addresses;
            format!(
                "{text}\n[listen.proxy_protocol]\naddresses = [\"{four}\", \"{six}\"]\n\
                 trusted = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n"
            )
        });
        let clients = Clients::of(&edge.place);
        std::thread::scope(|scope| {
            let work = || {
                wire.client.enter();
                for family in Family::BOTH {
                    for cut in CUTS {
                        for shape in SHAPES {
                            one(&clients, &edge.keys[0], family, cut, shape);
                        }
                    }
                }
            };
            scope.spawn(work).join().unwrap();
        });
        let metrics = edge.daemon.admin("/metrics").1;
        let proxied = r#"edge_proxy_headers_total{outcome="proxied"} "#;
        let line = metrics.lines().find(|line| line.starts_with(proxied));
        let count: u64 = line.unwrap()[proxied.len()..].parse().unwrap();
        // Each good token in each way; a bad one gets as far as the kernel half lets it.
        assert!((12..=24).contains(&count), "{count}");
        let counters = edge.counters();
        edge.daemon.stop();
        counters
    });
    counters::add_up(|name| counters.named(name));
    // Both families and both shapes, in each way.
    assert_eq!(counters.of(Reason::Accepted), 12, "{}", counters.show());
    assert_eq!(counters.of(Reason::TagWrong), 12, "{}", counters.show());
}

#[test]
fn behind_a_balancer_in_driver_mode() {
    needs_kernel!();
    run("driver");
}

#[test]
fn behind_a_balancer_in_generic_mode() {
    needs_kernel!();
    run("generic");
}
