//! No secret reaches a log at any level, a metric, a summary, or an error text: not raw, not
//! in hex, not in base64.
//!
//! In a process of its own, because it listens to everything that the process logs.

#[path = "../data_path/client.rs"]
#[expect(
    dead_code,
    reason = "shared with the data path's tests, which use all of it"
)]
mod client;
#[path = "../data_path/world.rs"]
#[expect(
    dead_code,
    reason = "shared with the data path's tests, which use all of it"
)]
mod world;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use client::{Answer, Ask, Client, Http, alpn};
use edge_userspace::config::{Credential, SecretSource};
use edge_userspace::keys::derive;
use edge_userspace::secret::ApiKey;
use http::Method;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};
use tracing_subscriber::util::SubscriberInitExt as _;
use world::{ALICE, AUDIENCE, BOB, LAYER_SECRET, MALLORY, Wishes, World, token};

const UPSTREAM_SECRET: &str = "sk-upstream-of-the-test";

/// Everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Every way in which `secret` could be written, by name.
fn shapes(secret: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut shapes = vec![
        ("raw", secret.to_vec()),
        ("hex", hex::encode(secret).into_bytes()),
        ("HEX", hex::encode_upper(secret).into_bytes()),
        ("a list of bytes", format!("{secret:?}").into_bytes()),
    ];
    for (name, engine) in [
        ("base64", &STANDARD_NO_PAD),
        ("base64url", &URL_SAFE_NO_PAD),
    ] {
        // What stands before shifts the digits; those at the ends depend on neighbours.
        for shift in 0..3 {
            let text = engine.encode([&vec![0; shift], secret].concat());
            let from = if shift == 0 { 0 } else { shift + 1 };
            let to = (shift + secret.len()) * 8 / 6;
            shapes.push((name, text.as_bytes()[from..to].to_vec()));
        }
    }
    shapes
}

fn assert_absent(place: &str, text: &[u8], secrets: &[(&str, Vec<u8>)]) {
    for (whose, secret) in secrets {
        for (how, shape) in shapes(secret) {
            let found = text.windows(shape.len()).position(|window| window == shape);
            if let Some(at) = found {
                let around = &text[at.saturating_sub(200)..text.len().min(at + 100)];
                panic!(
                    "{whose}, {how}, is in {place}: …{}…",
                    String::from_utf8_lossy(around)
                );
            }
        }
    }
}

#[tokio::test]
async fn no_secret_is_told() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish()
        .init();

    let world = World::with(Wishes {
        config: |config| {
            let path = config.tls.certificate.with_file_name("upstream.secret");
            std::fs::write(&path, UPSTREAM_SECRET).unwrap();
            config.upstreams[0].credential = Credential::Replace {
                header: http::header::AUTHORIZATION,
                from: SecretSource::File(path),
            };
        },
        ..Wishes::default()
    });
    let mut told = String::new();
    for http in Http::BOTH {
        for answer in conversation(&world, http).await {
            writeln!(told, "{:?} {:?}", answer.headers, answer.body).unwrap();
        }
    }
    for refused in [token(MALLORY), b"ezl1-x".to_vec()] {
        let error = world.tls(&alpn(&[b"h2", &refused])).await.unwrap_err();
        writeln!(told, "{error:?}").unwrap();
    }
    world.revoke(ALICE);
    let error = world.tls(&alpn(&[b"h2", &token(ALICE)])).await.unwrap_err();
    writeln!(told, "{error:?}").unwrap();
    let metrics = world.metrics.render();
    let summary = serde_json::to_string(&world.metrics.summary()).unwrap();
    let records = format!("{:?}", world.keyring.find(world::record(BOB).id));
    drop(world);

    let mut secrets: Vec<(&str, Vec<u8>)> = Vec::new();
    for (name, key) in [("alice", ALICE), ("bob", BOB), ("mallory", MALLORY)] {
        let text = ApiKey::new(key.as_bytes().to_vec());
        secrets.push((name, key.as_bytes().to_vec()));
        let mac_key = derive::mac_key(&text, AUDIENCE).expose().to_vec();
        secrets.push((name, mac_key));
    }
    secrets.push(("the upstream's credential", UPSTREAM_SECRET.into()));
    secrets.push(("the layer secret", LAYER_SECRET.to_vec()));
    let log = log.0.lock().unwrap().clone();
    // The log is one that would have told.
    for line in ["h2::", "rustls::", "edge_userspace::"] {
        let found = log
            .windows(line.len())
            .any(|window| window == line.as_bytes());
        assert!(found, "nothing was logged by {line}");
    }
    // This process is the client too, and only the edge's lines are the edge's.
    let lines = log.split(|byte| *byte == b'\n');
    let of_the_edge: Vec<&[u8]> = lines.filter(|line| !is_of_a_client(line)).collect();
    for (place, text) in [
        ("the log", &of_the_edge.join(&b'\n')[..]),
        ("an answer", told.as_bytes()),
        ("the metrics", metrics.as_bytes()),
        ("the summary", summary.as_bytes()),
        ("a key's record", records.as_bytes()),
    ] {
        assert_absent(place, text, &secrets);
    }
}

/// Lines of libraries in the part of them that only clients use.
fn is_of_a_client(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    ["rustls::client", "h2::client", "hyper::client"]
        .iter()
        .any(|target| line.contains(target))
}

async fn conversation(world: &World, http: Http) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut client = world.connect(http, Some(token(ALICE))).await;
    let bearer = format!("Bearer {ALICE}");
    for ask in [
        Ask::message(ALICE),
        Ask::stream(ALICE, 5),
        Ask::message(ALICE)
            .without("x-api-key")
            .with("authorization", &bearer),
        Ask::message(ALICE).without("anthropic-version"),
        Ask::message(ALICE).with("x-demo-error", "close-before-head"),
        Ask::message(ALICE).with("x-demo-error", "529"),
        Ask::new(Method::GET, "/nothing").with("x-api-key", ALICE),
        Ask::message(BOB),
    ] {
        answers.push(client.ask(ask).await.unwrap());
    }
    let mut client: Client = world.connect(http, None).await;
    for ask in [
        Ask::message(MALLORY),
        Ask::message(ALICE).with("authorization", &format!("Bearer {BOB}")),
        Ask::message(BOB),
    ] {
        answers.push(client.ask(ask).await.unwrap());
    }
    answers
}
