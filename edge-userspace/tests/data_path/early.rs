//! Refusals that come while the client still sends, and connections that are told to end
//! while it asks.

use crate::client::{Answer, Ask, Client, Http, alpn, pieces};
use crate::world::{ALICE, Wishes, World, soon, token, until};
use bytes::Bytes;
use edge_userspace::config::Config;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// As large as a body may be.
const BODY_BYTES: usize = 32 << 20;

/// One way to be refused before the body is there.
struct Refusal {
    what: &'static str,
    config: fn(&mut Config),
    version: &'static str,
    status: u16,
    kind: &'static str,
    /// Whether the connection serves on.
    serves_on: bool,
}

fn refusals() -> [Refusal; 3] {
    [
        Refusal {
            what: "no version",
            config: |_| {},
            version: "none",
            status: 400,
            kind: "invalid_request_error",
            serves_on: true,
        },
        Refusal {
            what: "over a quota",
            config: |config| config.quotas.limits.requests_per_minute = Some(1),
            version: "2023-06-01",
            status: 429,
            kind: "rate_limit_error",
            serves_on: false,
        },
        Refusal {
            what: "too large",
            config: |config| config.api.max_body_bytes = 16 << 20,
            version: "2023-06-01",
            status: 413,
            kind: "request_too_large",
            serves_on: true,
        },
    ]
}

/// Sends all of a request and only then listens, as the SDKs' HTTP/1.1 does; gives the answer.
async fn send_then_listen(world: &World, refusal: &Refusal) -> (String, bool) {
    let hello = alpn(&[b"http/1.1", &token(ALICE)]);
    let mut tls = world.tls(&hello).await.unwrap();
    let head = |version: &str, length: usize| {
        format!(
            "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {ALICE}\r\n\
             anthropic-version: {version}\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let head_bytes = head(refusal.version, BODY_BYTES);
    tls.write_all(head_bytes.as_bytes()).await.unwrap();
    let piece = vec![b' '; 64 * 1024];
    for _ in 0..BODY_BYTES / piece.len() {
        let written = soon("a piece", tls.write_all(&piece)).await;
        // The edge may have ended the connection; what it said before is there all the same.
        if written.is_err() {
            assert!(!refusal.serves_on, "{}: the body is read", refusal.what);
            break;
        }
    }
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let read = soon("the answer", tls.read_buf(&mut answer)).await;
        assert!(
            read.is_ok_and(|count| count > 0),
            "{}: an answer",
            refusal.what
        );
    }
    let next = head("2023-06-01", 2) + "{}";
    let mut more = Vec::new();
    if tls.write_all(next.as_bytes()).await.is_ok() {
        while !more.ends_with(b"}") {
            let read = soon("the next answer", tls.read_buf(&mut more)).await;
            if read.map_or(true, |count| count == 0) {
                break;
            }
        }
    }
    let served_on = more.starts_with(b"HTTP/1.1 200 ");
    (String::from_utf8(answer).unwrap(), served_on)
}

#[tokio::test]
async fn an_upload_that_is_refused_is_told_so_and_what_follows_is_served() {
    for refusal in refusals() {
        let world = World::configured(refusal.config);
        if refusal.status == 429 {
            let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
            assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
        }
        let (answer, served_on) = send_then_listen(&world, &refusal).await;
        let (what, status) = (refusal.what, refusal.status);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{what}: {answer}"
        );
        assert!(answer.contains(refusal.kind), "{what}: {answer}");
        assert_eq!(served_on, refusal.serves_on, "{what}");

        let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
        let (send, body) = pieces();
        let ask = Ask::message(ALICE).without("anthropic-version");
        let length = BODY_BYTES.to_string();
        let ask = (ask.with("anthropic-version", refusal.version))
            .with("content-length", &length)
            .streamed(body);
        client.ready().await.unwrap();
        let answer = tokio::spawn(client.begin(ask));
        let piece = Bytes::from(vec![b' '; 64 * 1024]);
        for _ in 0..BODY_BYTES / piece.len() {
            // Fails when the stream has been reset, which must not be before the answer.
            if send.send(piece.clone()).await.is_err() {
                break;
            }
        }
        drop(send);
        let response = soon("the answer", answer).await.unwrap();
        let answer = Answer::read(response.unwrap()).await.unwrap();
        answer.is_error(status, refusal.kind, "");
        if refusal.status != 429 {
            let next = client.ask(Ask::message(ALICE)).await.unwrap();
            assert_eq!(next.status, 200, "{what}: the connection serves on");
        }
    }
}

/// Sends so much to be refused, and gives the answer, and how many pieces of 64 KiB were taken. A
/// client that is cut off while it waits for room may wait for ever (httpcore), or miss the answer
/// (Node).
async fn upload(client: &mut Client, ask: Ask, pieces_sent: usize) -> (Answer, usize) {
    let (send, body) = pieces();
    client.ready().await.unwrap();
    let answer = tokio::spawn(client.begin(ask.streamed(body)));
    let piece = Bytes::from(vec![b' '; 64 * 1024]);
    let mut taken = 0;
    while taken < pieces_sent && soon("room", send.send(piece.clone())).await.is_ok() {
        taken += 1;
    }
    drop(send);
    let response = soon("the answer", answer).await.unwrap().unwrap();
    (Answer::read(response).await.unwrap(), taken)
}

#[tokio::test]
async fn a_refused_body_is_read_as_far_as_it_could_have_been_a_good_one() {
    const MAX_BODY: usize = 4 << 20;
    const MAX_PIECES: usize = MAX_BODY / (64 * 1024);
    let world = World::configured(|config| config.api.max_body_bytes = MAX_BODY as u64);
    for http in Http::BOTH {
        let mut stranger = world.connect(http, None).await;
        let ask = || Ask::message("sk-ant-nobody");
        let announced = MAX_BODY.to_string();
        // Chunks last would end an HTTP/1.1 connection.
        for ask in [ask(), ask().with("content-length", &announced)] {
            let (answer, taken) = upload(&mut stranger, ask, MAX_PIECES).await;
            answer.is_error(401, "authentication_error", "");
            assert_eq!(taken, MAX_PIECES, "{http:?}: all of it is read");
        }
        // Over HTTP/1.1 its connection ends then, and the answer may be lost.
        if http == Http::H2 {
            let (answer, taken) = upload(&mut stranger, ask(), 4 * MAX_PIECES).await;
            answer.is_error(401, "authentication_error", "");
            assert!(taken < 4 * MAX_PIECES, "there is a bound for strangers");
        }

        let mut client = world.connect(http, Some(token(ALICE))).await;
        let announced = (3 * MAX_BODY).to_string();
        for ask in [
            // What is too large turns out when it is.
            Ask::message(ALICE),
            Ask::message(ALICE).with("content-length", &announced),
        ] {
            let (answer, taken) = upload(&mut client, ask, 3 * MAX_PIECES).await;
            answer.is_error(413, "request_too_large", "");
            assert_eq!(taken, 3 * MAX_PIECES, "{http:?}: all of it is read");
        }
        let next = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(next.status, 200, "{http:?}: the connection serves on");
    }
}

/// Requests that are sent while the edge says GOAWAY are answered, or fail without ever having
/// reached the upstream, so that the client may send them again.
#[tokio::test]
async fn an_edge_that_stops_loses_no_request() {
    for http in Http::BOTH {
        let mut answered = 0;
        let mut failed = 0;
        let world = World::with(Wishes {
            config: |config| config.listen.drain_timeout = Duration::from_secs(30),
            ..Wishes::default()
        });
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(world.connect(http, Some(token(ALICE))).await);
        }
        let mut asked = tokio::task::JoinSet::new();
        for round in 0..20 {
            for client in &mut clients {
                // A client whose connection is at its end knows it.
                if http == Http::H1 && client.ready().await.is_err() {
                    continue;
                }
                let ask = Ask::message(ALICE).with("x-demo-first-token-ms", "30");
                asked.spawn(client.ask_owned(ask));
            }
            if round == 10 {
                world.stop();
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        while let Some(answer) = soon("the answers", asked.join_next()).await {
            match answer.unwrap() {
                Ok(answer) => {
                    assert_eq!(answer.status, 200);
                    answered += 1;
                }
                Err(_) => failed += 1,
            }
        }
        drop(clients);
        until("the end", || world.stopped()).await;
        let requests = world.model.stats().figures().requests;
        assert_eq!(requests, answered, "{http:?}, {failed} may be sent again");
        assert!(answered > 0);
        assert_eq!(world.model.stats().figures().cancelled, 0, "{http:?}");
    }
}
