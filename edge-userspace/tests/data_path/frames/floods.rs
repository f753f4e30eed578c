//! Floods of frames: of resets, of heads without an end, of what asks for an answer, of nothing.

use super::*;
use crate::client::{Ask, Http};
use crate::upstream::scripted;
use crate::world::{Wishes, until};
use edge_userspace::telemetry::ConnectionEnd;

const GOOD: &str = ":method=POST :scheme=https :path=/v1/messages :authority=edge.test \
     anthropic-version=2023-06-01";

fn good() -> Vec<u8> {
    block(&format!("{GOOD} x-api-key={ALICE}"))
}

/// Writes `piece` again and again, for other streams each time, while nobody reads; gives the
/// number of times until the edge ends the connection or takes no more, or `most`.
async fn flood(wire: &mut Wire, most: u32, mut piece: impl FnMut(u32) -> Vec<u8>) -> u32 {
    for number in 0..most {
        let bytes = piece(number);
        let write = wire.tls.write_all(&bytes);
        let waited = tokio::time::timeout(std::time::Duration::from_secs(2), write).await;
        if !matches!(waited, Ok(Ok(()))) {
            return number;
        }
    }
    most
}

/// While a flood goes on, or after it, others are served and nothing of it stays.
async fn others_are_served(world: &World) {
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    assert_eq!(answer.status, 200);
    drop(client);
    let open = || world.metrics.open_connections.get();
    until("no connection", || open() == 0).await;
    let stats = || world.model.stats().figures();
    until("the model's rest", || stats().active == 0).await;
}

/// CVE-2023-44487: streams are opened and reset faster than they are answered.
#[tokio::test]
async fn a_flood_of_resets_ends_the_connection_and_hardly_reaches_the_upstream() {
    const MOST: u32 = 50_000;
    let world = World::new();
    let mut wire = Wire::begin(&world).await;
    let head = good();
    let sent = flood(&mut wire, MOST, |number| {
        let stream = number * 2 + 1;
        let mut bytes = frame(HEADERS, END_HEADERS, stream, &head);
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        bytes
    })
    .await;
    let seen = observe(&mut wire, "closed").await;
    assert!(sent < MOST, "the edge ends it: {sent}");
    assert!(
        seen.iter()
            .any(|s| s == "goaway ENHANCE_YOUR_CALM" || s == "closed"),
        "{seen:?}"
    );
    drop(wire);
    others_are_served(&world).await;
    let ends = &world.metrics.connection_ends;
    assert_eq!(ends.get(ConnectionEnd::Protocol), 1);
    let requests = world.model.stats().figures().requests;
    assert!(requests <= 1, "{requests}: bodies never came to their ends");
}

/// The same with requests that need no body, whose answers are on their way.
#[tokio::test]
async fn a_flood_of_requests_that_are_taken_back_is_bounded_at_the_upstream() {
    const MOST: u32 = 50_000;
    let world = World::new();
    let mut wire = Wire::begin(&world).await;
    let models = ":method=GET :scheme=https :path=/v1/models :authority=edge.test";
    let head = block(&format!(
        "{models} x-api-key={ALICE} x-demo-first-token-ms=60000 x-demo-echo=1"
    ));
    let sent = flood(&mut wire, MOST, |number| {
        let stream = number * 2 + 1;
        let mut bytes = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        bytes
    })
    .await;
    assert!(sent < MOST, "the edge ends it: {sent}");
    drop(wire);
    others_are_served(&world).await;
    let requests = world.model.stats().figures().requests;
    assert!(requests < 1000, "{requests} of {sent}");
}

/// A head that never ends, in large frames and in empty ones.
#[tokio::test]
async fn a_head_without_an_end_is_not_kept() {
    for (size, most) in [(16_384_usize, 4096_u32), (0, 200_000), (1, 200_000)] {
        let world = World::new();
        let mut wire = Wire::begin(&world).await;
        let begin = frame(HEADERS, 0, 1, &good());
        wire.tls.write_all(&begin).await.unwrap();
        // Literals whose names and values are of one byte.
        let literals = [0, 1, b'x', 1, b'y'].repeat(size / 5 + 1);
        let sent = flood(&mut wire, most, |_| {
            frame(
                CONTINUATION,
                0,
                1,
                &literals[..size.min(literals.len() / 5 * 5)],
            )
        })
        .await;
        let seen = observe(&mut wire, "closed").await;
        assert!(sent < most, "{size}: the edge ends it: {sent}: {seen:?}");
        drop(wire);
        others_are_served(&world).await;
        assert_eq!(world.model.stats().figures().requests, 1);
    }
}

/// Frames that ask for an answer, from a client that reads none: what waits to be written is
/// bounded, so the client cannot go on for ever.
#[tokio::test]
async fn a_client_that_reads_no_answers_to_pings_and_settings_is_held_up_or_ended() {
    const MOST: u32 = 4000;
    let pings = frame(PING, 0, 0, b"12345678").repeat(1000);
    let settings = frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(1000);
    for (what, thousand) in [("pings", pings), ("settings", settings)] {
        let world = World::new();
        let mut wire = Wire::begin(&world).await;
        let sent = flood(&mut wire, MOST, |_| thousand.clone()).await;
        assert!(sent < MOST, "{what}: {sent} thousand were taken");
        drop(wire);
        others_are_served(&world).await;
    }
}

/// DATA without data keeps a request open; it takes room as other pieces do and no more.
#[tokio::test]
async fn a_flood_of_empty_data_takes_a_bounded_room() {
    let world = World::configured(|config| config.prompt.max_held_bytes = 1 << 20);
    let mut wire = Wire::begin(&world).await;
    let begin = frame(HEADERS, END_HEADERS, 1, &good());
    wire.tls.write_all(&begin).await.unwrap();
    let thousand = frame(DATA, 0, 1, &[]).repeat(1000);
    flood(&mut wire, 100, |_| thousand.clone()).await;
    wire.tls.write_all(&frame(PING, 0, 0, ASK)).await.ok();
    let seen = observe(&mut wire, "open | closed").await;
    let room = world.prompts.room();
    assert!(room.bytes() <= room.most_bytes() + 64, "{seen:?}");
    drop(wire);
    others_are_served(&world).await;
}

/// An upstream that takes nothing holds the client up; one that goes on all the same breaks its
/// window.
#[tokio::test]
async fn a_client_that_sends_more_than_its_window_is_cut() {
    let upstream = scripted(|_, tcp| async move {
        // Held open, never read.
        std::future::pending::<()>().await;
        drop(tcp);
    });
    let upstream = upstream.await;
    let world = World::with(Wishes {
        upstream: Some(upstream),
        config: |config| config.api.max_body_bytes = 1 << 30,
        ..Wishes::default()
    });
    let mut wire = Wire::begin(&world).await;
    let models = ":method=GET :scheme=https :path=/v1/models :authority=edge.test";
    let head = block(&format!("{models} x-api-key={ALICE}"));
    let begin = frame(HEADERS, END_HEADERS, 1, &head);
    wire.tls.write_all(&begin).await.unwrap();
    let piece = frame(DATA, 0, 1, &[b' '; 16_384]);
    let sent = flood(&mut wire, 16_384, |_| piece.clone()).await;
    let seen = observe(&mut wire, "closed").await;
    let cut = ["rst 1 FLOW_CONTROL_ERROR", "goaway FLOW_CONTROL_ERROR"];
    assert!(
        seen.iter().any(|s| cut.contains(&s.as_str())),
        "{sent}: {seen:?}"
    );
}

/// A body in frames of a few bytes, as a client that streams it may send it, is no flood yet.
#[tokio::test]
async fn a_body_in_small_frames_is_taken() {
    let world = World::new();
    let mut wire = Wire::begin(&world).await;
    let head = block(&format!("{GOOD} x-api-key={ALICE} x-demo-echo=1"));
    let mut bytes = frame(HEADERS, END_HEADERS, 1, &head);
    for _ in 0..2000 {
        bytes.extend(frame(DATA, 0, 1, b"    "));
    }
    bytes.extend(frame(DATA, END_STREAM, 1, b"{}"));
    bytes.extend(frame(PING, 0, 0, ASK));
    wire.tls.write_all(&bytes).await.unwrap();
    let seen = observe(&mut wire, "status 1 200, open").await;
    assert!(seen.contains(&"status 1 200".to_owned()), "{seen:?}");
}
