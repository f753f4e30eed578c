//! Mixed clients against a real daemon over a wire with two ends: nobody honest is lost, and
//! what the kernel half counts is what went over the wire, by an independent count of it.
//!
//! `EDGE_MIXED_CONNECTIONS=10000` makes each test that long (an ordinary run: 300).

mod counters;
#[macro_use]
mod net;
#[macro_use]
mod skip;

use edge_common::policy::{Counter, Reason, Verdict};
use net::capture::{Capture, Counted};
use net::client::{Ask, Clients, Shape, connect, word_for};
use net::edge::{Counters, Edge};
use net::process::token;
use net::wire::{Conditions, Family, Wire};
use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: usize = 16;
const KEYS: usize = 16;
/// One of so many connections is each of the rare kinds below.
const RARE: u64 = 20;

/// What one connection is to do.
enum Act {
    Ask(Shape, bool),
    /// Another library's hello, as captured: whether it is answered.
    Captured(usize),
    /// The beginning of a hello, and an end.
    Unfinished,
}

/// The `n`th connection. Half of those that ask are post-quantum, half have a token.
fn act(n: u64) -> Act {
    match n % RARE {
        0 => Act::Captured((n / RARE) as usize),
        1 => Act::Unfinished,
        2 => Act::Ask(Shape::Retry, true),
        3 => Act::Ask(Shape::RetryLong, true),
        4 => Act::Ask(Shape::Tls12, false),
        _ => {
            let shapes = [Shape::PostQuantum, Shape::Classic];
            Act::Ask(shapes[(n % 2) as usize], n % 4 < 2)
        }
    }
}

/// What was done, by kind.
#[derive(Default)]
struct Expected {
    hellos: AtomicU64,
    long: AtomicU64,
    tokens: AtomicU64,
    plain: AtomicU64,
    refused: AtomicU64,
    second: AtomicU64,
    unfinished: AtomicU64,
}

impl Expected {
    fn add(&self, field: impl Fn(&Self) -> &AtomicU64) {
        field(self).fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, field: impl Fn(&Self) -> &AtomicU64) -> u64 {
        field(self).load(Ordering::Relaxed)
    }
}

struct Outcome {
    counters: Counters,
    counted: Counted,
    expected: Expected,
}

/// Runs the whole mixture.
fn run(mode: &str, conditions: Conditions) -> Outcome {
    let connections = net::number("EDGE_MIXED_CONNECTIONS", 300);
    let wire = Wire::new(conditions);
    let expected = Expected::default();
    let (counters, counted, lost) = wire.server.run(|| {
        let edge = Edge::start(mode, KEYS, |text| text);
        let clients = Clients::of(&edge.place);
        let captured = net::files::captured();
        let captured: Vec<_> = (captured.into_iter().map(|file| (file.name, file.bytes))).collect();
        let capture = Capture::start(&wire);
        let next = AtomicU64::new(0);
        let began = std::time::Instant::now();
        let lost: Vec<String> = std::thread::scope(|scope| {
            let worker = || {
                wire.client.enter();
                let mut lost = Vec::new();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= connections {
                        return lost;
                    }
                    if let Err(error) = one(n, &edge, &clients, &captured, &expected) {
                        lost.push(format!("connection {n}: {error}"));
                    }
                }
            };
            let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
            (workers.into_iter())
                .flat_map(|worker| worker.join().unwrap())
                .collect()
        });
        let took = began.elapsed();
        let others = other_libraries(&wire, &edge, &expected);
        let counters = edge.counters();
        let counted = capture.finish();
        println!(
            "{mode} {conditions:?}: {connections} connections in {took:.1?}, {} lost",
            lost.len()
        );
        println!("  other libraries: {others}");
        println!("  wire: {counted:?}\n  edge: {}", counters.show());
        edge.daemon.stop();
        (counters, counted, lost)
    });
    assert!(
        lost.is_empty(),
        "{} lost: {:#?}",
        lost.len(),
        &lost[..lost.len().min(5)]
    );
    Outcome {
        counters,
        counted,
        expected,
    }
}

fn one(
    n: u64,
    edge: &Edge,
    clients: &Clients,
    captured: &[(String, Vec<u8>)],
    expected: &Expected,
) -> Result<(), String> {
    let family = Family::BOTH[(n / 2 % 2) as usize];
    let (from, to) = (family.own(n as u32), family.server());
    match act(n) {
        Act::Ask(shape, with_token) => {
            let key = &edge.keys[(n % KEYS as u64) as usize];
            let token = with_token.then(|| token(key));
            expected.add(|e| &e.hellos);
            if shape.is_long() {
                expected.add(|e| &e.long);
            }
            if shape.is_retried() {
                expected.add(|e| &e.second);
            }
            expected.add(|e| if with_token { &e.tokens } else { &e.plain });
            clients
                .ask(&Ask {
                    shape,
                    key,
                    token,
                    from,
                    to,
                })
                .map_err(|error| format!("{shape:?} token {with_token} from {from}: {error}"))
        }
        Act::Captured(which) => {
            let (name, hello) = &captured[which % captured.len()];
            expected.add(|e| &e.hellos);
            if hello.len() > 1448 {
                expected.add(|e| &e.long);
            }
            // Their tokens were made for keys that are nobody's here.
            expected.add(|e| {
                if name.ends_with("-token") {
                    &e.refused
                } else {
                    &e.plain
                }
            });
            word_for(hello, from, to).map_err(|error| format!("{name}: {error}"))
        }
        Act::Unfinished => {
            expected.add(|e| &e.unfinished);
            let hello = clients.hello(Shape::PostQuantum, None);
            let mut tcp = connect(from, to).map_err(|error| format!("connect: {error}"))?;
            tcp.write_all(&hello[..700])
                .map_err(|error| format!("write: {error}"))
        }
    }
}

/// Clients of other TLS libraries, where they are installed: each makes a request. Tells
/// which they were.
fn other_libraries(wire: &Wire, edge: &Edge, expected: &Expected) -> String {
    let certificate = edge.place.path().join("cert.pem").display().to_string();
    let key = &edge.keys[0].text;
    let python = format!(
        "import ssl,socket\n\
         c=ssl.create_default_context(cafile={certificate:?})\n\
         c.set_alpn_protocols(['http/1.1'])\n\
         s=c.wrap_socket(socket.create_connection(('10.9.0.1',443)),server_hostname='edge.test')\n\
         s.sendall(b'GET /v1/health HTTP/1.1\\r\\nhost: edge.test\\r\\nconnection: close\\r\\n\\r\\n')\n\
         assert s.recv(12)==b'HTTP/1.1 200'\n"
    );
    let header = format!("x-api-key: {key}");
    let openssl = format!(
        "printf 'GET /v1/health HTTP/1.1\\r\\nhost: edge.test\\r\\nconnection: close\\r\\n\\r\\n' | \
         openssl s_client -quiet -verify_return_error -verify_hostname edge.test -servername edge.test \
         -CAfile {certificate} -alpn http/1.1 -connect 10.9.0.1:443 -ign_eof | grep -q '^HTTP/1.1 200'"
    );
    let programs: [(&str, &[&str]); 3] = [
        (
            "curl",
            &[
                "--silent",
                "--show-error",
                "--fail",
                "--noproxy",
                "*",
                "--max-time",
                "60",
                "--cacert",
                &certificate,
                "--resolve",
                "edge.test:443:[2001:db8::1]",
                "-H",
                &header,
                "https://edge.test/v1/health",
            ],
        ),
        ("python3", &["-c", &python]),
        ("sh", &["-c", &openssl]),
    ];
    let mut ran = Vec::new();
    for (program, arguments) in programs {
        let needed = if program == "sh" { "openssl" } else { program };
        // Only one that is not there may be left out.
        if Command::new(needed)
            .arg(if needed == "openssl" {
                "version"
            } else {
                "--version"
            })
            .output()
            .is_err()
        {
            continue;
        }
        let output = wire
            .client
            .run(|| Command::new(program).args(arguments).output().unwrap());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{needed}: {said}");
        expected.add(|e| &e.hellos);
        expected.add(|e| &e.plain);
        ran.push(needed);
    }
    ran.join(", ")
}

/// Everything adds up, and is what was done and what went over the wire.
fn equal(outcome: &Outcome) {
    let Outcome {
        counters,
        counted,
        expected,
    } = outcome;
    counters::add_up(|name| counters.named(name));
    assert_eq!(
        counted.hellos,
        expected.of(|e| &e.hellos),
        "the capture's hellos"
    );
    assert_eq!(counters.count(Counter::Hellos), counted.hellos, "hellos");
    assert_eq!(
        counters.verdicts(Verdict::Accept),
        expected.of(|e| &e.tokens),
        "accepted"
    );
    assert_eq!(
        counters.verdicts(Verdict::Legacy),
        expected.of(|e| &e.plain),
        "legacy"
    );
    assert_eq!(
        counters.verdicts(Verdict::Reject),
        expected.of(|e| &e.refused),
        "rejected"
    );
    assert_eq!(counters.verdicts(Verdict::Undecided), 0, "undecided");
    assert_eq!(
        counted.in_segments,
        expected.of(|e| &e.long),
        "the capture's long hellos"
    );
    let resumed = counters.count(Counter::HellosResumed);
    assert_eq!(resumed, counted.in_segments, "hellos resumed");
    assert_eq!(
        counted.second,
        expected.of(|e| &e.second),
        "the capture's second hellos"
    );
    assert_eq!(
        counted.unfinished,
        expected.of(|e| &e.unfinished),
        "the capture's unfinished hellos"
    );
    let unfinished = counters.of(Reason::HelloBegun) - resumed;
    assert_eq!(unfinished, counted.unfinished, "hellos never completed");
    assert!(counted.connections >= expected.of(|e| &e.hellos));
}

#[test]
fn nobody_is_lost_and_all_are_counted_once_in_driver_mode() {
    needs_kernel!();
    equal(&run("driver", Conditions::default()));
}

#[test]
fn nobody_is_lost_and_all_are_counted_once_in_generic_mode() {
    needs_kernel!();
    equal(&run("generic", Conditions::default()));
}

#[test]
fn nobody_is_lost_and_all_are_counted_once_in_a_vlan() {
    needs_kernel!();
    needs_tcx!();
    for mode in ["driver", "generic"] {
        let conditions = Conditions {
            vlan: Some(7),
            ..Conditions::default()
        };
        let outcome = run(mode, conditions);
        let Counted {
            segments, tagged, ..
        } = outcome.counted;
        assert_eq!(tagged, segments, "a frame had no tag");
        equal(&outcome);
    }
}

/// The program sees a segment, the stack behind it does not, and the client sends it again.
#[test]
fn what_is_sent_again_is_counted_once() {
    needs_kernel!();
    needs_tcx!();
    for mode in ["driver", "generic"] {
        let conditions = Conditions {
            lost_behind: 30,
            ..Conditions::default()
        };
        let outcome = run(mode, conditions);
        assert!(outcome.counted.retransmitted > 0, "nothing was sent again");
        equal(&outcome);
    }
}

/// Segments that the program never sees come late, and others before them.
#[test]
fn nobody_is_lost_when_segments_are() {
    needs_kernel!();
    needs_tcx!();
    let conditions = Conditions {
        lost_before: 30,
        ..Conditions::default()
    };
    let outcome = run("driver", conditions);
    let Outcome {
        counters,
        counted,
        expected,
    } = &outcome;
    counters::add_up(|name| counters.named(name));
    assert_eq!(
        counted.hellos,
        expected.of(|e| &e.hellos),
        "the capture's hellos"
    );
    assert!(counters.of(Reason::OtherEtherType) > 0, "nothing was lost");
    // A hello whose end came first is given up, or its beginning waits for an end that the
    // stack has already: userspace decides on both.
    let refused = counters.verdicts(Verdict::Reject);
    assert!(refused <= expected.of(|e| &e.refused), "rejected");
    let begun = counters.of(Reason::HelloBegun) - counters.count(Counter::HellosResumed);
    let hellos = counters.count(Counter::Hellos);
    assert!(hellos <= counted.hellos, "a hello was counted twice");
    assert_eq!(
        hellos + begun,
        counted.hellos + counted.unfinished,
        "hellos"
    );
}
