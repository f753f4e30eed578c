//! What the XDP program costs a packet: nanoseconds of one run, by `BPF_PROG_TEST_RUN`.
//!
//! The frame is the same each time, so caches and branch predictors are warm; it is time of
//! the program, not packets per second of a network card. Beside it in the same run: an
//! empty program, which is what passing everything costs. Paths that leave the frame alone
//! are run many times in a row by the kernel. A run that rewrites it cannot be repeated,
//! for its second run would see its own answer: those are run singly, and what a single run
//! costs by itself is taken from the same path with the answer `drop`:
//! `alert = repeated(drop) + single(alert) - single(drop)`.
//!
//! `--quick` runs fewer. `EDGE_XDP_OBJECT=FILE` measures another object. Without the rights it says so and measures nothing.

use bench::{KEY_ID, MAC_KEY, captured_hello, figure, median, replaced};
use edge_common::policy::{Answer, Clock, Counter, KeyPolicy, Reason, Settings};
use edge_common::token::{KeyId, Token};
use edge_userspace::kernel::{ClockMap, Program, ProgramError, Sizes, clock_now, object};
use std::collections::BTreeMap;
use std::process::ExitCode;

// include/uapi/linux/bpf.h
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
// include/uapi/asm-generic/errno-base.h
const EPERM: i32 = 1;

struct Path {
    name: &'static str,
    program: &'static str,
    frame: Vec<u8>,
    answer: Answer,
    /// `None`: the program counts nothing.
    reason: Option<Reason>,
    action: u32,
    events_per_second: u32,
}

fn main() -> ExitCode {
    let said = |argument: &str| std::env::args().any(|said| said == argument);
    if said("--list") {
        return ExitCode::SUCCESS;
    }
    let (mut program, mut clock) = match load() {
        Ok(loaded) => loaded,
        Err(error) if error.os_error().is_some_and(|e| e.raw_os_error() == EPERM) => {
            println!("SKIPPED xdp: {error} (needs root, or CAP_BPF and CAP_NET_ADMIN)");
            return ExitCode::SUCCESS;
        }
        Err(error) => panic!("{error}"),
    };
    let (rounds, repeat, singles) = match (said("--bench"), said("--quick")) {
        // `cargo test --benches`: only whether every path gets its answer.
        (false, _) => (1, 100, 1),
        (true, true) => (5, 50_000, 501),
        (true, false) => (21, 500_000, 5001),
    };
    let paths = paths();
    let mut repeated: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut single: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    // Round by round, so that whatever else the machine does hits all paths alike.
    for _ in 0..rounds {
        for path in paths.iter().filter(|path| path.action != XDP_TX) {
            let ns = run(&mut program, &mut clock, path, repeat);
            repeated.entry(path.name).or_default().push(ns);
        }
    }
    for _ in 0..singles {
        for path in paths.iter().filter(|path| path.name.starts_with("reject")) {
            let ns = run(&mut program, &mut clock, path, 1);
            single.entry(path.name).or_default().push(ns);
        }
    }
    let repeated: BTreeMap<_, _> = repeated
        .into_iter()
        .map(|(n, all)| (n, median(all)))
        .collect();
    let single: BTreeMap<_, _> = single
        .into_iter()
        .map(|(n, all)| (n, median(all)))
        .collect();
    if !said("--bench") {
        println!("every path gets its answer");
        return ExitCode::SUCCESS;
    }
    let empty = repeated["empty"];
    println!("{rounds} rounds of {repeat} runs, medians; single runs: {singles}");
    for path in &paths {
        let Some(&ns) = repeated.get(path.name) else {
            let net = repeated["reject_drop"] + single[path.name] - single["reject_drop"];
            figure(&format!("xdp.{}", path.name), net, "ns");
            figure(
                &format!("xdp.{}.single_run", path.name),
                single[path.name],
                "ns",
            );
            figure(&format!("xdp.{}.over_empty", path.name), net / empty, "x");
            continue;
        };
        figure(&format!("xdp.{}", path.name), ns, "ns");
        figure(&format!("xdp.{}.over_empty", path.name), ns / empty, "x");
    }
    let instructions = program.verified_instructions(Program::EDGE);
    if let Ok(Some(instructions)) = instructions {
        figure("xdp.verified_instructions", f64::from(instructions), "1");
    }
    ExitCode::SUCCESS
}

fn load() -> Result<(Program, ClockMap), ProgramError> {
    let other = std::env::var_os("EDGE_XDP_OBJECT").map(|path| {
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    });
    match &other {
        Some(_) => println!("object: as EDGE_XDP_OBJECT names it"),
        None => println!("object: {}", object::PROVENANCE),
    }
    let sizes = Sizes {
        keys: 100_000,
        flow_sets: 8192,
        replay_sets: 1 << 17,
        prefix_sets: 1 << 14,
    };
    let mut program = Program::load(other.as_deref().unwrap_or(object::OBJECT), &sizes)?;
    program.set_ports(&[443])?;
    let policy = KeyPolicy {
        mac_key: MAC_KEY,
        not_before_s: 0,
        not_after_s: u64::MAX,
        flags: 0,
        ..KeyPolicy::UNLIMITED
    };
    let id = KeyId::from_hex(KEY_ID).expect("sixteen digits");
    for other in 1..10_000 {
        program.put_key(KeyId(other), &policy)?;
    }
    program.put_key(id, &policy)?;
    let clock = program.take_clock().ok_or(ProgramError::Missing("CLOCK"))?;
    Ok((program, clock))
}

/// Runs the program and holds it to the action, and to one reason for every run.
fn run(program: &mut Program, clock: &mut ClockMap, path: &Path, repeat: u32) -> f64 {
    let settings = Settings {
        heartbeat_max_age_ns: 3_600_000_000_000,
        window_back_s: 3600,
        window_ahead_s: 5,
        answer: path.answer as u32,
        deny_legacy: 0,
        policy_complete: 1,
        events_per_second: path.events_per_second,
        answers_per_second: u32::MAX,
        ..Settings::default()
    };
    program.set_settings(&settings).expect("SETTINGS");
    let Clock {
        unix_offset_ns,
        heartbeat_ns,
    } = clock_now();
    clock
        .set(&Clock {
            unix_offset_ns,
            heartbeat_ns,
        })
        .expect("CLOCK");
    let before = program.counters().expect("COUNTERS");
    let run = program
        .test_run(path.program, &path.frame, repeat)
        .expect("test run");
    let after = program.counters().expect("COUNTERS");
    assert_eq!(run.action, path.action, "{}", path.name);
    if let Some(reason) = path.reason {
        for slot in [reason as usize, Counter::Packets as usize] {
            assert_eq!(
                after[slot] - before[slot],
                u64::from(repeat),
                "{}: {}",
                path.name,
                reason.name()
            );
        }
    } else {
        assert_eq!(before, after, "{}", path.name);
    }
    run.duration.as_nanos() as f64
}

fn paths() -> Vec<Path> {
    let path = |name, payload: &[u8], reason| Path {
        name,
        program: Program::EDGE,
        frame: frame(payload, 443),
        answer: Answer::Drop,
        reason: Some(reason),
        action: XDP_PASS,
        events_per_second: 100, // the configuration's default
    };
    let good = with_fresh_token(&captured_hello("rustls-classic-token"));
    let openssl = with_fresh_token(&captured_hello("openssl-token"));
    let plain = captured_hello("python-plain");
    let tail = &good[position(&good, b"ezl1-") + 53..][..8];
    let other_tail: Vec<u8> = tail
        .iter()
        .map(|d| if *d == b'0' { b'1' } else { b'0' })
        .collect();
    let wrong = replaced(&good, tail, &other_tail);
    let unknown = replaced(&good, &KEY_ID.as_bytes()[..8], b"ffffffff");
    let mut data = vec![23, 3, 3, 5, 0x80];
    data.resize(1413, 0x5a);
    let split = captured_hello("rustls-post-quantum-token");
    vec![
        Path {
            program: Program::PASS,
            reason: None,
            ..path("empty", &plain, Reason::NoToken)
        },
        Path {
            frame: frame(&plain, 80),
            ..path("other_port", &plain, Reason::OtherPort)
        },
        path("pure_ack", b"", Reason::NoPayload),
        path("later_data", &data, Reason::NotHello),
        path("first_of_two_segments", &split[..1448], Reason::Incomplete),
        path(
            "rustls_plain",
            &captured_hello("rustls-classic-plain"),
            Reason::NoToken,
        ),
        path("python_plain", &plain, Reason::NoToken),
        Path {
            events_per_second: 0,
            ..path("python_plain_no_events", &plain, Reason::NoToken)
        },
        path("rustls_token", &good, Reason::Accepted),
        path("openssl_token", &openssl, Reason::Accepted),
        Path {
            events_per_second: 0,
            ..path("rustls_token_no_events", &good, Reason::Accepted)
        },
        Path {
            action: XDP_DROP,
            ..path("unknown_key_drop", &unknown, Reason::KeyUnknown)
        },
        Path {
            action: XDP_DROP,
            ..path("reject_drop", &wrong, Reason::TagWrong)
        },
        Path {
            action: XDP_TX,
            answer: Answer::Alert,
            ..path("reject_alert", &wrong, Reason::TagWrong)
        },
        Path {
            action: XDP_TX,
            answer: Answer::Rst,
            ..path("reject_rst", &wrong, Reason::TagWrong)
        },
    ]
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

/// A client's segment with timestamps over IPv4; checksums are left to offload.
fn frame(payload: &[u8], port: u16) -> Vec<u8> {
    let total = (20 + 32 + payload.len() as u16).to_be_bytes();
    let mut frame = [&[2; 6][..], &[4; 6], &[8, 0, 0x45, 0], &total].concat();
    frame.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0xc3, 0x50]);
    frame.extend(port.to_be_bytes());
    frame.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend([1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8]);
    frame.extend(payload);
    frame
}
