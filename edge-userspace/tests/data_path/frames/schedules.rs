//! Random schedules on one connection: many streams, up and down at once, windows that open in
//! pieces of any size and at odd times, settings that change them under way, resets, pings, and
//! frames that mean nothing. Each byte that comes must be the right one and allowed, each stream
//! that is not reset must come to its end, and afterwards nothing is left of any.
//!
//! `EDGE_SCHEDULES` makes them more, `EDGE_SCHEDULE_SEED` others: the seed of one that failed is in
//! its panic's text, and brings the same schedule again, though not the same times.

use super::maker::{Framing, Want, upstream};
use super::peer::Peer;
use crate::ledger::{Dice, setting};
use crate::world::{Wishes, World, until};
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::time::Instant;

/// Streams of one schedule that may be open at a time.
const OPEN: usize = 24;
/// Lengths at which something ends: a frame, a window, a buffer.
const EDGES: [usize; 11] = [
    0, 1, 16, 16_383, 16_384, 16_385, 65_535, 65_536, 131_072, 131_073, 262_145,
];

/// What a schedule may do.
struct Plan {
    initial: Option<u32>,
    raised: u32,
    streams: u64,
    most_bytes: usize,
    settings: u64,
    resets: u64,
    pings: u64,
    noises: u64,
}

impl Plan {
    fn new(dice: &Dice) -> Self {
        let initial = dice.of(&[
            None,
            Some(0),
            Some(700),
            Some(16_384),
            Some(65_535),
            Some(1 << 20),
        ]);
        let is_narrow = initial.is_some_and(|initial| initial < 10_000);
        Self {
            initial,
            raised: dice.of(&[0, 0, 1, 100_000, 16 << 20]),
            streams: 4 + dice.below(28),
            most_bytes: if is_narrow { 20_000 } else { 300_000 },
            settings: dice.below(8),
            resets: dice.below(6),
            pings: dice.below(20),
            noises: dice.below(20),
        }
    }

    fn bytes(&self, dice: &Dice) -> usize {
        let most = self.most_bytes;
        let bytes = match dice.one_in(2) {
            true => dice.of(&EDGES),
            false => usize::try_from(dice.below(most as u64)).unwrap(),
        };
        bytes.min(most)
    }

    fn want(&self, dice: &Dice) -> Want {
        Want {
            seed: dice.below(1 << 32),
            body_bytes: self.bytes(dice).max(Want::LEAST_BODY_BYTES),
            answer_bytes: self.bytes(dice),
            framing: dice.of(&Framing::ALL),
            is_slow: dice.one_in(3),
        }
    }
}

async fn run(world: &World, seed: u64) {
    let dice = Dice::new(seed);
    let mut plan = Plan::new(&dice);
    let mut peer = Peer::begin(world, plan.initial, plan.raised).await;
    // Where a stream has nothing to begin with it gets something before long.
    let mut is_shut = plan.initial == Some(0);
    let mut last = Instant::now();
    while plan.streams > 0 || peer.streams.values().any(|stream| !stream.is_done()) {
        for _ in 0..dice.below(7) {
            act(&mut peer, &mut plan, &mut is_shut, &dice);
        }
        peer.write_bytes = usize::try_from(dice.of(&[1, 30, 1000, 20_000, 1 << 20])).unwrap();
        let wait = Duration::from_millis(dice.of(&[0, 0, 1, 2]));
        if peer.turn(wait).await {
            last = Instant::now();
        }
        assert!(!peer.is_over, "the connection has ended\n{}", peer.books());
        let still = last.elapsed() > Duration::from_secs(45);
        assert!(!still, "it stands still\n{}", peer.books());
    }
    peer.write_bytes = usize::MAX;
    peer.ping();
    let settled = |peer: &Peer| peer.is_ponged() && peer.is_acknowledged();
    peer.until("answers to all that was asked", settled, |_| {})
        .await;
    if dice.one_in(2) {
        peer.say_goodbye();
        peer.turn(Duration::from_millis(5)).await;
    }
    drop(peer);
    let open = || world.metrics.open_connections.get();
    until("no connection", || open() == 0).await;
    until("nothing upstream", || {
        world.upstreams.status()[0].requests == 0
    })
    .await;
    let status = || world.ledger.status();
    until("nothing in flight", || status().running == 0).await;
    assert_eq!((status().reserved_input, status().reserved_output), (0, 0));
    assert_eq!(world.prompts.room().bytes(), 0);
}

fn act(peer: &mut Peer, plan: &mut Plan, is_shut: &mut bool, dice: &Dice) {
    let pick = |numbers: Vec<u32>| (!numbers.is_empty()).then(|| dice.of(&numbers));
    let most =
        |dice: &Dice| usize::try_from(1 + dice.below(dice.of(&[2, 100, 5000, 100_000]))).unwrap();
    let of = |peer: &Peer, is: fn(&super::peer::Stream) -> bool| {
        let mut numbers: Vec<u32> = Vec::new();
        numbers.extend(
            (peer.streams.iter())
                .filter(|(_, one)| is(one))
                .map(|(number, _)| *number),
        );
        numbers
    };
    match dice.below(24) {
        0..=2 if plan.streams > 0 => {
            let open = of(peer, |stream| !stream.is_done());
            if open.len() < OPEN {
                plan.streams -= 1;
                let number = peer.ask(plan.want(dice));
                if dice.one_in(2) {
                    peer.send_on(number);
                }
            }
        }
        3..=9 => {
            let Some(number) = pick(of(peer, |one| !one.is_sent && !one.is_reset)) else {
                return;
            };
            let padding = dice.one_in(4).then(|| dice.of(&[0, 1, 100, 255]));
            match dice.below(12) {
                0 => peer.send_trailers(number),
                1 => peer.send(number, 0, padding, dice.one_in(2)),
                2 => peer.send(number, most(dice), padding, false),
                3..=6 => peer.send_on(number),
                _ => peer.send(number, most(dice), padding, true),
            }
        }
        10..=14 => {
            let owing = of(peer, |one| {
                one.debt > 0 && !one.is_answered && !one.is_reset
            });
            if let Some(number) = pick(owing) {
                let most = if dice.one_in(2) {
                    usize::MAX
                } else {
                    most(dice)
                };
                peer.give_back(number, most);
            }
        }
        15..=18 => {
            let most = if dice.one_in(2) {
                usize::MAX
            } else {
                most(dice)
            };
            peer.give_back(0, most);
        }
        19 => peer.give_all_back(),
        20 if plan.pings > 0 => {
            plan.pings -= 1;
            peer.ping();
        }
        21 if *is_shut || plan.settings > 0 => {
            plan.settings = plan.settings.saturating_sub(1);
            let initial = dice.of(&[0, 1, 4000, 16_384, 65_535, 65_536, 500_000]);
            let initial = if *is_shut { initial.max(4000) } else { initial };
            *is_shut = initial < 4000;
            let largest = dice
                .one_in(3)
                .then(|| dice.of(&[16_384, 16_385, 40_000, 1 << 20]));
            peer.set(Some(initial), largest);
        }
        22 if plan.resets > 0 => {
            if let Some(number) = pick(of(peer, |one| !one.is_done())) {
                plan.resets -= 1;
                peer.reset(number, dice.of(&[8, 8, 0, 5, 2]));
            }
        }
        23 if plan.noises > 0 => {
            plan.noises -= 1;
            peer.noise(dice);
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_schedule_each_stream_comes_to_its_end() {
    let world = World::with(Wishes {
        upstream: Some(upstream().await),
        ..Wishes::default()
    });
    let first = setting("EDGE_SCHEDULE_SEED", 1);
    for seed in first..first + setting("EDGE_SCHEDULES", 24) {
        let run = AssertUnwindSafe(run(&world, seed));
        let ran = tokio::time::timeout(Duration::from_secs(240), run).await;
        assert!(ran.is_ok(), "schedule {seed} does not end");
    }
}
