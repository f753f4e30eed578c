//! One stream that is not read beside many that are, on one HTTP/2 connection.

use crate::client::{AnyBody, Ask, alpn};
use crate::world::{ALICE, World, soon, token};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::time::{Duration, Instant};

const STREAM_WINDOW: u32 = 65_535;
const FAST: usize = 99;
/// Events of a fast stream's text.
const TOKENS: u64 = 100;
/// More than all windows and buffers on the way hold, bytes.
const SLOW_TOKENS: u64 = 100_000;

/// An event stream whose events have more than 256 bytes each, by a long name in them: of
/// smaller frames that lie unread this client takes but some hundreds, whatever its windows.
fn stream(tokens: u64) -> Ask {
    let model = "m".repeat(256);
    let body = format!(r#"{{"model":"{model}","messages":[],"stream":true}}"#);
    Ask::new(Method::POST, "/v1/chat/completions")
        .with("x-api-key", ALICE)
        .with("x-demo-tokens", &tokens.to_string())
        .body(body)
}

pub(crate) async fn connect(world: &World, connection_window: u32) -> http2::SendRequest<AnyBody> {
    let mut hello = alpn(&[b"h2"]);
    hello.alpn.push(token(ALICE));
    let tls = world.tls(&hello).await.unwrap();
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(connection_window)
        .handshake(TokioIo::new(tls))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// Reads to the end; the times between frames, and how many bytes.
async fn read(mut body: Incoming) -> (Vec<Duration>, usize) {
    let (mut gaps, mut bytes, mut last) = (Vec::new(), 0, Instant::now());
    while let Some(frame) = body.frame().await {
        bytes += frame.unwrap().into_data().unwrap().len();
        gaps.push(last.elapsed());
        last = Instant::now();
    }
    (gaps, bytes)
}

/// All fast streams at once, each to its end; the 99th percentile of the times between two
/// frames, and the bytes of one.
async fn fast(sender: &mut http2::SendRequest<AnyBody>) -> (Duration, usize) {
    let mut streams = Vec::new();
    for _ in 0..FAST {
        let ask = stream(TOKENS).with("x-demo-inter-token-ms", "10");
        soon("a place", sender.ready()).await.unwrap();
        let response = sender.send_request(ask.request(true));
        streams.push(tokio::spawn(async move {
            read(response.await.unwrap().into_body()).await
        }));
    }
    let (mut all, mut lengths) = (Vec::new(), Vec::new());
    for stream in streams {
        let (gaps, bytes) = soon("a fast stream's end", stream).await.unwrap();
        all.extend(gaps);
        lengths.push(bytes);
    }
    assert!(
        lengths.iter().all(|length| *length == lengths[0]),
        "each to its last byte"
    );
    all.sort();
    (all[all.len() * 99 / 100], lengths[0])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_not_read_holds_up_no_other() {
    for connection_window in [16 << 20, 65_535] {
        let world = World::new();
        let sent = || world.model.stats().figures().body_bytes;
        let mut sender = connect(&world, connection_window).await;
        let (alone, length) = fast(&mut sender).await;
        let before = sent();
        let ask = stream(SLOW_TOKENS);
        let slow = sender.send_request(ask.request(true)).await.unwrap();
        // What may be on its way fills.
        let (mut last, mut still) = (0, 0);
        while still < 20 {
            tokio::time::sleep(Duration::from_millis(25)).await;
            still = if sent() == last { still + 1 } else { 0 };
            last = sent();
        }
        let held = sent() - before;
        assert!(held < 30 << 20, "it is held back: {held} bytes");
        let (beside, same) = fast(&mut sender).await;
        assert_eq!(same, length);
        println!(
            "connection window {connection_window}: 99th percentile between frames {alone:?} alone, {beside:?} beside a stream that is not read ({:.2}); {held} bytes of it on their way",
            beside.as_secs_f64() / alone.as_secs_f64()
        );
        let (_, bytes) = soon("the slow stream's end", read(slow.into_body())).await;
        assert!(bytes as u64 > held, "more than was on its way: {bytes}");
    }
}
