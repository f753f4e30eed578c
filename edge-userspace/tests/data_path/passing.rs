//! Headers pass both ways as they are, but for those of one hop, the credential and the edge's
//! own.

use crate::client::{Ask, Http};
use crate::upstream::scripted;
use crate::world::{ALICE, Wishes, World, token};
use http::HeaderMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// What the official SDKs send beside key, version and content type, and what a header may be.
const REQUEST: &[(&str, &[u8])] = &[
    ("accept", b"application/json"),
    ("accept-language", b"*"),
    (
        "anthropic-beta",
        b"files-api-2025-04-14,context-1m-2025-08-07",
    ),
    ("anthropic-beta", b"interleaved-thinking-2025-05-14"),
    ("anthropic-dangerous-direct-browser-access", b"true"),
    ("authorization-extra", b"x"),
    ("baggage", b"a=b,c=d"),
    ("content-type", b"application/json"),
    ("cookie", b"a=b; c=d"),
    (
        "idempotency-key",
        b"stainless-python-retry-5f8e5d0c-0000-4000-8000-000000000000",
    ),
    ("openai-beta", b"assistants=v2"),
    ("openai-organization", b"org-1"),
    ("openai-project", b"proj-1"),
    ("sec-fetch-mode", b"cors"),
    (
        "traceparent",
        b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ),
    ("tracestate", b"x=1,y=2"),
    ("user-agent", b"Anthropic/Python 2.14.0"),
    ("x-client-request-id", b"1"),
    ("x-forwarded-for", b"192.0.2.1"),
    ("x-anthropic-context-id", b"a-conversation"),
    ("x-stainless-arch", b"x64"),
    ("x-stainless-async", b"false"),
    ("x-stainless-helper", b"beta.messages.run_tools"),
    ("x-stainless-helper-method", b"stream"),
    ("x-stainless-lang", b"python"),
    ("x-stainless-os", b"Linux"),
    ("x-stainless-package-version", b"2.14.0"),
    ("x-stainless-raw-response", b"true"),
    ("x-stainless-read-timeout", b"600"),
    ("x-stainless-retry-count", b"0"),
    ("x-stainless-runtime", b"CPython"),
    ("x-stainless-runtime-version", b"3.11.2"),
    ("x-stainless-stream-helper", b"messages"),
    ("x-stainless-timeout", b"600"),
    ("x-twice", b"one"),
    ("x-twice", b"two, three"),
    ("x-twice", b"one"),
    ("x-empty", b""),
    ("x-bytes", b"caf\xe9 \xff\x80"),
    ("x-utf8", "caf\u{e9} \u{1f980}".as_bytes()),
    ("x-quoted", b"\"a \\\" b\"\t;c=\"d\""),
];

/// What an upstream may say.
const RESPONSE: &[(&str, &[u8])] = &[
    ("anthropic-organization-id", b"org-1"),
    ("anthropic-ratelimit-tokens-remaining", b"79000"),
    ("anthropic-ratelimit-tokens-reset", b"2026-01-01T00:00:00Z"),
    ("cf-ray", b"0"),
    ("content-type", b"application/json"),
    ("date", b"Thu, 01 Jan 2026 00:00:00 GMT"),
    ("openai-processing-ms", b"12"),
    ("retry-after-ms", b"12"),
    ("retry-after", b"1"),
    ("server", b"upstream"),
    ("set-cookie", b"a=b; path=/"),
    ("set-cookie", b"c=d; path=/"),
    ("strict-transport-security", b"max-age=1"),
    ("via", b"1.1 x"),
    ("x-should-retry", b"true"),
    ("x-request-id", b"req_x"),
    ("x-twice", b"one"),
    ("x-twice", b"one"),
    ("x-empty", b""),
    ("x-bytes", b"caf\xe9 \xff\x80"),
];

fn values<'a>(headers: &'a [(String, Vec<u8>)], name: &str) -> Vec<&'a [u8]> {
    let named = headers.iter().filter(|(other, _)| other == name);
    named.map(|(_, value)| value.as_slice()).collect()
}

fn of(table: &[(&str, &[u8])], name: &str) -> Vec<Vec<u8>> {
    let named = table.iter().filter(|(other, _)| *other == name);
    named.map(|(_, value)| value.to_vec()).collect()
}

/// A head's lines.
fn lines(head: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text = head.split(|byte| *byte == b'\n').skip(1);
    text.filter_map(|line| {
        let line = line.trim_ascii_end();
        let at = line.iter().position(|byte| *byte == b':')?;
        let name = String::from_utf8(line[..at].to_ascii_lowercase()).unwrap();
        Some((name, line[at + 1..].trim_ascii_start().to_vec()))
    })
    .collect()
}

#[tokio::test]
async fn every_header_passes_both_ways_unless_it_belongs_to_the_hop_or_to_us() {
    let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let upstream = {
        let seen = Arc::clone(&seen);
        scripted(move |_, mut tcp| {
            let seen = Arc::clone(&seen);
            async move {
                let mut bytes = Vec::new();
                // Every request here has the body `{}`.
                while !bytes.ends_with(b"\r\n\r\n{}") {
                    if tcp.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                bytes.truncate(bytes.len() - 4);
                *seen.lock().unwrap() = bytes;
                let mut answer = b"HTTP/1.1 200 OK\r\nconnection: close, x-hop\r\nx-hop: 1\r\n\
                    keep-alive: timeout=5\r\ncontent-length: 2\r\n"
                    .to_vec();
                for (name, value) in RESPONSE {
                    answer.extend_from_slice(name.as_bytes());
                    answer.extend_from_slice(b": ");
                    answer.extend_from_slice(value);
                    answer.extend_from_slice(b"\r\n");
                }
                answer.extend_from_slice(b"\r\n{}");
                tcp.write_all(&answer).await.unwrap();
            }
        })
        .await
    };
    let world = World::with(Wishes {
        upstream: Some(upstream),
        ..Wishes::default()
    });
    let large = vec![b'l'; 40_000];
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let mut ask = Ask::message(ALICE).without("content-type").body("{}");
        for (name, value) in REQUEST {
            ask = ask.with_bytes(name, value);
        }
        ask = ask.with_bytes("x-large", &large);
        let answer = client.ask(ask).await.unwrap();
        let sent = lines(&seen.lock().unwrap());
        let mut names: Vec<_> = REQUEST.iter().map(|(name, _)| *name).collect();
        names.dedup();
        for name in names {
            assert_eq!(values(&sent, name), of(REQUEST, name), "{http:?}: {name}");
        }
        assert_eq!(values(&sent, "x-large"), [&large[..]], "{http:?}");
        assert_eq!(values(&sent, "accept-encoding"), [b"identity"], "{http:?}");
        let theirs = |name: &str| REQUEST.iter().any(|(other, _)| *other == name);
        let mut ours: Vec<_> = (sent.iter().map(|(name, _)| name.as_str()))
            .filter(|name| !theirs(name) && *name != "x-large")
            .collect();
        ours.sort_unstable();
        let expected = [
            "accept-encoding",
            "anthropic-version",
            "content-length",
            "host",
            "x-api-key",
        ];
        assert_eq!(ours, expected, "{http:?}");
        told(&answer.headers, http);
    }
}

/// What the client gets of the upstream's headers.
fn told(headers: &HeaderMap, http: Http) {
    for (name, _) in RESPONSE {
        let values = headers.get_all(*name).iter();
        let values: Vec<_> = values.map(|value| value.as_bytes().to_vec()).collect();
        assert_eq!(values, of(RESPONSE, name), "{http:?}: {name}");
    }
    for name in ["x-hop", "keep-alive", "transfer-encoding"] {
        assert!(!headers.contains_key(name), "{http:?}: {name}");
    }
    for name in [
        "request-id",
        "server-timing",
        "vary",
        "cache-control",
        "x-anthropic-layer",
        "x-anthropic-routed-to",
        "x-claude-layer",
        "x-claude-route",
        "x-edge-input-tokens",
    ] {
        assert_eq!(headers.get_all(name).iter().count(), 1, "{http:?}: {name}");
    }
}
