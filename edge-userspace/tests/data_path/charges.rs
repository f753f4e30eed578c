//! What connections are charged: used tokens, keys' rates, source prefixes' rates.

use crate::client::{Ask, Hello, Http, alpn};
use crate::world::{ALICE, BOB, CAROL, World, record, token, token_at};
use edge_common::policy::Reason;
use edge_common::token::{PREFIX, Token};
use edge_userspace::charges::{Limits, Now, flow_key};
use edge_userspace::keys::Edit;
use edge_userspace::telemetry::{ConnectionEnd, Lane, Verdict};
use std::io;

fn count(world: &World, reason: Reason) -> u64 {
    world.metrics.verdicts.get(Verdict::of(reason))
}

fn assert_denied<T>(outcome: io::Result<T>, what: &str) {
    let error = outcome.map(drop).expect_err(what).to_string();
    assert!(error.contains("AccessDenied"), "{what}: {error}");
}

fn parsed(name: &[u8]) -> Token {
    let words = name[PREFIX.len()..].chunks_exact(8);
    let words: Vec<_> = (words.map(|word| u64::from_le_bytes(word.try_into().unwrap()))).collect();
    Token::parse(&words.try_into().unwrap()).unwrap()
}

/// Changes what the running edge charges against.
fn limit(world: &World, change: impl FnOnce(&mut Limits)) {
    let mut limits = world.charges.limits();
    change(&mut limits);
    world.charges.set_limits(limits);
}

#[tokio::test]
async fn a_token_opens_one_connection_and_no_other() {
    let world = World::new();
    let token = token(ALICE);
    let hello = alpn(&[b"h2", &token]);
    let first = world.tls(&hello).await.unwrap();
    for post_quantum in [false, true] {
        let again = Hello {
            post_quantum,
            ..alpn(&[b"h2", &token])
        };
        assert_denied(world.tls(&again).await, "while the first is open");
    }
    drop(first);
    assert_denied(world.tls(&hello).await, "after the first has ended");
    let fresh = crate::world::token(ALICE);
    world.tls(&alpn(&[b"h2", &fresh])).await.unwrap();
    assert_eq!(count(&world, Reason::Replayed), 3);
    assert_eq!(count(&world, Reason::Accepted), 2);
    assert_eq!(world.charges.status().replay_entries, 2);
}

#[tokio::test]
async fn of_many_connections_at_once_with_one_token_one_is_served() {
    let world = World::new();
    for _ in 0..5 {
        let hello = alpn(&[b"h2", &token(ALICE)]);
        let outcomes = (0..8).map(|_| world.tls(&hello));
        let mut served = 0;
        for outcome in futures(outcomes).await {
            match outcome {
                Ok(_) => served += 1,
                Err(error) => assert_denied::<()>(Err(error), "a replay"),
            }
        }
        assert_eq!(served, 1);
    }
    assert_eq!(count(&world, Reason::Replayed), 35);
}

/// Runs all of them at once.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|one| (Some(Box::pin(one)), None)).collect();
    std::future::poll_fn(move |cx| {
        let mut open = 0;
        for (future, output) in &mut all {
            if let Some(running) = future {
                match running.as_mut().poll(cx) {
                    std::task::Poll::Ready(done) => {
                        *output = Some(done);
                        *future = None;
                    }
                    std::task::Poll::Pending => open += 1,
                }
            }
        }
        if open > 0 {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(
            all.iter_mut()
                .filter_map(|(_, output)| output.take())
                .collect(),
        )
    })
    .await
}

#[tokio::test]
async fn refused_tokens_are_not_used_up() {
    let world = World::new();
    let early = alpn(&[b"h2", &token_at(ALICE, 60)]);
    assert_denied(world.tls(&early).await, "not good yet");
    limit(&world, |limits| limits.window_ahead_s = 120);
    world.tls(&early).await.unwrap();
    assert_eq!(world.charges.status().replay_entries, 1);
}

#[tokio::test]
async fn victims_tokens_stay_refused_when_others_fill_the_table() {
    // The least that a configuration may say; the tests' keys have no limit.
    let world = World::configured(|config| config.keys.replay_capacity = 1024);
    let mut victims = Vec::new();
    for _ in 0..50 {
        let hello = alpn(&[b"h2", &token(ALICE)]);
        world.tls(&hello).await.unwrap();
        victims.push(hello);
    }
    let capacity = world.charges.status().replay_capacity;
    // The table's own door, to fill it faster than TLS could.
    let key = world.keyring.find(record(BOB).id).unwrap();
    for number in 0..capacity * 3 {
        let token = parsed(&token(BOB));
        let port = u16::try_from(number % 60_000).unwrap();
        let flow = flow_key(([192, 0, 2, 1], port).into(), world.address);
        let now = Now::read();
        world.charges.token(&token, &key, &flow, now);
    }
    let full = world.charges.status();
    assert_eq!(full.replay_entries, capacity);
    for hello in &victims {
        assert_denied(world.tls(hello).await, "a victim's token");
    }
    assert_eq!(count(&world, Reason::Replayed), 50);

    // A good token that cannot be remembered: its key must be shown.
    let mut client = world.connect(Http::H2, Some(token(BOB))).await;
    client.ask(Ask::message(ALICE)).await.unwrap();
    assert_eq!(count(&world, Reason::ReplayTableFull), 1);
    assert_eq!(world.metrics.connections.get(Lane::Legacy), 1);
    assert_eq!(world.charges.status().replay_full, full.replay_full + 1);
}

/// Far more tries than a rate of one a second lets through, however slow they are.
const TRIES: usize = 1000;

#[tokio::test]
async fn a_key_over_its_hard_rate_is_refused_and_others_are_not() {
    let world = World::configured(|config| config.keys.connections_per_second_hard = 1);
    let mut bob = record(BOB);
    bob.rates.connections_per_second_hard = Some(0);
    world.keyring.apply([Edit::Put(bob)]);
    let mut refused = 0;
    for _ in 0..TRIES {
        if let Err(error) = world.tls(&alpn(&[b"h2", &token(ALICE)])).await {
            assert_denied::<()>(Err(error), "over the rate");
            refused += 1;
        }
        // Its own rate is none.
        world.tls(&alpn(&[b"h2", &token(BOB)])).await.unwrap();
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3);
    assert_eq!(count(&world, Reason::KeyRateExceeded), refused);
    world.tls(&alpn(&[b"h2", &token(CAROL)])).await.unwrap();
    limit(&world, |limits| limits.key_per_second_hard = 0);
    world.tls(&alpn(&[b"h2", &token(ALICE)])).await.unwrap();
}

#[tokio::test]
async fn a_replay_charges_no_rate() {
    let world = World::configured(|config| config.keys.connections_per_second_hard = 2);
    let hello = alpn(&[b"h2", &token(ALICE)]);
    world.tls(&hello).await.unwrap();
    for _ in 0..20 {
        assert_denied(world.tls(&hello).await, "a replay");
    }
    world.tls(&alpn(&[b"h2", &token(ALICE)])).await.unwrap();
    assert_eq!(count(&world, Reason::Replayed), 20);
}

#[tokio::test]
async fn over_the_soft_rate_each_request_is_told_and_the_connection_ends() {
    for http in Http::BOTH {
        let world = World::new();
        let mut alice = record(ALICE);
        alice.rates.connections_per_second = Some(1);
        world.keyring.apply([Edit::Put(alice)]);
        let (mut ends, mut within) = (0, Vec::new());
        for _ in 0..TRIES {
            let mut client = world.connect(http, Some(token(ALICE))).await;
            let answer = client.ask(Ask::message(ALICE)).await.unwrap();
            if answer.status == 200 {
                within.push(client);
                continue;
            }
            answer.is_error(429, "rate_limit_error", "This key opens connections faster than its rate allows; open fewer and use each for more requests, or wait a moment");
            assert_eq!(answer.header("x-should-retry"), "true");
            assert_eq!(answer.header("retry-after"), "1");
            client.closed().await;
            ends += 1;
            if ends == 3 {
                break;
            }
        }
        assert_eq!(ends, 3);
        let told = &world.metrics.connection_ends;
        assert_eq!(told.get(ConnectionEnd::KeyRate), ends);
        let all = ends + within.len() as u64;
        assert_eq!(count(&world, Reason::Accepted), all, "all were let in");
        // A connection within the rate is served on.
        let answer = within[0].ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 200);
        let mut other = world.connect(http, Some(token(BOB))).await;
        assert_eq!(other.ask(Ask::message(BOB)).await.unwrap().status, 200);
    }
}

/// Connects without a token until that was refused for this reason, and each time with one, which
/// is not charged.
async fn refuses_without_a_token(world: &World, reason: Reason) {
    let mut refused = 0;
    for _ in 0..TRIES {
        if let Err(error) = world.tls(&alpn(&[b"h2"])).await {
            assert_denied::<()>(Err(error), reason.name());
            refused += 1;
        }
        world.tls(&alpn(&[b"h2", &token(ALICE)])).await.unwrap();
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3);
    assert_eq!(count(world, reason), refused);
}

#[tokio::test]
async fn the_legacy_lane_has_a_rate_for_each_prefix() {
    let world = World::configured(|config| {
        config.legacy.connections_per_second = 1;
        config.legacy.burst = 3;
    });
    refuses_without_a_token(&world, Reason::LegacyRateExceeded).await;
    // Nor are challenges.
    let challenge = alpn(&[b"acme-tls/1"]);
    for _ in 0..5 {
        // No certificate for it here; what counts is that it was let in.
        let _ = world.tls(&challenge).await;
    }
    assert_eq!(count(&world, Reason::AcmeChallenge), 5);
    limit(&world, |limits| limits.legacy_per_second = 0);
    world.tls(&alpn(&[b"h2"])).await.unwrap();
}

#[tokio::test]
async fn all_without_a_token_have_a_rate_together_and_tokens_are_not_charged_to_it() {
    let world = World::configured(|config| {
        config.legacy.connections_per_second = 0;
        config.legacy.connections_per_second_total = 1;
    });
    refuses_without_a_token(&world, Reason::LegacyTotalExceeded).await;
    assert_eq!(count(&world, Reason::LegacyRateExceeded), 0);
    let challenge = alpn(&[b"acme-tls/1"]);
    let _ = world.tls(&challenge).await;
    assert_eq!(count(&world, Reason::AcmeChallenge), 1);
    limit(&world, |limits| limits.legacy_total_per_second = 0);
    world.tls(&alpn(&[b"h2"])).await.unwrap();
}
