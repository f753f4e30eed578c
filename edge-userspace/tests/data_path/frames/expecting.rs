//! Clients that hold a body back until they are asked for it (`expect: 100-continue`, RFC 9110
//! section 10.1.1). What one script of frames can say of them is in `tests/framing/http2`.

use super::*;
use crate::quotas::limit;
use edge_userspace::keys::Quotas;

fn head(stream: u32) -> Vec<u8> {
    head_with(stream, "anthropic-version=2023-06-01")
}

fn head_with(stream: u32, more: &str) -> Vec<u8> {
    let head = format!(
        ":method=POST :scheme=https :path=/v1/messages :authority=edge.test x-api-key={ALICE} \
         x-demo-echo=1 expect=100-continue {more}"
    );
    frame(HEADERS, END_HEADERS, stream, &block(&head))
}

async fn send(wire: &mut Wire, frames: &[Vec<u8>]) {
    wire.tls.write_all(&frames.concat()).await.unwrap();
}

/// Until that has come, or the end.
async fn until_seen(wire: &mut Wire, what: &str) -> Vec<String> {
    let mut seen = Vec::new();
    observe_on(wire, &mut seen, |seen| seen.iter().any(|one| one == what)).await;
    seen
}

#[tokio::test]
async fn a_body_is_asked_for_once_and_sent_in_as_many_pieces_as_one_likes() {
    let world = World::new();
    let mut wire = Wire::begin(&world).await;
    send(&mut wire, &[head(1), head(3)]).await;
    let mut seen = until_seen(&mut wire, "status 3 100").await;
    assert!(seen.contains(&"status 1 100".to_owned()), "{seen:?}");
    let text = format!(r#"{{"x":"{}"}}"#, "y".repeat(100_000));
    for stream in [3, 1] {
        for piece in text.as_bytes().chunks(7000) {
            send(&mut wire, &[frame(DATA, 0, stream, piece)]).await;
        }
        send(&mut wire, &[frame(DATA, END_STREAM, stream, b"")]).await;
        seen.extend(until_seen(&mut wire, &format!("end {stream}")).await);
        let answered = format!("status {stream} 200");
        assert!(seen.contains(&answered), "{seen:?}");
    }
    let interim = seen.iter().filter(|one| one.ends_with(" 100"));
    assert_eq!(interim.count(), 2, "{seen:?}");
}

#[tokio::test]
async fn who_is_over_its_limit_is_not_asked_for_a_body() {
    let world = World::new();
    let quotas = Quotas {
        requests_per_minute: Some(1),
        ..Quotas::default()
    };
    limit(&world, ALICE, quotas);
    let mut wire = Wire::begin(&world).await;
    send(&mut wire, &[head(1)]).await;
    until_seen(&mut wire, "status 1 100").await;
    send(&mut wire, &[frame(DATA, END_STREAM, 1, b"{}")]).await;
    let seen = until_seen(&mut wire, "end 1").await;
    assert!(seen.contains(&"status 1 200".to_owned()), "{seen:?}");
    send(&mut wire, &[head(3)]).await;
    let seen = until_seen(&mut wire, "closed").await;
    assert!(seen.contains(&"status 3 429".to_owned()), "{seen:?}");
    assert!(!seen.contains(&"status 3 100".to_owned()), "{seen:?}");
}

/// curl takes an answer for none if a reset comes with it.
#[tokio::test]
async fn who_is_refused_before_its_body_has_time_to_read_that_before_the_reset() {
    let world = World::new();
    let mut wire = Wire::begin(&world).await;
    // No version; one goes away without its body, the other sends it all the same.
    send(&mut wire, &[head_with(1, ""), head_with(3, "")]).await;
    let mut seen = until_seen(&mut wire, "end 3").await;
    send(&mut wire, &[frame(DATA, 0, 3, b"{"), head(5)]).await;
    seen.extend(until_seen(&mut wire, "status 5 100").await);
    send(&mut wire, &[frame(DATA, END_STREAM, 5, b"{}")]).await;
    seen.extend(until_seen(&mut wire, "end 5").await);
    for answered in ["status 1 400", "end 1", "status 3 400", "status 5 200"] {
        assert!(
            seen.iter().any(|one| one == answered),
            "{answered}: {seen:?}"
        );
    }
    assert!(!seen.iter().any(|one| one.starts_with("rst")), "{seen:?}");
    seen.extend(until_seen(&mut wire, "rst 1 NO_ERROR").await);
    // What has begun to come is waited for longer.
    send(&mut wire, &[frame(DATA, END_STREAM, 3, b"}"), head(7)]).await;
    seen.extend(until_seen(&mut wire, "status 7 100").await);
    for never in ["status 1 100", "status 3 100", "rst 3 NO_ERROR"] {
        assert!(!seen.iter().any(|one| one == never), "{never}: {seen:?}");
    }
}

/// Refused after its head, when room for it is looked for, and before its first byte.
#[tokio::test]
async fn a_body_that_finds_no_room_is_not_asked_for() {
    let world = World::configured(|config| config.prompt.max_held_bytes = 1 << 20);
    let gzip = "anthropic-version=2023-06-01 content-encoding=gzip";
    let mut others = world.prompts.decoding().hold();
    assert!(others.take(500 << 10), "others decode");
    let mut wire = Wire::begin(&world).await;
    send(&mut wire, &[head_with(1, gzip)]).await;
    let seen = until_seen(&mut wire, "rst 1 NO_ERROR").await;
    assert!(seen.contains(&"status 1 529".to_owned()), "{seen:?}");
    assert!(!seen.contains(&"status 1 100".to_owned()), "{seen:?}");
}

/// Another key ends the connection, and that with a reset would be no answer either.
#[tokio::test]
async fn who_shows_another_key_reads_so_before_the_connection_ends() {
    let world = World::new();
    let mut wire = Wire::begin(&world).await;
    let head = ":method=POST :scheme=https :path=/v1/messages :authority=edge.test \
                x-api-key=another anthropic-version=2023-06-01 expect=100-continue";
    send(&mut wire, &[frame(HEADERS, END_HEADERS, 1, &block(head))]).await;
    let mut seen = until_seen(&mut wire, "end 1").await;
    send(&mut wire, &[frame(PING, 0, 0, ASK)]).await;
    seen.extend(until_seen(&mut wire, "open").await);
    assert!(seen.contains(&"status 1 401".to_owned()), "{seen:?}");
    assert!(!seen.iter().any(|one| one.starts_with("rst")), "{seen:?}");
    until_seen(&mut wire, "closed").await;
}
