//! Clients that connect, send a hello that is refused, and never acknowledge anything: a
//! second later no trace of them is left on the server, at whatever rate they came.
//!
//! `EDGE_FLOOD_SECONDS=300` makes each flood that long (an ordinary run: 2 s).

mod counters;
mod net;
#[macro_use]
mod skip;

use edge_common::policy::{Reason, Verdict};
use net::capture::Capture;
use net::client::{Ask, Clients, Shape};
use net::edge::Edge;
use net::handshake;
use net::process::token;
use net::sockets::{Socket, sockets};
use net::wire::{Conditions, Family, Wire};
use std::time::{Duration, Instant};

/// How the refused hello goes.
#[derive(Clone, Copy, Debug)]
struct Flood {
    mode: &'static str,
    family: Family,
    answer: &'static str,
    /// In two segments rather than one.
    two_segments: bool,
    /// After a bare acknowledgement of the SYN-ACK rather than with it.
    acknowledge: bool,
    /// While other SYNs have filled the listening sockets' queues.
    full_backlog: bool,
}

fn check(flood: Flood) {
    let seconds = net::number("EDGE_FLOOD_SECONDS", 2);
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start(flood.mode, 1, |text| {
            let answer = format!("[kernel]\nanswer = \"{}\"", flood.answer);
            let text = text.replace("[kernel]", &answer);
            if flood.full_backlog {
                text.replace("threads = 2", "threads = 2\nbacklog = 16")
            } else {
                text
            }
        });
        let clients = Clients::of(&edge.place);
        let key = &edge.keys[0];
        let mut bad = token(key);
        let last = bad.last_mut().unwrap();
        *last = if *last == b'0' { b'1' } else { b'0' };
        let shape = if flood.two_segments {
            Shape::PostQuantum
        } else {
            Shape::Classic
        };
        let hello = clients.hello(shape, Some(bad));
        let pieces = hello.split_at(if flood.two_segments {
            1000
        } else {
            hello.len()
        });
        let pieces: Vec<_> = [pieces.0, pieces.1]
            .into_iter()
            .filter(|piece| !piece.is_empty())
            .collect();

        let began = Instant::now();
        let done = wire.client.run(|| {
            if flood.full_backlog {
                handshake::Clients::fill_backlog(flood.family, 2000);
            }
            let clients = handshake::Clients::new(flood.family, flood.acknowledge, &pieces);
            clients.run(0, u64::MAX, Duration::from_secs(seconds))
        });
        let took = began.elapsed().as_secs_f64();
        // What they leave has this second to go. Where a SYN is all that came of a client, its
        // request stays for the stack's own time.
        std::thread::sleep(Duration::from_secs(1));
        let left: Vec<Socket> = (sockets().into_iter())
            .filter(|socket| done.has_sent(socket.peer))
            .collect();
        let capture = Capture::start(&wire);
        for (family, shape) in [
            (Family::V4, Shape::PostQuantum),
            (Family::V6, Shape::Classic),
        ] {
            let (from, to) = (family.own(1), family.server());
            let ask = Ask {
                shape,
                key,
                token: Some(token(key)),
                from,
                to,
            };
            let asked = wire.client.run(|| clients.ask(&ask));
            assert_eq!(asked, Ok(()), "the honest client from {from}");
        }
        let honest = capture.finish();
        let cookies = cookies_sent();
        assert_eq!(cookies > 0, flood.full_backlog, "{cookies} SYN cookies");
        let counters = edge.counters();
        let rejected = counters.verdicts(Verdict::Reject);
        println!(
            "{flood:?}: {done:?}, {:.0} rejects/s, {} sockets left\n  edge: {}\n  reaped: {}",
            rejected as f64 / took,
            left.len(),
            counters.show(),
            edge.daemon.status()["kernel"]["reaped"]
        );
        assert!(done.connected > 100 && rejected > 100, "hardly any flood");
        assert_eq!(counters.of(Reason::TagWrong), rejected);
        assert!(
            left.is_empty(),
            "{} sockets are left: {:?}",
            left.len(),
            &left[..left.len().min(5)]
        );
        assert_eq!(honest.syns, 2, "an honest client had to knock twice");
        counters::add_up(|name| counters.named(name));
        edge.daemon.stop();
    });
}

/// SYN-ACKs that the stack of the calling thread's namespace has sent without remembering
/// whom it has sent them to, because its queues were full.
fn cookies_sent() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, sent) = pairs.find(|(name, _)| *name == "SyncookiesSent").unwrap();
    sent.parse().unwrap()
}

const ONE: Flood = Flood {
    mode: "driver",
    family: Family::V4,
    answer: "alert",
    two_segments: false,
    acknowledge: false,
    full_backlog: false,
};

#[test]
fn nothing_is_left_of_hellos_in_one_segment() {
    needs_kernel!();
    check(ONE);
}

#[test]
fn nothing_is_left_of_hellos_after_a_bare_acknowledgement() {
    needs_kernel!();
    check(Flood {
        mode: "generic",
        family: Family::V6,
        acknowledge: true,
        ..ONE
    });
}

#[test]
fn nothing_is_left_when_nothing_is_answered() {
    needs_kernel!();
    check(Flood {
        answer: "drop",
        acknowledge: true,
        ..ONE
    });
    check(Flood {
        answer: "drop",
        two_segments: true,
        family: Family::V6,
        ..ONE
    });
}

#[test]
fn nothing_is_left_when_the_backlog_is_full() {
    needs_kernel!();
    check(Flood {
        full_backlog: true,
        ..ONE
    });
}

#[test]
fn nothing_is_left_of_hellos_in_two_segments() {
    needs_kernel!();
    check(Flood {
        two_segments: true,
        family: Family::V6,
        ..ONE
    });
    check(Flood {
        two_segments: true,
        acknowledge: true,
        mode: "generic",
        answer: "rst",
        ..ONE
    });
}
