//! A 429 ends its connection, so that the next try opens another; but not what else runs there,
//! not even where the client takes the first GOAWAY for the end of all streams, or fails at any frame
//! behind it (Python's h2).

use super::*;
use crate::quotas::limit;
use edge_userspace::keys::Quotas;

fn head(stream: u32, more: &str) -> Vec<u8> {
    let head = format!(
        ":method=POST :scheme=https :path=/v1/messages :authority=edge.test x-api-key={ALICE} \
         anthropic-version=2023-06-01 {more}"
    );
    frame(HEADERS, END_HEADERS, stream, &block(&head))
}

fn body(stream: u32, tokens: u32, is_stream: bool) -> Vec<u8> {
    let body = format!(
        r#"{{"model":"claude-demo","max_tokens":{tokens},"stream":{is_stream},"messages":[{{"role":"user","content":"x"}}]}}"#
    );
    frame(DATA, END_STREAM, stream, body.as_bytes())
}

/// What came until the connection ended, but for the SETTINGS and what says nothing of an end.
async fn all(wire: &mut Wire, seen: &mut Vec<String>) {
    observe_on(wire, seen, |_| false).await;
    seen.retain(|one| {
        ["status", "end", "goaway", "rst", "closed"]
            .iter()
            .any(|kind| one.starts_with(kind))
    });
}

#[tokio::test]
async fn what_runs_beside_a_429_comes_whole_and_the_connection_ends_with_it() {
    let world = World::new();
    let quotas = Quotas {
        concurrent_requests: Some(1),
        ..Quotas::default()
    };
    limit(&world, ALICE, quotas);
    let mut wire = Wire::begin(&world).await;
    let slow = [
        head(1, "x-demo-inter-token-ms=5"),
        body(1, 100, true),
        // Refused twice while it runs.
        head(3, ""),
        body(3, 1, false),
        head(5, ""),
        body(5, 1, false),
    ];
    wire.tls.write_all(&slow.concat()).await.unwrap();
    let mut seen = Vec::new();
    all(&mut wire, &mut seen).await;
    for one in ["status 1 200", "status 3 429", "status 5 429"] {
        assert!(seen.contains(&one.to_owned()), "{seen:?}");
    }
    // The first GOAWAY, then the one that names the last stream.
    let end = ["end 1", "goaway NO_ERROR", "goaway NO_ERROR", "closed"];
    assert_eq!(seen[seen.len() - 4..], end, "{seen:?}");
    assert_eq!(seen.len(), 9, "{seen:?}");
}

#[tokio::test]
async fn nothing_but_a_second_goaway_comes_behind_the_first() {
    let world = World::new();
    let quotas = Quotas {
        requests_per_minute: Some(1),
        ..Quotas::default()
    };
    limit(&world, ALICE, quotas);
    let mut wire = Wire::begin(&world).await;
    let sent = [head(1, ""), body(1, 1, false)];
    wire.tls.write_all(&sent.concat()).await.unwrap();
    let mut seen = Vec::new();
    observe_on(&mut wire, &mut seen, |seen| {
        seen.contains(&"end 1".to_owned())
    })
    .await;
    let sent = [head(3, ""), body(3, 1, false)];
    wire.tls.write_all(&sent.concat()).await.unwrap();
    let mut goaways = Vec::new();
    while let Some(frame) = wire.next().await {
        if frame.kind == GOAWAY {
            let last = frame.payload[..4].try_into().unwrap();
            goaways.push(u32::from_be_bytes(last));
        } else {
            assert!(goaways.is_empty(), "frame {} behind it", frame.kind);
        }
    }
    assert_eq!(goaways, [i32::MAX as u32, 3]);
}
