//! What the kernel half sees besides the packet: the tables that userspace writes, and a
//! PROXY protocol header before the hello. The real object on frames, attached to nothing.

mod packets;
#[macro_use]
mod skip;

use edge_common::flow::FlowKey;
use edge_common::policy::{Counter, KeyPolicy, Reason, Settings};
use edge_common::rate::Rate;
use edge_common::rehearsal::Rehearsal;
use edge_common::replay::{self, Holder};
use edge_common::token::{KeyId, Token};
use edge_common::{prefix, rate::KeyBucket, total};
use edge_userspace::kernel::memory::Memory;
use edge_userspace::kernel::{ClockMap, Program, Sizes, Tables, clock_now, object};
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, unshare};
use nix::unistd::Pid;
use packets::frames::{segment, syn};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::Instant;

const KEY: KeyId = KeyId(0x0102_0304_0506_0708);
const MAC_KEY: [u64; 2] = [0x1111_2222_3333_4444, 0x5555_6666_7777_8888];
const SECRET: [u64; 2] = [0x0123_4567_89ab_cdef, 0x0f1e_2d3c_4b5a_6978];
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// The client of the frames.
const CLIENT: FlowKey = FlowKey {
    client: [0, 0, FlowKey::MAPPED, u32::from_ne_bytes([10, 0, 0, 1])],
    server: [0, 0, FlowKey::MAPPED, u32::from_ne_bytes([10, 0, 0, 2])],
    client_port_be: 0,
    server_port_be: 0,
    padding: 0,
};

struct World {
    program: Program,
    settings: Settings,
    clock: ClockMap,
    tables: Tables,
}

impl World {
    fn new(proxied: bool) -> Self {
        let mut program = Program::load(object::OBJECT, &Sizes::SMALL).unwrap();
        program.set_ports(&[443]).unwrap();
        program
            .set_proxied_ports(if proxied { &[443] } else { &[] })
            .unwrap();
        let settings = Settings {
            heartbeat_max_age_ns: 3_600_000_000_000,
            secret: SECRET,
            legacy_rate: Rate::per_second(10, 10),
            window_back_s: 30,
            window_ahead_s: 5,
            policy_complete: 1,
            answers_per_second: u32::MAX,
            has_proxied_ports: u32::from(proxied),
            ..Settings::default()
        };
        program.set_settings(&settings).unwrap();
        let policy = KeyPolicy {
            mac_key: MAC_KEY,
            hard_rate: Rate::per_second(10, 10),
            bucket: 3,
            ..KeyPolicy::UNLIMITED
        };
        program.put_key(KEY, &policy).unwrap();
        let clock = program.take_clock().unwrap();
        let tables = program.take_tables().unwrap();
        Self {
            program,
            settings,
            clock,
            tables,
        }
    }

    /// Segments of one connection, one after the other: the reason and the action of each.
    fn see(&mut self, segments: &[&[u8]]) -> Vec<(Reason, u32)> {
        let mut offset = 0;
        let mut seen = Vec::new();
        let first = segment(4, 0, b"");
        self.run(&syn_of(&first));
        for payload in segments {
            seen.push(self.run(&segment(4, offset, payload)));
            offset += payload.len();
        }
        seen
    }

    fn run(&mut self, frame: &[u8]) -> (Reason, u32) {
        self.clock.set(&clock_now()).unwrap();
        let before = self.program.counters().unwrap();
        let run = self.program.test_run(Program::EDGE, frame, 1).unwrap();
        let after = self.program.counters().unwrap();
        let moved = |reason: &&Reason| after[**reason as usize] != before[**reason as usize];
        let reasons: Vec<_> = Reason::ALL.iter().filter(moved).collect();
        let [reason] = reasons[..] else {
            panic!("{reasons:?}");
        };
        (*reason, run.action)
    }

    fn words(&self, map: &aya::maps::MapData, words: usize) -> Memory {
        let _ = self;
        Memory::map(map.fd(), words).unwrap()
    }
}

fn syn_of(frame: &[u8]) -> Vec<u8> {
    let port = |at: usize| u16::from_ne_bytes([frame[at], frame[at + 1]]);
    syn(&FlowKey {
        client_port_be: port(34),
        server_port_be: port(36),
        ..CLIENT
    })
}

fn now_s() -> u64 {
    let clock = clock_now();
    clock.unix_offset_ns.wrapping_add(clock.heartbeat_ns) / 1_000_000_000
}

fn token(nonce: u64) -> Token {
    Token::issue(KEY, MAC_KEY, now_s() as u32, nonce)
}

/// A small hello that offers these names.
fn hello(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = names
        .iter()
        .flat_map(|name| [&[name.len() as u8], *name].concat())
        .collect();
    let be16 = |n: usize| (n as u16).to_be_bytes();
    let alpn = [
        &[0, 16][..],
        &be16(list.len() + 2),
        &be16(list.len()),
        &list,
    ]
    .concat();
    let extensions = [&be16(alpn.len())[..], &alpn].concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0, 0, 2, 0x13, 1, 1, 0],
        &extensions,
    ]
    .concat();
    let message = [&[1, 0][..], &be16(body.len()), &body].concat();
    [&[22, 3, 1][..], &be16(message.len()), &message].concat()
}

fn good(nonce: u64) -> Vec<u8> {
    hello(&[b"h2", &token(nonce).to_name()])
}

fn bad() -> Vec<u8> {
    let mut token = token(1);
    token.tag ^= 1;
    hello(&[b"h2", &token.to_name()])
}

#[test]
fn a_token_that_another_connection_used_is_refused_and_its_own_is_not() {
    needs_kernel!();
    let mut world = World::new(false);
    let frame = segment(4, 0, b"");
    let flow = FlowKey {
        client_port_be: u16::from_ne_bytes([frame[34], frame[35]]),
        server_port_be: u16::from_ne_bytes([frame[36], frame[37]]),
        ..CLIENT
    };
    let words = Sizes::SMALL.replay_sets as usize * replay::SET_WORDS;
    let memory = world.words(&world.tables.replay, words);
    let mine = replay::mark(&flow, SECRET);
    for place in [0, 1] {
        for entry in [0, replay::WAYS - 1] {
            for (holder, expected) in [
                (mine, (Reason::Accepted, XDP_PASS)),
                (mine ^ 1, (Reason::Replayed, XDP_TX)),
            ] {
                let token = token(place as u64 * 100 + entry as u64);
                let id = replay::id(&token);
                let set = replay::places(id, SECRET, Sizes::SMALL.replay_sets - 1)[place];
                let at = set as usize * replay::SET_WORDS + 2 * entry;
                let name = token.to_name();
                let hello = hello(&[b"h2", &name]);
                memory[at + 1].store(Holder::new(holder, now_s() + 30).0, Ordering::Relaxed);
                memory[at].store(id, Ordering::Relaxed);
                assert_eq!(
                    world.see(&[&hello]),
                    [expected],
                    "place {place}, entry {entry}"
                );
                memory[at].store(0, Ordering::Relaxed);
                let unused = world.see(&[&hello]);
                assert_eq!(unused, [(Reason::Accepted, XDP_PASS)]);
            }
        }
    }
}

/// The kernel looks at what userspace has accepted; once that is more than half of what may
/// be, it lets through no more than the rate itself.
#[test]
fn a_keys_bucket_is_looked_at_and_shed_only_when_it_is_pressed() {
    needs_kernel!();
    let mut world = World::new(false);
    let words = Sizes::SMALL.keys as usize * size_of::<KeyBucket>() / 8;
    let memory = world.words(&world.tables.key_buckets, words);
    let (hard, shed) = (&memory[3 * 4], &memory[3 * 4 + 1]);
    let second = 1_000_000_000;
    let now = || clock_now().heartbeat_ns;

    // An hour's worth: nothing drains while this runs.
    let pass = |world: &mut World, nonce| world.see(&[&good(nonce)])[0];
    for nonce in 0..30 {
        assert_eq!(pass(&mut world, nonce), (Reason::Accepted, XDP_PASS));
    }
    assert_eq!(
        shed.load(Ordering::Relaxed),
        0,
        "a free bucket is not charged"
    );

    hard.store(now() + 3600 * second, Ordering::Relaxed);
    assert_eq!(pass(&mut world, 40), (Reason::KeyRateExceeded, XDP_TX));
    assert_eq!(shed.load(Ordering::Relaxed), 0);

    let mut granted = 0;
    for nonce in 50..90 {
        // Pressed at each look: between a half and all of a second's ten.
        hard.store(now() + second * 7 / 10, Ordering::Relaxed);
        match pass(&mut world, nonce) {
            (Reason::Accepted, XDP_PASS) => granted += 1,
            (Reason::KeyRateExceeded, XDP_TX) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!((10..40).contains(&granted), "{granted}");
    assert!(shed.load(Ordering::Relaxed) > now());
}

#[test]
fn a_prefixes_bucket_is_looked_at_for_hellos_without_a_token_alone() {
    needs_kernel!();
    let mut world = World::new(false);
    let words = Sizes::SMALL.prefix_sets as usize * prefix::SET_WORDS;
    let memory = world.words(&world.tables.prefixes, words);
    let prefix = prefix::of(&CLIENT.client);
    let set = prefix::place(prefix, SECRET, Sizes::SMALL.prefix_sets - 1) as usize;
    let plain = hello(&[b"h2"]);
    let long = clock_now().heartbeat_ns + 3_600_000_000_000;
    for entry in 0..prefix::WAYS {
        let at = set * prefix::SET_WORDS + 3 * entry;
        memory[at + 1].store(long, Ordering::Relaxed);
        memory[at].store(prefix ^ 0x1_0000, Ordering::Relaxed);
        assert_eq!(world.see(&[&plain])[0].0, Reason::NoToken, "another's");
        memory[at].store(prefix, Ordering::Relaxed);
        assert_eq!(world.see(&[&plain]), [(Reason::LegacyRateExceeded, XDP_TX)]);
        assert_eq!(world.see(&[&good(entry as u64)])[0].0, Reason::Accepted);
        assert_eq!(
            world.see(&[&hello(&[b"acme-tls/1"])])[0].0,
            Reason::AcmeChallenge
        );
        memory[at + 1].store(1, Ordering::Relaxed);
        assert_eq!(world.see(&[&plain])[0].0, Reason::NoToken, "empty again");
        memory[at].store(0, Ordering::Relaxed);
    }
}

/// Once half of what all may open together is used, a prefix must have waited; and nobody gets
/// one when all of it is used.
#[test]
fn the_bucket_of_all_without_a_token_is_looked_at_and_who_has_waited_goes_first() {
    needs_kernel!();
    let mut world = World::new(false);
    let all = total::rate(1000);
    world.settings.legacy_total = all;
    world.program.set_settings(&world.settings).unwrap();
    let memory = world.words(&world.tables.legacy_total, total::WORDS);
    let (accepted, shed) = (&memory[0], &memory[1]);
    let words = Sizes::SMALL.prefix_sets as usize * prefix::SET_WORDS;
    let prefixes = world.words(&world.tables.prefixes, words);
    let prefix = prefix::of(&CLIENT.client);
    let set = prefix::place(prefix, SECRET, Sizes::SMALL.prefix_sets - 1) as usize;
    let (mine, bucket) = (set * prefix::SET_WORDS, set * prefix::SET_WORDS + 1);
    let plain = hello(&[b"h2"]);
    let now = || clock_now().heartbeat_ns;
    let second = 1_000_000_000;
    let pass = |world: &mut World| world.see(&[&plain])[0];
    const IN: (Reason, u32) = (Reason::NoToken, XDP_PASS);
    const OUT: (Reason, u32) = (Reason::LegacyTotalExceeded, XDP_TX);

    assert_eq!(pass(&mut world), IN);
    assert_eq!(
        shed.load(Ordering::Relaxed),
        0,
        "a free bucket is not charged"
    );
    accepted.store(now() + 3600 * second, Ordering::Relaxed);
    assert_eq!(pass(&mut world), OUT, "no room for anyone");
    assert_eq!(
        world.see(&[&good(1)])[0].0,
        Reason::Accepted,
        "tokens do not count"
    );
    let challenge = hello(&[b"acme-tls/1"]);
    assert_eq!(world.see(&[&challenge])[0].0, Reason::AcmeChallenge);

    // Three quarters are used: whoever had one a second ago comes later, and who had one a
    // minute ago, or is not known, at once.
    let pressed = |ago_s| {
        prefixes[bucket].store(now() - ago_s * second, Ordering::Relaxed);
        prefixes[mine].store(prefix, Ordering::Relaxed);
        shed.store(0, Ordering::Relaxed);
        accepted.store(now() + all.burst_ns * 3 / 4, Ordering::Relaxed);
    };
    pressed(1);
    assert_eq!(pass(&mut world), OUT, "it had one just now");
    assert_eq!(shed.load(Ordering::Relaxed), 0);
    pressed(60);
    assert_eq!(pass(&mut world), IN, "it has waited");
    assert!(
        shed.load(Ordering::Relaxed) > now() - second,
        "and is counted"
    );
    prefixes[mine].store(0, Ordering::Relaxed);
    assert_eq!(pass(&mut world), IN, "nobody knows it");

    // What was let through and has not come to userspace yet counts too.
    pressed(60);
    shed.store(now() + 3600 * second, Ordering::Relaxed);
    assert_eq!(pass(&mut world), OUT);
    accepted.store(0, Ordering::Relaxed);
    assert_eq!(pass(&mut world), IN, "userspace has room");
}

/// While userspace is behind, what was let through counts as if it had been accepted: else,
/// where more ask than there is, everybody would pass each time that the bucket falls to its half.
#[test]
fn no_more_without_a_token_pass_than_userspace_would_accept_though_it_accepts_none_yet() {
    needs_kernel!();
    let mut world = World::new(false);
    // One a second, 16 at once: what comes back meanwhile is nothing.
    let all = total::rate(1);
    world.settings.legacy_total = all;
    world.program.set_settings(&world.settings).unwrap();
    let memory = world.words(&world.tables.legacy_total, total::WORDS);
    let (accepted, shed) = (&memory[0], &memory[1]);
    let words = Sizes::SMALL.prefix_sets as usize * prefix::SET_WORDS;
    let prefixes = world.words(&world.tables.prefixes, words);
    let prefix = prefix::of(&CLIENT.client);
    let mine = prefix::place(prefix, SECRET, Sizes::SMALL.prefix_sets - 1) as usize;
    let mine = mine * prefix::SET_WORDS;
    let now = clock_now().heartbeat_ns;
    let used = |tenths: u64| now + all.interval_ns * tenths / 10;
    let plain = hello(&[b"h2"]);
    let mut passing = || {
        let pass = |_: &u32| world.see(&[&plain])[0].0 == Reason::NoToken;
        (0..100).take_while(pass).count()
    };

    // It had one just now, so it gets none beyond the half.
    prefixes[mine + 1].store(now, Ordering::Relaxed);
    prefixes[mine].store(prefix, Ordering::Relaxed);
    accepted.store(used(59), Ordering::Relaxed);
    assert_eq!(passing(), 3, "6 are used, and 8 is the half");
    assert!(shed.load(Ordering::Relaxed) >= used(89));
    assert_eq!(passing(), 0);
    // What userspace accepted for others meanwhile is not counted twice, nor left out.
    accepted.store(used(79), Ordering::Relaxed);
    assert_eq!(passing(), 0);
    shed.store(0, Ordering::Relaxed);
    assert_eq!(passing(), 1);
    // One that waited has the other half.
    prefixes[mine].store(0, Ordering::Relaxed);
    assert_eq!(passing(), 7);
    // Nearly nothing is used: nobody counts.
    accepted.store(used(30), Ordering::Relaxed);
    assert_eq!(passing(), 100);
}

const V1: &[u8] = b"PROXY TCP4 192.0.2.9 198.51.100.1 56324 443\r\n";

fn v2(command: u8, family: u8, addresses: &[u8], more: &[u8]) -> Vec<u8> {
    let length = (addresses.len() + more.len()) as u16;
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([command, family]);
    header.extend(length.to_be_bytes());
    header.extend(addresses);
    header.extend(more);
    header
}

fn v2_four() -> Vec<u8> {
    let addresses = [192, 0, 2, 9, 198, 51, 100, 1, 0xdc, 4, 1, 0xbb];
    v2(0x21, 0x11, &addresses, b"")
}

#[test]
fn a_proxy_header_is_skipped_whatever_segments_it_comes_in() {
    needs_kernel!();
    let mut world = World::new(true);
    let six = v2(0x21, 0x21, &[0x20; 36], &[4, 0, 100, 0]);
    let local = v2(0x20, 0, b"", b"");
    let long = v2(0x21, 0x11, &[10; 12], &[4; 1500]);
    let refused = (Reason::TagWrong, XDP_TX);
    for header in [V1, &v2_four(), &six, &local, &long] {
        for (hello, expected) in [(bad(), refused), (good(1), (Reason::Accepted, XDP_PASS))] {
            let together = [header, &hello].concat();
            assert_eq!(world.see(&[&together]), [expected]);
            let apart = world.see(&[header, &hello]);
            assert_eq!(apart, [(Reason::HelloBegun, XDP_PASS), expected]);
            for at in [1, 9, 60, hello.len() - 1] {
                let (first, second) = together.split_at(header.len() + at);
                let split = world.see(&[first, second]);
                assert_eq!(split, [(Reason::HelloBegun, XDP_PASS), expected], "{at}");
            }
            let again = world.see(&[&together, &together[..0], b"\x17\x03\x03\0\x01x"]);
            assert_eq!(again[0], expected);
        }
    }
    // Cut within: userspace decides.
    let (first, second) = V1.split_at(20);
    let rest = [second, &bad()].concat();
    let cut = world.see(&[first, &rest]);
    assert_eq!(cut[0], (Reason::ProxyHeader, XDP_PASS));
    assert_eq!(cut[1].1, XDP_PASS);
    // No header at all: a hello as any other.
    assert_eq!(world.see(&[&bad()]), [refused]);
    assert_eq!(
        world.see(&[b"GET / HTTP/1.1\r\n\r\n"]),
        [(Reason::NotHello, XDP_PASS)]
    );
    let endless = [&b"PROXY "[..], &[b'x'; 200]].concat();
    assert_eq!(world.see(&[&endless])[0].0, Reason::ProxyHeader);
}

#[test]
fn a_proxy_header_is_none_on_a_port_that_expects_none() {
    needs_kernel!();
    let mut world = World::new(false);
    let together = [V1, &bad()].concat();
    assert_eq!(world.see(&[&together]), [(Reason::NotHello, XDP_PASS)]);
}

/// The sender is a balancer, whose own prefix everyone shares; the one that it tells is
/// looked at and never charged.
#[test]
fn behind_a_balancer_the_rate_goes_by_the_address_that_it_tells() {
    needs_kernel!();
    let mut world = World::new(true);
    let words = Sizes::SMALL.prefix_sets as usize * prefix::SET_WORDS;
    let memory = world.words(&world.tables.prefixes, words);
    let long = clock_now().heartbeat_ns + 3_600_000_000_000;
    let plain = hello(&[b"h2"]);
    let together = [&v2_four()[..], &plain].concat();
    let told = [0, 0, FlowKey::MAPPED, u32::from_ne_bytes([192, 0, 2, 9])];
    let put = |address: &[u32; 4], until: u64| {
        let prefix = prefix::of(address);
        let set = prefix::place(prefix, SECRET, Sizes::SMALL.prefix_sets - 1) as usize;
        memory[set * prefix::SET_WORDS + 1].store(until, Ordering::Relaxed);
        memory[set * prefix::SET_WORDS].store(prefix, Ordering::Relaxed);
        set * prefix::SET_WORDS + 2
    };
    put(&CLIENT.client, long);
    assert_eq!(world.see(&[&together])[0].0, Reason::NoToken);
    assert_eq!(world.see(&[V1, &plain])[1].0, Reason::NoToken);
    let shed = put(&told, clock_now().heartbeat_ns + 700_000_000);
    assert_eq!(world.see(&[&together])[0].0, Reason::NoToken);
    assert_eq!(
        memory[shed].load(Ordering::Relaxed),
        0,
        "nobody is believed"
    );
    put(&told, long);
    assert_eq!(
        world.see(&[&together]),
        [(Reason::LegacyRateExceeded, XDP_TX)]
    );
}

/// On one CPU from now on: what the program remembers from packet to packet is a CPU's own.
fn on_one_cpu() {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).unwrap();
    let is_allowed = |cpu: &usize| allowed.is_set(*cpu).unwrap_or(false);
    let mut one = CpuSet::new();
    one.set((0..CpuSet::count()).find(is_allowed).unwrap())
        .unwrap();
    sched_setaffinity(this, &one).unwrap();
}

#[test]
fn an_address_that_is_no_longer_the_edges_is_forgotten_at_once() {
    needs_kernel!();
    on_one_cpu();
    // Of this thread alone; the program looks for sockets in it.
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let _listener = TcpListener::bind("0.0.0.0:443").unwrap();
    let mut world = World::new(false);
    world.settings.check_connection = 1;
    world.program.set_settings(&world.settings).unwrap();
    let [ours, other] = ["10.0.0.2:443", "10.0.0.3:443"].map(|a| a.parse().unwrap());
    // There is a listener and no connection.
    let judged = [(Reason::NoConnection, XDP_DROP)];
    let passed = [(Reason::NoListener, XDP_PASS)];
    for _ in 0..3 {
        world.program.set_addresses(&[ours, other]).unwrap();
        assert_eq!(world.see(&[&bad()]), judged);
        assert_eq!(world.see(&[&bad()]), judged, "remembered");
        world.program.set_addresses(&[other]).unwrap();
        assert_eq!(world.see(&[&bad()]), passed);
        world.program.set_settings(&world.settings).unwrap();
        assert_eq!(
            world.see(&[&bad()]),
            passed,
            "other settings change nothing"
        );
    }
}

#[test]
fn what_goes_on_sending_gets_so_many_answers_a_second_and_no_more() {
    needs_kernel!();
    const SENT: u32 = 200_000;
    /// A second and CPU.
    const ANSWERS: u64 = 20_000;
    on_one_cpu();
    let mut world = World::new(false);
    world.clock.set(&clock_now()).unwrap();
    let frame = segment(4, 0, &bad());
    let word = |at: usize| u32::from_be_bytes(*frame[at..].first_chunk().unwrap());
    let mut rehearsal = Box::new(Rehearsal {
        first_port: word(34) >> 16,
        frames: 1,
        is_on: 1,
        ..Rehearsal::NONE
    });
    rehearsal.lengths[0] = frame.len() as u32;
    rehearsal.sequences[0] = word(38);
    rehearsal.bytes[0][..frame.len()].copy_from_slice(&frame);
    world.program.set_rehearsal(&rehearsal).unwrap();

    let begin = Instant::now();
    let run = world.program.test_run(Program::AGAIN, &frame, SENT);
    run.unwrap();
    let seconds = begin.elapsed().as_secs() + 2;
    let counters = world.program.counters().unwrap();
    let of = |slot: usize| counters[slot];
    assert_eq!(of(Reason::TagWrong as usize), 1);
    assert_eq!(of(Reason::RejectedAgain as usize), u64::from(SENT) - 1);
    let answered = of(Counter::AnsweredAlert as usize);
    let dropped = of(Counter::AnsweredDrop as usize);
    assert_eq!(answered + dropped, u64::from(SENT));
    // One for the hello itself.
    let most = 1 + ANSWERS * seconds;
    assert!((1 + ANSWERS..=most).contains(&answered), "{answered}");
}
