//! Answers of which nobody takes anything.

use crate::client::{Ask, Http};
use crate::slow::connect;
use crate::world::{ALICE, World, soon, token, until};
use edge_userspace::telemetry::StreamEnd;
use http_body_util::BodyExt as _;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(2);

/// More than all windows and buffers on the way hold.
const TOKENS: u64 = 400_000;

/// The connection's owner answers pings and takes nothing of one stream.
#[tokio::test]
async fn it_ends_in_time_and_others_on_its_connection_go_on() {
    let world = World::configured(|config| config.listen.unread_timeout = Some(LIMIT));
    let stalled = || world.metrics.streams.get(StreamEnd::ClientStalled);
    for (round, http) in (1..).zip(Http::BOTH) {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let response = client.begin(Ask::stream(ALICE, TOKENS)).await.unwrap();
        until("its end", || stalled() == round).await;
        let figures = || world.model.stats().figures();
        until("the model's notice", || figures().cancelled == round).await;
        until("the model's rest", || figures().active == 0).await;
        if http == Http::H2 {
            let answer = client.ask(Ask::message(ALICE)).await.unwrap();
            assert_eq!(answer.status, 200, "the connection serves on");
        }
        let body = soon("what was under way", response.into_body().collect()).await;
        assert!(body.is_err(), "{http:?}: it looks whole");
    }
    let held = world.ledger.status();
    assert_eq!((held.running, held.reserved_output), (0, 0));
}

/// One that takes little goes on, and one whose upstream is silent does so too.
#[tokio::test]
async fn who_takes_a_little_or_waits_for_the_upstream_goes_on() {
    let world = World::configured(|config| config.listen.unread_timeout = Some(LIMIT));
    let mut sender = connect(&world, 16 << 20).await;
    let ask = |tokens| Ask::stream(ALICE, tokens);
    let slow = ask(TOKENS).request(true);
    let mut slow = sender.send_request(slow).await.unwrap().into_body();
    let silent = ask(3).with("x-demo-inter-token-ms", "3000").request(true);
    let silent = sender.send_request(silent).await.unwrap().into_body();
    let silent = tokio::spawn(silent.collect());
    // It gives room back when half of its window, 32 KiB, has been read.
    let mut rounds = 0;
    while rounds < 60 || !silent.is_finished() {
        rounds += 1;
        tokio::time::sleep(LIMIT / 13).await;
        let mut read = 0;
        while read < 16 * 1024 {
            let frame = soon("a frame", slow.frame()).await.unwrap().unwrap();
            read += frame.into_data().unwrap().len();
        }
    }
    let silent = soon("the silent one's end", silent).await.unwrap().unwrap();
    let silent = silent.to_bytes();
    assert!(silent.ends_with(b"data: {\"type\":\"message_stop\"}\n\n"));
    assert_eq!(world.metrics.streams.get(StreamEnd::ClientStalled), 0);
}
