//! One edge: what a program gets through the sidecar, and what the edge gets.

use crate::program::{Http, Program, get, message, request, stream, with};
use crate::scripted::{Does, Scripted};
use crate::setup::{Edge as _, Local, options, tls};
use crate::world::{ALICE, AUDIENCE, MALLORY, Wishes, World, soon, until};
use edge_client::{ApiKey, Client, Clock, ConnectError, Limits, TokenSource, fingerprint};
use edge_userspace::sidecar::ContextIds;
use http::{HeaderValue, Method};
use http_body_util::BodyExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[tokio::test]
async fn a_program_that_knows_nothing_gets_the_zero_lane_over_both_https() {
    let world = World::new();
    let local = Local::new(&[&world]).await;
    for http in Http::BOTH {
        let mut program = Program::connect(local.address, http).await;
        for _ in 0..3 {
            let answer = program.ask(message()).await.unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.header("x-claude-route"), "direct", "{http:?}");
            assert_eq!(answer.json()["type"], "message");
        }
        let answer = program.ask(stream(20)).await.unwrap();
        assert_eq!(
            answer.header("content-type"),
            "text/event-stream; charset=utf-8"
        );
        assert!(answer.body.ends_with(b"\n\n"), "{answer:?}");
        let text = std::str::from_utf8(&answer.body).unwrap();
        assert!(text.contains("event: message_stop"), "{text}");
        let models = program.ask(get("/v1/models")).await.unwrap();
        assert_eq!(models.status, 200);
        let nowhere = program.ask(get("/v1/nowhere")).await.unwrap();
        assert_eq!(nowhere.status, 404);
    }
    let status = local.status();
    assert_eq!((status.sent_on, status.unanswered), (0, 0), "{status:?}");
    assert_eq!(status.held_bytes, 0, "what was kept is let go");
}

#[tokio::test]
async fn the_key_is_put_in_and_the_programs_own_is_not_passed_on() {
    let edge = Scripted::new().await;
    let local = Local::new(&[&edge]).await;
    let mut program = Program::connect(local.address, Http::H1).await;
    let asked = with(message(), "authorization", "Bearer edge-connect");
    let asked = with(asked, "connection", "x-of-this-hop");
    let asked = with(asked, "x-of-this-hop", "1");
    let asked = with(asked, "x-stainless-lang", "python");
    program.ask(asked).await.unwrap();
    let came = edge.came();
    let headers = &came[0].headers;
    assert_eq!(headers["x-api-key"], ALICE);
    assert!(!headers.contains_key("authorization"));
    assert!(!headers.contains_key("x-of-this-hop"));
    assert_eq!(headers["x-stainless-lang"], "python");
    assert_eq!(headers["anthropic-version"], "2023-06-01");
    assert_eq!(edge.connections(), edge.tokens(), "each has a token");
}

#[tokio::test]
async fn context_and_fingerprint_are_put_in_where_the_program_has_none() {
    let edge = Scripted::new().await;
    let mut wanted = options(&[&edge]);
    wanted.ids = ContextIds {
        id: Some(HeaderValue::from_static("u1")),
        hint: Some(HeaderValue::from_static("project")),
    };
    let local = Local::with(wanted).await;
    let mut program = Program::connect(local.address, Http::H2).await;
    program.ask(message()).await.unwrap();
    let own = with(message(), "x-anthropic-context-id", "own");
    let own = with(own, "anthropic-fingerprint", "own");
    program.ask(own).await.unwrap();
    let no_request = request(Method::POST, "/v1/messages", "{");
    program.ask(no_request).await.unwrap();
    let came = edge.came();
    assert_eq!(came[0].headers["x-anthropic-context-id"], "u1");
    assert_eq!(came[0].headers["x-anthropic-context-hint"], "project");
    let expected = fingerprint::of_texts("", ["hi"], "claude-demo").to_string();
    assert_eq!(came[0].headers["anthropic-fingerprint"], expected.as_str());
    assert_eq!(came[1].headers["x-anthropic-context-id"], "own");
    assert_eq!(came[1].headers["anthropic-fingerprint"], "own");
    assert!(!came[2].headers.contains_key("anthropic-fingerprint"));
    assert_eq!(
        came[2].body, "{",
        "what is no request passes, and the edge says so"
    );
    until("the edge to be told of what will come", || {
        let checks = edge.checks();
        (checks.iter()).any(|came| came.headers.get("x-anthropic-context-hint").is_some())
    })
    .await;
}

#[tokio::test]
async fn without_fingerprints_bodies_go_on_as_they_come() {
    let edge = Scripted::new().await;
    let mut wanted = options(&[&edge]);
    wanted.fingerprint = false;
    let local = Local::with(wanted).await;
    let mut program = Program::connect(local.address, Http::H1).await;
    program.ask(message()).await.unwrap();
    let came = edge.came();
    assert!(!came[0].headers.contains_key("anthropic-fingerprint"));
    assert!(came[0].body.starts_with(b"{"));
}

#[tokio::test]
async fn real_edges_find_the_fingerprint_right() {
    let world = World::new();
    let local = Local::new(&[&world]).await;
    let mut program = Program::connect(local.address, Http::H1).await;
    let body = r#"{"system":[{"type":"text","text":"é\u00e9\ud83e\udd80"}],"tools":[{"name":"t","input_schema":{}}],"model":"claude-demo","max_tokens":3,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"|b"}]},{"role":"assistant","content":""},{"role":"user","content":"c"}]}"#;
    for path in [
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/chat/completions",
    ] {
        let asked = request(Method::POST, path, body);
        let answer = program.ask(asked).await.unwrap();
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_program_that_leaves_ends_its_request_at_the_model() {
    let world = World::new();
    let local = Local::new(&[&world]).await;
    for http in Http::BOTH {
        for (number, phase) in ["before the head", "amid the events"]
            .into_iter()
            .enumerate()
        {
            let before = world.model.stats().figures().cancelled;
            let mut program = Program::connect(local.address, http).await;
            let asked = with(stream(1_000_000), "x-demo-inter-token-ms", "5");
            match number {
                0 => {
                    let asked = with(asked, "x-demo-first-token-ms", "600000");
                    let begun = program.begin(asked);
                    let waited = tokio::time::timeout(Duration::from_millis(300), begun).await;
                    assert!(waited.is_err(), "there is no answer");
                }
                _ => {
                    let mut response = program.begin(asked).await.unwrap();
                    response.body_mut().frame().await.unwrap().unwrap();
                    drop(response);
                }
            }
            drop(program);
            until(&format!("{http:?}, {phase}: the model hears of it"), || {
                let figures = world.model.stats().figures();
                figures.cancelled > before && figures.active == 0
            })
            .await;
        }
    }
}

#[tokio::test]
async fn who_reads_nothing_stops_the_model_and_stalls_nobody_else() {
    let world = World::new();
    let local = Local::new(&[&world]).await;
    let mut idle = Vec::new();
    for http in Http::BOTH {
        let mut program = Program::connect(local.address, http).await;
        let response = program.begin(stream(2_000_000)).await.unwrap();
        idle.push((program, response));
    }
    let mut last = 0;
    // What is under way fills its buffers and stands still.
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = world.model.stats().figures().body_bytes;
        if now == last {
            break;
        }
        last = now;
    }
    let whole: u64 = 2 * 2_000_000 * 100;
    assert!(last < whole / 8, "{last} bytes are under way, unread");
    let mut program = Program::connect(local.address, Http::H1).await;
    for _ in 0..20 {
        let answer = program.ask(stream(200)).await.unwrap();
        assert_eq!(answer.status, 200);
    }
    assert_eq!(local.status().edges[0].running, 2);
    drop(idle);
    until("those that are left to end", || {
        world.model.stats().figures().active == 0
    })
    .await;
}

#[tokio::test]
async fn large_bodies_pass_piece_by_piece_and_come_whole() {
    let world = World::new();
    let mut wanted = options(&[&world]);
    // Less than one of them.
    wanted.held_bytes = 1 << 20;
    let local = Local::with(wanted).await;
    let text = "word ".repeat(1_000_000);
    let body = serde_json::json!({
        "model": "claude-demo", "max_tokens": 8, "messages": [{"role": "user", "content": text}],
    })
    .to_string();
    for http in Http::BOTH {
        let mut program = Program::connect(local.address, http).await;
        let asked = request(Method::POST, "/v1/messages/count_tokens", &body);
        let answer = program.ask(asked).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.json()["input_tokens"].as_u64().unwrap() > 900_000);
    }
    until("what was kept to be let go", || {
        local.status().held_bytes == 0
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_refused_early_is_answered_and_the_next_request_served() {
    let world = World::with(Wishes {
        config: |config| config.api.max_body_bytes = 1 << 20,
        ..Wishes::default()
    });
    let local = Local::new(&[&world]).await;
    let body = "x".repeat(8 << 20);
    let mut program = Program::connect(local.address, Http::H2).await;
    for _ in 0..2 {
        let asked = request(Method::POST, "/v1/messages", &body);
        let answer = program.ask(asked).await.unwrap();
        assert_eq!(answer.status, 413, "{answer:?}");
        let answer = program.ask(message()).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // By hand: hyper's client does not go on with a connection whose answer was early.
    let address = local.address;
    let heard = tokio::task::spawn_blocking(move || by_hand(address, &body));
    let heard = soon("both answers", heard).await.unwrap();
    let statuses: Vec<_> = (heard.match_indices("HTTP/1.1 "))
        .map(|(at, _)| &heard[at + 9..at + 12])
        .collect();
    assert_eq!(statuses, ["413", "200"], "{heard}");
    assert_eq!(local.status().sent_on, 0);
}

/// A large request and a small one on one connection of HTTP/1.1; gives what comes back.
fn by_hand(to: std::net::SocketAddr, body: &str) -> String {
    use std::io::{Read as _, Write as _};
    let tcp = std::net::TcpStream::connect(to).unwrap();
    let mut writer = tcp.try_clone().unwrap();
    let head = |more: &str, length: usize| {
        format!(
            "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nanthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\n\r\n"
        )
    };
    let small = "{}";
    let text = [
        &head("", body.len()),
        body,
        &head("connection: close\r\n", small.len()),
        small,
    ]
    .concat();
    let writing = std::thread::spawn(move || writer.write_all(text.as_bytes()));
    let mut heard = String::new();
    { tcp }.read_to_string(&mut heard).unwrap();
    writing.join().unwrap().unwrap();
    heard
}

#[tokio::test]
async fn real_edges_tell_what_the_choice_goes_by() {
    let world = World::new();
    let local = Local::new(&[&world]).await;
    local.settled().await;
    let mut program = Program::connect(local.address, Http::H1).await;
    let answer = program.ask(message()).await.unwrap();
    let timing = answer.header("server-timing");
    assert!(timing.contains("edge;dur="), "{timing:?}");
    until("the edge to say how full it is", || {
        local.status().edges[0].capacity_percent.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_refused_token_is_told_in_words_and_not_thrown_again_and_again() {
    let world = World::new();
    let mut wanted = options(&[&world]);
    wanted.key = ApiKey::new(MALLORY.as_bytes().to_vec());
    let local = Local::with(wanted).await;
    let mut program = Program::connect(local.address, Http::H1).await;
    let answer = program.ask(message()).await.unwrap();
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(answer.header("x-should-retry"), "false");
    let told = answer.error();
    assert!(told.contains("Invalid Key"), "{told}");
    assert!(!told.contains(MALLORY), "{told}");
    local.settled().await;
    let before = world.metrics.accepted_connections.sum();
    for _ in 0..20 {
        let answer = program.ask(message()).await.unwrap();
        assert_eq!(answer.status, 401);
    }
    let more = world.metrics.accepted_connections.sum() - before;
    assert!(more <= 4, "{more} tokens were thrown after the first");
    assert_eq!(world.model.stats().figures().requests, 0);
}

#[tokio::test]
async fn another_audience_is_told_as_such() {
    let world = World::new();
    let mut wanted = options(&[&world]);
    wanted.audience = "elsewhere".to_owned();
    let local = Local::with(wanted).await;
    let mut program = Program::connect(local.address, Http::H1).await;
    let answer = program.ask(message()).await.unwrap();
    assert_eq!(answer.status, 401);
    assert!(answer.error().contains("another audience"), "{answer:?}");
}

#[tokio::test]
async fn a_clock_that_is_off_is_put_right_after_the_refused_handshake() {
    let world = World::new();
    for off_s in [-3600_i64, 3600] {
        let clock = Arc::new(Clock::new());
        let now = SystemTime::now();
        let now_s = now.duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(clock.learn(now_s.checked_add_signed(off_s).unwrap(), now, now));
        let key = ApiKey::new(ALICE.as_bytes().to_vec());
        let tokens = TokenSource::new(&key, AUDIENCE, Arc::clone(&clock));
        let client = Client::new(
            world.endpoint(),
            tls(&[&world]),
            &key,
            tokens,
            Limits::default(),
        )
        .unwrap();
        let answer = soon("an answer", client.get("/v1/models", 1 << 20)).await;
        let answer = answer.unwrap();
        assert_eq!(answer.headers["x-claude-route"], "direct", "{off_s}");
        assert!(clock.ahead_ms().abs() < 3000, "{}", clock.ahead_ms());
    }
}

#[tokio::test]
async fn each_connection_has_a_token_of_its_own_and_places_are_shared_out() {
    let world = World::with(Wishes {
        model: edge_userspace::demo_model::Options {
            first_token: Duration::from_millis(200),
            ..Wishes::default().model
        },
        ..Wishes::default()
    });
    let mut wanted = options(&[&world]);
    wanted.limits = Limits {
        connections: 3,
        streams: 4,
        ..Limits::default()
    };
    let local = Local::with(wanted).await;
    let asked = (0..24).map(|_| {
        let address = local.address;
        tokio::spawn(async move {
            let mut program = Program::connect(address, Http::H1).await;
            program.ask(message()).await.unwrap()
        })
    });
    for answer in asked.collect::<Vec<_>>() {
        let answer = answer.await.unwrap();
        assert_eq!(
            (answer.status.as_u16(), answer.header("x-claude-route")),
            (200, "direct")
        );
    }
    let edge = &local.status().edges[0];
    assert!((2..=3).contains(&edge.connections), "{edge:?}");
    assert_eq!(edge.answered, 24);
}

#[tokio::test]
async fn web_pages_and_names_that_were_made_to_lead_here_are_turned_away() {
    let edge = Scripted::new().await;
    let local = Local::new(&[&edge]).await;
    for line in [
        ("host", "evil.example"),
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let mut program = Program::connect(local.address, Http::H1).await;
        let answer = program.ask(with(message(), line.0, line.1)).await.unwrap();
        assert_eq!(answer.status, 403, "{line:?}: {answer:?}");
        assert_eq!(answer.json()["error"]["type"], "permission_error");
    }
    assert!(edge.came().is_empty());
}

#[tokio::test]
async fn its_state_is_told() {
    let edge = Scripted::new().await;
    edge.does(Does::default());
    let local = Local::new(&[&edge]).await;
    local.settled().await;
    let mut program = Program::connect(local.address, Http::H1).await;
    program.ask(message()).await.unwrap();
    let status = program.ask(get("/edge-connect/status")).await.unwrap();
    let json = status.json();
    assert_eq!(json["requests"], 1);
    assert_eq!(json["edges"][0]["is_current"], true);
    assert_eq!(json["edges"][0]["answered"], 1);
    assert!(json["edges"][0]["round_trip_ms"].as_f64().unwrap() > 0.0);
    assert!(!String::from_utf8_lossy(&status.body).contains(ALICE));
    assert_eq!(edge.came().len(), 1, "that is answered here");
}

#[tokio::test]
async fn nobody_there_is_an_error_that_sdks_try_again_on() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = address.local_addr().unwrap();
    drop(address);
    let edge = Scripted::new().await;
    let mut wanted = options(&[&edge]);
    wanted.edges = vec![edge.endpoint().at(closed)];
    let local = Local::with(wanted).await;
    let mut program = Program::connect(local.address, Http::H1).await;
    let answer = program.ask(message()).await.unwrap();
    assert_eq!(answer.status.as_u16(), 529, "{answer:?}");
    assert_eq!(answer.header("x-should-retry"), "true");
    assert!(answer.header("request-id").starts_with("req_"));
    assert!(answer.error().contains("cannot connect"), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_is_no_edge_is_named_as_such() {
    let edge = Scripted::new().await;
    let key = ApiKey::new(ALICE.as_bytes().to_vec());
    let tokens = TokenSource::new(&key, AUDIENCE, Arc::new(Clock::new()));
    // Its roots are not those of the edge's certificate.
    let other = Scripted::new().await;
    let client = Client::new(
        edge.endpoint(),
        tls(&[&other]),
        &key,
        tokens,
        Limits::default(),
    );
    let error = client.unwrap().open_ahead().await.unwrap_err();
    let edge_client::Error::Connect(error) = error else {
        panic!("{error}")
    };
    assert!(matches!(*error, ConnectError::Tls { .. }), "{error}");
    assert!(
        !error.may_be_refusal(),
        "the certificate was refused, not the token"
    );
}
