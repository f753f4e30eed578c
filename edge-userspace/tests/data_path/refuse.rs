//! Connections that are refused in the hello: what a client's library sees.

use crate::client::{Hello, alpn};
use crate::world::{ALICE, MALLORY, World, soon, token, token_at, until};
use edge_common::policy::Reason;
use edge_userspace::telemetry::{ConnectionEnd, Lane, Verdict};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn every_bad_token_gets_an_alert_that_the_library_names() {
    let world = World::new();
    let mut flipped = token(ALICE);
    let last = flipped.len() - 1;
    flipped[last] = if flipped[last] == b'0' { b'1' } else { b'0' };
    let mut malformed = token(ALICE);
    malformed[20] = b'G';
    let good = token(ALICE);
    let rows: Vec<(Vec<Vec<u8>>, Reason)> = vec![
        (vec![token(MALLORY)], Reason::KeyUnknown),
        (vec![flipped], Reason::TagWrong),
        (vec![token_at(ALICE, -60)], Reason::TokenExpired),
        (vec![token_at(ALICE, 60)], Reason::TokenFromFuture),
        (vec![malformed], Reason::TokenMalformed),
        (vec![b"ezl1-short".to_vec()], Reason::TokenMalformed),
        (vec![good.clone(), good], Reason::TokenDuplicate),
    ];
    for (tokens, reason) in rows {
        for post_quantum in [false, true] {
            let before = world.metrics.verdicts.get(Verdict::of(reason));
            let mut hello = Hello {
                post_quantum,
                ..alpn(&[b"h2", b"http/1.1"])
            };
            hello.alpn.extend(tokens.clone());
            let error = world.tls(&hello).await.unwrap_err().to_string();
            assert!(error.contains("AccessDenied"), "{reason:?}: {error}");
            let after = world.metrics.verdicts.get(Verdict::of(reason));
            assert_eq!(after, before + 1, "{reason:?}");
        }
    }
    assert_eq!(world.metrics.connections.sum(), 0);
}

#[tokio::test]
async fn a_revoked_key_is_refused_in_the_hello() {
    let world = World::new();
    world.revoke(ALICE);
    let error = world.tls(&alpn(&[b"h2", &token(ALICE)])).await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    let revoked = Verdict::of(Reason::KeyRevoked);
    assert_eq!(world.metrics.verdicts.get(revoked), 1);
}

#[tokio::test]
async fn of_too_many_unfinished_hellos_the_oldest_goes_and_others_are_served() {
    const MOST: usize = 16;
    let world = World::configured(|config| {
        config.listen.max_unread_hellos = MOST;
        config.listen.handshake_timeout = std::time::Duration::from_secs(600);
    });
    let pushed_out = || {
        let ends = &world.metrics.connection_ends;
        ends.get(ConnectionEnd::HelloPushedOut)
    };
    let mut slow = Vec::new();
    for _ in 0..4 * MOST {
        let mut tcp = TcpStream::connect(world.address).await.unwrap();
        // The beginning of a hello.
        tcp.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        slow.push(tcp);
        world.tls(&alpn(&[b"h2", &token(ALICE)])).await.unwrap();
    }
    let mut first = slow.remove(0);
    // Closed, without a word: it ends, or is reset.
    let read = soon("its end", first.read(&mut [0; 16])).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let most = (3 * MOST + 1) as u64;
    until("all that are too many", || {
        pushed_out() >= most - MOST as u64
    })
    .await;
    assert!(pushed_out() <= most, "{}", pushed_out());
    let accepted = Verdict::of(Reason::Accepted);
    assert_eq!(world.metrics.verdicts.get(accepted), 4 * MOST as u64);
}

#[tokio::test]
async fn the_legacy_lane_can_be_closed() {
    let world = World::configured(|config| config.legacy.deny = true);
    let error = world.tls(&alpn(&[b"h2"])).await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    world.tls(&alpn(&[b"h2", &token(ALICE)])).await.unwrap();
    assert_eq!(world.metrics.connections.get(Lane::Legacy), 0);
}

/// What comes back for raw bytes, to the end of the connection.
async fn raw(world: &World, bytes: &[u8]) -> Vec<u8> {
    let mut tcp = TcpStream::connect(world.address).await.unwrap();
    tcp.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = tcp.read_to_end(&mut answer);
    soon("the end of the connection", read).await.unwrap();
    answer
}

#[tokio::test]
async fn plain_http_is_told_that_this_is_tls() {
    let world = World::new();
    // More than the edge reads of it: closing must not cut the answer off.
    let mut request = b"POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\n\r\n".to_vec();
    request.extend_from_slice(&vec![b'x'; 200_000]);
    let answer = String::from_utf8(raw(&world, &request).await).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("https://\n"), "{answer}");
}

#[tokio::test]
async fn other_bytes_get_an_alert_and_the_end() {
    let world = World::new();
    assert_eq!(
        raw(&world, b"SSH-2.0-client\r\n").await,
        [21, 3, 3, 0, 2, 2, 10]
    );
    assert_eq!(raw(&world, &[0; 100]).await, [21, 3, 3, 0, 2, 2, 10]);
    // A hello whose session id is longer than the hello.
    let mut broken = vec![22, 3, 1, 0, 44, 1, 0, 0, 40, 3, 3];
    broken.extend_from_slice(&[7; 32]);
    broken.extend_from_slice(&[32, 1, 2, 3, 4, 5, 6]);
    assert_eq!(raw(&world, &broken).await, [21, 3, 3, 0, 2, 2, 50]);
    let malformed = Verdict::of(Reason::HelloMalformed);
    assert_eq!(world.metrics.verdicts.get(malformed), 1);
    let not_hello = Verdict::of(Reason::NotHello);
    assert_eq!(world.metrics.verdicts.get(not_hello), 2);
}

#[tokio::test]
async fn a_client_that_sends_half_a_hello_is_dropped_in_time() {
    let world = World::configured(|config| {
        config.listen.handshake_timeout = std::time::Duration::from_millis(300);
    });
    let answer = raw(&world, &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).await;
    assert!(answer.is_empty());
    let incomplete = Verdict::of(Reason::Incomplete);
    assert_eq!(world.metrics.verdicts.get(incomplete), 1);
}
