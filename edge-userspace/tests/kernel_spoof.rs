//! Hellos that no TCP connection is behind, from sources that somebody made up: nothing comes
//! of them. No answer leaves, nobody's budget is touched, no socket appears.

mod counters;
mod net;
#[macro_use]
mod skip;

use edge_common::policy::{Reason, Verdict};
use net::client::{Ask, Clients, Shape};
use net::edge::Edge;
use net::frames::Template;
use net::packet::{BATCH, Batch, PacketSocket, Way};
use net::process::token;
use net::segment::{Tcp, tcp};
use net::sockets::sockets;
use net::wire::{CLIENT_INTERFACE, Conditions, Family, Wire};
use std::net::SocketAddr;

/// Made-up sources, both families together.
const SOURCES: u32 = 10_000;

/// What came back over the wire to one that was made up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Back {
    /// SYN-ACKs: what any listening port answers to a SYN.
    handshakes: u64,
    /// Anything else.
    others: u64,
}

/// The `n`th made-up source, each in a prefix of its own.
fn source(n: u32) -> SocketAddr {
    let family = Family::BOTH[(n % 2) as usize];
    SocketAddr::new(family.foreign(n / 2), 4000 + (n % 7) as u16)
}

/// Sends one hello from each source; gives what came back.
fn spoof(hello: &[u8], flags: u8) -> Back {
    let receiver = PacketSocket::receiver(CLIENT_INTERFACE, Way::Incoming, 64 << 20);
    let sender = PacketSocket::sender(CLIENT_INTERFACE);
    let templates = Family::BOTH.map(|family| Template::new(family.server(), flags, &[], hello));
    let mut back = Back::default();
    let mut batch = Batch::new();
    let numbers: Vec<u32> = (0..SOURCES).collect();
    for some in numbers.chunks(BATCH) {
        let frames: Vec<_> = some
            .iter()
            .map(|n| {
                let acknowledged = if flags & Tcp::SYN == 0 {
                    0x2000_0000 + n
                } else {
                    0
                };
                templates[(n % 2) as usize].frame(source(*n), 0x1000_0000 + n, acknowledged)
            })
            .collect();
        sender.send(frames.iter().map(Vec::as_slice));
        look(&receiver, &mut batch, &mut back);
    }
    // What comes late comes within this time.
    for _ in 0..5 {
        receiver.wait(100);
        look(&receiver, &mut batch, &mut back);
    }
    assert_eq!(receiver.lost(), 0, "not everything was seen");
    back
}

fn look(receiver: &PacketSocket, batch: &mut Batch, back: &mut Back) {
    let mut each = |frame: &[u8]| {
        let Some(tcp) = tcp(frame) else { return };
        if tcp.flags & (Tcp::SYN | Tcp::RST) == Tcp::SYN && tcp.payload.is_empty() {
            back.handshakes += 1;
        } else {
            back.others += 1;
        }
    };
    while receiver.receive(batch, &mut each) > 0 {}
}

fn check(mode: &str) {
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start(mode, 1, |text| text);
        let clients = Clients::of(&edge.place);
        let key = &edge.keys[0];
        let honest = |shape, with_token: bool| {
            for family in Family::BOTH {
                let (from, to) = (family.own(1), family.server());
                let token = with_token.then(|| token(key));
                let ask = Ask {
                    shape,
                    key,
                    token,
                    from,
                    to,
                };
                let asked = wire.client.run(|| clients.ask(&ask));
                assert_eq!(asked, Ok(()), "{shape:?} from {from}");
            }
        };
        // Tokens that are remembered, prefixes with a budget.
        let charged = || {
            let charges = &edge.daemon.status()["charges"];
            ["replay_entries", "prefix_entries"].map(|name| charges[name].as_u64().unwrap())
        };
        let good = token(key);
        let mut bad = good.clone();
        let last = bad.last_mut().unwrap();
        *last = if *last == b'0' { b'1' } else { b'0' };
        let payloads = [
            ("bad", Some(bad)),
            ("good", Some(good.clone())),
            ("none", None),
        ];
        for (name, offered) in payloads {
            let before = edge.counters();
            let hello = clients.hello(Shape::Classic, offered);
            let back = wire.client.run(|| spoof(&hello, Tcp::ACK | 8));
            let seen = edge.counters().since(&before);
            println!(
                "{mode}: {SOURCES} made-up sources, {name} token: {back:?}; {}",
                seen.show()
            );
            assert_eq!(back, Back::default(), "{name} token: something came back");
            assert_eq!(seen.of(Reason::NoConnection), u64::from(SOURCES));
            for verdict in [
                Verdict::Accept,
                Verdict::Reject,
                Verdict::Legacy,
                Verdict::Undecided,
            ] {
                assert_eq!(seen.verdicts(verdict), 0, "{name} token: {verdict:?}");
            }
            assert_eq!(sockets(), [], "{name} token: sockets");
            assert_eq!(charged(), [0, 0], "{name} token: somebody was charged");
        }
        // The token that strangers have shown ten thousand times is its owner's still.
        let (family, shape) = (Family::V4, Shape::Classic);
        let (from, to) = (family.own(1), family.server());
        let ask = Ask {
            shape,
            key,
            token: Some(good),
            from,
            to,
        };
        let before = edge.counters();
        let asked = wire.client.run(|| clients.ask(&ask));
        let seen = edge.counters().since(&before).show();
        assert_eq!(asked, Ok(()), "the shown token's owner: {seen}");

        // With a payload in the SYN: the stack shakes hands as with any SYN, and that is all.
        let before = edge.counters();
        let hello = clients.hello(Shape::Classic, Some(token(key)));
        let back = wire.client.run(|| spoof(&hello, Tcp::SYN));
        let seen = edge.counters().since(&before);
        println!(
            "{mode}: {SOURCES} made-up sources, in a SYN: {back:?}; {}",
            seen.show()
        );
        assert_eq!(
            back.others, 0,
            "in a SYN: something but handshakes came back"
        );
        assert_eq!(seen.of(Reason::SynPayload), u64::from(SOURCES));
        assert_eq!(
            seen.verdicts(Verdict::Accept) + seen.verdicts(Verdict::Reject),
            0
        );
        assert_eq!(charged(), [1, 0], "in a SYN: somebody was charged");
        // Requests for a connection (state 3) are there for every SYN; no connection is.
        let made = sockets().into_iter().filter(|socket| socket.state != 3);
        assert_eq!(made.collect::<Vec<_>>(), []);

        honest(Shape::PostQuantum, true);
        honest(Shape::Classic, false);
        let counters = edge.counters();
        counters::add_up(|name| counters.named(name));
        edge.daemon.stop();
    });
}

#[test]
fn nothing_comes_of_hellos_without_a_connection_in_driver_mode() {
    needs_kernel!();
    check("driver");
}

#[test]
fn nothing_comes_of_hellos_without_a_connection_in_generic_mode() {
    needs_kernel!();
    check("generic");
}
