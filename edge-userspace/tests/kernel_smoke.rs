//! The real object in the real kernel, without a network: it loads, and a first few
//! frames get their verdicts.

#[macro_use]
mod skip;

use edge_common::policy::{Clock, Counter, KeyPolicy, Reason, Settings};
use edge_common::token::{KeyId, Token};
use edge_userspace::kernel::{Program, clock_now, object};

const PORT: u16 = 443;
const MAC_KEY: [u64; 2] = [1, 2];
const KEY: KeyId = KeyId(0x1122_3344_5566_7788);

fn program() -> Program {
    let mut program = Program::load(object::OBJECT, 1000).unwrap();
    program
        .set_settings(&Settings {
            heartbeat_max_age_ns: 3_000_000_000,
            window_back_s: 30,
            window_ahead_s: 5,
            policy_complete: 1,
            events_per_second: 100,
            ..Settings::default()
        })
        .unwrap();
    program.set_ports(&[PORT]).unwrap();
    let policy = KeyPolicy {
        mac_key: MAC_KEY,
        not_before_s: 0,
        not_after_s: u64::MAX,
        flags: 0,
    };
    program.put_key(KEY, &policy).unwrap();
    program.take_clock().unwrap().set(&clock_now()).unwrap();
    program
}

fn now_s() -> u32 {
    let Clock {
        unix_offset_ns,
        heartbeat_ns,
    } = clock_now();
    (unix_offset_ns.wrapping_add(heartbeat_ns) / 1_000_000_000) as u32
}

fn hello(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = names
        .iter()
        .flat_map(|n| [&[n.len() as u8][..], n].concat())
        .collect();
    let be16 = |n: usize| (n as u16).to_be_bytes();
    let alpn = [
        &be16(16)[..],
        &be16(list.len() + 2),
        &be16(list.len()),
        &list,
    ]
    .concat();
    let other = [&be16(10)[..], &be16(4), &be16(2), &be16(29)].concat();
    let extensions = [other, alpn].concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &be16(2),
        &[0x13, 0x01],
        &[1, 0],
        &be16(extensions.len()),
        &extensions,
    ]
    .concat();
    let handshake = [&[1, 0][..], &be16(body.len()), &body].concat();
    [&[22, 3, 1][..], &be16(handshake.len()), &handshake].concat()
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let total = (20 + 20 + payload.len()) as u16;
    let mut frame = [&[2u8; 6][..], &[4; 6], &[8, 0]].concat();
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(50_000u16.to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend([0, 0, 0, 9, 0, 0, 0, 5, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

#[test]
fn the_object_loads_within_half_the_verifiers_limit() {
    needs_kernel!();
    let mut program = program();
    let instructions = program.verified_instructions(Program::EDGE).unwrap();
    println!(
        "figure verifier_instructions {} 1",
        instructions.unwrap_or_default()
    );
    assert!(instructions.is_none_or(|n| n < 500_000));
}

#[test]
fn tokens_get_their_verdicts() {
    needs_kernel!();
    let mut program = program();
    let good = Token::issue(KEY, MAC_KEY, now_s(), 7);
    let tag = Token {
        tag: good.tag ^ 1,
        ..good
    };
    let unknown = Token::issue(KeyId(5), MAC_KEY, now_s(), 7);
    let old = Token::issue(KEY, MAC_KEY, now_s() - 60, 7);
    let ahead = Token::issue(KEY, MAC_KEY, now_s() + 60, 7);
    let cases: [(&[u8], Reason, u32); 7] = [
        (&good.to_name(), Reason::Accepted, 2),
        (&tag.to_name(), Reason::TagWrong, 3),
        (&unknown.to_name(), Reason::KeyUnknown, 3),
        (&old.to_name(), Reason::TokenExpired, 3),
        (&ahead.to_name(), Reason::TokenFromFuture, 3),
        (b"ezl1-short", Reason::TokenMalformed, 3),
        (b"http/1.1", Reason::NoToken, 2),
    ];
    for (name, reason, action) in cases {
        let before = program.counters().unwrap();
        let run = program
            .test_run(Program::EDGE, &frame(&hello(&[b"h2", name])), 1)
            .unwrap();
        let after = program.counters().unwrap();
        println!("{} {:?}", reason.name(), run.duration);
        assert_eq!(run.action, action, "{}", reason.name());
        assert_eq!(
            after[reason as usize],
            before[reason as usize] + 1,
            "{}",
            reason.name()
        );
        let hellos = Counter::Hellos as usize;
        assert_eq!(after[hellos], before[hellos] + 1);
    }
}
