//! Answers that a client still reads when their connection is to close, or the edge stops.

use super::maker::{Framing, Want, upstream};
use super::peer::Peer;
use super::*;
use crate::world::Wishes;
use std::time::Duration;

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
