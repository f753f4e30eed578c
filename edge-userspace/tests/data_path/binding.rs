//! One connection, one key.

use crate::client::{Ask, Http};
use crate::world::{ALICE, BOB, MALLORY, World, token, until};
use edge_userspace::telemetry::ConnectionEnd;
use http_body_util::BodyExt as _;

#[tokio::test]
async fn another_key_is_refused_and_the_connection_is_dead() {
    let world = World::new();
    for http in Http::BOTH {
        for other in [BOB, MALLORY] {
            let mut client = world.connect(http, Some(token(ALICE))).await;
            assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
            let answer = client.ask(Ask::message(other)).await.unwrap();
            answer.is_error(401, "authentication_error", "Invalid Key");
            assert_eq!(answer.json()["error"]["message"], "Invalid Key");
            assert_eq!(answer.header("x-should-retry"), "false");
            if http == Http::H1 {
                assert_eq!(answer.header("connection"), "close");
            }
            client.closed().await;
        }
    }
    // A client may have read its end before the edge has counted it.
    let poisoned = || world.metrics.connection_ends.get(ConnectionEnd::Poisoned);
    until("all to be counted", || poisoned() >= 4).await;
    assert_eq!(poisoned(), 4);
    assert_eq!(world.model.stats().figures().requests, 4);
}

#[tokio::test]
async fn the_legacy_lane_is_bound_by_its_first_good_key() {
    let world = World::new();
    let mut client = world.connect(Http::H2, None).await;
    let answer = client.ask(Ask::message(MALLORY)).await.unwrap();
    answer.is_error(401, "authentication_error", "Invalid Key");
    assert_eq!(answer.header("x-should-retry"), "false");
    assert_eq!(client.ask(Ask::message(BOB)).await.unwrap().status, 200);
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(401, "authentication_error", "Invalid Key");
    // A client that keeps one pool for both: on a connection of its own she is served.
    assert_eq!(answer.header("x-should-retry"), "true");
    client.closed().await;
    let mut client = world.connect(Http::H2, None).await;
    assert_eq!(client.ask(Ask::message(BOB)).await.unwrap().status, 200);
    let answer = client.ask(Ask::message(MALLORY)).await.unwrap();
    assert_eq!(answer.header("x-should-retry"), "false");
    client.closed().await;
}

#[tokio::test]
async fn of_two_first_requests_at_once_one_binds() {
    let world = World::new();
    for _ in 0..20 {
        let mut client = world.connect(Http::H2, None).await;
        client.ready().await.unwrap();
        let both = (
            client.begin(Ask::message(ALICE)),
            client.begin(Ask::message(BOB)),
        );
        let both = tokio::join!(both.0, both.1);
        let mut statuses = [both.0, both.1].map(|answer| answer.unwrap().status().as_u16());
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 401]);
        client.closed().await;
    }
}

#[tokio::test]
async fn streams_that_run_finish_on_a_poisoned_connection_and_no_others_begin() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let whole = client.ask(Ask::stream(ALICE, 40)).await.unwrap().body;
    let slow = Ask::stream(ALICE, 40).with("x-demo-inter-token-ms", "20");
    let mut running = client.begin(slow).await.unwrap().into_body();
    let mut received = running
        .frame()
        .await
        .unwrap()
        .unwrap()
        .into_data()
        .unwrap()
        .to_vec();
    let poisoned = client.ask(Ask::message(BOB)).await.unwrap();
    poisoned.is_error(401, "authentication_error", "Invalid Key");
    // GOAWAY may come first; what still gets through is refused.
    if let Ok(answer) = client.ask(Ask::message(ALICE)).await {
        answer.is_error(401, "authentication_error", "Invalid Key: this connection");
    }
    received.extend_from_slice(&running.collect().await.unwrap().to_bytes());
    assert_eq!(received, whole);
    client.closed().await;
}

#[tokio::test]
async fn keys_in_two_headers_must_be_the_same() {
    let world = World::new();
    let bearer = |key: &str| format!("Bearer {key}");
    let mut client = world.connect(Http::H1, None).await;
    let both = Ask::message(ALICE).with("authorization", &bearer(ALICE));
    assert_eq!(client.ask(both).await.unwrap().status, 200);
    let differ = Ask::message(ALICE).with("authorization", &bearer(BOB));
    let answer = client.ask(differ).await.unwrap();
    answer.is_error(401, "authentication_error", "Invalid Key");
    client.closed().await;
}

#[tokio::test]
async fn an_expired_key_is_refused_by_the_next_request() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    let mut record = crate::world::record(ALICE);
    record.not_after_s = 1;
    world
        .keyring
        .apply([edge_userspace::keys::Edit::Put(record)]);
    until("the refusal", || world.keyring.snapshot().generation() >= 2).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(
        401,
        "authentication_error",
        "Invalid Key: the key has expired",
    );
}
