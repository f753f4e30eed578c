//! Requests that are taken back in the same breath, and bodies that are broken off without an
//! error: what no upstream has got whole none may work for, and nobody pays for.

use super::*;
use crate::client::{Ask, Http};
use crate::world::{Wishes, record, until};
use http::Method;

const BODY: &[u8] = br#"{"model":"claude-demo","max_tokens":8,"messages":[{"role":"user","content":"How far is it to the sea?"}]}"#;
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const NO_ERROR: [u8; 4] = [0; 4];

/// An edge that has a connection to its upstream open.
async fn warm(model_tls: bool) -> World {
    let world = World::with(Wishes {
        model_tls,
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    world
}

/// Some on each of some connections, so few at a time that it is no flood. `end`: of the body.
async fn take_back(world: &World, end: u8, code: [u8; 4]) -> u64 {
    const CONNECTIONS: u64 = 10;
    const EACH: u32 = 8;
    let head = format!(
        ":method=POST :scheme=https :path=/v1/messages :authority=edge.test \
         anthropic-version=2023-06-01 x-api-key={ALICE}"
    );
    for _ in 0..CONNECTIONS {
        // A connection that can be used at once, for the first.
        let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
        let models = Ask::new(Method::GET, "/v1/models").with("x-api-key", ALICE);
        assert_eq!(client.ask(models).await.unwrap().status, 200);
        let mut wire = Wire::begin(world).await;
        for number in 0..EACH {
            let stream = 1 + 2 * number;
            let frames = [
                frame(HEADERS, END_HEADERS, stream, &block(&head)),
                frame(DATA, end, stream, BODY),
                frame(RST_STREAM, 0, stream, &code),
                frame(PING, 0, 0, ASK),
            ];
            wire.tls.write_all(&frames.concat()).await.unwrap();
            let seen = observe(&mut wire, "open").await;
            assert!(!seen.contains(&"closed".to_owned()), "{seen:?}");
        }
    }
    let running = || world.ledger.status().running;
    until("nothing in flight", || running() == 0).await;
    let active = || world.model.stats().figures().active;
    until("the model's rest", || active() == 0).await;
    CONNECTIONS * u64::from(EACH)
}

#[tokio::test]
async fn what_is_taken_back_before_it_was_sent_costs_nothing() {
    let world = warm(false).await;
    let usage = || world.ledger.usage(record(ALICE).id).unwrap();
    let requests = || world.model.stats().figures().requests;
    let (before, seen_before) = (usage(), requests());
    let count = take_back(&world, END_STREAM, CANCEL).await;
    let (after, seen) = (usage(), requests() - seen_before);
    println!(
        "{seen} of {count} went upstream, {} were begun",
        after.requests - before.requests
    );
    if seen == 0 {
        assert_eq!(after.input, before.input, "{after:?}");
        assert_eq!(after.tokens_today, before.tokens_today, "{after:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_broken_off_without_an_error_is_not_whole() {
    for model_tls in [false, true] {
        let world = warm(model_tls).await;
        let usage = || world.ledger.usage(record(ALICE).id).unwrap();
        let before = usage();
        take_back(&world, 0, NO_ERROR).await;
        let figures = world.model.stats().figures();
        assert_eq!(figures.requests, 1 + 10, "TLS {model_tls}");
        assert_eq!(usage().input, before.input, "TLS {model_tls}");
    }
}
