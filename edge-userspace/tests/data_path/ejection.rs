//! Upstreams that are not there, go, and come back: what clients notice of it, which is as
//! little as can be.

use crate::client::{Answer, Ask, Http};
use crate::upstream::{read_request, scripted};
use crate::upstreams::{nowhere, options, picks, vacant};
use crate::world::{ALICE, Wishes, World, soon, token, until};
use edge_userspace::demo_model::{DemoModel, Options};
use edge_userspace::upstream::GIVEN_UP;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

#[tokio::test]
async fn one_that_is_not_there_costs_nobody_an_error_and_is_ejected() {
    let world = World::with(Wishes {
        more: vec![nowhere()],
        contexts: false,
        ..Wishes::default()
    });
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        for _ in 0..30 {
            assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
            assert_eq!(client.ask(Ask::stream(ALICE, 3)).await.unwrap().status, 200);
        }
    }
    assert_eq!(world.model.stats().figures().requests, 120);
    let dead = world.status_of("more-0");
    assert_eq!((dead.state, dead.connects), ("ejected", 0));
    assert!(
        dead.ejections == 1 && dead.connect_failures >= 3,
        "{dead:?}"
    );
    let alive = world.status_of("model");
    assert_eq!(alive.state, "serving");
    assert_eq!(picks(&alive, "retry"), dead.connect_failures);
    let given: u64 = dead.picks.iter().map(|(_, count)| count).sum();
    assert_eq!((given, alive.unsent), (dead.unsent, 0), "nothing was sent");
}

#[tokio::test]
async fn one_that_is_killed_under_load_fails_only_what_it_had() {
    let other = DemoModel::start(options()).unwrap();
    let world = World::with(Wishes {
        threads: 2,
        more: vec![other.address()],
        contexts: false,
        ..Wishes::default()
    });
    let (killed, was_killed) = tokio::sync::watch::channel(false);
    let mut asking = Vec::new();
    for _ in 0..8 {
        let mut client = world.client().await;
        let killed = was_killed.clone();
        asking.push(tokio::spawn(async move {
            let mut after = 0;
            while after < 60 {
                // What is asked from now on cannot have been sent to it before.
                let is_killed = *killed.borrow();
                let answer = client.ask(Ask::stream(ALICE, 20)).await;
                match answer {
                    Ok(answer) if answer.status == 200 && answer.body.ends_with(STOP) => {}
                    answer => {
                        assert!(!is_killed, "asked after it was killed: {answer:?}");
                        was_there(&answer);
                    }
                }
                after += u32::from(is_killed);
            }
        }));
    }
    let figures = || other.stats().figures().requests;
    until("load on both", || figures() > 100).await;
    let (requests, model) = (figures(), &world.model);
    let before = model.stats().figures().requests;
    drop(other);
    killed.send(true).unwrap();
    for one in asking {
        soon("all answers", one).await.unwrap();
    }
    assert!(requests > 100 && model.stats().figures().requests >= before + 8 * 60);
    let dead = world.status_of("more-0");
    assert_eq!((dead.state, dead.ejections), ("ejected", 1), "{dead:?}");
}

const STOP: &[u8] = b"data: {\"type\":\"message_stop\"}\n\n";

/// What a request may see that was with an upstream when that was killed.
fn was_there(answer: &hyper::Result<Answer>) {
    let Ok(answer) = answer else { return };
    let text = String::from_utf8_lossy(&answer.body);
    let broke = text.contains("The upstream broke off");
    assert!(broke, "{} {text}", answer.status);
}

#[tokio::test]
async fn an_ejected_one_is_tried_now_and_then_and_comes_back() {
    let address = vacant();
    let world = World::with(Wishes {
        more: vec![address],
        config: |config| config.choice.eject_for = Duration::from_millis(100),
        contexts: false,
        ..Wishes::default()
    });
    let mut client = world.client().await;
    let of = || world.status_of("more-0");
    for _ in 0..200 {
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
        if picks(&of(), "probe") >= 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let status = of();
    assert!(picks(&status, "probe") >= 2, "{status:?}");
    assert_eq!((status.state, status.ejections), ("ejected", 1));
    let failures = status.connect_failures;
    assert!(failures < 30, "tried now and then only: {failures}");

    let back = DemoModel::start(Options {
        listen: address,
        ..options()
    })
    .unwrap();
    for _ in 0..1000 {
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
        if back.stats().figures().requests > 20 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(back.stats().figures().requests > 20);
    let status = of();
    assert_eq!((status.state, status.last_error), ("serving", None));
}

#[tokio::test]
async fn when_none_is_there_all_are_tried_and_the_first_to_come_back_serves_at_once() {
    let addresses = [vacant(), vacant(), vacant()];
    let world = World::with(Wishes {
        upstream: Some(addresses[0]),
        more: addresses[1..].to_vec(),
        config: |config| config.choice.eject_for = Duration::from_secs(60),
        contexts: false,
        ..Wishes::default()
    });
    let mut client = world.client().await;
    for _ in 0..30 {
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        answer.is_error(500, "api_error", "The upstream could not be reached");
    }
    let serving = world.upstreams.status();
    let serving = serving.iter().filter(|one| one.state == "serving");
    assert_eq!(serving.count(), 1, "the last one stays");
    let last = world.upstreams.status();
    let last = last.iter().position(|one| one.state == "serving").unwrap();
    let back = DemoModel::start(Options {
        listen: addresses[last],
        ..options()
    })
    .unwrap();
    for _ in 0..10 {
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    }
    assert_eq!(back.stats().figures().requests, 10);
}

#[tokio::test]
async fn one_that_fails_each_request_at_once_does_not_look_idle() {
    let failing = scripted(|_, mut tcp| async move {
        while read_request(&mut tcp).await.is_some() {
            let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}";
            if tcp.write_all(answer).await.is_err() {
                return;
            }
        }
    })
    .await;
    let world = World::with(Wishes {
        more: vec![failing],
        contexts: false,
        ..Wishes::default()
    });
    let mut client = world.client().await;
    let mut failed = 0;
    for _ in 0..200 {
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        failed += u64::from(answer.status == 503);
    }
    let status = world.status_of("more-0");
    assert!(failed == status.failed && failed > 0, "{status:?}");
    assert!(failed < 50, "{failed} of 200");
    assert_eq!(status.state, "serving", "it can be connected to");
    assert_eq!(world.status_of("model").failed, 0);
}

/// A request goes to where its beginning is cached, but not again and again when that fails it.
#[tokio::test]
async fn a_conversation_that_its_upstream_fails_goes_elsewhere() {
    const SILENT: u16 = 0;
    let status = Arc::new(AtomicU16::new(200));
    let asked = Arc::new(AtomicU64::new(0));
    let (says, counts) = (Arc::clone(&status), Arc::clone(&asked));
    let switched = scripted(move |_, mut tcp| {
        let (says, counts) = (Arc::clone(&says), Arc::clone(&counts));
        async move {
            while read_request(&mut tcp).await.is_some() {
                counts.fetch_add(1, Ordering::SeqCst);
                let status = says.load(Ordering::SeqCst);
                if status == SILENT {
                    std::future::pending::<()>().await;
                }
                let head = format!("HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\n");
                let answer = format!("{head}content-length: 2\r\n\r\n{{}}");
                if tcp.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    })
    .await;
    let world = World::with(Wishes {
        more: vec![switched],
        ..Wishes::default()
    });
    let mut client = world.client().await;
    let body = |number: usize, turn: usize| {
        let text = format!("Conversation {number}. {}", "Some words. ".repeat(500));
        let next = r#",{"role":"assistant","content":"Yes."},{"role":"user","content":"On."}"#;
        format!(
            r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":"{text}"}}{}]}}"#,
            next.repeat(turn)
        )
    };
    let mut number = 0;
    for failure in [503, 429, 401, SILENT] {
        // One that has its beginning there.
        loop {
            number += 1;
            let before = asked.load(Ordering::SeqCst);
            let first = Ask::message(ALICE).body(body(number, 0));
            assert_eq!(client.ask(first).await.unwrap().status, 200);
            if asked.load(Ordering::SeqCst) > before {
                break;
            }
            // What it failed counts for a while.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        status.store(failure, Ordering::SeqCst);
        let next = || Ask::message(ALICE).body(body(number, 1));
        if failure == SILENT {
            let given_up = tokio::time::timeout(GIVEN_UP, client.ask(next())).await;
            assert!(given_up.is_err(), "{given_up:?}");
            client = world.client().await;
            until("it is noticed", || world.status_of("more-0").failed > 1).await;
        } else {
            assert_eq!(client.ask(next()).await.unwrap().status, failure);
        }
        let asked_then = asked.load(Ordering::SeqCst);
        for _ in 0..3 {
            assert_eq!(client.ask(next()).await.unwrap().status, 200, "{failure}");
        }
        assert_eq!(asked.load(Ordering::SeqCst), asked_then, "{failure}");
        status.store(200, Ordering::SeqCst);
    }
}
