//! Strangers who know addresses and ports, of connections that are there, or of one that a
//! made-up SYN began, and not their sequence numbers: nothing comes of what they send. Nor of
//! a connection's own hello that comes twice; and a token is used by one connection, also when
//! the next one has the same address and port.
//!
//! Without the sockets' numbers (every offset in the settings 0) a stranger's hello comes to a
//! verdict, and each test here but the last fails by that.

mod counters;
mod net;
#[macro_use]
mod skip;

use edge_common::policy::{Counter, Reason};
use net::client::{Clients, Shape, connect};
use net::edge::Edge;
use net::frames::Template;
use net::handshake;
use net::packet::{Batch, PacketSocket, Way};
use net::process::{self, Key, PATIENCE, Tls, token};
use net::segment::{Tcp, tcp};
use net::sockets::sockets;
use net::wire::{CLIENT_INTERFACE, Conditions, Family, Wire};
use rustls::StreamOwned;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What a write of a client has (RFC 9293 section 3.1): ACK and PSH.
const PUSH: u8 = Tcp::ACK | 8;
/// Long enough for an answer, and for the daemon to end what is refused.
const A_WHILE: Duration = Duration::from_secs(1);
/// RFC 8446 section 5.1: content type of the record that a ServerHello is in.
const HANDSHAKE: u8 = 22;

/// A token whose tag is wrong.
fn spoilt(mut token: Vec<u8>) -> Vec<u8> {
    let last = token.last_mut().unwrap();
    *last = if *last == b'0' { b'1' } else { b'0' };
    token
}

/// Puts frames on the wire as they are.
fn send(wire: &Wire, frames: &[Vec<u8>]) {
    let frames = frames.iter().map(Vec::as_slice);
    (wire.client).run(|| PacketSocket::sender(CLIENT_INTERFACE).send(frames));
}

/// A connection from this address that has not spoken yet, and will show this token.
fn open(wire: &Wire, clients: &Clients, from: (Family, IpAddr), token: Vec<u8>) -> Tls {
    let tcp = wire.client.run(|| connect(from.1, from.0.server()));
    StreamOwned::new(clients.session(Shape::Classic, Some(token)), tcp.unwrap())
}

/// Makes a request over it, the first or a later one.
fn served(tls: &mut Tls, key: &Key, case: &str) {
    let head = process::ask(tls, &key.text).unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{case}: {head}");
}

/// The counters add up; the daemon ends with its directory.
fn finish(edge: Edge) {
    let counters = edge.counters();
    counters::add_up(|name| counters.named(name));
    drop(edge);
}

#[test]
fn a_strangers_frame_ends_no_connection_served_or_silent() {
    needs_kernel!();
    for answer in ["alert", "rst"] {
        let wire = Wire::new(Conditions::default());
        wire.server.run(|| {
            let edge = Edge::start("driver", 1, |text| {
                text.replace("interfaces", &format!("answer = \"{answer}\"\ninterfaces"))
            });
            let clients = Clients::of(&edge.place);
            let key = &edge.keys[0];
            let open = |family, n| {
                let from = Family::own(family, n);
                open(&wire, &clients, (family, from), token(key))
            };
            let mut connections = Vec::new();
            for family in Family::BOTH {
                let mut spoken = open(family, 1);
                served(&mut spoken, key, "before the stranger");
                connections.push((family, "served", spoken));
                connections.push((family, "silent", open(family, 2)));
            }
            let before = edge.counters();
            let reaped = || edge.daemon.status()["kernel"]["reaped"].clone();
            let reaped_before = reaped();
            let offers = [Some(spoilt(token(key))), Some(token(key)), None];
            let hellos = offers.map(|offer| clients.hello(Shape::Classic, offer));
            let frames: Vec<_> = (connections.iter())
                .flat_map(|(family, _, tls)| {
                    let from = tls.sock.local_addr().unwrap();
                    hellos.iter().map(move |hello| {
                        let template = Template::new(family.server(), PUSH, &[], hello);
                        template.frame(from, 0x1234_5678, 0x9abc_def0)
                    })
                })
                .collect();
            send(&wire, &frames);
            std::thread::sleep(A_WHILE);
            let seen = edge.counters().since(&before);
            println!("{answer}: {}", seen.show());
            for (family, state, tls) in &mut connections {
                served(tls, key, &format!("{answer} {family:?} {state}"));
            }
            assert_eq!(seen.of(Reason::Stray), frames.len() as u64);
            assert_eq!(seen.count(Counter::Hellos), 0, "something was judged");
            assert_eq!(reaped(), reaped_before, "sockets were destroyed");
            finish(edge);
        });
    }
}

/// Sends a SYN from each source, then a hello, by ones who have seen no answer.
fn speak_blindly(wire: &Wire, sources: &[(Family, SocketAddr)], hello: &[u8]) {
    let syns = Family::BOTH.map(|family| Template::new(family.server(), Tcp::SYN, &[], &[]));
    let hellos = Family::BOTH.map(|family| Template::new(family.server(), PUSH, &[], hello));
    // Every SYN before every hello, so that each hello finds its request socket.
    for (templates, sequence, acknowledged) in
        [(syns, 0x1000_0000, 0), (hellos, 0x7000_0000, 0x2000_0000)]
    {
        let frames: Vec<_> = (sources.iter())
            .map(|(family, from)| {
                let template = &templates[usize::from(*family == Family::V6)];
                template.frame(*from, sequence, acknowledged)
            })
            .collect();
        send(wire, &frames);
        std::thread::sleep(A_WHILE / 4);
    }
}

#[test]
fn nothing_comes_of_made_up_clients_that_send_a_syn_first() {
    needs_kernel!();
    /// For each kind of token, both families together.
    const SOURCES: u32 = 400;
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start("driver", 1, |text| text);
        let clients = Clients::of(&edge.place);
        let key = &edge.keys[0];
        let good = token(key);
        let offers = [
            ("bad", Some(spoilt(token(key)))),
            ("good", Some(good.clone())),
            ("no", None),
        ];
        for (kind, (name, offer)) in (0..).zip(offers) {
            let before = edge.counters();
            let hello = clients.hello(Shape::Classic, offer);
            let sources: Vec<_> = (kind * SOURCES..(kind + 1) * SOURCES)
                .map(|n| {
                    let family = Family::BOTH[(n % 2) as usize];
                    (family, (family.foreign(n / 2), 4000).into())
                })
                .collect();
            let receiver = (wire.client)
                .run(|| PacketSocket::receiver(CLIENT_INTERFACE, Way::Incoming, 64 << 20));
            speak_blindly(&wire, &sources, &hello);
            let (mut handshakes, mut told) = (0, 0);
            let mut batch = Batch::new();
            let mut look = |frame: &[u8]| {
                let Some(tcp) = tcp(frame) else { return };
                handshakes += u32::from(tcp.flags & Tcp::SYN != 0);
                // A bare reset is what any listening port's stack says to an acknowledgement
                // that is none (RFC 9293 section 3.10.7.4).
                told += u32::from(!tcp.payload.is_empty() || tcp.flags & Tcp::FIN != 0);
            };
            while receiver.receive(&mut batch, &mut look) > 0 {}
            assert_eq!(receiver.lost(), 0, "not everything was seen");
            let seen = edge.counters().since(&before);
            println!(
                "{SOURCES} made-up clients, {name} token: {handshakes} SYN-ACKs; {}",
                seen.show()
            );
            assert!(
                handshakes >= SOURCES,
                "{name} token: a SYN was not answered"
            );
            assert_eq!(told, 0, "{name} token: an alert came back");
            assert_eq!(seen.of(Reason::Stray), u64::from(SOURCES));
            assert_eq!(seen.count(Counter::Hellos), 0, "something was judged");
            // Requests for a connection (state 3) are there for every SYN; no connection is.
            let made = sockets().into_iter().filter(|socket| socket.state != 3);
            assert_eq!(made.collect::<Vec<_>>(), [], "{name} token");
            let charges = &edge.daemon.status()["charges"];
            for entries in ["replay_entries", "prefix_entries"] {
                assert_eq!(charges[entries], 0, "{name} token: somebody was charged");
            }
        }
        // The token that hundreds have shown is its owner's still.
        let from = (Family::V4, Family::V4.own(1));
        served(&mut open(&wire, &clients, from, good), key, "its owner");
        finish(edge);
    });
}

#[test]
fn made_up_neighbours_take_nothing_from_a_prefix() {
    needs_kernel!();
    /// The prefix's burst, and what of it is used honestly: more than half before the
    /// strangers come, since only then the kernel half counts by itself.
    const BURST: usize = 20;
    const BEFORE: usize = 13;
    const AFTER: usize = 5;
    const STRANGERS: u8 = 40;
    let wire = Wire::new(Conditions::default());
    // The first address of a prefix whose others are nobody's.
    let address = |family: Family| family.foreign(5);
    wire.client.run(|| {
        for family in Family::BOTH {
            let bits = if family == Family::V4 { 32 } else { 128 };
            net::namespace::ip(&format!("addr add {}/{bits} dev lo", address(family)));
        }
    });
    wire.server.run(|| {
        let edge = Edge::start("driver", 1, |text| {
            text + &format!("\n[legacy]\nconnections_per_second = 1\nburst = {BURST}\n")
        });
        let clients = Clients::of(&edge.place);
        let hello = clients.hello(Shape::Classic, None);
        for family in Family::BOTH {
            let honest = |case: &str| {
                let kind = wire.client.run(|| {
                    let mut tcp = connect(address(family), family.server())?;
                    tcp.write_all(&hello)?;
                    let mut kind = [0];
                    tcp.read_exact(&mut kind).map(|()| kind[0])
                });
                assert_eq!(kind.unwrap(), HANDSHAKE, "{family:?}: {case}");
            };
            (0..BEFORE).for_each(|_| honest("before the strangers"));
            let before = edge.counters();
            let neighbour = |n: u8| -> IpAddr {
                match address(family) {
                    IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + u32::from(n)).into(),
                    IpAddr::V6(first) => {
                        Ipv6Addr::from_bits(first.to_bits() + u128::from(n)).into()
                    }
                }
            };
            let sources: Vec<_> = (1..=STRANGERS)
                .map(|n| (family, (neighbour(n), 4000).into()))
                .collect();
            speak_blindly(&wire, &sources, &hello);
            let seen = edge.counters().since(&before);
            println!("{family:?}: {}", seen.show());
            (0..AFTER).for_each(|_| honest("after the strangers"));
            assert_eq!(seen.of(Reason::Stray), u64::from(STRANGERS));
            assert_eq!(seen.count(Counter::Hellos), 0, "something was judged");
        }
        finish(edge);
    });
}

/// The frame in which this client sent its hello, as it was.
fn hello_frame(sent: &PacketSocket, client: SocketAddr) -> Vec<u8> {
    let mut found = None;
    let mut batch = Batch::new();
    let mut look = |frame: &[u8]| {
        let is_hello = |tcp: &Tcp<'_>| tcp.from == client && tcp.payload.starts_with(&[22, 3]);
        if found.is_none() && tcp(frame).as_ref().is_some_and(is_hello) {
            found = Some(frame.to_vec());
        }
    };
    while sent.receive(&mut batch, &mut look) > 0 {}
    found.expect("the hello went over the wire")
}

#[test]
fn a_connections_own_hello_once_more_changes_nothing_when_its_entry_is_gone_either() {
    needs_kernel!();
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start("driver", 1, |text| {
            text.replace("interfaces", "flows = 1024\ninterfaces")
        });
        let clients = Clients::of(&edge.place);
        let key = &edge.keys[0];
        let connections = Family::BOTH.map(|family| {
            let sent = (wire.client)
                .run(|| PacketSocket::receiver(CLIENT_INTERFACE, Way::Outgoing, 1 << 20));
            let mut tls = open(&wire, &clients, (family, family.own(1)), token(key));
            served(&mut tls, key, "before the copies");
            (hello_frame(&sent, tls.sock.local_addr().unwrap()), tls)
        });
        let [(first, mut first_tls), (second, mut second_tls)] = connections;
        let copies = [first, second];
        let mut again = |case: &str, reason| {
            let before = edge.counters();
            send(&wire, &copies);
            std::thread::sleep(A_WHILE / 2);
            let seen = edge.counters().since(&before);
            println!("{case}: {}", seen.show());
            served(&mut first_tls, key, case);
            served(&mut second_tls, key, case);
            assert_eq!(seen.of(reason), 2, "{case}");
            assert_eq!(seen.count(Counter::Hellos), 0, "something was judged");
        };
        again("the entries are there", Reason::Retransmitted);
        // Many times as many hellos that are begun as the table has places.
        let begun = clients.hello(Shape::PostQuantum, None);
        let fillers = wire.client.run(|| {
            handshake::Clients::new(Family::V4, true, &[&begun[..600]]).run(0, 12_000, PATIENCE)
        });
        println!("{fillers:?}");
        // Now nothing but the sockets' own numbers tells the copies from new hellos.
        again("the entries are gone", Reason::Stray);
        finish(edge);
    });
}

/// How often the daemon or the kernel half said that a token was used before.
fn replays(edge: &Edge) -> u64 {
    let status = edge.daemon.status();
    let halves = [
        &status["traffic"]["verdicts"],
        &status["kernel"]["counters"],
    ];
    let pairs = halves.iter().filter_map(|half| half.as_array()).flatten();
    let said = pairs.filter(|pair| pair[0] == Reason::Replayed.name());
    said.map(|pair| pair[1].as_u64().unwrap()).sum()
}

#[test]
fn a_used_token_from_the_same_port_is_refused_with_the_kernel_half_and_without() {
    needs_kernel!();
    for attach in ["off", "driver"] {
        let wire = Wire::new(Conditions::default());
        wire.server.run(|| {
            let edge = Edge::start(attach, 1, |text| text);
            let clients = Clients::of(&edge.place);
            let key = &edge.keys[0];
            // What becomes of a connection, and from where it was.
            let show = |token: &[u8], family: Family, port| {
                let to = family.server();
                let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
                socket
                    .bind(&SocketAddr::new(family.own(1), port).into())
                    .unwrap();
                socket.connect_timeout(&to.into(), PATIENCE).unwrap();
                let tcp = TcpStream::from(socket);
                tcp.set_read_timeout(Some(PATIENCE)).unwrap();
                // It ends by a reset: the port is free at once.
                SockRef::from(&tcp)
                    .set_linger(Some(Duration::ZERO))
                    .unwrap();
                let from = tcp.local_addr().unwrap();
                let session = clients.session(Shape::Classic, Some(token.to_vec()));
                let asked = process::ask(&mut StreamOwned::new(session, tcp), &key.text);
                (asked.map_err(|error| error.to_string()), from)
            };
            for family in Family::BOTH {
                let token = token(key);
                let before = replays(&edge);
                let (asked, from) = wire.client.run(|| show(&token, family, 0));
                assert!(asked.is_ok(), "{attach} {family:?}: {asked:?}");
                let since = Instant::now();
                while sockets().iter().any(|socket| socket.peer == from) {
                    assert!(since.elapsed() < PATIENCE, "the first one's socket stays");
                    std::thread::sleep(Duration::from_millis(10));
                }
                let (asked, again) = wire.client.run(|| show(&token, family, from.port()));
                println!("{attach} {family:?}, {from}, then {again}: {asked:?}");
                let error = asked.expect_err("a used token was let in");
                assert!(error.contains("AccessDenied"), "{error}");
                assert_eq!(replays(&edge) - before, 1, "{attach} {family:?}");
            }
        });
    }
}
