//! Rates over a real wire: whoever opens more connections than allowed gets as many as are
//! allowed, to within a tenth, and nobody else notices.

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
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Connections a second that are allowed, and as many at once.
const ALLOWED: u32 = 50;
/// Connections a second that are tried.
const OFFERED: u32 = 1000;
/// How long they are.
const TRIED: Duration = Duration::from_millis(5500);
const THREADS: u32 = 16;

/// What came of the connections.
#[derive(Debug, Default)]
struct Came {
    granted: AtomicU32,
    refused: AtomicU32,
    /// From the first one's begin to the last one's, and to the last one's answer, ms.
    begun_ms: AtomicU32,
    answered_ms: AtomicU32,
}

/// Tries connections at the offered rate, each with a hello of its own.
fn offer(to: Family, hello: &(impl Fn(u32) -> (IpAddr, Vec<u8>) + Sync)) -> Came {
    let came = Came::default();
    let began = Instant::now();
    let worker = |thread: u32| {
        for n in (thread..).step_by(THREADS as usize) {
            let at = Duration::from_secs(1) / OFFERED * n;
            if at >= TRIED {
                break;
            }
            std::thread::sleep(at.saturating_sub(began.elapsed()));
            let ms = || began.elapsed().as_millis() as u32;
            came.begun_ms.fetch_max(ms(), Ordering::Relaxed);
            let (from, hello) = hello(n);
            let mut tcp = connect(from, to.server()).unwrap();
            tcp.write_all(&hello).unwrap();
            let mut kind = [0];
            tcp.read_exact(&mut kind).unwrap();
            // RFC 8446 section 5.1: a handshake record, or an alert.
            let answered = match kind {
                [22] => &came.granted,
                [21] => &came.refused,
                other => panic!("neither a ServerHello nor an alert: {other:?}"),
            };
            answered.fetch_add(1, Ordering::Relaxed);
            came.answered_ms.fetch_max(ms(), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || worker(thread));
        }
    });
    came
}

/// Those who keep to what is allowed, until `done`: how many they were.
fn beside<'a>(clients: &Clients, done: &AtomicBool, ask: impl Fn(u32) -> Ask<'a>) -> u32 {
    let mut count = 0;
    while !done.load(Ordering::Acquire) {
        let ask = ask(count);
        let asked = clients.ask(&ask);
        assert_eq!(asked, Ok(()), "somebody else, from {}", ask.from);
        count += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    count
}

/// Whose rate it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Key,
    Prefix,
}

fn check(mode: &str, family: Family, whose: Whose) {
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start(mode, 2, |text| {
            let keys = format!("[keys]\nconnections_per_second_hard = {ALLOWED}");
            let legacy = format!(
                "[legacy]\nconnections_per_second = {ALLOWED}\nburst = {ALLOWED}\n\n[kernel]"
            );
            match whose {
                Whose::Key => text.replace("[keys]", &keys),
                Whose::Prefix => text.replace("[kernel]", &legacy),
            }
        });
        let clients = Clients::of(&edge.place);
        let [many, other] = &edge.keys[..] else {
            panic!("two keys")
        };
        // A hello in which only the token is another each time.
        let with_token = whose == Whose::Key;
        let first = token(many);
        let template = clients.hello(Shape::Classic, with_token.then(|| first.clone()));
        let at = template.windows(first.len()).position(|name| name == first);
        let hello = |n: u32| {
            let mut hello = template.clone();
            if let Some(at) = at {
                hello[at..at + first.len()].copy_from_slice(&token(many));
            }
            (family.neighbour(1, n), hello)
        };
        // Another key from the same prefix; and without a token, from another prefix.
        let others = |n: u32| {
            let with_token = !n.is_multiple_of(3);
            Ask {
                shape: [Shape::Classic, Shape::PostQuantum][(n % 2) as usize],
                key: other,
                token: with_token.then(|| token(other)),
                from: family.own(if with_token { 1 } else { 2 }),
                to: family.server(),
            }
        };
        let done = AtomicBool::new(false);
        let (came, besides) = wire.client.run(|| {
            std::thread::scope(|scope| {
                let besides = scope.spawn(|| beside(&clients, &done, others));
                let came = offer(family, &hello);
                done.store(true, Ordering::Release);
                (came, besides.join().unwrap())
            })
        });
        let counters = edge.counters();
        let Came {
            granted,
            refused,
            begun_ms,
            answered_ms,
        } = came;
        let [granted, refused] = [granted, refused].map(AtomicU32::into_inner);
        let allowed_in = |ms: AtomicU32| ALLOWED * ms.into_inner() / 1000;
        // What may be had at once is more by, and the last may have been judged when it came or
        // when it was answered.
        let (least, most) = (allowed_in(begun_ms), ALLOWED + allowed_in(answered_ms));
        println!(
            "{mode} {family:?} {whose:?}: {ALLOWED} a second allowed, {} offered, {granted} granted, \
             {least} to {most} expected; beside it {besides} of others\n  edge: {}",
            granted + refused,
            counters.show()
        );
        assert!(
            granted + refused > 3 * most,
            "too few were offered"
        );
        assert!(
            (least * 9 / 10..=most * 11 / 10).contains(&granted),
            "{granted}, not {least} to {most}"
        );
        assert!(besides > 10, "hardly anybody else");
        // What is far over the rate is refused before it costs the daemon anything.
        let reason = match whose {
            Whose::Key => Reason::KeyRateExceeded,
            Whose::Prefix => Reason::LegacyRateExceeded,
        };
        assert!(
            counters.of(reason) > u64::from(refused) / 2,
            "hardly refused in the kernel"
        );
        counters::add_up(|name| counters.named(name));
        edge.daemon.stop();
    });
}

#[test]
fn a_key_gets_its_rate_and_others_are_unaffected() {
    needs_kernel!();
    check("driver", Family::V4, Whose::Key);
}

#[test]
fn a_prefix_without_tokens_gets_its_rate_and_others_are_unaffected() {
    needs_kernel!();
    check("generic", Family::V6, Whose::Prefix);
}
