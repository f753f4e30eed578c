//! Bounds: body, headers, encodings, connections, streams.

use crate::client::{Ask, Http, pieces};
use crate::world::{ALICE, World, soon, token, until};
use bytes::Bytes;
use edge_userspace::telemetry::ConnectionEnd;
use http::Method;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

const MAX_BODY: usize = 1 << 20;

fn small_bodies() -> World {
    World::configured(|config| config.api.max_body_bytes = MAX_BODY as u64)
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_refused_before_it_is_read() {
    let world = small_bodies();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let ask = Ask::message(ALICE).body(vec![b'x'; 4 * MAX_BODY]);
        let answer = client.ask(ask).await.unwrap();
        answer.is_error(
            413,
            "request_too_large",
            "The request's body is larger than 1048576",
        );
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 200, "the connection serves on");
    }
    assert_eq!(world.model.stats().figures().requests, 2);
}

#[tokio::test]
async fn a_body_that_turns_out_too_large_is_refused_when_it_does() {
    let world = small_bodies();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let (send, body) = pieces();
        let answer = tokio::spawn(client.begin(Ask::message(ALICE).streamed(body)));
        let piece = Bytes::from(vec![b' '; 64 * 1024]);
        for _ in 0..64 {
            soon("room", send.send(piece.clone())).await.unwrap();
        }
        drop(send);
        let response = soon("the answer", answer).await.unwrap().unwrap();
        let answer = crate::client::Answer::read(response).await.unwrap();
        answer.is_error(
            413,
            "request_too_large",
            "The request's body is larger than 1048576",
        );
    }
    let figures = || world.model.stats().figures();
    until("the model's rest", || figures().active == 0).await;
}

#[tokio::test]
async fn a_body_of_just_the_limit_passes() {
    let world = small_bodies();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let ask = Ask::message(ALICE)
            .with("x-demo-echo", "1")
            .body(json_of(MAX_BODY));
        let answer = client.ask(ask).await.unwrap();
        assert_eq!(answer.json()["body_bytes"], MAX_BODY);
    }
}

/// A request of that many bytes.
fn json_of(bytes: usize) -> Vec<u8> {
    let text: String = (0..bytes as u32)
        .map(|n| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 24) as u8 % 26))
        .collect();
    let (begin, end) = (
        r#"{"model":"m","messages":[{"role":"user","content":""#,
        r#""}]}"#,
    );
    let text = &text[..bytes - begin.len() - end.len()];
    [begin, text, end].concat().into_bytes()
}

#[tokio::test]
async fn large_bodies_pass_unchanged_in_both_framings() {
    use sha2::{Digest as _, Sha256};
    let world = World::new();
    let body = json_of(5_000_000);
    let expected = hex::encode(Sha256::digest(&body));
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let ask = Ask::message(ALICE)
            .with("x-demo-echo", "1")
            .body(body.clone());
        let answer = client.ask(ask).await.unwrap();
        assert_eq!(answer.json()["body_sha256"], *expected);
        let (send, streamed) = pieces();
        let ask = Ask::message(ALICE)
            .with("x-demo-echo", "1")
            .streamed(streamed);
        client.ready().await.unwrap();
        let answer = tokio::spawn(client.begin(ask));
        for piece in body.chunks(70_001) {
            send.send(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        drop(send);
        let response = soon("the answer", answer).await.unwrap().unwrap();
        let answer = crate::client::Answer::read(response).await.unwrap();
        assert_eq!(answer.json()["body_sha256"], *expected);
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    zstd_safe::compress(&mut encoded, bytes, 3).unwrap();
    encoded
}

#[tokio::test]
async fn encodings_that_the_edge_does_not_know_are_refused_and_others_pass() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    for encoding in ["br", "deflate", "gzip, gzip", "zstd, gzip", "zst"] {
        let ask = Ask::message(ALICE).with("content-encoding", encoding);
        let answer = client.ask(ask).await.unwrap();
        answer.is_error(415, "invalid_request_error", "content-encoding must be");
    }
    let body = json_of(5000);
    for (encoding, body) in [
        ("identity", body.clone()),
        ("gzip", gzip(&body)),
        ("x-gzip", gzip(&body)),
        ("zstd", zstd(&body)),
    ] {
        let ask = Ask::message(ALICE)
            .body(body)
            .with("content-encoding", encoding)
            .with("x-demo-echo", "1");
        let answer = client.ask(ask).await.unwrap();
        assert_eq!(answer.status, 200);
        let sent = answer.json()["headers"].to_string();
        assert!(sent.contains(&format!("[\"content-encoding\",\"{encoding}\"]")));
    }
}

#[tokio::test]
async fn heads_up_to_the_bound_pass_and_larger_ones_do_not() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let ask = Ask::message(ALICE).with("x-large", &"x".repeat(48 * 1024));
        assert_eq!(client.ask(ask).await.unwrap().status, 200, "{http:?}");
        let ask = Ask::message(ALICE).with("x-large", &"x".repeat(200 * 1024));
        match client.ask(ask).await {
            Ok(answer) => assert_eq!(answer.status, 431),
            // A client may not send what the server says it will not take.
            Err(error) => assert_eq!(http, Http::H2, "{error}"),
        }
    }
    assert_eq!(world.model.stats().figures().requests, 2);
}

#[tokio::test]
async fn as_many_headers_as_the_bound_says_pass_and_more_do_not_whatever_the_protocol() {
    const NAMES: [&str; 3] = ["x-a", "x-b", "x-c"];
    let world = World::new();
    let with = |count: usize| {
        let ask = Ask::new(Method::GET, "/v1/health").with("x-api-key", ALICE);
        (0..count).fold(ask, |ask, number| {
            ask.with(NAMES[number % NAMES.len()], "1")
        })
    };
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        // Those that every request of this client has are fewer than 16.
        assert_eq!(client.ask(with(240)).await.unwrap().status, 200, "{http:?}");
        let answer = client.ask(with(257)).await.unwrap();
        answer.is_error(
            431,
            "request_too_large",
            "The request has more than 256 headers, or they are larger than 65536 bytes",
        );
        if http == Http::H2 {
            let answer = client.ask(Ask::message(ALICE)).await.unwrap();
            assert_eq!(answer.status, 200, "the connection serves on");
        }
    }
}

#[tokio::test]
async fn more_connections_than_allowed_are_closed_at_once() {
    let world = World::configured(|config| config.listen.max_connections = 2);
    let first = world.connect(Http::H2, Some(token(ALICE))).await;
    let mut second = world.connect(Http::H2, Some(token(ALICE))).await;
    let mut third = TcpStream::connect(world.address).await.unwrap();
    // Accepted only when it speaks.
    tokio::io::AsyncWriteExt::write_all(&mut third, b"x")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _ = soon("the close", third.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
    let limit = world.metrics.connection_ends.get(ConnectionEnd::Limit);
    assert_eq!(limit, 1);
    assert_eq!(second.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    drop(first);
    let open = || world.metrics.open_connections.get();
    until("a place", || open() == 1).await;
    let mut fourth = world.connect(Http::H2, Some(token(ALICE))).await;
    assert_eq!(fourth.ask(Ask::message(ALICE)).await.unwrap().status, 200);
}

#[tokio::test]
async fn streams_beyond_the_bound_wait_for_their_turn() {
    let world = World::configured(|config| config.listen.max_streams = 4);
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    let mut answers = Vec::new();
    for _ in 0..20 {
        let ask = Ask::message(ALICE).with("x-demo-first-token-ms", "20");
        answers.push(tokio::spawn(client.begin(ask)));
    }
    let mut most = 0;
    while !answers.iter().all(tokio::task::JoinHandle::is_finished) {
        most = most.max(world.model.stats().figures().active);
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    }
    assert!((1..=4).contains(&most), "{most} at a time");
}
