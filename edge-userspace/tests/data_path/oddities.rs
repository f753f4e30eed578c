//! Upstreams whose answers are odd: each comes to one answer that is right or to one error, over both
//! HTTPs, and what lies behind it is never the next request's.

use crate::client::{Ask, Http};
use crate::upstream::{read_request, scripted};
use crate::world::{ALICE, Wishes, World, soon, token, until};
use http_body_util::BodyExt as _;
use tokio::io::AsyncWriteExt as _;

/// What the client gets.
#[derive(Clone, Copy, Debug)]
enum Gets {
    /// That answer.
    Answer(u16, &'static str),
    /// An error of the edge's own.
    Error,
    /// A head and a body that breaks off.
    Cut,
}
use Gets::{Answer, Cut, Error};

/// What the upstream writes, whether it closes then, and what comes of it.
type Case = (&'static str, bool, Gets);

const STAYS: bool = false;
const CLOSES: bool = true;

const CASES: &[Case] = &[
    // Statuses without a body.
    (
        "204 No Content\r\ncontent-length: 5\r\n\r\nhello",
        STAYS,
        Answer(204, ""),
    ),
    (
        "204 No Content\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        STAYS,
        Answer(204, ""),
    ),
    (
        "304 Not Modified\r\ncontent-length: 5\r\n\r\n",
        STAYS,
        Answer(304, ""),
    ),
    (
        "304 Not Modified\r\ncontent-length: 5\r\n\r\nhello",
        STAYS,
        Answer(304, ""),
    ),
    (
        "205 Reset Content\r\ncontent-length: 0\r\n\r\n",
        STAYS,
        Answer(205, ""),
    ),
    // Interim answers.
    (
        "100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nx: 1\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
        STAYS,
        Answer(200, "a"),
    ),
    (
        "199 Odd\r\ncontent-length: 9\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
        STAYS,
        Answer(200, "a"),
    ),
    (
        "101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        STAYS,
        Error,
    ),
    ("100 Continue\r\n\r\n", CLOSES, Error),
    // Status lines.
    ("200\r\ncontent-length: 1\r\n\r\na", STAYS, Answer(200, "a")),
    (
        "200 \r\ncontent-length: 1\r\n\r\na",
        STAYS,
        Answer(200, "a"),
    ),
    (
        "599 What\r\ncontent-length: 1\r\n\r\na",
        STAYS,
        Answer(599, "a"),
    ),
    (
        "999 What\r\ncontent-length: 1\r\n\r\na",
        STAYS,
        Answer(999, "a"),
    ),
    ("099 What\r\ncontent-length: 1\r\n\r\na", CLOSES, Error),
    ("20 What\r\ncontent-length: 1\r\n\r\na", CLOSES, Error),
    ("2000 What\r\ncontent-length: 1\r\n\r\na", CLOSES, Error),
    // Heads.
    (
        "200 OK\r\nx-a : 1\r\ncontent-length: 1\r\n\r\na",
        CLOSES,
        Error,
    ),
    (
        "200 OK\r\nx-a: 1\r\n folded\r\ncontent-length: 1\r\n\r\na",
        CLOSES,
        Error,
    ),
    (
        "200 OK\r\n:status: 201\r\ncontent-length: 1\r\n\r\na",
        CLOSES,
        Error,
    ),
    (
        "200 OK\r\nno colon\r\ncontent-length: 1\r\n\r\na",
        CLOSES,
        Error,
    ),
    (
        "200 OK\r\nx-a: a\0b\r\ncontent-length: 1\r\n\r\na",
        CLOSES,
        Error,
    ),
    (
        "200 OK\r\nx-a: a\rb\r\ncontent-length: 1\r\n\r\na",
        CLOSES,
        Error,
    ),
    ("200 OK\r\ncontent-le", CLOSES, Error),
    ("", CLOSES, Error),
    // What belongs to the hop.
    (
        "200 OK\r\nconnection: x-hop, keep-alive\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\nproxy-connection: keep-alive\r\nte: trailers\r\nupgrade: h2c\r\nhttp2-settings: AAA\r\ncontent-length: 1\r\n\r\na",
        STAYS,
        Answer(200, "a"),
    ),
    (
        "200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n1;a=b;c=\"d;e\"\r\na\r\n0\r\nx-sum: 1\r\nconnection: close\r\n\r\n",
        STAYS,
        Answer(200, "a"),
    ),
    // Framings.
    (
        "200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na",
        STAYS,
        Answer(200, "a"),
    ),
    (
        "200 OK\r\ncontent-length: 1, 1\r\n\r\na",
        STAYS,
        Answer(200, "a"),
    ),
    ("200 OK\r\ncontent-length: 1, 2\r\n\r\na", CLOSES, Error),
    ("200 OK\r\ncontent-length: 0x1\r\n\r\na", CLOSES, Error),
    (
        "200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        CLOSES,
        Error,
    ),
    (
        "200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        CLOSES,
        Error,
    ),
    (
        "200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        CLOSES,
        Error,
    ),
    (
        "200 OK\r\ntransfer-encoding: identity\r\n\r\na",
        CLOSES,
        Error,
    ),
    (
        "200 OK\r\n\r\nuntil the end",
        CLOSES,
        Answer(200, "until the end"),
    ),
    ("200 OK\r\n\r\n", CLOSES, Answer(200, "")),
    // More or less than was said.
    (
        "200 OK\r\ncontent-length: 1\r\n\r\nabc",
        STAYS,
        Answer(200, "a"),
    ),
    (
        "200 OK\r\ncontent-length: 0\r\n\r\nabc",
        STAYS,
        Answer(200, ""),
    ),
    (
        "200 OK\r\ncontent-length: 1\r\n\r\naHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret",
        STAYS,
        Answer(200, "a"),
    ),
    (
        "200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret",
        STAYS,
        Answer(200, "a"),
    ),
    ("200 OK\r\ncontent-length: 5\r\n\r\nabc", CLOSES, Cut),
    (
        "200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
        CLOSES,
        Cut,
    ),
    (
        "200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n",
        CLOSES,
        Cut,
    ),
    (
        "200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
        CLOSES,
        Cut,
    ),
    (
        "200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        CLOSES,
        Cut,
    ),
    (
        "200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\na\n0\n\n",
        CLOSES,
        Cut,
    ),
    (
        "200 OK\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\na",
        CLOSES,
        Cut,
    ),
];

fn written(case: usize) -> Option<(Vec<u8>, bool)> {
    let long = |count: usize, value: usize| {
        let line = |at| format!("x-{at}: {}\r\n", "v".repeat(value));
        let lines: String = (0..count).map(line).collect();
        format!("HTTP/1.1 200 OK\r\n{lines}content-length: 1\r\n\r\na").into_bytes()
    };
    let old = b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec();
    let chunked = b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    let all = [
        (
            b"HTTP/2.0 200 OK\r\ncontent-length: 1\r\n\r\na".to_vec(),
            CLOSES,
        ),
        (
            b"HTTP/1.1  200 OK\r\ncontent-length: 1\r\n\r\na".to_vec(),
            CLOSES,
        ),
        (vec![0x16, 3, 3, 0, 5, 1, 2, 3, 4, 5], CLOSES),
        (old, CLOSES),
        (chunked.to_vec(), CLOSES),
        // Many headers, and one more than are taken.
        (long(60, 1), STAYS),
        (long(100, 1), STAYS),
        // A head without an end, and interim ones without one.
        (
            b"HTTP/1.1 200 OK\r\n"
                .iter()
                .copied()
                .chain([b'x'; 200_000])
                .collect(),
            CLOSES,
        ),
        (long(90, 2000), CLOSES),
        (b"HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000), CLOSES),
        // Many of them, and yet an answer.
        (
            [
                &b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000)[..],
                b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
            ]
            .concat(),
            STAYS,
        ),
    ];
    match CASES.get(case) {
        Some(("", closes, _)) => Some((Vec::new(), *closes)),
        Some((text, closes, _)) => Some((format!("HTTP/1.1 {text}").into_bytes(), *closes)),
        None => all.get(case - CASES.len()).cloned(),
    }
}

const MORE: &[Gets] = &[
    Error,
    Error,
    Error,
    Answer(200, "until the end"),
    Error,
    Answer(200, "a"),
    Error,
    Error,
    Error,
    Error,
    Answer(200, "a"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_odd_answer_is_one_answer_or_one_error_and_nobody_elses() {
    let upstream = scripted(|_, mut tcp| async move {
        while let Some(request) = read_request(&mut tcp).await {
            let odd = request
                .lines()
                .find_map(|line| line.strip_prefix("x-odd: "));
            let good = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood";
            let odd = odd.map(|number| written(number.parse().unwrap()).unwrap());
            let (bytes, closes) = odd.unwrap_or((good.to_vec(), STAYS));
            // An edge that has seen enough reads no more.
            if tcp.write_all(&bytes).await.is_err() || closes {
                return;
            }
        }
    })
    .await;
    let world = World::with(Wishes {
        upstream: Some(upstream),
        config: |config| config.choice.eject_after = 1_000_000,
        ..Wishes::default()
    });
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let expected = CASES.iter().map(|(_, _, gets)| gets).chain(MORE);
        for (number, expected) in expected.enumerate() {
            let shown = written(number).unwrap().0;
            let shown = String::from_utf8_lossy(&shown[..shown.len().min(120)]).into_owned();
            let what = format!("{http:?} {number}: {shown:?}");
            let ask = Ask::message(ALICE).with("x-odd", &number.to_string());
            soon("a free connection", client.ready()).await.unwrap();
            let response = soon(&what, client.begin(ask)).await;
            let response = response.unwrap_or_else(|error| panic!("{what}: {error:?}"));
            let (head, body) = response.into_parts();
            let body = soon(&what, body.collect())
                .await
                .map(|body| body.to_bytes());
            match expected {
                Answer(status, text) => {
                    assert_eq!(head.status, *status, "{what}");
                    assert_eq!(body.unwrap(), *text, "{what}");
                    for hop in ["x-hop", "keep-alive", "upgrade", "te", "proxy-connection"] {
                        assert!(!head.headers.contains_key(hop), "{what}: {hop}");
                    }
                }
                Error => {
                    assert_eq!(head.status, 500, "{what}");
                    let body = body.unwrap();
                    assert!(body.starts_with(b"{\"type\":\"error\""), "{what}: {body:?}");
                }
                Cut => {
                    assert_eq!(head.status, 200, "{what}");
                    assert!(body.is_err(), "{what}: it looks whole: {body:?}");
                    if http == Http::H1 {
                        client = world.connect(http, Some(token(ALICE))).await;
                    }
                }
            }
            let good = client.ask(Ask::message(ALICE)).await;
            let good = good.unwrap_or_else(|error| panic!("behind {what}: {error:?}"));
            assert_eq!(good.body, "good", "behind {what}");
        }
        drop(client);
    }
    let running = || world.ledger.status().running;
    until("nothing in flight", || running() == 0).await;
}
