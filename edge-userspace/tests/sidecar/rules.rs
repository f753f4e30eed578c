//! Several edges, and each rule by which a request or all of them go to another.

use crate::program::{Http, Program, message, request};
use crate::scripted::{Does, Scripted};
use crate::setup::{Edge as _, Local, options};
use crate::world::{Wishes, World, until};
use http::Method;
use std::time::Duration;

const OTHER: &[(&str, &str)] = &[("retry-after", "30"), ("x-edge-not-begun", "true")];

async fn two() -> (Scripted, Scripted, Local) {
    let (first, second) = (Scripted::new().await, Scripted::new().await);
    let local = Local::new(&[&first, &second]).await;
    local.settled().await;
    (first, second, local)
}

/// The one that requests go to, and the other.
fn placed<'a>(local: &Local, first: &'a Scripted, second: &'a Scripted) -> [&'a Scripted; 2] {
    match local.current() {
        0 => [first, second],
        _ => [second, first],
    }
}

#[tokio::test]
async fn a_refused_request_goes_to_another_edge_before_the_program_hears_of_it() {
    for (status, more) in [
        (
            429,
            vec![("retry-after", "1"), ("x-edge-not-begun", "true")],
        ),
        (429, vec![("x-edge-not-begun", "true")]),
        (529, vec![("x-edge-not-begun", "true")]),
        (504, vec![("x-edge-not-begun", "true")]),
    ] {
        let (first, second, local) = two().await;
        let [here, other] = placed(&local, &first, &second);
        here.does(Does::refuses(status, &more));
        let mut program = Program::connect(local.address, Http::H1).await;
        for _ in 0..3 {
            let answer = program.ask(message()).await.unwrap();
            assert_eq!(answer.status, 200, "{status} {more:?}: {answer:?}");
        }
        assert_eq!(here.came().len(), 1, "requests go elsewhere from then on");
        assert_eq!(other.came().len(), 3);
        let sent = &other.came()[0];
        assert_eq!(sent.body, here.came()[0].body, "whole, from its beginning");
        let status = local.status();
        assert_eq!(
            (status.sent_on, status.switches, status.unanswered),
            (1, 1, 0)
        );
    }
}

#[tokio::test]
async fn what_is_no_refusal_of_the_edge_is_not_sent_again() {
    for does in [
        // A daily cap.
        Does {
            headers: vec![("x-anthropic-routed-to", "n"), ("x-should-retry", "false")],
            ..Does::refuses(429, &[])
        },
        // The upstream's own.
        Does::refuses(
            429,
            &[
                ("x-edge-upstream-request-id", "req_up"),
                ("x-edge-not-begun", "true"),
            ],
        ),
        // An upstream's that says no id.
        Does::refuses(429, &[]),
        // It may have begun.
        Does::refuses(529, &[]),
        Does::refuses(500, &[]),
        Does {
            status: 400,
            ..Does::default()
        },
    ] {
        let (first, second, local) = two().await;
        let [here, other] = placed(&local, &first, &second);
        here.does(does.clone());
        let mut program = Program::connect(local.address, Http::H2).await;
        let answer = program.ask(message()).await.unwrap();
        assert_eq!(answer.status.as_u16(), does.status);
        assert_eq!((here.came().len(), other.came().len()), (1, 0), "{does:?}");
        assert_eq!(local.status().sent_on, 0);
    }
}

#[tokio::test]
async fn when_all_refuse_the_program_gets_the_edges_own_words() {
    let (first, second, local) = two().await;
    let words = r#"{"type":"error","error":{"type":"rate_limit_error","message":"too many"}}"#;
    let does = Does {
        body: words.to_owned(),
        ..Does::refuses(429, &[("retry-after", "1"), ("x-edge-not-begun", "true")])
    };
    first.does(does.clone());
    second.does(does);
    let mut program = Program::connect(local.address, Http::H1).await;
    let answer = program.ask(message()).await.unwrap();
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.error(), "too many");
    assert_eq!(
        (first.came().len(), second.came().len()),
        (1, 1),
        "each once"
    );
}

#[tokio::test]
async fn a_request_that_may_have_begun_is_never_sent_again() {
    let (first, second, local) = two().await;
    let [here, other] = placed(&local, &first, &second);
    here.does(Does {
        breaks: true,
        ..Does::default()
    });
    let mut program = Program::connect(local.address, Http::H1).await;
    let answer = program.ask(message()).await.unwrap();
    assert_eq!(answer.status, 500, "{answer:?}");
    assert_eq!(
        answer.header("x-should-retry"),
        "true",
        "the SDK may decide so"
    );
    assert_eq!((here.came().len(), other.came().len()), (1, 0));
    // And the next one goes where it is answered.
    let answer = program.ask(message()).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!((here.came().len(), other.came().len()), (1, 1));
}

#[tokio::test]
async fn an_edge_that_leaves_is_left_and_no_request_is_lost() {
    let (first, second, local) = two().await;
    let [here, _] = placed(&local, &first, &second);
    here.does(Does {
        leaves: true,
        ..Does::default()
    });
    let mut program = Program::connect(local.address, Http::H2).await;
    for _ in 0..50 {
        let answer = program.ask(message()).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let all = first.came().len() + second.came().len();
    assert_eq!(all, 50, "each was done once");
    let (stayed, connections) = (here.came().len(), here.connections());
    assert!(stayed < 50 || connections > 1, "its goodbye was heard");
}

#[tokio::test]
async fn an_edge_that_cannot_be_reached_is_not_noticed() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let edge = Scripted::new().await;
    let mut wanted = options(&[&edge]);
    // The first choice, as long as nothing is known.
    let gone = edge_client::Endpoint::parse("https://edge.test:1").unwrap();
    wanted.edges.insert(0, gone.at(nobody));
    let local = Local::with(wanted).await;
    for http in Http::BOTH {
        let mut program = Program::connect(local.address, http).await;
        let answer = program.ask(message()).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(local.current(), 1);
}

#[tokio::test]
async fn three_slow_health_round_trips_move_requests() {
    let (first, second, local) = two().await;
    let [here, other] = placed(&local, &first, &second);
    here.script(|path| Does {
        waits: match path {
            "/v1/health" => Duration::from_millis(150),
            _ => Duration::ZERO,
        },
        ..Does::default()
    });
    let before = here.checks().len();
    until("requests to go elsewhere", || local.status().switches >= 1).await;
    let slow = here.checks().len() - before;
    assert!(slow >= 3, "{slow} checks were slow");
    let mut program = Program::connect(local.address, Http::H1).await;
    program.ask(message()).await.unwrap();
    assert_eq!((here.came().len(), other.came().len()), (0, 1));
}

#[tokio::test]
async fn three_answers_that_the_edge_held_up_move_requests() {
    let (first, second, local) = two().await;
    let [here, other] = placed(&local, &first, &second);
    let mut does = Does::default();
    does.headers.push(("server-timing", "edge;dur=100.5"));
    here.does(does);
    let mut program = Program::connect(local.address, Http::H1).await;
    for _ in 0..5 {
        program.ask(message()).await.unwrap();
    }
    assert_eq!((here.came().len(), other.came().len()), (3, 2));
    assert_eq!(local.status().edges[local.current()].away, None);
}

#[tokio::test]
async fn a_full_edge_is_left_by_what_regions_say_and_others_are_found_by_them() {
    let (first, second) = (Scripted::new().await, Scripted::new().await);
    let told = format!(
        r#"{{"regions":[{{"id":"first","is_self":true,"capacity_percent":85}},
            {{"id":"second","url":"{}","capacity_percent":10}}]}}"#,
        second.endpoint()
    );
    first.says(&told);
    second.says(r#"{"regions":[{"id":"second","is_self":true,"capacity_percent":10}]}"#);
    let mut wanted = options(&[&first, &second]);
    wanted.edges.pop();
    let local = Local::with(wanted).await;
    until("the other edge to be known", || {
        local.status().edges.len() == 2
    })
    .await;
    // Its name leads nowhere here, so it is known, and not taken: the full one serves on.
    let mut program = Program::connect(local.address, Http::H1).await;
    let answer = program.ask(message()).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(local.status().edges[0].capacity_percent, Some(85.0));
    drop(local);

    // Both named, where they are found: the one that is not full is taken.
    let mut wanted = options(&[&first, &second]);
    wanted.discover = false;
    let local = Local::with(wanted).await;
    until("the full one to be left", || local.current() == 1).await;
    let before = second.came().len();
    let mut program = Program::connect(local.address, Http::H1).await;
    program.ask(message()).await.unwrap();
    assert_eq!(second.came().len(), before + 1);
}

#[tokio::test]
async fn a_body_that_was_not_kept_whole_is_not_sent_again() {
    let (first, second) = (Scripted::new().await, Scripted::new().await);
    let mut wanted = options(&[&first, &second]);
    wanted.held_bytes = 1000;
    let local = Local::with(wanted).await;
    local.settled().await;
    let [here, other] = placed(&local, &first, &second);
    here.does(Does::refuses(429, OTHER));
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#,
        "x".repeat(2000)
    );
    let mut program = Program::connect(local.address, Http::H1).await;
    let asked = request(Method::POST, "/v1/messages", &body);
    let answer = program.ask(asked).await.unwrap();
    assert_eq!(answer.status, 429, "as the edge said");
    assert_eq!(other.came().len(), 0);
    assert_eq!(local.status().not_kept, 1);
    assert_eq!(
        here.came()[0].body.len(),
        body.len(),
        "it came whole all the same"
    );
}

#[tokio::test]
async fn of_two_real_edges_one_without_room_is_not_noticed() {
    let full = World::with(Wishes {
        config: |config| config.prompt.max_held_bytes = 64 << 10,
        ..Wishes::default()
    });
    let other = World::new();
    let local = Local::new(&[&full, &other]).await;
    let body = |bytes: usize| {
        format!(
            r#"{{"model":"claude-demo","max_tokens":3,"messages":[{{"role":"user","content":"{}"}}]}}"#,
            "x ".repeat(bytes / 2)
        )
    };
    let mut asking = Vec::new();
    for _ in 0..40 {
        let (address, body) = (local.address, body(30 << 10));
        asking.push(tokio::spawn(async move {
            let mut program = Program::connect(address, Http::H1).await;
            program
                .ask(request(Method::POST, "/v1/messages", &body))
                .await
        }));
    }
    for asked in asking {
        let answer = asked.await.unwrap().unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let requests = full.model.stats().figures().requests + other.model.stats().figures().requests;
    assert_eq!(requests, 40, "each was done once");
}

#[tokio::test]
async fn of_two_real_edges_one_whose_quota_is_used_up_is_not_noticed() {
    let limited = || {
        World::with(Wishes {
            config: |config| config.quotas.limits.requests_per_minute = Some(30),
            ..Wishes::default()
        })
    };
    let (first, second) = (limited(), limited());
    let local = Local::new(&[&first, &second]).await;
    local.settled().await;
    let mut program = Program::connect(local.address, Http::H1).await;
    let mut times = Vec::new();
    for number in 0..40 {
        let begun = std::time::Instant::now();
        let answer = program.ask(message()).await.unwrap();
        assert_eq!(answer.status, 200, "request {number}: {answer:?}");
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    let status = local.status();
    assert!(status.sent_on >= 1, "{status:?}");
    let requests = [&first, &second].map(|world| world.model.stats().figures().requests);
    assert_eq!(requests.iter().sum::<u64>(), 40, "each was done once");
    assert!(
        requests.iter().all(|requests| *requests >= 5),
        "{requests:?}"
    );
    times.sort_unstable_by(f64::total_cmp);
    println!(
        "40 requests, {requests:?} at the two edges: p50 {:.1} ms, longest {:.1} ms",
        times[20], times[39]
    );
}

#[tokio::test]
async fn a_real_edge_that_stops_loses_no_request() {
    let (first, second) = (World::new(), World::new());
    let local = Local::new(&[&first, &second]).await;
    local.settled().await;
    let address = local.address;
    let (done, mut seen) = tokio::sync::watch::channel(0_u32);
    let asking = tokio::spawn(async move {
        let mut program = Program::connect(address, Http::H1).await;
        for number in 1..=400 {
            let answer = program.ask(message()).await.unwrap();
            assert_eq!(answer.status, 200, "request {number}: {answer:?}");
            done.send_replace(number);
        }
    });
    seen.wait_for(|done| *done >= 100).await.unwrap();
    let edges = [&first, &second];
    edges[local.current()].stop();
    asking.await.unwrap();
    let requests = edges.map(|world| world.model.stats().figures().requests);
    assert_eq!(requests.iter().sum::<u64>(), 400, "each was done once");
    assert_eq!(local.status().unanswered, 0);
}

#[tokio::test]
async fn edges_that_a_real_edge_tells_of_are_found_and_serve() {
    let other = World::new();
    static PORT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    PORT.store(other.address.port(), std::sync::atomic::Ordering::SeqCst);
    let teller = World::with(Wishes {
        config: |config| {
            let port = PORT.load(std::sync::atomic::Ordering::SeqCst);
            config.regions = vec![edge_userspace::config::Region {
                id: "other".to_owned(),
                url: format!("https://localhost:{port}"),
                audience: None,
                zone: None,
            }];
        },
        ..Wishes::default()
    });
    let mut wanted = options(&[&teller, &other]);
    wanted.edges.pop();
    let local = Local::with(wanted).await;
    until("the other edge to be known and checked", || {
        let edges = local.status().edges;
        edges.len() == 2 && edges[1].round_trip_ms.is_some()
    })
    .await;
    teller.stop();
    until("the teller to end", || teller.stopped()).await;
    let mut program = Program::connect(local.address, Http::H2).await;
    let answer = program.ask(message()).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(other.model.stats().figures().requests, 1);
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_an_error_event_or_not_at_all() {
    for (begins, told) in [
        ("event: a\ndata: 1\n\n", true),
        ("event: a\r\ndata: 1\r\n\r\n", true),
        ("event: a\ndata: 1\n", false),
        ("event: a\ndata: 1\n\nevent: b\ndata", false),
    ] {
        for http in Http::BOTH {
            let (first, second, local) = two().await;
            let [here, other] = placed(&local, &first, &second);
            here.does(Does {
                begins: Some(begins),
                ..Does::default()
            });
            let mut program = Program::connect(local.address, http).await;
            let answered = program.ask(message()).await;
            match (told, answered) {
                (true, Ok(answer)) => {
                    let text = std::str::from_utf8(&answer.body).unwrap();
                    let last = text.strip_prefix(begins).unwrap();
                    let data = last.strip_prefix("event: error\ndata: ").unwrap();
                    let json: serde_json::Value = serde_json::from_str(data).unwrap();
                    assert_eq!(json["error"]["type"], "api_error", "{text}");
                }
                (false, Err(_)) => {}
                (_, answered) => panic!("{begins:?} {http:?}: {answered:?}"),
            }
            assert_eq!(other.came().len(), 0, "it had begun");
        }
    }
}

#[tokio::test]
async fn an_edge_with_no_place_left_is_passed_over() {
    let (first, second) = (Scripted::new().await, Scripted::new().await);
    let mut wanted = options(&[&first, &second]);
    wanted.limits.connections = 1;
    wanted.limits.streams = 2;
    wanted.limits.wait = Duration::from_millis(100);
    let local = Local::with(wanted).await;
    local.settled().await;
    let [here, other] = placed(&local, &first, &second);
    here.does(Does {
        waits: Duration::from_secs(600),
        ..Does::default()
    });
    let mut taken = Vec::new();
    for _ in 0..2 {
        let address = local.address;
        taken.push(tokio::spawn(async move {
            let mut program = Program::connect(address, Http::H1).await;
            let _ = program.begin(message()).await;
        }));
    }
    until("both places to be taken", || here.came().len() == 2).await;
    let mut program = Program::connect(local.address, Http::H1).await;
    let answer = program.ask(message()).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!((here.came().len(), other.came().len()), (2, 1));
    taken.iter().for_each(tokio::task::JoinHandle::abort);
}
