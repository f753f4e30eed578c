//! A key that ends, and a daemon that stops, while streams run.

use crate::client::{Ask, Client, Http, alpn};
use crate::world::{ALICE, BOB, Wishes, World, soon, token, until};
use edge_userspace::telemetry::{ConnectionEnd, StreamEnd};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;

/// A stream that has begun and goes on for ever.
async fn endless(client: &mut Client, key: &str) -> (Vec<u8>, Incoming) {
    let ask = Ask::stream(key, 1_000_000).with("x-demo-inter-token-ms", "5");
    let mut body = client.begin(ask).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap();
    (first.into_data().unwrap().to_vec(), body)
}

/// Reads to the end; the stream must have ended as it should, with that error event.
async fn ends_with(mut received: Vec<u8>, body: Incoming, kind: &str) {
    let rest = soon("the stream's end", body.collect()).await;
    received.extend_from_slice(&rest.unwrap().to_bytes());
    let stream = String::from_utf8(received).unwrap();
    let (before, error) = stream.rsplit_once("event: error\ndata: ").unwrap();
    assert!(before.ends_with("\n\n"), "between two events");
    let error = error.strip_suffix("\n\n").unwrap();
    let error: serde_json::Value = serde_json::from_str(error).unwrap();
    assert_eq!(error["type"], "error");
    assert_eq!(error["error"]["type"], kind);
    assert!(error["request_id"].as_str().unwrap().starts_with("req_"));
    let names = before.lines().filter(|line| line.starts_with("event: "));
    let events = before.matches("\n\n").count();
    assert_eq!(names.count(), events, "every event is whole");
}

#[tokio::test]
async fn a_revoked_keys_streams_end_with_an_error_and_its_connections_close() {
    for http in Http::BOTH {
        let world = World::new();
        let mut of_alice = world.connect(http, Some(token(ALICE))).await;
        let mut of_bob = world.connect(http, None).await;
        let (received, running) = endless(&mut of_alice, ALICE).await;
        assert_eq!(of_bob.ask(Ask::message(BOB)).await.unwrap().status, 200);
        let cancelled_before = world.model.stats().figures().cancelled;
        world.revoke(ALICE);
        ends_with(received, running, "authentication_error").await;
        of_alice.closed().await;
        let figures = || world.model.stats().figures();
        until("the model's notice", || {
            figures().cancelled == cancelled_before + 1
        })
        .await;
        assert_eq!(of_bob.ask(Ask::message(BOB)).await.unwrap().status, 200);
        assert_eq!(world.metrics.streams.get(StreamEnd::KeyEnded), 1);
        let ended = world.metrics.connection_ends.get(ConnectionEnd::KeyEnded);
        assert_eq!(ended, 1);
    }
}

#[tokio::test]
async fn a_stream_that_hangs_within_an_event_is_cut() {
    for http in Http::BOTH {
        let world = World::new();
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let ask = Ask::stream(ALICE, 100).with("x-demo-error", "hang-mid-event");
        let mut body = client.begin(ask).await.unwrap().into_body();
        let mut received = Vec::new();
        while !received.ends_with(b"data: {\"type") {
            let frame = body.frame().await.unwrap().unwrap();
            received.extend_from_slice(&frame.into_data().unwrap());
        }
        world.revoke(ALICE);
        let rest = soon("the cut", body.collect()).await;
        assert!(rest.is_err(), "{http:?}: not an end that looks good");
        client.closed().await;
    }
}

#[tokio::test]
async fn a_request_that_waits_is_told() {
    for http in Http::BOTH {
        let world = World::new();
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let waiting =
            tokio::spawn(client.ask_owned(Ask::message(ALICE).with("x-demo-error", "hang")));
        let figures = || world.model.stats().figures();
        until("the request upstream", || figures().active == 1).await;
        world.revoke(ALICE);
        let answer = soon("the answer", waiting).await.unwrap().unwrap();
        answer.is_error(
            401,
            "authentication_error",
            "Invalid Key: the key has been revoked",
        );
        until("the model's rest", || figures().active == 0).await;
        client.closed().await;
    }
}

#[tokio::test]
async fn an_idle_connection_of_a_revoked_key_closes() {
    for http in Http::BOTH {
        let world = World::new();
        let mut client = world.connect(http, None).await;
        assert_eq!(client.ask(Ask::message(BOB)).await.unwrap().status, 200);
        world.keyring.apply([edge_userspace::keys::Edit::Remove(
            crate::world::record(BOB).id,
        )]);
        client.closed().await;
    }
}

#[tokio::test]
async fn what_waits_to_be_accepted_when_the_daemon_stops_is_served() {
    for http in Http::BOTH {
        let begin = Arc::new(Barrier::new(2));
        let world = World::with(Wishes {
            begin: Some(Arc::clone(&begin)),
            config: |config| config.listen.drain_timeout = Duration::from_secs(30),
            ..Wishes::default()
        });
        let name: &[u8] = match http {
            Http::H1 => b"http/1.1",
            Http::H2 => b"h2",
        };
        let tcp = TcpStream::connect(world.address).await.unwrap();
        tcp.writable().await.unwrap();
        let config = world.client_config(&alpn(&[name, &token(ALICE)]));
        let mut handshake = pin!(world.tls_over(tcp, config));
        // The hello is written, and with it the kernel has queued the connection.
        poll_fn(|cx| {
            assert!(handshake.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        world.stop();
        begin.wait();
        let mut client = Client::over(handshake.await.unwrap(), http).await;
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 200, "{http:?}");
        client.closed().await;
        until("the thread's end", || world.stopped()).await;
    }
}

#[tokio::test]
async fn when_the_daemon_stops_short_streams_finish_and_long_ones_are_told() {
    let world = World::configured(|config| {
        config.listen.drain_timeout = Duration::from_secs(2);
    });
    for http in Http::BOTH {
        drop(world.connect(http, None).await);
    }
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let mut idle = world.connect(Http::H1, Some(token(ALICE))).await;
    idle.ready().await.unwrap();
    let (received, long) = endless(&mut client, ALICE).await;
    let short = Ask::stream(ALICE, 20).with("x-demo-inter-token-ms", "20");
    let short = client.begin(short).await.unwrap();
    world.stop();
    idle.closed().await;
    let short = soon("the short stream", short.into_body().collect()).await;
    let short = short.unwrap().to_bytes();
    assert!(short.ends_with(b"data: {\"type\":\"message_stop\"}\n\n"));
    ends_with(received, long, "overloaded_error").await;
    client.closed().await;
    until("the threads' end", || world.stopped()).await;
    assert_eq!(world.metrics.streams.get(StreamEnd::Draining), 1);
}
