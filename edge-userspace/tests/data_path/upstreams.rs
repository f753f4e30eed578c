//! Several upstreams: who gets which request, and what of it.

use crate::client::{Answer, Ask, Client, Http};
use crate::world::{ALICE, Wishes, World, soon, token, until};
use edge_userspace::config::{Config, Credential, Name, SecretSource};
use edge_userspace::demo_model::{DemoModel, Options};
use edge_userspace::telemetry::UpstreamConnection;
use edge_userspace::upstream::Status;
use edge_userspace::upstream::choose::Random;
use http::Method;
use http_body_util::BodyExt as _;
use sha2::{Digest as _, Sha256};
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) fn options() -> Options {
    Options {
        first_token: Duration::ZERO,
        inter_token: Duration::ZERO,
        ..Options::default()
    }
}

/// An address where nothing listens as long as this process runs: its port is taken.
pub(crate) fn nowhere() -> SocketAddr {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    Box::leak(Box::new(socket));
    address
}

/// An address where nothing listens yet.
pub(crate) fn vacant() -> SocketAddr {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}

impl World {
    pub(crate) fn status_of(&self, name: &str) -> Status {
        let all = self.upstreams.status();
        all.into_iter().find(|one| one.name == name).unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        self.connect(Http::H2, Some(token(ALICE))).await
    }
}

pub(crate) fn picks(status: &Status, why: &str) -> u64 {
    let found = status.picks.iter().find(|(name, _)| *name == why);
    found.unwrap().1
}

#[tokio::test]
async fn requests_without_a_cache_spread_over_all() {
    let others = [options(), options()].map(|options| DemoModel::start(options).unwrap());
    let world = World::with(Wishes {
        threads: 2,
        more: others.iter().map(DemoModel::address).collect(),
        contexts: false,
        ..Wishes::default()
    });
    for _ in 0..6 {
        let mut client = world.client().await;
        for _ in 0..50 {
            assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
        }
    }
    let models = [&world.model, &others[0], &others[1]];
    let requests = models.map(|model| model.stats().figures().requests);
    assert_eq!(requests.iter().sum::<u64>(), 300);
    assert!(
        requests.iter().all(|count| (60..=140).contains(count)),
        "{requests:?}"
    );
    for (name, count) in ["model", "more-0", "more-1"].into_iter().zip(requests) {
        assert_eq!(picks(&world.status_of(name), "balanced"), count);
    }
}

/// The credential that an upstream saw.
fn seen(answer: &Answer) -> Vec<(String, String)> {
    let json = answer.json();
    let headers = json["headers"].as_array().unwrap().iter();
    let headers = headers.map(|pair| {
        let text = |at: usize| pair[at].as_str().unwrap().to_owned();
        (text(0), text(1))
    });
    headers
        .filter(|(name, _)| name == "x-api-key" || name == "authorization" || name == "host")
        .collect()
}

fn hashed(secret: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(secret)))
}

#[tokio::test]
async fn each_sees_its_own_credential_and_never_anothers() {
    fn credential(config: &mut Config, number: usize) {
        let file = config.tls.certificate.with_file_name("upstream.key");
        std::fs::write(&file, "sk-of-one").unwrap();
        config.upstreams[number].credential = Credential::Replace {
            header: http::header::AUTHORIZATION,
            from: SecretSource::File(file),
        };
        config.choice.eject_after = 1000;
    }
    let live = DemoModel::start(options()).unwrap();
    for (config, own) in [
        ((|config| credential(config, 0)) as fn(&mut Config), ALICE),
        (|config| credential(config, 1), "Bearer sk-of-one"),
    ] {
        let world = World::with(Wishes {
            upstream: Some(nowhere()),
            more: vec![live.address()],
            config,
            contexts: false,
            ..Wishes::default()
        });
        let mut client = world.client().await;
        let retried = || picks(&world.status_of("more-0"), "retry");
        while retried() < 5 {
            let ask = Ask::message(ALICE).with("x-demo-echo", "1");
            let mut seen = seen(&client.ask(ask).await.unwrap());
            seen.sort();
            let header = match own {
                ALICE => "x-api-key",
                _ => "authorization",
            };
            let mut expected = vec![
                ("host".to_owned(), live.address().to_string()),
                (header.to_owned(), hashed(own)),
            ];
            expected.sort();
            assert_eq!(seen, expected);
        }
    }
}

#[tokio::test]
async fn models_go_where_they_are_served() {
    let others = [options(), options()].map(|options| DemoModel::start(options).unwrap());
    let world = World::with(Wishes {
        more: others.iter().map(DemoModel::address).collect(),
        config: |config| {
            let names = ["claude-*", "in-house", "in-house"];
            for (upstream, name) in config.upstreams.iter_mut().zip(names) {
                upstream.models = vec![Name::parse(name).unwrap()];
            }
        },
        contexts: false,
        ..Wishes::default()
    });
    let mut client = world.client().await;
    let body = |model: &str| {
        format!(
            r#"{{"max_tokens":3,"messages":[{{"role":"user","content":"x"}}],"model":"{model}"}}"#
        )
    };
    for _ in 0..20 {
        for model in ["claude-x", "in-house"] {
            let ask = Ask::message(ALICE).body(body(model));
            assert_eq!(client.ask(ask).await.unwrap().status, 200);
        }
    }
    let requests = |model: &DemoModel| model.stats().figures().requests;
    assert_eq!(requests(&world.model), 20);
    assert_eq!(requests(&others[0]) + requests(&others[1]), 20);
    assert_eq!(picks(&world.status_of("model"), "only"), 20);
    let ask = Ask::message(ALICE).body(body("in-house-2"));
    let answer = client.ask(ask).await.unwrap();
    answer.is_error(404, "not_found_error", "No upstream of this node serves");
    assert_eq!(answer.header("x-should-retry"), "false");
    let models = Ask::new(Method::GET, "/v1/models").with("x-api-key", ALICE);
    assert_eq!(
        client.ask(models).await.unwrap().status,
        200,
        "any has a list"
    );
}

#[tokio::test]
async fn one_without_a_place_leaves_it_to_the_other() {
    let other = DemoModel::start(options()).unwrap();
    let world = World::with(Wishes {
        more: vec![other.address()],
        config: |config| {
            for upstream in &mut config.upstreams {
                upstream.max_connections = 1;
            }
        },
        contexts: false,
        ..Wishes::default()
    });
    let mut client = world.client().await;
    let hangs = || Ask::message(ALICE).with("x-demo-error", "hang");
    let hanging: Vec<_> = (0..2)
        .map(|_| tokio::spawn(client.begin(hangs())))
        .collect();
    let active = |model: &DemoModel| model.stats().figures().active;
    until("one each", || {
        (active(&world.model), active(&other)) == (1, 1)
    })
    .await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(529, "overloaded_error", "This node has no connection");
    for one in hanging {
        one.abort();
    }
    let full = (world.metrics.upstream_connections).get(UpstreamConnection::Full);
    assert!(full >= 2);
    for name in ["model", "more-0"] {
        let status = world.status_of(name);
        assert_eq!((status.state, status.connect_failures), ("serving", 0));
    }
}

#[tokio::test]
async fn nothing_is_left_outstanding_by_a_thousand_clients_that_leave() {
    let other = DemoModel::start(options()).unwrap();
    let world = World::with(Wishes {
        threads: 2,
        more: vec![other.address(), nowhere()],
        contexts: false,
        ..Wishes::default()
    });
    let random = Random::new(20261129);
    let mut clients = Vec::new();
    // A client over HTTP/1.1 that leaves needs a connection, and a handshake, for each request.
    for http in [Http::H2; 7].into_iter().chain([Http::H1]) {
        clients.push((http, world.connect(http, Some(token(ALICE))).await));
    }
    for round in 0..1000 {
        let (http, client) = &mut clients[round % 8];
        let ask = match random.below(5) {
            0 => Ask::message(ALICE).with("x-demo-first-token-ms", "2"),
            1 => Ask::message(ALICE).with("x-demo-error", "hang"),
            2 => Ask::stream(ALICE, 100).with("x-demo-error", "hang-mid-stream"),
            3 => Ask::stream(ALICE, 100).with("x-demo-error", "close-mid-event"),
            _ => Ask::stream(ALICE, 50).with("x-demo-inter-token-ms", "1"),
        };
        if soon("the connection", client.ready()).await.is_err() {
            *client = world.connect(*http, Some(token(ALICE))).await;
        }
        let begun = tokio::spawn(client.begin(ask));
        let patience = Duration::from_micros(random.below(4000).into());
        match random.below(10) {
            // Leaves, maybe before the head.
            0..=4 => {
                tokio::time::sleep(patience).await;
                begun.abort();
            }
            // Leaves within the answer.
            5..=8 => {
                let leaving = begun.abort_handle();
                let _ = tokio::time::timeout(patience, async {
                    let mut body = begun.await.ok()?.ok()?.into_body();
                    body.frame().await
                })
                .await;
                leaving.abort();
            }
            // Its connection goes.
            _ => {
                tokio::time::sleep(patience).await;
                client.vanish();
                begun.abort();
            }
        }
        if *http == Http::H1 {
            *client = world.connect(*http, Some(token(ALICE))).await;
        }
    }
    drop(clients);
    let left = || {
        let all = world.upstreams.status();
        all.iter()
            .map(|one| one.requests + one.tokens + one.waiting_tokens)
            .sum::<u64>()
    };
    until("nothing outstanding", || left() == 0).await;
    let asked: u64 = ["model", "more-0", "more-1"]
        .iter()
        .flat_map(|name| world.status_of(name).picks)
        .map(|(_, count)| count)
        .sum();
    assert!(asked > 500, "most of them came to an upstream: {asked}");
}

#[tokio::test]
async fn a_model_with_a_cache_says_what_it_read_of_it() {
    let world = World::with(Wishes {
        model: Options {
            kv_cache_tokens: 100_000,
            prefill_tokens_per_ms: 1000,
            ..options()
        },
        contexts: false,
        ..Wishes::default()
    });
    let mut client = world.client().await;
    let question = "How long is a piece of string? ".repeat(200);
    let first = format!(r#"{{"role":"user","content":"{question}"}}"#);
    let next = format!(
        r#"{first},{{"role":"assistant","content":"Long."}},{{"role":"user","content":"How long?"}}"#
    );
    let body = |messages: &str, stream: bool| {
        format!(
            r#"{{"model":"claude-demo","max_tokens":2,"stream":{stream},"messages":[{messages}]}}"#
        )
    };
    let answer = client.ask(Ask::message(ALICE).body(body(&first, false)));
    let usage = answer.await.unwrap().json()["usage"].clone();
    assert_eq!(usage["cache_read_input_tokens"], 0);
    let created = usage["cache_creation_input_tokens"].as_u64().unwrap();
    assert!(created > 1000, "{usage}");
    let answer = client.ask(Ask::stream(ALICE, 2).body(body(&next, true)));
    let events = answer.await.unwrap().body;
    let events = String::from_utf8(events.to_vec()).unwrap();
    let start = events
        .lines()
        .find_map(|line| line.strip_prefix("data: "))
        .unwrap();
    let start: serde_json::Value = serde_json::from_str(start).unwrap();
    let usage = &start["message"]["usage"];
    assert_eq!(usage["cache_read_input_tokens"], created);
    let figures = world.model.stats().figures();
    assert_eq!(figures.cached_tokens, created);
    let all = [
        "input_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    ];
    let all: u64 = all.iter().map(|name| usage[name].as_u64().unwrap()).sum();
    assert!(figures.prompt_tokens > all && all > created);
}
