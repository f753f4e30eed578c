//! What the XDP programs cost a packet: nanoseconds of one run, by `BPF_PROG_TEST_RUN` on
//! the object that is shipped, every feature on.
//!
//! Caches and branch predictors are warm; it is time of the program, not packets per second
//! of a network card. Beside it in the same run: an empty program (the null baseline: what
//! passing everything costs), and a packet for another port, which is all that a trivial
//! filter by port would look at.
//!
//! Where the same frame may come again and again, the kernel repeats it. A *fresh* hello
//! cannot be repeated, for the program knows it the second time, and neither can one that
//! is answered, for it is gone: `edge_again` puts the frame back, from the next of a row of
//! client ports, before it goes on; the same without going on is subtracted. The row is 256
//! real connections over the loopback device, more than the flow table of this bench has
//! places: each is looked up, its numbers are compared, it is new to the table and pushes
//! another out.
//!
//! `--quick` runs fewer. `EDGE_XDP_OBJECT=FILE` measures another object, `EDGE_XDP_PATHS=NAME,...`
//! only these paths, for who looks for what to make quicker.
//! Without the rights it says so and measures nothing.

#![expect(unsafe_code, reason = "named island: TCP_REPAIR has no safe wrapper")]

use bench::{KEY_ID, MAC_KEY, captured_hello, figure, median, replaced};
use edge_common::flow::FlowKey;
use edge_common::policy::{Answer, Clock, Counter, KeyPolicy, Reason, Settings};
use edge_common::prefix;
use edge_common::rate::Rate;
use edge_common::rehearsal::{self, Rehearsal};
use edge_common::token::{KeyId, Token};
use edge_userspace::kernel::memory::Memory;
use edge_userspace::kernel::{ClockMap, Program, ProgramError, Sizes, clock_now, object};
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering;

// include/uapi/linux/bpf.h
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
// include/uapi/asm-generic/errno-base.h
const EPERM: i32 = 1;

/// Connections over the loopback device, and places of the flow table.
const CONNECTIONS: u16 = rehearsal::CONNECTIONS as u16;
const FLOW_SETS: u32 = rehearsal::FORGETTING_SETS;
const PREFIX_SETS: u32 = 1 << 14;
/// Any.
const SECRET: [u64; 2] = [0x5bd1_e995_97f4_a7c1, 0x1656_67b1_9e37_79f9];
const FIRST_PORT: u16 = 40_000;
/// Of the frames that come again and again: the port behind the row.
const REPEATED: u16 = FIRST_PORT + CONNECTIONS;
/// A client port without a connection.
const NOBODY: u16 = 50_000;
const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 443);
/// What an alert leaves of a frame: Ethernet, IPv4, TCP with timestamps, seven bytes.
const ALERT_FRAME: usize = 14 + 20 + 32 + 7;

/// What is run, and what must come of it.
struct Path {
    name: &'static str,
    /// The frames of one connection: one, or two in turn.
    frames: Vec<Vec<u8>>,
    /// Put back each time, from one connection after the other.
    is_fresh: bool,
    answer: Answer,
    /// What is counted for each of the frames, and what becomes of the last.
    reasons: Vec<Reason>,
    action: u32,
    /// Run once before, so that the program knows the connection.
    before: Option<Vec<u8>>,
    /// Whether the clients' prefix has a bucket, and whether connections are looked up.
    has_bucket: bool,
    is_checked: bool,
}

/// How often.
#[derive(Clone, Copy)]
struct Effort {
    rounds: u32,
    repeat: u32,
}

struct Bench {
    program: Program,
    clock: ClockMap,
    prefixes: Memory,
}

fn main() -> ExitCode {
    let said = |argument: &str| std::env::args().any(|said| said == argument);
    if said("--list") {
        return ExitCode::SUCCESS;
    }
    let mut bench = match Bench::load() {
        Ok(bench) => bench,
        Err(error) if error.os_error().is_some_and(|e| e.raw_os_error() == EPERM) => {
            println!("SKIPPED xdp: {error} (needs root, or CAP_BPF and CAP_NET_ADMIN)");
            return ExitCode::SUCCESS;
        }
        Err(error) => panic!("{error}"),
    };
    if let Err(error) = own_network() {
        println!("SKIPPED xdp: no network namespace of its own: {error}");
        return ExitCode::SUCCESS;
    }
    let (_listener, connections) = connections();
    let sequences: Vec<u32> = (connections.iter())
        .map(|(_, server)| expected_next(server).expect("TCP_REPAIR"))
        .collect();
    let effort = match (said("--bench"), said("--quick")) {
        // `cargo test --benches`: only whether every path gets its answer.
        (false, _) => Effort {
            rounds: 1,
            repeat: 200,
        },
        (true, true) => Effort {
            rounds: 7,
            repeat: 50_000,
        },
        (true, false) => Effort {
            rounds: 21,
            repeat: 500_000,
        },
    };
    let mut paths = paths(sequences[usize::from(CONNECTIONS)]);
    if let Ok(wanted) = std::env::var("EDGE_XDP_PATHS") {
        paths.retain(|path| wanted.split(',').any(|name| name == path.name));
    }
    let first = paths.first().expect("a path of that name");
    let mut samples: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    // Round by round, so that whatever else the machine does hits all paths alike.
    for _ in 0..effort.rounds {
        let empty = bench.empty(first, effort.repeat);
        samples.entry("empty").or_default().push(empty);
        for path in &paths {
            let over_empty = if path.is_fresh {
                bench.fresh(path, &sequences, effort.repeat)
            } else {
                bench.repeated(path, effort.repeat) - empty
            };
            samples.entry(path.name).or_default().push(over_empty);
        }
    }
    if !said("--bench") {
        println!("every path gets its answer");
        return ExitCode::SUCCESS;
    }
    println!(
        "{} rounds of {} runs, medians",
        effort.rounds, effort.repeat
    );
    figure("xdp.empty_ns", median(samples["empty"].clone()), "ns");
    for path in &paths {
        let name = format!("xdp.{}_over_empty_ns", path.name);
        figure(&name, median(samples[path.name].clone()), "ns");
    }
    let mut most = 0;
    for name in Program::names() {
        if let Ok(Some(instructions)) = bench.program.verified_instructions(name) {
            figure(
                &format!("xdp.verifier_insns.{name}"),
                f64::from(instructions),
                "1",
            );
            most = most.max(instructions);
        }
    }
    figure("xdp.verifier_insns", f64::from(most), "1");
    ExitCode::SUCCESS
}

impl Bench {
    fn load() -> Result<Self, ProgramError> {
        let other = std::env::var_os("EDGE_XDP_OBJECT").map(|path| {
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        });
        match &other {
            Some(_) => println!("object: as EDGE_XDP_OBJECT names it"),
            None => println!("object: {}", object::PROVENANCE),
        }
        let sizes = Sizes {
            keys: 100_000,
            flow_sets: FLOW_SETS,
            replay_sets: 1 << 17,
            prefix_sets: PREFIX_SETS,
        };
        let mut program = Program::load(other.as_deref().unwrap_or(object::OBJECT), &sizes)?;
        program.set_ports(&[SERVER.1])?;
        program.set_addresses(&[SERVER.into()])?;
        let policy = KeyPolicy {
            mac_key: MAC_KEY,
            hard_rate: Rate::per_second(1000, 1000),
            ..KeyPolicy::UNLIMITED
        };
        let id = KeyId::from_hex(KEY_ID).expect("sixteen digits");
        for other in 1..10_000 {
            program.put_key(KeyId(other), &policy)?;
        }
        program.put_key(id, &policy)?;
        let clock = program.take_clock().ok_or(ProgramError::Missing("CLOCK"))?;
        let tables = program
            .take_tables()
            .ok_or(ProgramError::Missing("tables"))?;
        let words = sizes.prefix_sets as usize * prefix::SET_WORDS;
        let prefixes = Memory::map(tables.prefixes.fd(), words).expect("PREFIXES");
        Ok(Self {
            program,
            clock,
            prefixes,
        })
    }

    /// Settings as in operation, and a heart that beats.
    fn prepare(&mut self, path: &Path) {
        let prefix = prefix::of(&[0, 0, FlowKey::MAPPED, u32::from_ne_bytes([127, 0, 0, 1])]);
        let place = prefix::place(prefix, SECRET, PREFIX_SETS - 1) as usize;
        let bucket = &self.prefixes[place * prefix::SET_WORDS];
        bucket.store(if path.has_bucket { prefix } else { 0 }, Ordering::Relaxed);
        let settings = Settings {
            heartbeat_max_age_ns: 3_600_000_000_000,
            secret: SECRET,
            legacy_rate: Rate::per_second(500, 1000),
            window_back_s: 3600,
            window_ahead_s: 5,
            answer: path.answer as u32,
            policy_complete: 1,
            events_per_second: 100, // the configuration's default
            answers_per_second: u32::MAX,
            check_connection: u32::from(path.is_checked),
            ..Settings::default()
        };
        self.program.set_settings(&settings).expect("SETTINGS");
        self.clock.set(&clock_now()).expect("CLOCK");
    }

    fn empty(&mut self, path: &Path, repeat: u32) -> f64 {
        self.prepare(path);
        self.run(Program::PASS, &path.frames[0], repeat, XDP_PASS)
    }

    /// The same frame again and again.
    fn repeated(&mut self, path: &Path, repeat: u32) -> f64 {
        self.prepare(path);
        if let Some(before) = &path.before {
            self.run(Program::EDGE, before, 1, XDP_PASS);
        }
        let before = self.counters();
        let ns = self.run(Program::EDGE, &path.frames[0], repeat, path.action);
        self.assert_counted(path, &before, repeat);
        ns
    }

    /// Frames of one connection after the other, less what it costs to put them back.
    fn fresh(&mut self, path: &Path, sequences: &[u32], repeat: u32) -> f64 {
        let frames = path.frames.len() as u32;
        // A whole number of rounds through the connections.
        let row = u32::from(CONNECTIONS) * frames;
        let repeat = repeat.div_ceil(row) * row;
        self.prepare(path);
        let mut rehearsal = Box::new(Rehearsal {
            ports_mask: u32::from(CONNECTIONS) - 1,
            first_port: u32::from(FIRST_PORT),
            frames,
            is_on: 1,
            ..Rehearsal::NONE
        });
        for (at, frame) in path.frames.iter().enumerate() {
            rehearsal.lengths[at] = frame.len() as u32;
            rehearsal.offsets[at] = sequence_of(frame).wrapping_sub(sequence_of(&path.frames[0]));
            rehearsal.bytes[at][..frame.len()].copy_from_slice(frame);
        }
        rehearsal
            .sequences
            .copy_from_slice(&sequences[..usize::from(CONNECTIONS)]);
        if path.name.contains("spoofed") {
            rehearsal.first_port = u32::from(NOBODY);
        }
        // A refused connection is not pushed out for a second: those are forgotten.
        rehearsal.is_forgetting = u32::from(path.action != XDP_PASS);
        self.program.set_rehearsal(&rehearsal).expect("REHEARSAL");
        let before = self.counters();
        let whole = self.run(Program::AGAIN, &path.frames[0], repeat, path.action);
        self.assert_counted(path, &before, repeat);

        rehearsal.is_on = 0;
        if path.action == XDP_TX {
            rehearsal.cut_bytes = (path.frames[0].len() - ALERT_FRAME) as u32;
        }
        self.program.set_rehearsal(&rehearsal).expect("REHEARSAL");
        let by_itself = self.run(Program::AGAIN, &path.frames[0], repeat, XDP_PASS);
        (whole - by_itself) * f64::from(frames)
    }

    fn run(&mut self, program: &'static str, frame: &[u8], repeat: u32, action: u32) -> f64 {
        let run = self.program.test_run(program, frame, repeat);
        let run = run.expect("test run");
        assert_eq!(run.action, action, "{program}");
        run.duration.as_nanos() as f64
    }

    fn counters(&self) -> Vec<u64> {
        self.program.counters().expect("COUNTERS")
    }

    /// Each frame was counted under its reason, every time.
    fn assert_counted(&self, path: &Path, before: &[u64], repeat: u32) {
        let after = self.counters();
        let moved = |slot: usize| after[slot] - before[slot];
        assert_eq!(moved(Counter::Packets as usize), u64::from(repeat));
        let each = u64::from(repeat) / path.reasons.len() as u64;
        for reason in &path.reasons {
            let (name, why) = (path.name, reason.name());
            assert_eq!(moved(*reason as usize), each, "{name}: {why}");
        }
    }
}

fn paths(sequence: u32) -> Vec<Path> {
    let frame =
        |payload: &[u8], offset: u32, port| frame(payload, sequence.wrapping_add(offset), port);
    let repeated = |name, frame: Vec<u8>, reason| Path {
        name,
        frames: vec![frame],
        is_fresh: false,
        answer: Answer::Alert,
        reasons: vec![reason],
        action: XDP_PASS,
        before: None,
        has_bucket: true,
        is_checked: true,
    };
    let fresh = |name, payload: &[u8], reason| Path {
        is_fresh: true,
        ..repeated(name, frame(payload, 0, SERVER.1), reason)
    };
    let good = with_fresh_token(&captured_hello("rustls-classic-token"));
    let openssl = with_fresh_token(&captured_hello("openssl-token"));
    let plain = captured_hello("python-plain");
    let tail = &good[position(&good, b"ezl1-") + 53..][..8];
    let flip = |digit: &u8| if *digit == b'0' { b'1' } else { b'0' };
    let wrong = replaced(&good, tail, &tail.iter().map(flip).collect::<Vec<_>>());
    let unknown = replaced(&good, &KEY_ID.as_bytes()[..8], b"ffffffff");
    let mut data = vec![23, 3, 3, 5, 0x80];
    data.resize(1413, 0x5a);
    let split = with_fresh_token(&captured_hello("rustls-post-quantum-token"));
    let (first, second) = split.split_at(1448);
    let good_frame = frame(&good, 0, SERVER.1);
    vec![
        repeated("unrelated", frame(&plain, 0, 80), Reason::OtherPort),
        repeated("pure_ack", frame(b"", 0, SERVER.1), Reason::NoPayload),
        Path {
            before: Some(good_frame.clone()),
            ..repeated(
                "data",
                frame(&data, good.len() as u32, SERVER.1),
                Reason::NotHello,
            )
        },
        fresh("no_token", &plain, Reason::NoToken),
        Path {
            has_bucket: false,
            ..fresh("no_token_new_prefix", &plain, Reason::NoToken)
        },
        Path {
            is_checked: false,
            ..fresh("no_token_unchecked", &plain, Reason::NoToken)
        },
        fresh(
            "no_token_rustls",
            &captured_hello("rustls-classic-plain"),
            Reason::NoToken,
        ),
        Path {
            before: Some(good_frame.clone()),
            ..repeated("hello_repeat", good_frame, Reason::Retransmitted)
        },
        fresh("hello_fresh", &good, Reason::Accepted),
        fresh("hello_fresh_openssl", &openssl, Reason::Accepted),
        Path {
            frames: vec![
                frame(first, 0, SERVER.1),
                frame(second, first.len() as u32, SERVER.1),
            ],
            reasons: vec![Reason::HelloBegun, Reason::Accepted],
            ..fresh("hello_split", &good, Reason::Accepted)
        },
        Path {
            action: XDP_TX,
            ..fresh("reject_alert", &wrong, Reason::TagWrong)
        },
        Path {
            action: XDP_TX,
            ..fresh("reject_alert_unknown_key", &unknown, Reason::KeyUnknown)
        },
        Path {
            action: XDP_DROP,
            ..fresh("spoofed", &wrong, Reason::NoConnection)
        },
    ]
}

/// A network namespace with a loopback device that is up.
fn own_network() -> std::io::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status()?;
    if up.success() {
        Ok(())
    } else {
        Err(std::io::Error::other("`ip link set lo up` failed"))
    }
}

/// A connection from this port.
fn connect_from(port: u16) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((SERVER.0, port)).into())?;
    socket.connect(&SocketAddr::from(SERVER).into())?;
    Ok(socket.into())
}

/// One connection from each port of the row and the one behind it, both ends.
fn connections() -> (TcpListener, Vec<(TcpStream, TcpStream)>) {
    let listener = TcpListener::bind(SocketAddr::from(SERVER)).expect("the port is free here");
    let both_ends = |port| {
        let client = connect_from(port).expect("loopback");
        let (server, _) = listener.accept().expect("the connection");
        (client, server)
    };
    let connections = (FIRST_PORT..=REPEATED).map(both_ends).collect();
    (listener, connections)
}

/// What the kernel expects next on this socket (`TCP_QUEUE_SEQ`, include/uapi/linux/tcp.h).
fn expected_next(socket: &TcpStream) -> std::io::Result<u32> {
    const TCP_RECV_QUEUE: libc::c_int = 1;
    const OFF_WITHOUT_PROBES: libc::c_int = -1;
    let set = |option, value: libc::c_int| {
        // SAFETY: the descriptor is open, the value is one c_int.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    set(libc::TCP_REPAIR, 1)?;
    set(libc::TCP_REPAIR_QUEUE, TCP_RECV_QUEUE)?;
    let (mut number, mut length) = (0u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the descriptor is open, the number is as long as is said.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUEUE_SEQ,
            (&raw mut number).cast(),
            &raw mut length,
        )
    };
    let asked = std::io::Error::last_os_error();
    set(libc::TCP_REPAIR, OFF_WITHOUT_PROBES)?;
    if result == 0 { Ok(number) } else { Err(asked) }
}

fn sequence_of(frame: &[u8]) -> u32 {
    let bytes = frame[38..].first_chunk().expect("a TCP header");
    u32::from_be_bytes(*bytes)
}

/// The captured hello with a token of this hour in the place of its own.
fn with_fresh_token(hello: &[u8]) -> Vec<u8> {
    let Clock {
        unix_offset_ns,
        heartbeat_ns,
    } = clock_now();
    let now_s = unix_offset_ns.wrapping_add(heartbeat_ns) / 1_000_000_000;
    let id = KeyId::from_hex(KEY_ID).expect("sixteen digits");
    let token = Token::issue(id, MAC_KEY, u32::try_from(now_s).expect("before 2106"), 7);
    let at = position(hello, b"ezl1-");
    replaced(hello, &hello[at..at + 61], &token.to_name())
}

fn position(hello: &[u8], text: &[u8]) -> usize {
    let found = hello.windows(text.len()).position(|window| window == text);
    found.expect("the hello offers a token")
}

/// A client's segment with timestamps over IPv4, with its TCP checksum.
fn frame(payload: &[u8], sequence: u32, port: u16) -> Vec<u8> {
    let total = (20 + 32 + payload.len() as u16).to_be_bytes();
    let mut frame = [&[2; 6][..], &[4; 6], &[8, 0, 0x45, 0], &total].concat();
    frame.extend([0, 7, 0x40, 0, 64, 6, 0, 0]);
    frame.extend([127, 0, 0, 1]);
    frame.extend(SERVER.0);
    frame.extend(REPEATED.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend(sequence.to_be_bytes());
    frame.extend([5, 6, 7, 8, 0x80, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend([1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8]);
    frame.extend(payload);
    // RFC 9293 section 3.1: both addresses, the protocol and the length go with it.
    let bytes = frame.len() - 34;
    let mut sum = 6 + bytes as u64;
    for pair in frame[26..].chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    frame[50..52].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}
