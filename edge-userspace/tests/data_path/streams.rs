//! Bytes arrive as they were sent.

use crate::client::{Ask, Http};
use crate::world::{ALICE, Wishes, World, soon, token};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The model's answer without the edge between.
async fn direct(world: &World, ask: Ask) -> Vec<u8> {
    let tcp = tokio::net::TcpStream::connect(world.model.address())
        .await
        .unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tcp))
        .await
        .unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(ask.request(false)).await.unwrap();
    response
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes()
        .to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_of_two_thousand_events_arrive_byte_for_byte() {
    const EVENTS: u64 = 2_000;
    let world = World::with(Wishes {
        threads: 2,
        ..Wishes::default()
    });
    // With the six around the tokens.
    let ask = || Ask::stream(ALICE, EVENTS - 6).with("x-demo-inter-token-ms", "1");
    let expected = direct(&world, Ask::stream(ALICE, EVENTS - 6)).await;
    let events = expected.windows(2).filter(|two| *two == b"\n\n").count();
    assert_eq!(events as u64, EVENTS);
    let expected = Sha256::digest(&expected);
    let mut streams = Vec::new();
    let mut clients = Vec::new();
    for (connections, each, http) in [(4, 45, Http::H2), (20, 1, Http::H1)] {
        for _ in 0..connections {
            let mut client = world.connect(http, Some(token(ALICE))).await;
            for _ in 0..each {
                client.ready().await.unwrap();
                let answer = client.begin(ask());
                streams.push(tokio::spawn(async move {
                    let mut body = answer.await.unwrap().into_body();
                    let mut hash = Sha256::new();
                    while let Some(frame) = body.frame().await {
                        hash.update(frame.unwrap().into_data().unwrap());
                    }
                    hash.finalize()
                }));
            }
            clients.push(client);
        }
    }
    assert_eq!(streams.len(), 200);
    let most = tokio::time::timeout(Duration::from_secs(300), async {
        let mut most = 0;
        while !streams.iter().all(tokio::task::JoinHandle::is_finished) {
            most = most.max(world.metrics.open_streams.get());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        most
    });
    let most = most.await.unwrap();
    assert_eq!(most, 200, "all at once");
    for stream in streams {
        assert_eq!(stream.await.unwrap(), expected);
    }
}

#[tokio::test]
async fn chunks_that_split_characters_and_lines_change_nothing() {
    let world = World::new();
    let expected = direct(&world, Ask::stream(ALICE, 50)).await;
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        for chunk in ["1", "3", "1000"] {
            let ask = Ask::stream(ALICE, 50).with("x-demo-chunk-bytes", chunk);
            let answer = client.ask(ask).await.unwrap();
            assert_eq!(answer.body, expected, "{http:?}, {chunk}");
        }
    }
}

#[tokio::test]
async fn whole_answers_and_errors_within_streams_pass_as_they_are() {
    let world = World::new();
    let expected = direct(&world, Ask::message(ALICE).with("x-demo-tokens", "30000")).await;
    let with_error = || Ask::stream(ALICE, 3).with("x-demo-error", "error-event");
    let expected_error = direct(&world, with_error()).await;
    assert!(expected_error.starts_with(b"event: error\n"));
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let ask = Ask::message(ALICE).with("x-demo-tokens", "30000");
        let answer = client.ask(ask).await.unwrap();
        assert_eq!(answer.body, expected);
        assert_eq!(answer.header("content-length"), expected.len().to_string());
        let answer = client.ask(with_error()).await.unwrap();
        assert_eq!(answer.body, expected_error);
    }
}

#[tokio::test]
async fn a_stream_that_is_silent_at_first_is_not_cut() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let ask = Ask::stream(ALICE, 2).with("x-demo-first-token-ms", "1500");
    let answer = soon("the answer", client.ask(ask)).await.unwrap();
    assert!(answer.body.ends_with(b"message_stop\"}\n\n"));
}
