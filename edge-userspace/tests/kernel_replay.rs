//! Used tokens and changed limits over a real wire: the kernel half goes by the tables that the
//! daemon writes, and by its limits as they are.

mod counters;
mod net;
#[macro_use]
mod skip;

use edge_common::policy::Reason;
use net::client::{Ask, Clients, Shape, connect};
use net::edge::Edge;
use net::process::token;
use net::wire::{Conditions, Family, Wire};
use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// RFC 8446 section 5.1: content types of the first record that comes back.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// The first byte of what comes back for a hello.
fn answer(hello: &[u8], from: IpAddr, to: Family) -> u8 {
    let mut tcp = connect(from, to.server()).unwrap();
    tcp.write_all(hello).unwrap();
    let mut kind = [0];
    tcp.read_exact(&mut kind).unwrap();
    kind[0]
}

/// How often either half gave this reason.
fn given(edge: &Edge, reason: Reason) -> u64 {
    let verdicts = &edge.daemon.status()["traffic"]["verdicts"];
    let in_userspace = (verdicts.as_array().unwrap().iter())
        .find(|pair| pair[0] == reason.name())
        .map_or(0, |pair| pair[1].as_u64().unwrap());
    edge.counters().of(reason) + in_userspace
}

/// A hello in which the token is another each time.
struct Hellos {
    template: Vec<u8>,
    at: usize,
}

impl Hellos {
    fn new(clients: &Clients, example: Vec<u8>) -> Self {
        let template = clients.hello(Shape::Classic, Some(example.clone()));
        let mut names = template.windows(example.len());
        let at = names.position(|name| name == example).unwrap();
        Self { template, at }
    }

    fn with(&self, token: &[u8]) -> Vec<u8> {
        let mut hello = self.template.clone();
        hello[self.at..][..token.len()].copy_from_slice(token);
        hello
    }
}

#[test]
fn a_captured_token_is_refused_on_every_other_connection() {
    needs_kernel!();
    for (mode, family) in [("driver", Family::V4), ("generic", Family::V6)] {
        let wire = Wire::new(Conditions::default());
        wire.server.run(|| {
            let edge = Edge::start(mode, 1, |text| text);
            let clients = Clients::of(&edge.place);
            let shapes = [
                Shape::Classic,
                Shape::PostQuantum,
                // Their second hello shows the same token and is no replay.
                Shape::Retry,
                Shape::RetryLong,
            ];
            let replays = wire.client.run(|| {
                let mut replays = 0;
                for (n, shape) in (0..).zip(shapes) {
                    let mut ask = Ask {
                        shape,
                        key: &edge.keys[0],
                        token: Some(token(&edge.keys[0])),
                        from: family.own(n),
                        to: family.server(),
                    };
                    assert_eq!(clients.ask(&ask), Ok(()), "{shape:?}");
                    for (host, shape) in (0..).zip(shapes) {
                        ask.shape = shape;
                        // The same address with another port, and other addresses.
                        ask.from = family.neighbour(n + host, host);
                        let error = clients.ask(&ask).unwrap_err();
                        assert!(error.contains("AccessDenied"), "{shape:?}: {error}");
                        replays += 1;
                    }
                }
                replays
            });
            let counters = edge.counters();
            println!("{mode} {family:?}: {}", counters.show());
            assert_eq!(given(&edge, Reason::Replayed), replays);
            assert_eq!(counters.of(Reason::Replayed), replays, "all in the kernel");
            assert_eq!(counters.of(Reason::Accepted), shapes.len() as u64);
            counters::add_up(|name| counters.named(name));
            edge.daemon.stop();
        });
    }
}

/// The smallest table there may be, filled over and over by another key without a limit.
#[test]
fn of_a_thousand_victims_tokens_none_is_accepted_again_after_the_table_was_filled() {
    needs_kernel!();
    const VICTIMS: u32 = 1000;
    const OTHERS: u32 = 4000;
    const THREADS: u32 = 8;
    let family = Family::V4;
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start("driver", 2, |text| {
            // A window in which no token of the test ends.
            let keys = "[keys]\nreplay_capacity = 1024\nwindow_back = \"10m\"\nconnections_per_second_hard = 0";
            let legacy = "[legacy]\nconnections_per_second = 0\nconnections_per_second_total = 0\n\n[kernel]";
            text.replace("[keys]", keys).replace("[kernel]", legacy)
        });
        let clients = Clients::of(&edge.place);
        let hellos = Hellos::new(&clients, token(&edge.keys[0]));
        let victims: Vec<_> = (0..VICTIMS).map(|_| token(&edge.keys[0])).collect();
        let others: Vec<_> = (0..OTHERS).map(|_| token(&edge.keys[1])).collect();
        // How many of them were let in.
        let offer = |tokens: &[Vec<u8>], net: u32| {
            let let_in = AtomicU32::new(0);
            wire.client.run(|| {
                std::thread::scope(|scope| {
                    for part in tokens.chunks(tokens.len().div_ceil(THREADS as usize)) {
                        let (hellos, let_in) = (&hellos, &let_in);
                        scope.spawn(move || {
                            for (n, token) in (0..).zip(part) {
                                let from = family.neighbour(net, n);
                                match answer(&hellos.with(token), from, family) {
                                    HANDSHAKE => let_in.fetch_add(1, Ordering::Relaxed),
                                    ALERT => 0,
                                    other => panic!("neither a ServerHello nor an alert: {other}"),
                                };
                            }
                        });
                    }
                });
            });
            let_in.into_inner()
        };
        assert_eq!(offer(&victims, 1), VICTIMS);
        assert_eq!(given(&edge, Reason::ReplayTableFull), 0, "all are remembered");
        // Good tokens, remembered or on the legacy lane.
        assert_eq!(offer(&others, 2), OTHERS);
        let charges = &edge.daemon.status()["charges"];
        assert_eq!(charges["replay_entries"], charges["replay_capacity"]);
        assert!(given(&edge, Reason::ReplayTableFull) > 0);
        assert_eq!(offer(&victims, 3), 0, "accepted again");
        assert_eq!(given(&edge, Reason::Replayed), u64::from(VICTIMS));
        let counters = edge.counters();
        println!("{}\n{charges}", counters.show());
        counters::add_up(|name| counters.named(name));
        edge.daemon.stop();
    });
}

#[test]
fn the_kernel_half_goes_by_changed_limits() {
    needs_kernel!();
    let family = Family::V4;
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start("driver", 2, |text| text);
        let clients = Clients::of(&edge.place);
        let file = edge.place.path().join("edge.toml");
        let first = std::fs::read_to_string(&file).unwrap();
        let configure = |change: &dyn Fn(&str) -> String| {
            let taken = edge.daemon.status()["configuration"]["taken"].clone();
            std::fs::write(&file, change(&first)).unwrap();
            (edge.daemon).wait_for_status(|status| status["configuration"]["taken"] != taken);
        };
        let bare = clients.hello(Shape::Classic, None);
        let hellos = Hellos::new(&clients, token(&edge.keys[0]));
        let from = family.own(1);
        let without = || wire.client.run(|| answer(&bare, from, family));
        let with = |key: usize| {
            let hello = hellos.with(&token(&edge.keys[key]));
            wire.client.run(|| answer(&hello, from, family))
        };
        let in_kernel = |reason| edge.counters().of(reason);

        assert_eq!(without(), HANDSHAKE);
        configure(&|text| text.replace("[kernel]", "[legacy]\ndeny = true\n\n[kernel]"));
        assert_eq!(without(), ALERT);
        assert_eq!(in_kernel(Reason::LegacyDenied), 1);
        configure(&str::to_owned);
        assert_eq!(without(), HANDSHAKE);

        // The hard rate of every key is in the kernel's policies.
        configure(&|text| text.replace("[keys]", "[keys]\nconnections_per_second_hard = 1"));
        for key in [0, 1] {
            let before = in_kernel(Reason::KeyRateExceeded);
            let refused = (0..10).filter(|_| with(key) == ALERT).count();
            assert!(refused > 0);
            assert!(in_kernel(Reason::KeyRateExceeded) > before, "in the kernel");
        }
        // A key's own rate, by the store.
        let id = &edge.keys[1].id;
        let limit = format!("keys limit --store keys.journal {id} --connections-per-second-hard 0");
        let generation = edge.daemon.status()["keys"]["generation"].clone();
        assert!(edge.place.edge(&limit).status.success());
        (edge.daemon).wait_for_status(|status| status["keys"]["generation"] != generation);
        assert!((0..10).all(|_| with(1) == HANDSHAKE));

        // A narrower window holds at once.
        configure(&|text| text.replace("[keys]", "[keys]\nwindow_back = \"1s\""));
        let old = hellos.with(&token(&edge.keys[1]));
        std::thread::sleep(std::time::Duration::from_millis(2100));
        assert_eq!(wire.client.run(|| answer(&old, from, family)), ALERT);
        assert_eq!(in_kernel(Reason::TokenExpired), 1);
        let counters = edge.counters();
        counters::add_up(|name| counters.named(name));
        edge.daemon.stop();
    });
}
