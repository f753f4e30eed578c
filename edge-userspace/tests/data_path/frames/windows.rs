//! Windows to the byte: what is given is used, all of it and no more, in whatever order it comes;
//! and bodies whose lengths are those of windows, frames and buffers, or one byte beside.

use super::maker::{Framing, Want, upstream};
use super::peer::Peer;
use super::*;
use crate::world::Wishes;
use std::time::Duration;

async fn world() -> World {
    World::with(Wishes {
        upstream: Some(upstream().await),
        ..Wishes::default()
    })
}

fn want(seed: u64, body_bytes: usize, answer_bytes: usize) -> Want {
    Want {
        seed,
        body_bytes: body_bytes.max(Want::LEAST_BODY_BYTES),
        answer_bytes,
        framing: Framing::ALL[usize::try_from(seed % 3).unwrap()],
        is_slow: false,
    }
}

fn got(peer: &Peer) -> usize {
    peer.streams.values().map(|stream| stream.got).sum()
}

/// So much of that stream has come, and it does not get more.
async fn has(peer: &mut Peer, number: u32, bytes: usize) {
    let others = got(peer) - peer.streams[&number].got;
    let why = format!("{bytes} of {number}");
    peer.until(&why, |peer| peer.streams[&number].got >= bytes, |_| {})
        .await;
    peer.rest().await;
    assert_eq!(
        peer.streams[&number].got,
        bytes,
        "{number}\n{}",
        peer.books()
    );
    assert_eq!(
        got(peer) - bytes,
        others,
        "others got something\n{}",
        peer.books()
    );
}

async fn have(peer: &mut Peer, bytes: usize) {
    let why = format!("{bytes} of all");
    peer.until(&why, |peer| got(peer) >= bytes, |_| {}).await;
    peer.rest().await;
    assert_eq!(got(peer), bytes, "{}", peer.books());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_byte_that_is_given_is_used_and_no_more() {
    const BYTES: usize = 300_000;
    let world = world().await;
    // The connection has room at first: it is the streams that have none.
    let raised = 400_000;
    let mut peer = Peer::begin(&world, Some(0), raised).await;
    let streams: Vec<u32> = (0..8).map(|seed| peer.ask(want(seed, 0, BYTES))).collect();
    for number in &streams {
        peer.send_on(*number);
    }
    peer.until(
        "all heads",
        |peer| peer.streams.values().all(|one| one.has_head),
        |_| {},
    )
    .await;
    peer.rest().await;
    assert_eq!(got(&peer), 0, "a stream without room");
    for (at, given) in [5, 1, 7, 0, 2]
        .into_iter()
        .zip([1, 16_383, 16_385, 60_000, 2])
    {
        peer.give(streams[at], given);
        has(&mut peer, streams[at], given as usize).await;
    }
    let mut all = got(&peer);
    // Room for all of them by a setting, which is taken away again: they owe it then.
    peer.set(Some(10_000), None);
    all += 8 * 10_000;
    have(&mut peer, all).await;
    peer.set(Some(0), None);
    peer.until("it is acknowledged", Peer::is_acknowledged, |_| {})
        .await;
    let before = peer.streams[&streams[3]].got;
    peer.give(streams[3], 9_999);
    peer.rest().await;
    assert_eq!(peer.streams[&streams[3]].got, before, "less than it owes");
    peer.give(streams[3], 3);
    has(&mut peer, streams[3], before + 2).await;
    all += 2;
    // Settings that go up and down at once.
    peer.set(Some(9_000), None);
    peer.set(Some(0), None);
    peer.set(Some(10_001), None);
    all += 7 + 10_001;
    have(&mut peer, all).await;
    // Now it is the connection.
    for number in &streams {
        peer.give(*number, 1 << 20);
    }
    all = 65_535 + raised as usize;
    have(&mut peer, all).await;
    for given in [1, 2, 1_000, 16_384, 16_385, 3] {
        peer.give(0, given);
        all += given as usize;
        have(&mut peer, all).await;
    }
    let done = |peer: &Peer| peer.streams.values().all(|stream| stream.is_answered);
    peer.until("all ends", done, Peer::give_all_back).await;
}

/// A connection that has no room, and streams that all have some: whoever is reset leaves what
/// was meant for it to the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stream_that_is_reset_had_is_the_others() {
    const BYTES: usize = 200_000;
    let world = world().await;
    for raised in [0, 1, 70_000] {
        let mut peer = Peer::begin(&world, Some(50_000), raised).await;
        let streams: Vec<u32> = (0..12).map(|seed| peer.ask(want(seed, 0, BYTES))).collect();
        for number in &streams {
            peer.send_on(*number);
        }
        let room = 65_535 + raised as usize;
        have(&mut peer, room.min(12 * 50_000)).await;
        // Those that have got something, those that have got nothing.
        for (nth, number) in streams.iter().enumerate() {
            if nth % 3 != 1 {
                peer.reset(*number, 8);
                peer.rest().await;
            }
        }
        let done = |peer: &Peer| peer.streams.values().all(|stream| stream.is_done());
        peer.until("the others' ends", done, Peer::give_all_back)
            .await;
        let last = peer.ask(want(99, 100_000, BYTES));
        peer.until(
            "one more",
            |peer| peer.streams[&last].is_answered,
            |peer| {
                peer.send_on(last);
                peer.give_all_back();
            },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_every_length_pass_both_ways_in_windows_of_every_size() {
    let mut lengths: Vec<usize> = vec![0, 1, 15, 16, 17];
    for edge in [8192, 16_384, 32_768, 65_535, 65_536, 131_072, 524_288] {
        lengths.extend([edge - 1, edge, edge + 1]);
    }
    let world = world().await;
    for (initial, raised) in [
        (None, 0),
        (Some(1 << 20), 16 << 20),
        (Some(16_384), 1),
        (Some(65_536), 1 << 20),
    ] {
        let mut peer = Peer::begin(&world, initial, raised).await;
        for (nth, answer) in (0..).zip(&lengths) {
            // Up and down at once, of different lengths.
            let body = lengths[(nth + 11) % lengths.len()];
            let numbers = [
                peer.ask(want(nth as u64, body, *answer)),
                peer.ask(want(nth as u64 + 1, *answer, body)),
            ];
            let done = |peer: &Peer| peer.streams.values().all(|stream| stream.is_done());
            let why = format!("{body} up and {answer} down in {initial:?} and {raised}");
            peer.until(&why, done, |peer| {
                numbers.into_iter().for_each(|number| peer.send_on(number));
                peer.give_all_back();
            })
            .await;
        }
    }
}

/// Padding is paid for with windows as data is, and given back as data is: bodies that are nearly
/// all padding, of far more than all windows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn padding_takes_windows_and_gives_them_back() {
    let world = world().await;
    let mut peer = Peer::begin(&world, None, 0).await;
    for seed in 0..3 {
        let number = peer.ask(want(seed, 16_000, 100));
        let answered = |peer: &Peer| peer.streams[&number].is_answered;
        peer.until("the answer", answered, |peer| {
            for _ in 0..40 {
                if peer.may_send(number) > 0 {
                    peer.send(number, 1, Some(255), true);
                }
            }
            peer.give_all_back();
        })
        .await;
    }
}

/// What comes for streams that the edge has reset, or whose client has, counts for the connection and
/// is given back: else it would stand still before long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_for_streams_that_are_over_is_given_back() {
    let world = world().await;
    let mut peer = Peer::begin(&world, None, 1 << 20).await;
    // Heads without a version are refused while their bodies are on their way.
    for seed in 0..60 {
        let number = peer.ask_badly(want(seed, 200_000, 100));
        peer.until(
            "the body's way",
            |peer| peer.is_sent_or_refused(number),
            |peer| {
                peer.send_on(number);
                peer.give_all_back();
            },
        )
        .await;
    }
    // These are reset when half has gone.
    for seed in 0..30 {
        let number = peer.ask(want(seed, 200_000, 100));
        peer.send(number, 16_384, None, false);
        peer.turn(Duration::from_millis(1)).await;
        peer.send_on(number);
        peer.reset(number, 8);
    }
    let last = peer.ask(want(7, 3 << 20, 1000));
    let answered = |peer: &Peer| peer.streams[&last].is_answered;
    peer.until("an honest upload", answered, |peer| {
        peer.send_on(last);
        peer.give_all_back();
    })
    .await;
}
