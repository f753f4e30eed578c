//! Clients that hold a body back until they are asked for it (`expect: 100-continue`, RFC 9110
//! section 10.1.1). What one script of frames can say of them is in `tests/framing/http2`.

use super::*;
use crate::quotas::limit;
use edge_userspace::keys::Quotas;

fn head(stream: u32) -> Vec<u8> {
    let head = format!(
        ":method=POST :scheme=https :path=/v1/messages :authority=edge.test x-api-key={ALICE} \
         anthropic-version=2023-06-01 x-demo-echo=1 expect=100-continue"
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
