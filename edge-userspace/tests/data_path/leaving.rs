//! Clients that leave: the upstream is told, in whatever phase it happens.

use crate::client::{Ask, Http, alpn, pieces};
use crate::upstream::{read_request, scripted};
use crate::world::{ALICE, Wishes, World, record, soon, token, until};
use bytes::Bytes;
use edge_userspace::telemetry::StreamEnd;
use http_body_util::BodyExt as _;
use rustix::net::SendFlags;
use socket2::{Domain, Socket, Type};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// How a client leaves.
#[derive(Clone, Copy, Debug)]
enum Leave {
    /// Its connection is gone.
    Connection,
    /// It resets the stream; the connection stays.
    Stream,
}

const WAYS: [(Http, Leave); 3] = [
    (Http::H1, Leave::Connection),
    (Http::H2, Leave::Connection),
    (Http::H2, Leave::Stream),
];

async fn cancelled(world: &World, count: u64) {
    let figures = || world.model.stats().figures();
    until("the model's notice", || figures().cancelled == count).await;
    until("the model's rest", || figures().active == 0).await;
}

/// Leaves while the upstream has not begun to answer.
async fn leaves_before_the_head(ask: fn() -> Ask) {
    let world = World::new();
    for (round, (http, leave)) in (1..).zip(WAYS) {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.begin(ask());
        let answer = tokio::spawn(answer);
        let figures = || world.model.stats().figures();
        until("the request upstream", || figures().active == 1).await;
        match leave {
            Leave::Connection => client.vanish(),
            Leave::Stream => answer.abort(),
        }
        cancelled(&world, round).await;
        if let Leave::Stream = leave {
            let answer = client.ask(Ask::message(ALICE)).await.unwrap();
            assert_eq!(answer.status, 200, "the connection serves on");
        }
    }
    let left = StreamEnd::ClientLeftBeforeHead;
    assert_eq!(world.metrics.streams.get(left), WAYS.len() as u64);
}

#[tokio::test]
async fn before_the_first_byte_of_a_stream() {
    leaves_before_the_head(|| Ask::stream(ALICE, 9).with("x-demo-error", "hang")).await;
}

#[tokio::test]
async fn while_a_whole_answer_is_waited_for() {
    leaves_before_the_head(|| Ask::message(ALICE).with("x-demo-inter-token-ms", "60000")).await;
}

#[tokio::test]
async fn in_the_middle_of_a_stream() {
    let world = World::new();
    for (round, (http, leave)) in (1..).zip(WAYS) {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        // It stops in the middle, so that nothing but the leaving can be noticed.
        let ask = Ask::stream(ALICE, 100).with("x-demo-error", "hang-mid-stream");
        let mut body = client.begin(ask).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        match leave {
            Leave::Connection => client.vanish(),
            Leave::Stream => drop(body),
        }
        cancelled(&world, round).await;
    }
    let left = world.metrics.streams.get(StreamEnd::ClientLeft);
    assert_eq!(left, WAYS.len() as u64);
}

#[tokio::test]
async fn in_the_middle_of_its_own_body() {
    let world = World::new();
    for (http, leave) in WAYS {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let (send, body) = pieces();
        let answer = tokio::spawn(client.begin(Ask::message(ALICE).streamed(body)));
        send.send(Bytes::from_static(b"{\"model\":")).await.unwrap();
        let held = || world.prompts.room().bytes();
        until("the body's beginning", || held() > 0).await;
        match leave {
            Leave::Connection => client.vanish(),
            Leave::Stream => answer.abort(),
        }
        until("the body's end", || held() == 0).await;
    }
    let requests = world.model.stats().figures().requests;
    assert_eq!(requests, 0, "a request goes upstream when it is whole");
    let left = world.metrics.streams.get(StreamEnd::ClientLeftBeforeHead);
    assert_eq!(left, WAYS.len() as u64);
}

/// An upstream that takes a little of each connection and nothing more.
#[tokio::test]
async fn while_its_body_goes_upstream_what_did_not_go_whole_costs_nothing() {
    // More than sockets and the edge's buffers hold, and less.
    for (filler_bytes, is_billed) in [(24 << 20, false), (1 << 10, true)] {
        let taken = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&taken);
        let script = move |_, mut tcp: tokio::net::TcpStream| {
            let count = Arc::clone(&count);
            async move {
                tcp.read_exact(&mut [0; 512]).await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                std::future::pending::<()>().await;
            }
        };
        let world = World::with(Wishes {
            upstream: Some(scripted(script).await),
            ..Wishes::default()
        });
        let body = format!(
            r#"{{"model":"claude-demo","max_tokens":8,"messages":[{{"role":"user","content":"hi"}}],"metadata":{{"filler":"{}"}}}}"#,
            "x".repeat(filler_bytes)
        );
        for (round, (http, leave)) in (1..).zip(WAYS) {
            let mut client = world.connect(http, Some(token(ALICE))).await;
            let answer = tokio::spawn(client.begin(Ask::message(ALICE).body(body.clone())));
            until("its beginning upstream", || {
                taken.load(Ordering::Relaxed) == round
            })
            .await;
            match leave {
                Leave::Connection => client.vanish(),
                Leave::Stream => answer.abort(),
            }
            let usage = || world.ledger.usage(record(ALICE).id).unwrap();
            until("its end", || usage().requests == round).await;
            let usage = usage();
            assert_eq!(usage.input > 0, is_billed, "{http:?} {leave:?}: {usage:?}");
            assert_eq!((usage.output, usage.tokens_today), (0, usage.input));
        }
    }
}

/// A listener whose queue is full: to connect to it takes for ever.
fn unreachable() -> (Socket, Vec<TcpStream>, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        queued.push(stream);
        assert!(queued.len() < 100, "the queue is never full");
    }
    (socket, queued, address)
}

#[tokio::test]
async fn while_the_upstream_is_being_connected_to() {
    let (_socket, _queued, address) = unreachable();
    let world = World::with(Wishes {
        upstream: Some(address),
        config: |config| config.upstreams[0].connect_timeout = Duration::from_secs(3600),
        ..Wishes::default()
    });
    let left = || world.metrics.streams.get(StreamEnd::ClientLeftBeforeHead);
    for (round, (http, leave)) in (1..).zip(WAYS) {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let session = || world.sessions.len();
        until("the connection", || session() >= 1).await;
        let answer = tokio::spawn(client.begin(Ask::message(ALICE)));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!answer.is_finished());
        match leave {
            Leave::Connection => client.vanish(),
            Leave::Stream => answer.abort(),
        }
        until("the edge's notice", || left() == round).await;
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_the_upstream_back() {
    let world = World::new();
    let tokens = 400_000;
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let response = client.begin(Ask::stream(ALICE, tokens)).await.unwrap();
        let sent = || world.model.stats().figures().body_bytes;
        let before = sent();
        // The client's windows and the sockets' buffers fill, then nothing moves.
        let mut last = sent();
        let mut still = 0;
        while still < 20 {
            tokio::time::sleep(Duration::from_millis(25)).await;
            let now = sent();
            still = if now == last { still + 1 } else { 0 };
            last = now;
            assert!(now - before < 30 << 20, "{http:?}: not held back: {now}");
        }
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(
            body.len() > 40 << 20,
            "more than was held back: {}",
            body.len()
        );
        assert!(body.ends_with(b"data: {\"type\":\"message_stop\"}\n\n"));
    }
}

/// What may lie unread behind a request.
fn strays() -> Vec<Vec<u8>> {
    let next = b"GET /v1/models HTTP/1.1\r\nhost: edge.test\r\n\r\n";
    vec![
        b"x".to_vec(),
        b"\r\n".to_vec(),
        next.to_vec(),
        // More than anyone reads ahead, and less than the socket's buffer holds: of what does not
        // fit there the client's system would keep the end back.
        vec![b'x'; 40_000],
    ]
}

/// How a client that sends nothing more closes its connection.
#[derive(Clone, Copy, Debug)]
enum Close {
    /// TLS's goodbye, then TCP's.
    Well,
    /// Its sending side alone, without a word.
    Half,
    Reset,
}

/// Bytes that nobody reads hide an HTTP/1.1 connection's end, but not from the edge.
#[tokio::test]
async fn behind_bytes_that_nobody_reads() {
    let world = World::new();
    let fault = |how: &str, stream: bool| {
        let body = format!(r#"{{"model":"claude-demo","messages":[],"stream":{stream}}}"#);
        format!(
            "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {ALICE}\r\n\
             anthropic-version: 2023-06-01\r\nx-demo-error: {how}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let asks = [
        ("before the head", fault("hang", false)),
        ("in the middle", fault("hang-mid-stream", true)),
    ];
    let mut count = 0;
    for (phase, ask) in &asks {
        for stray in strays() {
            for close in [Close::Well, Close::Half, Close::Reset] {
                let hello = alpn(&[b"http/1.1", &token(ALICE)]);
                let mut tls = world.tls(&hello).await.unwrap();
                tls.write_all(ask.as_bytes()).await.unwrap();
                let figures = || world.model.stats().figures();
                until("the request upstream", || figures().active == 1).await;
                tls.write_all(&stray).await.unwrap();
                let at = Instant::now();
                match close {
                    Close::Well => tls.shutdown().await.unwrap(),
                    Close::Half => tls.get_mut().0.shutdown().await.unwrap(),
                    Close::Reset => tls.get_ref().0.set_zero_linger().unwrap(),
                }
                let open = matches!(close, Close::Half).then_some(tls);
                count += 1;
                cancelled(&world, count).await;
                println!(
                    "{phase}, {} bytes behind it, {close:?}: seen after {:?}",
                    stray.len(),
                    at.elapsed()
                );
                drop(open);
            }
        }
    }
}

/// Two requests at once are no end: both are answered.
#[tokio::test]
async fn a_client_that_sends_ahead_has_not_left() {
    let world = World::new();
    let ask = |more: &str| {
        let body = r#"{"model":"claude-demo","messages":[],"stream":true}"#;
        format!(
            "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {ALICE}\r\n\
             anthropic-version: 2023-06-01\r\nx-demo-first-token-ms: 300\r\n{more}\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let hello = alpn(&[b"http/1.1", &token(ALICE)]);
    let mut tls = world.tls(&hello).await.unwrap();
    tls.write_all(ask("").as_bytes()).await.unwrap();
    let last = ask("connection: close\r\n");
    for byte in last.as_bytes().chunks(100) {
        tls.write_all(byte).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // What is urgent by TCP's word is no end either, and keeps nobody busy.
    let urgent = rustix::net::send(tls.get_ref().0, b"!", SendFlags::OOB);
    assert_eq!(urgent, Ok(1));
    let mut answers = String::new();
    let _ = soon("both answers", tls.read_to_string(&mut answers)).await;
    assert_eq!(answers.matches("event: message_stop").count(), 2);
    assert_eq!(world.model.stats().figures().cancelled, 0);
}

/// How far an answer has come when its client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    BeforeHead,
    BeforeFirstEvent,
    InTheMiddle,
    /// All of it has come but the end of the body.
    AfterLastEvent,
}

/// What an upstream has said in that phase, before it stops.
fn said(phase: Phase, is_stream: bool) -> Vec<u8> {
    let parts: [&str; 2] = if is_stream {
        [
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ]
    } else {
        [
            "{\"type\":\"message\",\"content\":[],",
            "\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}",
        ]
    };
    let kind = if is_stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
    let count = match phase {
        Phase::BeforeHead => return Vec::new(),
        Phase::BeforeFirstEvent => 0,
        Phase::InTheMiddle => 1,
        Phase::AfterLastEvent => 2,
    };
    let chunks: String = parts.iter().take(count).map(|part| chunk(part)).collect();
    (head + &chunks).into_bytes()
}

/// In every phase, of whole answers and of streams, over both HTTPs: the upstream sees it. What
/// was reserved comes back, as the end of each world checks.
#[tokio::test]
async fn in_every_phase_the_upstream_sees_it() {
    let phases = [
        Phase::BeforeHead,
        Phase::BeforeFirstEvent,
        Phase::InTheMiddle,
        Phase::AfterLastEvent,
    ];
    for (phase, is_stream) in phases
        .into_iter()
        .flat_map(|phase| [(phase, false), (phase, true)])
    {
        let (asked, mut asks) = tokio::sync::mpsc::channel(8);
        let (left, mut leaves) = tokio::sync::mpsc::channel(8);
        let upstream = scripted(move |_, mut tcp| {
            let (asked, left) = (asked.clone(), left.clone());
            async move {
                if read_request(&mut tcp).await.is_none() {
                    return;
                }
                tcp.write_all(&said(phase, is_stream)).await.unwrap();
                asked.send(()).await.unwrap();
                // Ready when the other side closes or resets.
                let mut byte = [0];
                let _ = tcp.read(&mut byte).await;
                left.send(Instant::now()).await.unwrap();
            }
        })
        .await;
        let world = World::with(Wishes {
            upstream: Some(upstream),
            ..Wishes::default()
        });
        for (http, leave) in WAYS {
            let what = format!("{phase:?}, stream {is_stream}, {http:?}, {leave:?}");
            let mut client = world.connect(http, Some(token(ALICE))).await;
            let ask = if is_stream {
                Ask::stream(ALICE, 1)
            } else {
                Ask::message(ALICE)
            };
            let answer = tokio::spawn(client.begin(ask));
            soon(&what, asks.recv()).await.unwrap();
            let at = if phase == Phase::BeforeHead {
                let at = Instant::now();
                match leave {
                    Leave::Connection => client.vanish(),
                    Leave::Stream => answer.abort(),
                }
                at
            } else {
                let mut body = soon(&what, answer).await.unwrap().unwrap().into_body();
                let expected =
                    said(phase, is_stream).len() - said(Phase::BeforeFirstEvent, is_stream).len();
                let mut got = 0;
                while expected > 0 && got + 16 < expected {
                    let frame = soon(&what, body.frame()).await.unwrap().unwrap();
                    // Chunked framing is a few bytes more.
                    got += frame.into_data().unwrap().len();
                }
                let at = Instant::now();
                match leave {
                    Leave::Connection => client.vanish(),
                    Leave::Stream => drop(body),
                }
                at
            };
            let seen = soon(&what, leaves.recv()).await.unwrap();
            let ms = seen.duration_since(at).as_secs_f64() * 1000.0;
            let kind = if is_stream { "sse" } else { "json" };
            let name = format!("{phase:?}.{kind}.{http:?}.{leave:?}").to_lowercase();
            println!("figure leaving.{name} {ms:.2} ms");
        }
        let end = if phase == Phase::BeforeHead {
            StreamEnd::ClientLeftBeforeHead
        } else {
            StreamEnd::ClientLeft
        };
        let left = || world.metrics.streams.get(end);
        until("the edge's account", || left() == WAYS.len() as u64).await;
    }
}
