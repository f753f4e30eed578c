//! What keys may use: each limit on the wire, what the client is told, and that nothing stays
//! held back (which every world asserts at its end).

use crate::client::{Answer, Ask, Http};
use crate::world::{ALICE, BOB, Wishes, World, record, token, until};
use edge_userspace::demo_model::{DemoModel, Options};
use edge_userspace::keys::{Allowance, Edit, Quotas};
use edge_userspace::telemetry::{ConnectionEnd, QuotaLimit};
use edge_userspace::usage::KeyUsage;
use http::Method;
use http_body_util::BodyExt as _;

/// Gives a key limits of its own, as `edge keys limit` does.
pub(crate) fn limit(world: &World, key: &str, quotas: Quotas) {
    let mut record = record(key);
    record.allowance = Allowance {
        quotas,
        models: Box::default(),
    }
    .boxed();
    world.keyring.apply([Edit::Put(record)]);
}

fn usage(world: &World, key: &str) -> KeyUsage {
    world.ledger.usage(record(key).id).unwrap()
}

fn remaining(answer: &Answer, of: &str) -> u64 {
    let name = format!("anthropic-ratelimit-{of}-remaining");
    answer.header(&name).parse().unwrap()
}

fn has_limits(answer: &Answer) -> bool {
    let names = answer.headers.keys();
    { names }.any(|name| name.as_str().starts_with("anthropic-ratelimit-"))
}

fn message(answer: &Answer) -> String {
    answer.json()["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The seconds with which what it is told ends.
fn told_seconds(answer: &Answer) -> u64 {
    let told = message(answer);
    let (_, seconds) = told.rsplit_once(" in ").unwrap();
    seconds.strip_suffix(" s").unwrap().parse().unwrap()
}

/// A request that asks for so long an answer, in so many words.
fn asking(key: &str, max_tokens: u64, words: usize) -> Ask {
    let text = "word ".repeat(words);
    Ask::message(key).body(format!(
        r#"{{"model":"claude-demo","max_tokens":{max_tokens},"messages":[{{"role":"user","content":"{text}"}}]}}"#
    ))
    .with("x-demo-tokens", "3")
}

#[tokio::test]
async fn over_each_limit_a_minute_the_client_is_told_and_its_connection_ends() {
    let requests = Quotas {
        requests_per_minute: Some(1),
        ..Quotas::default()
    };
    let input = Quotas {
        input_tokens_per_minute: Some(2000),
        ..Quotas::default()
    };
    let output = Quotas {
        output_tokens_per_minute: Some(50),
        ..Quotas::default()
    };
    for http in Http::BOTH {
        for (quotas, which, words, max_tokens, message) in [
            (
                requests,
                QuotaLimit::Requests,
                1,
                1,
                "This key may use 1 request a minute at this node and has 0 left: the request, which needs 1, fits here in ",
            ),
            (
                input,
                QuotaLimit::Input,
                1500,
                1,
                "This key may use 2000 input tokens a minute at this node and has ",
            ),
            (
                output,
                QuotaLimit::Output,
                1,
                499,
                "This key may use 50 output tokens a minute at this node and has 1 left: the request, which needs 49, fits here in ",
            ),
        ] {
            let world = World::new();
            limit(&world, ALICE, quotas);
            let mut first = world.connect(http, Some(token(ALICE))).await;
            let running = asking(ALICE, max_tokens, words).with("x-demo-error", "hang");
            let running = tokio::spawn(first.begin(running));
            until("what it holds back", || {
                world.ledger.status().reserved_input > 0
            })
            .await;
            let mut client = world.connect(http, Some(token(ALICE))).await;
            let answer = client.ask(asking(ALICE, max_tokens, words)).await.unwrap();
            answer.is_error(429, "rate_limit_error", message);
            assert_eq!(answer.header("x-should-retry"), "true");
            assert_eq!(answer.header("retry-after"), "1");
            assert!((1..=60).contains(&told_seconds(&answer)), "{answer:?}");
            assert_eq!(world.metrics.quota_refusals.get(which), 1);
            client.closed().await;
            let ends = &world.metrics.connection_ends;
            assert_eq!(ends.get(ConnectionEnd::KeyQuota), 1);
            // It charged nothing, and nobody else.
            assert_eq!(usage(&world, ALICE).requests, 0, "none has ended");
            let mut other = world.connect(http, Some(token(BOB))).await;
            let answer = other.ask(asking(BOB, max_tokens, words)).await.unwrap();
            assert_eq!(answer.status, 200);
            assert!(!has_limits(&answer), "{:?}", answer.headers);
            // A limit that is lifted is no limit from the next request on.
            limit(&world, ALICE, Quotas::default());
            let mut client = world.connect(http, Some(token(ALICE))).await;
            let answer = client.ask(asking(ALICE, max_tokens, words)).await.unwrap();
            assert_eq!(answer.status, 200);
            running.abort();
            first.vanish();
            until("their ends", || usage(&world, ALICE).requests == 2).await;
        }
    }
}

#[tokio::test]
async fn no_more_run_at_a_time_than_a_key_may_have() {
    for http in Http::BOTH {
        let world = World::new();
        let two = Quotas {
            concurrent_requests: Some(2),
            ..Quotas::default()
        };
        limit(&world, ALICE, two);
        let hanging = || Ask::stream(ALICE, 9).with("x-demo-error", "hang-mid-stream");
        let mut first = world.connect(http, Some(token(ALICE))).await;
        let mut first_body = first.begin(hanging()).await.unwrap().into_body();
        first_body.frame().await.unwrap().unwrap();
        let mut second = world.connect(http, Some(token(ALICE))).await;
        let second_body = second.begin(hanging()).await.unwrap().into_body();
        let mut third = world.connect(http, Some(token(ALICE))).await;
        let answer = third.ask(Ask::message(ALICE)).await.unwrap();
        answer.is_error(
            429,
            "rate_limit_error",
            "This key may use 2 requests at a time at this node, which it has: the request fits here when one of them has ended",
        );
        third.closed().await;
        // What runs goes on; when one has ended there is room.
        assert_eq!(usage(&world, ALICE).running, 2);
        drop(second_body);
        second.vanish();
        until("the second's end", || usage(&world, ALICE).running == 1).await;
        let mut third = world.connect(http, Some(token(ALICE))).await;
        let answer = third.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 200);
        drop(first_body);
        first.vanish();
        until("the first's end", || usage(&world, ALICE).running == 0).await;
    }
}

#[tokio::test]
async fn a_days_tokens_that_are_used_up_are_not_to_be_asked_for_again() {
    for http in Http::BOTH {
        let world = World::new();
        let day = Quotas {
            tokens_per_day: Some(100),
            ..Quotas::default()
        };
        limit(&world, ALICE, day);
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let told = "This key may use 100 tokens a day (UTC) at this node";
        // One that no day has as many for.
        let answer = client.ask(asking(ALICE, 9, 500)).await.unwrap();
        answer.is_error(429, "rate_limit_error", told);
        assert!(message(&answer).contains("can never fit"), "{answer:?}");
        assert_eq!(answer.header("x-should-retry"), "false");
        assert!(!answer.headers.contains_key("retry-after"));
        assert_eq!(remaining(&answer, "tokens"), 100);
        let mut before = 100;
        let mut served = 0;
        let refused = loop {
            let answer = client.ask(asking(ALICE, 9, 5)).await.unwrap();
            if answer.status != 200 {
                break answer;
            }
            served += 1;
            until("its end", || usage(&world, ALICE).running == 0).await;
            let left = 100_u64.saturating_sub(usage(&world, ALICE).tokens_today);
            assert!(left < before, "{left} of {before}");
            before = left;
        };
        assert!((1..=20).contains(&served), "{served}");
        refused.is_error(429, "rate_limit_error", told);
        let told = message(&refused);
        let (_, told) = told.split_once("next day begins, in ").unwrap();
        let (seconds, _) = told.split_once(" s").unwrap();
        let seconds: u64 = seconds.parse().unwrap();
        assert!((1..=86_400).contains(&seconds), "{refused:?}");
        assert_eq!(refused.header("x-should-retry"), "false");
        assert_eq!(refused.header("anthropic-ratelimit-tokens-limit"), "100");
        assert!(
            refused
                .header("anthropic-ratelimit-tokens-reset")
                .ends_with("T00:00:00Z")
        );
        // The connection stays: another one would do no better.
        limit(&world, ALICE, Quotas::default());
        assert_eq!(client.ask(asking(ALICE, 9, 5)).await.unwrap().status, 200);
    }
}

/// A whole answer cannot be cut, so all that it may have is held back; a stream is cut.
#[tokio::test]
async fn whole_answers_that_the_day_may_not_have_are_refused_before_they_are_made() {
    for http in Http::BOTH {
        let world = World::new();
        let day = Quotas {
            tokens_per_day: Some(1000),
            ..Quotas::default()
        };
        limit(&world, ALICE, day);
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.ask(asking(ALICE, 1000, 1)).await.unwrap();
        let told = "This key may use 1000 tokens a day (UTC) at this node: the request needs ";
        answer.is_error(429, "rate_limit_error", told);
        let advice =
            "which can never fit; with a smaller max_tokens, or as a stream, it may fit now";
        assert!(message(&answer).ends_with(advice), "{answer:?}");
        assert_eq!(answer.header("x-should-retry"), "false");
        // One that does not say how long: 4096.
        let unsaid = asking(ALICE, 1, 1).body(r#"{"model":"claude-demo","messages":[]}"#);
        let answer = client.ask(unsaid).await.unwrap();
        let unsaid = "up to 4096 for its answer, which can never fit";
        assert!(message(&answer).contains(unsaid), "{answer:?}");
        assert_eq!(usage(&world, ALICE).tokens_today, 0);
        // What runs holds back all that it may have.
        let mut first = world.connect(http, Some(token(ALICE))).await;
        let running = asking(ALICE, 700, 1).with("x-demo-error", "hang");
        let running = tokio::spawn(first.begin(running));
        until("what it holds back", || {
            (world.ledger.usage(record(ALICE).id)).is_some_and(|usage| usage.reserved_today == 700)
        })
        .await;
        let mut second = world.connect(http, Some(token(ALICE))).await;
        let answer = second.ask(asking(ALICE, 400, 1)).await.unwrap();
        let told = "This key may use 1000 tokens a day (UTC) at this node and has too few left beside those that its running requests hold back";
        answer.is_error(429, "rate_limit_error", told);
        assert_eq!(answer.header("x-should-retry"), "true");
        assert_eq!(answer.header("retry-after"), "1");
        second.closed().await;
        let stream = Ask::stream(ALICE, 3)
            .body(r#"{"max_tokens":400,"messages":[],"model":"claude-demo","stream":true}"#);
        let answer = client.ask(stream).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        running.abort();
        first.vanish();
        until("its end", || usage(&world, ALICE).running == 0).await;
        let answer = client.ask(asking(ALICE, 400, 1)).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        until("its end", || usage(&world, ALICE).running == 0).await;
        let used = usage(&world, ALICE);
        assert!((1..400).contains(&used.tokens_today), "{used:?}");
        assert_eq!(used.reserved_today, 0);
        assert_eq!(world.metrics.quota_refusals.get(QuotaLimit::Day), 3);
        let entry = world.ledger.entry(record(ALICE).id).unwrap();
        let refused: Vec<_> = entry.refused.met().collect();
        assert_eq!(refused, [(QuotaLimit::Day, 3)]);
        assert_eq!((&*entry.name, entry.limits.tokens_per_day), ("alice", 1000));
    }
}

#[tokio::test]
async fn answers_of_a_limited_key_carry_its_limits_and_an_upstreams_429_its_own() {
    let world = World::configured(|config| {
        config.quotas.limits.requests_per_minute = Some(1000);
        config.quotas.limits.output_tokens_per_minute = Some(100_000);
    });
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.header("anthropic-ratelimit-requests-limit"), "1000");
        assert!((900..1000).contains(&remaining(&answer, "requests")));
        let limits = ["output-tokens", "tokens"].map(|of| {
            let limit = answer.header(&format!("anthropic-ratelimit-{of}-limit"));
            (limit.to_owned(), remaining(&answer, of))
        });
        assert_eq!(limits[0], limits[1], "the tightest of the tokens' limits");
        assert_eq!(limits[0].0, "100000");
        let input = "anthropic-ratelimit-input-tokens-limit";
        assert!(!answer.headers.contains_key(input), "it has none");
        let reset = answer.header("anthropic-ratelimit-requests-reset");
        assert!(reset.len() == 20 && reset.ends_with('Z'), "{reset}");
        // On a stream, and on an error of the edge's.
        let answer = client.ask(Ask::stream(ALICE, 5)).await.unwrap();
        assert!(has_limits(&answer));
        let answer = client.ask(Ask::message(ALICE).body("{")).await.unwrap();
        assert_eq!((answer.status.as_u16(), has_limits(&answer)), (400, true));
        let upstreams = Ask::message(ALICE).with("x-demo-error", "429");
        let answer = client.ask(upstreams).await.unwrap();
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("anthropic-ratelimit-requests-limit"), "50");
        assert_eq!(remaining(&answer, "requests"), 0);
        assert!(
            !answer
                .headers
                .contains_key("anthropic-ratelimit-tokens-limit")
        );
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    }
    // All that were sent on but the one that its upstream refused, and the one that was no JSON.
    until("all to be settled", || usage(&world, ALICE).running == 0).await;
    let used = usage(&world, ALICE);
    assert_eq!(used.requests, 10);
    assert!(used.input > 0);
}

#[tokio::test]
async fn who_shows_another_key_learns_nothing_of_the_connections() {
    let world = World::configured(|config| {
        config.quotas.limits.requests_per_minute = Some(1000);
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let answer = client.ask(Ask::message(BOB)).await.unwrap();
    assert_eq!((answer.status.as_u16(), has_limits(&answer)), (401, false));
}

/// Asking upstreams for their models costs no tokens, but is a request.
#[tokio::test]
async fn upstreams_are_asked_for_models_as_often_as_a_key_may_ask() {
    for several in [false, true] {
        let other = DemoModel::start(Options::default()).unwrap();
        let world = World::with(Wishes {
            more: several.then(|| other.address()).into_iter().collect(),
            ..Wishes::default()
        });
        let quotas = Quotas {
            requests_per_minute: Some(3),
            ..Quotas::default()
        };
        limit(&world, ALICE, quotas);
        let ask = |path| Ask::new(Method::GET, path).with("x-api-key", ALICE);
        // One that is there and one that is not: both are asked for.
        let asked = [
            ("/v1/models", 200),
            ("/v1/models/claude-demo", 200),
            ("/v1/models/another", 404),
        ];
        for (number, (path, status)) in asked.into_iter().enumerate() {
            let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
            let answer = client.ask(ask(path)).await.unwrap();
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            assert_eq!(remaining(&answer, "requests"), 2 - number as u64);
        }
        let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
        let answer = client.ask(ask("/v1/models")).await.unwrap();
        answer.is_error(
            429,
            "rate_limit_error",
            "This key may use 3 requests a minute",
        );
        let used = usage(&world, ALICE);
        assert_eq!((used.input, used.output), (0, 0), "{used:?}");
    }
}
