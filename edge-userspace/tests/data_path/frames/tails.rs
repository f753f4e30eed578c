//! Answers that a client still reads when their connection is to close, or the edge stops.

use super::maker::{Framing, Want, upstream};
use super::peer::Peer;
use super::*;
use crate::world::Wishes;
use std::time::Duration;

/// Most of it is in the edge when no more of it can go on.
const ANSWER_BYTES: usize = 120_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_still_being_read_is_not_cut_when_its_connection_closes() {
    let world = World::with(Wishes {
        upstream: Some(upstream().await),
        config: |config| config.quotas.limits.requests_per_minute = Some(1),
        ..Wishes::default()
    });
    let mut peer = Peer::begin(&world, Some(20_000), 1 << 20).await;
    let want = Want {
        seed: 1,
        body_bytes: Want::LEAST_BODY_BYTES,
        answer_bytes: ANSWER_BYTES,
        framing: Framing::Length,
        is_slow: false,
    };
    let number = peer.ask(want);
    peer.send_on(number);
    let begins = |peer: &Peer| peer.streams[&number].got == 20_000;
    peer.until("as much as fits", begins, |_| {}).await;
    // What else of it is read ahead is.
    peer.rest().await;
    // A request more than it may have: the connection is to close.
    peer.may_close();
    let refused = peer.ask_refused(want);
    peer.until(
        "a refusal",
        |peer| peer.streams[&refused].is_answered,
        |_| {},
    )
    .await;
    let mut slowly = 0;
    let whole = |peer: &Peer| peer.streams[&number].is_answered;
    while !whole(&peer) {
        assert!(!peer.is_over, "cut after {}", peer.streams[&number].got);
        assert!(slowly < 200, "it does not come");
        tokio::time::sleep(Duration::from_millis(100)).await;
        slowly += 1;
        // 40 KB a second.
        peer.give_back(number, 4_000);
        peer.turn(Duration::from_millis(5)).await;
    }
}

/// The tail of a long answer lies in the edge, for the client's system has no room for it, when the
/// edge is told to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_slow_socket_has_not_taken_is_not_cut_by_a_stop() {
    const LONG_BYTES: usize = 12 << 20;
    let world = World::with(Wishes {
        upstream: Some(upstream().await),
        config: |config| config.listen.drain_timeout = Duration::from_secs(50),
        ..Wishes::default()
    });
    let want = Want {
        seed: 3,
        body_bytes: Want::LEAST_BODY_BYTES,
        answer_bytes: LONG_BYTES,
        framing: Framing::Length,
        is_slow: false,
    };
    let running = || world.ledger.status().running;

    let mut peer = Peer::begin(&world, Some(1 << 30), 1 << 30).await;
    let number = peer.ask(want);
    peer.send_on(number);
    peer.until("the head", |peer| peer.streams[&number].has_head, |_| {})
        .await;

    let mut tls = world
        .tls(&alpn(&[b"http/1.1", &token(ALICE)]))
        .await
        .unwrap();
    let body = want.body();
    let (name, value) = want
        .headers()
        .split_once('=')
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nanthropic-version: 2023-06-01\r\n\
         x-api-key: {ALICE}\r\n{name}: {value}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    tls.write_all(&[head.as_bytes(), &body].concat())
        .await
        .unwrap();
    let mut came = Vec::new();
    tls.read_buf(&mut came).await.unwrap();

    // Both read on until the upstream has ended, and no further.
    while running() == 2 {
        peer.turn(Duration::from_millis(2)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        if running() == 2 {
            tls.read_buf(&mut came).await.unwrap();
        }
    }
    while running() > 0 && !peer.streams[&number].is_answered {
        peer.turn(Duration::from_millis(2)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while running() > 0 {
        assert!(tls.read_buf(&mut came).await.unwrap() > 0);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    peer.may_close();
    world.stop();
    tokio::time::sleep(Duration::from_secs(4)).await;
    while !peer.streams[&number].is_answered {
        assert!(
            !peer.is_over,
            "cut after {} of {LONG_BYTES}",
            peer.streams[&number].got
        );
        peer.turn(Duration::from_millis(100)).await;
    }
    soon("the rest", tls.read_to_end(&mut came)).await.unwrap();
    let at = came
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    assert_eq!(came.len() - at, LONG_BYTES);
    assert!(came[at..] == want.answer(&body), "other bytes");
}
