//! What the edge answers itself: models, nodes, and requests that nobody can read.

use crate::client::{Ask, Client, Http, alpn};
use crate::limits::{gzip, zstd};
use crate::upstream::{read_request, scripted};
use crate::world::{ALICE, Wishes, World, record, soon, token};
use edge_userspace::api::MAX_HEAD_BYTES;
use edge_userspace::config::{ListedModel, Name, Region};
use edge_userspace::keys::{Allowance, Edit};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn listed(id: &str) -> ListedModel {
    ListedModel {
        id: id.to_owned(),
        display_name: format!("The {id}"),
        created_at: "2026-02-05T00:00:00Z".to_owned(),
        lifecycle: "active".to_owned(),
    }
}

fn get(path: &'static str) -> Ask {
    Ask::new(Method::GET, path).with("x-api-key", ALICE)
}

fn ids(list: &Value) -> Vec<&str> {
    let data = list["data"].as_array().unwrap().iter();
    data.map(|model| model["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn configured_models_are_listed_page_by_page_and_one_by_one() {
    let world = World::configured(|config| {
        config.api.models = ["m1", "m2", "vendor/m3"].map(listed).to_vec();
    });
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let list = client.ask(get("/v1/models")).await.unwrap();
        assert_eq!(list.status, 200);
        assert_eq!(list.header("content-type"), "application/json");
        assert_eq!(ids(&list.json()), ["m1", "m2", "vendor/m3"]);
        assert_eq!(list.json()["has_more"], false);
        let page = client.ask(get("/v1/models?limit=1&after_id=m1")).await;
        let page = page.unwrap().json();
        assert_eq!(ids(&page), ["m2"]);
        assert_eq!(
            (&page["has_more"], &page["last_id"]),
            (&json!(true), &json!("m2"))
        );
        let one = client.ask(get("/v1/models/vendor%2Fm3")).await.unwrap();
        assert_eq!(one.json()["display_name"], "The vendor/m3");
        let other = client.ask(get("/v1/models/m4")).await.unwrap();
        other.is_error(404, "not_found_error", "There is no such model");
        let wrong = client.ask(get("/v1/models?limit=0")).await.unwrap();
        wrong.is_error(400, "invalid_request_error", "limit: must be");
        let head = Ask::new(Method::HEAD, "/v1/models").with("x-api-key", ALICE);
        let head = client.ask(head).await.unwrap();
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        assert_eq!(head.header("content-length"), list.body.len().to_string());
    }
    let no_key = Ask::new(Method::GET, "/v1/models");
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    let refused = client.ask(no_key).await.unwrap();
    refused.is_error(401, "authentication_error", "No API key");
    assert_eq!(world.model.stats().figures().requests, 0);
}

#[tokio::test]
async fn what_the_upstream_lists_is_had_one_by_one_and_its_bodies_may_be_encoded() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let one = client.ask(get("/v1/models/claude-demo")).await.unwrap();
        assert_eq!(one.json()["id"], "claude-demo");
        let other = client.ask(get("/v1/models/another")).await.unwrap();
        assert_eq!(other.status, 404);
        for path in ["/v1/models", "/v1/models/claude-demo"] {
            let head = Ask::new(Method::HEAD, path).with("x-api-key", ALICE);
            let head = client.ask(head).await.unwrap();
            assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        }
        let body = br#"{"model":"claude-demo","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}"#;
        for (encoding, body) in [("gzip", gzip(body)), ("zstd", zstd(body))] {
            let ask = Ask::message(ALICE).body(body);
            let answer = client.ask(ask.with("content-encoding", encoding)).await;
            assert_eq!(answer.unwrap().json()["usage"]["output_tokens"], 3);
        }
    }
}

#[tokio::test]
async fn models_that_no_upstream_serves_are_not_listed() {
    let world = World::configured(|config| {
        config.api.models = ["m1", "m2"].map(listed).to_vec();
        config.upstreams[0].models = vec![Name::parse("m2").unwrap()];
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let list = client.ask(get("/v1/models")).await.unwrap().json();
    assert_eq!(ids(&list), ["m2"]);
    // Without a list of its own the edge passes on an upstream's, and the same holds.
    let world = World::with(Wishes {
        config: |config| config.upstreams[0].models = vec![Name::parse("other").unwrap()],
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let list = client.ask(get("/v1/models")).await.unwrap().json();
    assert!(ids(&list).is_empty(), "{list}");
    assert_eq!(world.model.stats().figures().requests, 1);
}

/// An upstream with a list of its own, and nothing else.
async fn with_list(list: &'static str) -> std::net::SocketAddr {
    scripted(move |_, mut tcp| async move {
        while let Some(request) = read_request(&mut tcp).await {
            assert!(request.starts_with("GET /v1/models?limit=1000 HTTP/1.1\r\n"));
            let length = list.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{list}");
            if tcp.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await
}

#[tokio::test]
async fn the_lists_of_several_upstreams_are_one() {
    let first =
        with_list(r#"{"data":[{"id":"a1","x":1},{"id":"b1","x":"not served here"},{"id":"a2"}]}"#)
            .await;
    let second = with_list(r#"{"data":[{"id":"b1","x":2},{"id":"a1","x":3},{"no":"id"}]}"#).await;
    let broken = with_list("no list").await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let world = World::with(Wishes {
        upstream: Some(first),
        more: vec![second, broken, address],
        config: |config| {
            let names = |name| vec![Name::parse(name).unwrap()];
            config.upstreams[0].models = names("a*");
            config.upstreams[1].models = names("b*");
        },
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let list = client.ask(get("/v1/models")).await.unwrap();
    assert_eq!(list.header("content-type"), "application/json");
    assert_eq!(
        list.json(),
        json!({"data": [{"id": "a1", "x": 1}, {"id": "a2"}, {"id": "b1", "x": 2}],
            "first_id": "a1", "last_id": "b1", "has_more": false})
    );
    let page = client.ask(get("/v1/models?limit=1&after_id=a1")).await;
    assert_eq!(ids(&page.unwrap().json()), ["a2"]);
    restrict(&world, &["b*"]);
    let list = client.ask(get("/v1/models")).await.unwrap().json();
    assert_eq!(ids(&list), ["b1"]);
}

#[tokio::test]
async fn a_list_that_no_upstream_tells_is_an_error() {
    let broken = with_list("no list").await;
    let world = World::with(Wishes {
        upstream: Some(broken),
        more: vec![broken],
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    let list = client.ask(get("/v1/models")).await.unwrap();
    list.is_error(500, "api_error", "No upstream told its models");
    let head = Ask::new(Method::HEAD, "/v1/models").with("x-api-key", ALICE);
    assert_eq!(client.ask(head).await.unwrap().status, 500);
}

/// Alice's key, for those models only.
fn restrict(world: &World, models: &[&str]) {
    let allowance = Allowance {
        models: models
            .iter()
            .map(|name| Name::parse(name).unwrap())
            .collect(),
        ..Allowance::default()
    };
    let mut record = record(ALICE);
    record.allowance = allowance.boxed();
    world.keyring.apply([Edit::Put(record)]);
}

#[tokio::test]
async fn a_key_sees_and_uses_its_own_models_alone() {
    for own_list in [true, false] {
        let world = match own_list {
            true => World::configured(|config| {
                config.api.models = ["claude-demo", "m1", "m2"].map(listed).to_vec();
            }),
            false => World::new(),
        };
        let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
        restrict(&world, &["m*"]);
        let list = client.ask(get("/v1/models")).await.unwrap().json();
        assert!(!ids(&list).contains(&"claude-demo"), "{list}");
        assert_eq!(ids(&list).contains(&"m1"), own_list, "{list}");
        let one = client.ask(get("/v1/models/claude-demo")).await.unwrap();
        one.is_error(404, "not_found_error", "There is no such model");
        let before = world.model.stats().figures().requests;
        for path in [
            "/v1/messages",
            "/v1/messages/count_tokens",
            "/v1/chat/completions",
        ] {
            let ask = Ask::new(Method::POST, path)
                .with("x-api-key", ALICE)
                .with("anthropic-version", "2023-06-01")
                .body(r#"{"messages":[],"model":"claude-demo"}"#);
            let answer = client.ask(ask).await.unwrap();
            let told = "This key may not use the model claude-demo; GET /v1/models tells which";
            answer.is_error(403, "permission_error", told);
            assert_eq!(answer.header("x-should-retry"), "false");
        }
        assert_eq!(world.model.stats().figures().requests, before);
        let ask = Ask::message(ALICE).body(r#"{"messages":[],"max_tokens":1,"model":"m1"}"#);
        assert_eq!(client.ask(ask).await.unwrap().status, 200);
        restrict(&world, &[]);
        let list = client.ask(get("/v1/models")).await.unwrap().json();
        assert!(ids(&list).contains(&"claude-demo"), "at once: {list}");
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn regions_are_this_node_first_with_its_load_and_then_the_others() {
    let world = World::configured(|config| {
        config.api.zone = Some("a".to_owned());
        config.listen.max_connections = 4;
        config.regions = vec![Region {
            id: "node-2".to_owned(),
            url: "https://node-2.example".to_owned(),
            audience: Some("other".to_owned()),
            zone: None,
        }];
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let regions = client.ask(get("/v1/regions")).await.unwrap().json();
    let [own, other] = &regions["regions"].as_array().unwrap()[..] else {
        panic!("{regions}");
    };
    assert_eq!(
        (&own["id"], &own["zone"]),
        (&json!("node-test"), &json!("a"))
    );
    assert_eq!(
        (&own["is_self"], &own["connections"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(own["audience"], "test");
    assert!(own.get("url").is_none(), "not configured");
    // One of four connections; the processor may be busier.
    let used = own["capacity_percent"].as_f64().unwrap();
    assert!((25.0..=100.0).contains(&used), "{own}");
    assert_eq!(
        *other,
        json!({"id": "node-2", "url": "https://node-2.example", "audience": "other",
            "capacity_percent": null, "connections": null, "latency_ms": null, "is_self": false,
            "preferred_tcp_keepalive_s": 30, "max_tokens_per_minute": null})
    );
    let head = Ask::new(Method::HEAD, "/v1/regions").with("x-api-key", ALICE);
    let head = client.ask(head).await.unwrap();
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    let no_key = client
        .ask(Ask::new(Method::GET, "/v1/regions"))
        .await
        .unwrap();
    no_key.is_error(401, "authentication_error", "No API key");
}

#[tokio::test]
async fn answers_say_what_the_edge_itself_took() {
    let world = World::new();
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    let ask = Ask::message(ALICE).with("x-demo-first-token-ms", "1000");
    let answer = client.ask(ask).await.unwrap();
    let took = answer.header("server-timing");
    let took = took.strip_prefix("edge;dur=").unwrap().parse::<f64>();
    assert!(
        (0.0..1000.0).contains(&took.unwrap()),
        "without the upstream's time"
    );
}

#[tokio::test]
async fn many_headers_reach_the_model() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let many = (0..200).fold(Ask::message(ALICE), |ask, number| {
            let name: &'static str = format!("x-{number}").leak();
            ask.with(name, "1")
        });
        let answer = client.ask(many).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[tokio::test]
async fn heads_and_paths_that_are_too_long_are_refused_in_the_apis_shape() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let ask = Ask::message(ALICE).with("x-large", &"x".repeat(MAX_HEAD_BYTES));
        let answer = client.ask(ask).await.unwrap();
        answer.is_error(
            431,
            "request_too_large",
            "The request has more than 256 headers, or they are larger",
        );
        let path: &'static str = format!("/v1/messages?{}", "q".repeat(9000)).leak();
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.ask(get(path)).await.unwrap();
        answer.is_error(
            414,
            "invalid_request_error",
            "The path and query are longer",
        );
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 200, "the connection serves on");
    }
    assert_eq!(world.model.stats().figures().requests, 2);
}

#[tokio::test]
async fn a_path_that_leads_nowhere_is_named_with_what_was_meant() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        for (path, told) in [
            ("/nothing?q=1", "There is nothing at /nothing"),
            (
                "/v1/v1/messages",
                "There is nothing at /v1/v1/messages, but there is /v1/messages: look at the client's base URL",
            ),
            (
                "/chat/completions",
                "There is nothing at /chat/completions, but there is /v1/chat/completions: look at",
            ),
        ] {
            let ask = Ask::new(Method::POST, path).with("x-api-key", ALICE);
            let answer = client.ask(ask).await.unwrap();
            answer.is_error(404, "not_found_error", told);
            assert!(!String::from_utf8_lossy(&answer.body).contains("q=1"));
        }
    }
    assert_eq!(world.model.stats().figures().requests, 0);
}

/// Over raw HTTP/1.1: what comes back for a request that is none.
async fn raw(world: &World, bytes: &[u8]) -> String {
    let hello = alpn(&[b"http/1.1", &token(ALICE)]);
    let mut tls = world.tls(&hello).await.unwrap();
    tls.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = soon("the connection's end", tls.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn requests_that_nobody_can_read_are_answered_in_the_apis_shape_too() {
    let world = World::new();
    let many: String = (0..300).map(|n| format!("x-{n}: 1\r\n")).collect();
    let large = format!("x-large: {}\r\n", "x".repeat(3 * MAX_HEAD_BYTES));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000));
    for (what, bytes, status, kind) in [
        (
            "a broken line",
            "GET / HTTP/9\r\n\r\n".to_owned(),
            400,
            "invalid_request_error",
        ),
        (
            "many headers",
            format!("GET / HTTP/1.1\r\n{many}\r\n"),
            431,
            "request_too_large",
        ),
        (
            "a large head",
            format!("GET / HTTP/1.1\r\n{large}\r\n"),
            431,
            "request_too_large",
        ),
        ("a long path", long, 414, "invalid_request_error"),
    ] {
        let answer = raw(&world, bytes.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{what}: {answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["type"], kind, "{what}");
        let id = format!("request-id: {}", body["request_id"].as_str().unwrap());
        let length = format!("content-length: {}", answer.len() - head.len() - 4);
        for header in [
            &*id,
            &length,
            "connection: close",
            "x-should-retry: false",
            "date: ",
        ] {
            assert_eq!(head.matches(header).count(), 1, "{what}: {header}: {head}");
        }
    }
    assert_eq!(world.model.stats().figures().requests, 0);
}

/// An answer that is neither JSON nor events may end in whatever it likes.
#[tokio::test]
async fn an_upstreams_own_page_passes_whatever_it_says() {
    let page = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.windows(4).any(|four| four == b"\r\n\r\n") {
            assert_ne!(tcp.read_buf(&mut seen).await.unwrap(), 0);
        }
        let length = page.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {length}\r\n\r\n"
        );
        tcp.write_all(head.as_bytes()).await.unwrap();
        tcp.write_all(page.as_bytes()).await.unwrap();
        // Until the edge leaves.
        let _ = tcp.read_to_end(&mut seen).await;
    });
    let world = World::with(Wishes {
        upstream: Some(upstream),
        ..Wishes::default()
    });
    let hello = alpn(&[b"http/1.1", &token(ALICE)]);
    let tls = world.tls(&hello).await.unwrap();
    let mut client = Client::over(tls, Http::H1).await;
    let answer = client.ask(get("/v1/models")).await.unwrap();
    assert_eq!(answer.body, page.as_bytes());
    drop((client, world));
    soon("the upstream's end", serving).await.unwrap();
}
