//! What the edge adds to an event stream, and how it ends one that its upstream does not.

use crate::client::{Ask, Http};
use crate::upstream::{read_request, scripted};
use crate::world::{ALICE, Wishes, World, soon, token, until};
use edge_userspace::telemetry::StreamEnd;
use http::Method;
use http_body_util::BodyExt as _;
use socket2::SockRef;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

const BETA: &str = "edge-usage-2026-11-01";

fn usage(ask: Ask) -> Ask {
    ask.with("anthropic-beta", BETA)
}

/// The events of a stream, each with its name.
fn events(body: &str) -> Vec<(&str, &str)> {
    let events = body.split_inclusive("\n\n");
    let name = |event: &'_ str| -> usize { event.find('\n').unwrap_or(event.len()) };
    events
        .map(|event| (event[..name(event)].trim_start_matches("event: "), event))
        .collect()
}

#[tokio::test]
async fn usage_events_follow_each_piece_of_content_and_change_nothing_else() {
    let world = World::new();
    let models = [("claude-demo", "estimate"), ("gpt-4o", "exact")];
    for (http, (model, kind)) in [
        (Http::H1, models[0]),
        (Http::H2, models[0]),
        (Http::H2, models[1]),
    ] {
        let stream = || {
            let body =
                format!(r#"{{"model":"{model}","max_tokens":9,"messages":[],"stream":true}}"#);
            Ask::stream(ALICE, 60).body(body)
        };
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let plain = client.ask(stream()).await.unwrap();
        let plain = String::from_utf8(plain.body.to_vec()).unwrap();
        let mut told = Vec::new();
        for chunk in ["1", "3", "700", "100000"] {
            let ask = usage(stream()).with("x-demo-chunk-bytes", chunk);
            let answer = client.ask(ask).await.unwrap();
            let body = String::from_utf8(answer.body.to_vec()).unwrap();
            let mut before = "";
            let mut counts = Vec::new();
            let mut rest = String::new();
            for (name, event) in events(&body) {
                if name != "edge_usage" {
                    rest += event;
                    before = name;
                    continue;
                }
                assert_eq!(before, "content_block_delta");
                before = name;
                let data = event.split_once("data: ").unwrap().1;
                let data: serde_json::Value = serde_json::from_str(data).unwrap();
                assert_eq!(data["type"], "edge_usage");
                assert_eq!(data["index"], 0);
                assert_eq!(data["count"], kind);
                counts.push(data["output_tokens"].as_u64().unwrap());
            }
            assert_eq!(rest, plain, "{http:?}, {chunk}");
            assert_eq!(counts.len(), 60);
            assert!(counts.is_sorted() && counts[59] > 30, "{counts:?}");
            told.push(body);
        }
        assert!(
            told.iter().all(|other| *other == told[0]),
            "whatever the pieces"
        );
        // Nobody else's clients know them.
        let chat = Ask::new(Method::POST, "/v1/chat/completions")
            .with("x-api-key", ALICE)
            .with("anthropic-beta", BETA)
            .with("x-demo-tokens", "5")
            .body(r#"{"model":"claude-demo","messages":[],"stream":true}"#);
        let answer = client.ask(chat).await.unwrap();
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(
            body.contains("[DONE]") && !body.contains("edge_usage"),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_silent_upstreams_client_hears_pings_between_events_alone() {
    let world = World::configured(|config| {
        config.api.ping_after = Duration::from_millis(100);
        config.upstreams[0].idle_timeout = Duration::from_secs(1);
    });
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let ask = Ask::stream(ALICE, 50).with("x-demo-error", "hang-between-events");
        let answer = client.ask(ask).await.unwrap();
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        let (before, error) = body.rsplit_once("event: error\ndata: ").unwrap();
        assert!(
            error.contains("timeout_error"),
            "pings are no life of the upstream's"
        );
        let pings = before
            .matches("event: ping\ndata: {\"type\": \"ping\"}\n\n")
            .count();
        // One is the upstream's own.
        assert!(pings > 2, "{before}");
        assert!(before.ends_with("event: ping\ndata: {\"type\": \"ping\"}\n\n"));

        let chat = Ask::new(Method::POST, "/v1/chat/completions")
            .with("x-api-key", ALICE)
            .with("x-demo-tokens", "50")
            .with("x-demo-error", "hang-between-events")
            .body(r#"{"model":"claude-demo","messages":[],"stream":true}"#);
        let answer = client.ask(chat).await.unwrap();
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(
            body.contains("\n\n: ping\n\n: ping\n\n"),
            "comments: {body}"
        );

        let ask = Ask::stream(ALICE, 50).with("x-demo-error", "hang-mid-event");
        let mut body = client.begin(ask).await.unwrap().into_body();
        let mut bytes = Vec::new();
        while let Some(Ok(frame)) = soon("a frame", body.frame()).await {
            bytes.extend_from_slice(&frame.into_data().unwrap());
        }
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("event: ping").count(), 1, "{text}");
    }
}

/// Behind a ping a byte order mark is none any more.
#[tokio::test]
async fn a_mark_behind_a_ping_is_left_out() {
    let upstream = scripted(|n, mut tcp| async move {
        read_request(&mut tcp).await.unwrap();
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        tcp.write_all(head.as_bytes()).await.unwrap();
        if n == 0 {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let events = ["\u{feff}", START, DELTA, STOP].concat();
        tcp.write_all(events.as_bytes()).await.unwrap();
    })
    .await;
    let world = World::with(Wishes {
        upstream: Some(upstream),
        config: |config| config.api.ping_after = Duration::from_millis(100),
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let events = [START, DELTA, STOP].concat();
    let ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    let body = client.ask(Ask::stream(ALICE, 1)).await.unwrap().body;
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.starts_with(ping), "{body}");
    assert_eq!(body.replace(ping, ""), events);
    let body = client.ask(Ask::stream(ALICE, 1)).await.unwrap().body;
    assert_eq!(
        body,
        format!("\u{feff}{events}"),
        "without a ping it passes"
    );
}

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n";
const DELTA: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const ERROR: &str = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n";
const CHAT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
const HALF: &str = "event: content_block_delta\ndata: {\"typ";

/// How an upstream ends a stream.
#[derive(Clone, Copy, Debug)]
enum Finish {
    /// As it should, with trailers.
    Trailers,
    /// As it should, but nothing more comes.
    Clean,
    /// It closes within the body.
    Close,
    /// It resets the connection.
    Reset,
    /// A chunk's length is none.
    Garbage,
}

async fn play(tcp: &mut TcpStream, events: &[&str], finish: Finish) {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = |event: &&str| format!("{:x}\r\n{event}\r\n", event.len());
    let chunks: String = events.iter().map(chunk).collect();
    tcp.write_all(format!("{head}{chunks}").as_bytes())
        .await
        .unwrap();
    let last: &[u8] = match finish {
        Finish::Trailers => b"0\r\nx-checksum: 7\r\n\r\n",
        Finish::Clean => b"0\r\n\r\n",
        Finish::Close => b"",
        Finish::Garbage => b"what?\r\n",
        Finish::Reset => {
            // What came before has to be read first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            SockRef::from(&*tcp)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
            b""
        }
    };
    tcp.write_all(last).await.unwrap();
}

#[tokio::test]
async fn however_an_upstream_ends_a_stream_the_client_gets_one_clear_end() {
    use Finish::*;
    type Case = (&'static [&'static str], Finish, StreamEnd, bool);
    const CASES: &[Case] = &[
        (&[START, DELTA, STOP], Trailers, StreamEnd::Complete, true),
        (&[START, DELTA, STOP], Clean, StreamEnd::Complete, true),
        (&[CHAT, CHAT], Clean, StreamEnd::Complete, true),
        (&[], Clean, StreamEnd::Complete, true),
        (&[START, ERROR], Clean, StreamEnd::UpstreamError, true),
        (&[ERROR], Clean, StreamEnd::UpstreamError, true),
        (&[START, DELTA], Clean, StreamEnd::UpstreamTruncated, true),
        (&[START, DELTA], Close, StreamEnd::UpstreamTruncated, true),
        (&[START, DELTA], Reset, StreamEnd::UpstreamReset, true),
        (&[START, DELTA], Garbage, StreamEnd::UpstreamBroke, true),
        (&[START, HALF], Clean, StreamEnd::UpstreamTruncated, false),
        (&[START, HALF], Close, StreamEnd::UpstreamTruncated, false),
        (&[START, HALF], Reset, StreamEnd::UpstreamReset, false),
        (&[START, HALF], Garbage, StreamEnd::UpstreamBroke, false),
    ];
    for http in Http::BOTH {
        for (events, finish, end, has_place) in CASES {
            let (events, finish, end) = (*events, *finish, *end);
            let upstream = scripted(move |_, mut tcp| async move {
                if read_request(&mut tcp).await.is_some() {
                    play(&mut tcp, events, finish).await;
                }
            })
            .await;
            let world = World::with(Wishes {
                upstream: Some(upstream),
                ..Wishes::default()
            });
            let what = format!("{http:?} {events:?} {finish:?}");
            let mut client = world.connect(http, Some(token(ALICE))).await;
            // The head comes whatever follows: a client that gets none asks again.
            let response = client.begin(Ask::stream(ALICE, 1)).await.expect(&what);
            let mut body = response.into_body();
            let mut bytes = Vec::new();
            let ended = loop {
                match soon("a frame", body.frame()).await {
                    Some(Ok(frame)) => bytes.extend_from_slice(&frame.into_data().unwrap()),
                    Some(Err(_)) => break false,
                    None => break true,
                }
            };
            assert_eq!(ended, *has_place, "{what}");
            let text = String::from_utf8(bytes).unwrap();
            let sent = events.concat();
            let added = text.strip_prefix(&sent).expect(&what);
            let adds = matches!(
                end,
                StreamEnd::UpstreamTruncated | StreamEnd::UpstreamReset | StreamEnd::UpstreamBroke
            ) && *has_place;
            assert_eq!(
                added.matches("event: error\n").count(),
                usize::from(adds),
                "{what}: {added}"
            );
            assert_eq!(added.is_empty(), !adds, "{what}: {added}");
            assert_eq!(world.metrics.streams.get(end), 1, "{what}");
            // Who tells an error in place of an answer must not look idle.
            let failed = world.upstreams.status()[0].failed;
            assert_eq!(failed, u64::from(end == StreamEnd::UpstreamError), "{what}");
            let streams = || world.metrics.open_streams.get();
            until("the stream's end", || streams() == 0).await;
        }
    }
}
