//! What is booked of each request: as the upstream says it, or as it was relayed.

use crate::client::{Ask, Http};
use crate::world::{ALICE, World, record, token, until};
use edge_userspace::demo_model::{Account, Taken};
use edge_userspace::keys::{Allowance, Edit, Quotas};
use edge_userspace::telemetry::StreamEnd;
use edge_userspace::usage::KeyUsage;
use http::Method;
use http_body_util::BodyExt as _;

fn usage(world: &World) -> KeyUsage {
    world.ledger.usage(record(ALICE).id).unwrap()
}

async fn settled(world: &World, requests: u64) -> KeyUsage {
    until("all to be settled", || {
        let usage = usage(world);
        usage.running == 0 && usage.requests == requests
    })
    .await;
    usage(world)
}

/// What the demo model booked, when it has booked all of them.
async fn made(world: &World, requests: u64) -> Account {
    let account = || world.model.stats().ledger().accounts().get("a").copied();
    until("the model's books", || {
        account().is_some_and(|account| {
            let Account {
                finished,
                failed,
                broken,
                cancelled,
                ..
            } = account;
            let ended = finished.requests + failed.requests + broken.requests + cancelled.requests;
            ended == requests
        })
    })
    .await;
    account().unwrap()
}

fn chat(stream: bool) -> Ask {
    Ask::new(Method::POST, "/v1/chat/completions")
        .with("content-type", "application/json")
        .with("authorization", &format!("Bearer {ALICE}"))
        .body(format!(
            r#"{{"model":"gpt-4o","max_tokens":40,"messages":[{{"role":"user","content":"hi there"}}],"stream":{stream},"stream_options":{{"include_usage":true}}}}"#
        ))
}

/// Whole answers and streams of both APIs, and usages that are said in every odd way.
#[tokio::test]
async fn what_came_to_its_end_is_booked_exactly_as_the_upstream_says() {
    let all: [fn() -> Ask; 9] = [
        || Ask::message(ALICE),
        || Ask::stream(ALICE, 30),
        || Ask::stream(ALICE, 30).with("x-demo-usage", "cumulative"),
        || Ask::stream(ALICE, 30).with("x-demo-usage", "twice"),
        || Ask::stream(ALICE, 30).with("x-demo-chunk-bytes", "3"),
        || Ask::message(ALICE).with("x-demo-blocks", "thinking,text,tool"),
        || Ask::stream(ALICE, 30).with("x-demo-blocks", "thinking,text,tool"),
        || chat(false),
        || chat(true),
    ];
    for http in Http::BOTH {
        let world = World::new();
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let mut requests = 0;
        for ask in all {
            let answer = client.ask(ask().with("x-demo-account", "a")).await.unwrap();
            assert_eq!(answer.status, 200);
            requests += 1;
            let booked = settled(&world, requests).await;
            let Account { finished, .. } = made(&world, requests).await;
            let prompt = booked.input + booked.cache_read + booked.cache_written;
            assert_eq!(
                (prompt, booked.output),
                (finished.input_tokens, finished.output_tokens),
                "request {requests}"
            );
            assert_eq!(booked.tokens_today, prompt + booked.output);
        }
    }
}

#[tokio::test]
async fn of_a_cancelled_stream_what_was_relayed_is_booked_and_not_more_than_was_made() {
    for http in Http::BOTH {
        let world = World::new();
        let mut requests = 0;
        for events in [1, 4, 40] {
            let mut client = world.connect(http, Some(token(ALICE))).await;
            let before = world
                .ledger
                .usage(record(ALICE).id)
                .map_or(0, |usage| usage.output);
            let ask = Ask::stream(ALICE, 100_000).with("x-demo-inter-token-ms", "2");
            let ask = ask.with("x-demo-account", "a");
            let mut body = client.begin(ask).await.unwrap().into_body();
            let mut seen = Vec::new();
            while seen.windows(2).filter(|pair| pair == b"\n\n").count() < events {
                let frame = body.frame().await.unwrap().unwrap();
                seen.extend_from_slice(&frame.into_data().unwrap());
            }
            drop(body);
            client.vanish();
            requests += 1;
            let booked = settled(&world, requests).await;
            let Account { cancelled, .. } = made(&world, requests).await;
            // Of the prompt the upstream's own figure, for it began with that.
            assert_eq!(booked.input, cancelled.input_tokens);
            let deltas = String::from_utf8_lossy(&seen)
                .matches("content_block_delta\n")
                .count();
            let output = booked.output - before;
            assert!(output >= deltas as u64, "{output} for {deltas} events");
        }
        // Each of its words is one or two tokens of the estimate; the rest is under way.
        let ended = world.metrics.streams.get(StreamEnd::ClientLeft);
        assert_eq!(ended, requests);
    }
}

#[tokio::test]
async fn what_failed_before_it_gave_anything_costs_nothing() {
    for http in Http::BOTH {
        let world = World::new();
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let mut requests = 0;
        for error in [
            "429",
            "500",
            "529",
            "400",
            "close-before-head",
            "error-event-mid-stream",
        ] {
            let ask = Ask::stream(ALICE, 9).with("x-demo-error", error);
            // The error is the first event then.
            let ask = ask.with("x-demo-fault-at", "0");
            let answer = client.ask(ask.with("x-demo-account", "a")).await;
            assert!(answer.is_ok(), "{error}");
            requests += 1;
            let booked = settled(&world, requests).await;
            let all = [booked.input, booked.output, booked.tokens_today];
            assert_eq!(all, [0; 3], "{error}");
        }
        let Account { finished, .. } = made(&world, requests).await;
        assert_eq!(finished, Taken::default());
        let answer = client.ask(Ask::message(ALICE).body("{")).await.unwrap();
        assert_eq!(answer.status, 400);
        assert_eq!(settled(&world, requests + 1).await.tokens_today, 0);
    }
}

#[tokio::test]
async fn a_stream_that_passes_the_days_cap_ends_with_an_error_between_two_events() {
    for http in Http::BOTH {
        let world = World::new();
        let mut alice = record(ALICE);
        alice.allowance = Allowance {
            quotas: Quotas {
                tokens_per_day: Some(200),
                ..Quotas::default()
            },
            models: Box::default(),
        }
        .boxed();
        world.keyring.apply([Edit::Put(alice)]);
        let mut client = world.connect(http, Some(token(ALICE))).await;
        // Its own events tell how much it came to, one after each of the upstream's.
        let ask = Ask::stream(ALICE, 100_000).with("anthropic-beta", "edge-usage-2026-11-01");
        let answer = client.ask(ask).await.unwrap();
        assert_eq!(answer.status, 200);
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let (events, last) = text.rsplit_once("event: error\n").unwrap();
        assert!(events.ends_with("\n\n") && events.contains("content_block_delta"));
        assert!(!events.contains("message_stop") && !events.contains("event: error"));
        for part in ["rate_limit_error", "may use 200 tokens a day"] {
            assert!(last.contains(part) && last.ends_with("\n\n"), "{last}");
        }
        let booked = settled(&world, 1).await;
        // The event with which it passes is the last, and the first that would.
        let told = events.split("\"type\":\"edge_usage\"").skip(1);
        let told = told.map(|told| {
            let (_, told) = told.split_once("\"output_tokens\":").unwrap();
            told.split(',').next().unwrap().parse::<u64>().unwrap()
        });
        let told: Vec<_> = told.collect();
        let [.., before, last] = told[..] else {
            panic!("{told:?}")
        };
        assert!(booked.input + before <= 200, "{before} before {booked:?}");
        assert_eq!(last, booked.output, "what cuts it is told");
        assert!(booked.tokens_today > 200, "{booked:?}");
        let deltas = events.matches("event: content_block_delta").count();
        assert_eq!(deltas, told.len());
        assert_eq!(world.metrics.streams.get(StreamEnd::Capped), 1);
        until("the model's notice", || {
            world.model.stats().figures().active == 0
        })
        .await;
        assert_eq!(world.model.stats().figures().cancelled, 1);
        // The connection serves on; the key does not.
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("x-should-retry"), "false");
    }
}

/// Chat Completions, counted exactly: at most the event with which it passes is over.
#[tokio::test]
async fn chunks_of_chat_completions_are_cut_at_the_event_that_passes_the_day_too() {
    for cap in [30, 50, 100] {
        let world = World::new();
        let mut alice = record(ALICE);
        alice.allowance = Allowance {
            quotas: Quotas {
                tokens_per_day: Some(cap),
                ..Quotas::default()
            },
            models: Box::default(),
        }
        .boxed();
        world.keyring.apply([Edit::Put(alice)]);
        let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
        let ask = chat(true).with("x-demo-tokens", "1000");
        let answer = client.ask(ask).await.unwrap();
        assert_eq!(answer.status, 200);
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(
            text.contains("may use") && !text.contains("[DONE]"),
            "{text}"
        );
        let booked = settled(&world, 1).await;
        // A piece of the demo model's is of at most three tokens.
        let over = booked.tokens_today.checked_sub(cap);
        assert!(
            over.is_some_and(|over| (1..=3).contains(&over)),
            "{cap}: {booked:?}"
        );
    }
}
