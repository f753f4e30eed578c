//! What requests must carry, what the upstream gets of it, what responses carry.

use crate::client::{Answer, Ask, Http};
use crate::world::{ALICE, LAYER_SECRET, World, token};
use edge_userspace::api::layer::LayerKey;
use edge_userspace::config::{Credential, SecretSource};
use edge_userspace::secret::Secret;
use http::{HeaderValue, Method};
use sha2::{Digest as _, Sha256};

#[tokio::test]
async fn versions_are_negotiated_on_messages_only() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    for version in [None, Some("2023-01-01"), Some("")] {
        for path in ["/v1/messages", "/v1/messages/count_tokens"] {
            let mut ask = Ask::new(Method::POST, path).with("x-api-key", ALICE);
            if let Some(version) = version {
                ask = ask.with("anthropic-version", version);
            }
            let answer = client.ask(ask).await.unwrap();
            answer.is_error(
                400,
                "invalid_request_error",
                "Routing layer requires version negotiation",
            );
        }
    }
    let models = Ask::new(Method::GET, "/v1/models").with("x-api-key", ALICE);
    let models = client.ask(models).await.unwrap();
    assert_eq!(models.status, 200);
    assert_eq!(models.json()["data"][0]["id"], "claude-demo");
    let chat = Ask::new(Method::POST, "/v1/chat/completions")
        .with("authorization", &format!("Bearer {ALICE}"))
        .body(r#"{"model":"x","messages":[]}"#);
    let chat = client.ask(chat).await.unwrap();
    assert_eq!(chat.json()["object"], "chat.completion");
    assert_eq!(chat.header("x-request-id"), chat.header("request-id"));
    let count = Ask::new(Method::POST, "/v1/messages/count_tokens")
        .with("x-api-key", ALICE)
        .with("anthropic-version", "2023-06-01")
        .body(r#"{"model":"claude-demo","messages":[{"role":"user","content":"hi"}]}"#);
    let count = client.ask(count).await.unwrap();
    assert!(count.json()["input_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn paths_and_methods_that_are_not_there() {
    let world = World::new();
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    let ask = |method, path| Ask::new(method, path).with("x-api-key", ALICE);
    let answer = client.ask(ask(Method::GET, "/v2/messages")).await.unwrap();
    answer.is_error(404, "not_found_error", "There is nothing");
    let answer = client.ask(ask(Method::GET, "/v1/messages")).await.unwrap();
    answer.is_error(405, "invalid_request_error", "This path takes POST");
    assert_eq!(answer.header("allow"), "POST");
    let answer = client.ask(ask(Method::POST, "/v1/health")).await.unwrap();
    answer.is_error(405, "invalid_request_error", "This path takes GET, HEAD");
}

#[tokio::test]
async fn a_forged_layer_is_refused() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let ask = Ask::message(ALICE).with("x-anthropic-layer", "zero-latency-v2");
    let answer = client.ask(ask).await.unwrap();
    answer.is_error(400, "invalid_request_error", "x-anthropic-layer is set by");
    assert_eq!(world.model.stats().figures().requests, 0);
}

/// Else it would be judged with the header and arrive without it.
#[tokio::test]
async fn a_header_that_is_relied_on_cannot_be_taken_out_by_naming_it_in_connection() {
    let world = World::new();
    for named in [
        "anthropic-version",
        "close, Content-Encoding",
        "x-api-key",
        "authorization",
        "keep-alive, content-type",
        "host",
    ] {
        let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
        let ask = Ask::message(ALICE)
            .with("content-encoding", "gzip")
            .with("connection", named);
        let answer = client.ask(ask).await.unwrap();
        answer.is_error(400, "invalid_request_error", "connection names a header");
    }
    assert_eq!(world.model.stats().figures().requests, 0);
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    let ask = Ask::message(ALICE).with("connection", "x-hop, close");
    assert_eq!(client.ask(ask).await.unwrap().status, 200);
}

#[tokio::test]
async fn responses_are_signed_and_marked() {
    let world = World::new();
    let key = LayerKey::new(&Secret::new(LAYER_SECRET.to_vec()));
    let verified = |answer: &Answer| {
        let id = HeaderValue::from_str(answer.header("request-id")).unwrap();
        key.verify(answer.header("x-anthropic-layer"), &id).is_ok()
    };
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let json = client.ask(Ask::message(ALICE)).await.unwrap();
    assert!(verified(&json), "{:?}", json.headers);
    assert_eq!(json.header("x-claude-layer"), "v2.1.0-alpha");
    assert_eq!(json.header("x-claude-route"), "direct");
    assert_eq!(json.header("x-anthropic-routed-to"), "node-test");
    assert_eq!(json.header("vary"), "x-anthropic-context-id");
    assert_eq!(json.header("cache-control"), "private, no-store");
    assert_eq!(json.header("x-edge-upstream-request-id"), "req_demo");
    let error = client.ask(Ask::message(ALICE).without("anthropic-version"));
    assert!(verified(&error.await.unwrap()), "errors are JSON too");
    let stream = client.ask(Ask::stream(ALICE, 2)).await.unwrap();
    assert_eq!(
        stream.header("x-anthropic-layer"),
        "",
        "not on event streams"
    );
    assert_eq!(stream.header("x-claude-route"), "direct");
    let debug = client.ask(Ask::message(ALICE).with("x-debug", "legacy"));
    let debug = debug.await.unwrap();
    assert_eq!(debug.header("x-anthropic-layer"), "legacy-gateway");
    assert_eq!(debug.header("x-claude-route"), "fallback");
}

#[tokio::test]
async fn request_ids_rise_and_are_in_the_errors() {
    let world = World::new();
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        ids.push(answer.header("request-id").to_owned());
    }
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

/// What the model received, by its echo.
struct Received {
    headers: Vec<(String, String)>,
    json: serde_json::Value,
}

impl Received {
    fn of(answer: &Answer) -> Self {
        let json = answer.json();
        let headers = json["headers"].as_array().unwrap().iter();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        Self {
            headers: headers
                .map(|pair| (text(&pair[0]), text(&pair[1])))
                .collect(),
            json,
        }
    }

    fn header(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(other, _)| other == name);
        named.map(|(_, value)| value.as_str()).collect()
    }
}

fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

#[tokio::test]
async fn the_upstream_gets_the_request_without_what_belongs_to_the_hop() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let mut ask = Ask::new(Method::POST, "/v1/messages?beta=true&x=%2F")
            .with("x-demo-echo", "1")
            .with("x-api-key", ALICE)
            .with("anthropic-version", "2023-06-01")
            .with("anthropic-beta", "a,b")
            .with("accept-encoding", "gzip, br")
            .with("x-debug", "other")
            .with("user-agent", "test/1")
            .body("{\"é\":1}");
        if http == Http::H1 {
            ask = ask
                .with("connection", "x-hop, keep-alive")
                .with("x-hop", "1")
                .with("keep-alive", "timeout=5")
                .with("proxy-connection", "keep-alive")
                .with("proxy-authorization", "Basic eA==")
                .with("te", "trailers");
        }
        let received = Received::of(&client.ask(ask).await.unwrap());
        assert_eq!(received.json["method"], "POST");
        assert_eq!(received.json["path"], "/v1/messages?beta=true&x=%2F");
        assert_eq!(received.json["body_sha256"], sha256("{\"é\":1}"));
        let host = world.model.address().to_string();
        let mut names: Vec<_> = (received.headers.iter())
            .map(|(name, _)| name.as_str())
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "accept-encoding",
                "anthropic-beta",
                "anthropic-version",
                "content-length",
                "host",
                "user-agent",
                "x-api-key",
                "x-demo-echo",
            ],
            "{http:?}"
        );
        assert_eq!(received.header("host"), [host]);
        assert_eq!(received.header("accept-encoding"), ["identity"]);
        let passed = format!("sha256:{}", sha256(ALICE));
        assert_eq!(received.header("x-api-key"), [passed]);
    }
}

#[tokio::test]
async fn the_upstreams_own_credential_replaces_the_clients() {
    for (header, expected) in [
        ("x-api-key", "upstream-secret"),
        ("authorization", "Bearer upstream-secret"),
    ] {
        let configure = match header {
            "x-api-key" => |config: &mut edge_userspace::config::Config| {
                let path = config.tls.certificate.with_file_name("upstream.secret");
                std::fs::write(&path, "upstream-secret\n").unwrap();
                config.upstreams[0].credential = Credential::Replace {
                    header: http::HeaderName::from_static("x-api-key"),
                    from: SecretSource::File(path),
                };
            },
            _ => |config: &mut edge_userspace::config::Config| {
                let path = config.tls.certificate.with_file_name("upstream.secret");
                std::fs::write(&path, "upstream-secret\n").unwrap();
                config.upstreams[0].credential = Credential::Replace {
                    header: http::header::AUTHORIZATION,
                    from: SecretSource::File(path),
                };
            },
        };
        let world = World::configured(configure);
        let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
        let bearer = format!("Bearer {ALICE}");
        let ask = Ask::message(ALICE)
            .with("authorization", &bearer)
            .with("x-demo-echo", "1");
        let received = Received::of(&client.ask(ask).await.unwrap());
        let other = if header == "x-api-key" {
            "authorization"
        } else {
            "x-api-key"
        };
        let sent = format!("sha256:{}", sha256(expected));
        assert_eq!(received.header(header), [sent]);
        assert!(received.header(other).is_empty());
    }
}

#[tokio::test]
async fn the_upstreams_refusals_pass_with_their_headers() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.ask(Ask::message(ALICE).with("x-demo-error", "429"));
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 429);
        assert_eq!(answer.json()["error"]["type"], "rate_limit_error");
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!(answer.header("anthropic-ratelimit-requests-remaining"), "0");
        let answer = client.ask(Ask::message(ALICE).with("x-demo-error", "529"));
        let answer = answer.await.unwrap();
        assert_eq!(answer.status.as_u16(), 529);
        assert_eq!(answer.json()["error"]["type"], "overloaded_error");
    }
}
