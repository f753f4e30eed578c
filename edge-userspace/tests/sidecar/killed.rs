//! Two edges as processes, one of them killed or filled up under load: a program that tries again
//! on a 5xx, as the official SDKs do, notices nothing but time.

use crate::command::{Running, to};
use crate::process::{Daemon, Key, Place, Tls};
use crate::program::{Http, Program, message};
use edge_userspace::demo_model::{DemoModel, Options};
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Programs at once.
const PROGRAMS: usize = 4;
/// Tries of the official SDKs: one, and two more.
const TRIES: usize = 3;

/// What one program saw.
#[derive(Default)]
struct Saw {
    took: Vec<(Instant, Duration)>,
    tried_again: u64,
    failed: Vec<String>,
}

async fn program(address: SocketAddr, over: Arc<AtomicBool>, done: Arc<AtomicU64>) -> Saw {
    let mut saw = Saw::default();
    let mut program = Program::connect(address, Http::H1).await;
    while !over.load(Ordering::SeqCst) {
        let begun = Instant::now();
        let mut last = String::new();
        for tries in 0..=TRIES {
            if tries == TRIES {
                saw.failed.push(last);
                break;
            }
            match program.ask(message()).await {
                Ok(answer) if answer.status == 200 => {
                    saw.took.push((begun, begun.elapsed()));
                    break;
                }
                Ok(answer) if answer.header("x-should-retry") == "true" => {
                    saw.tried_again += 1;
                    last = format!("{answer:?}");
                }
                Ok(answer) => {
                    saw.failed.push(format!("{answer:?}"));
                    break;
                }
                Err(error) => {
                    saw.tried_again += 1;
                    last = error.to_string();
                    program = Program::connect(address, Http::H1).await;
                }
            }
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
    saw
}

fn quantile(sorted: &[Duration], part: f64) -> f64 {
    let at = ((sorted.len() - 1) as f64 * part).round() as usize;
    sorted[at].as_secs_f64() * 1000.0
}

/// What becomes of the edge that requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// It is killed.
    Killed,
    /// Others have all of its connections to the model, and keep them.
    Full,
}

/// Connections of an edge to its model.
const TO_THE_MODEL: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_is_killed_is_not_noticed_but_for_time() {
    nobody_notices(Becomes::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_is_full_is_not_noticed_but_for_time() {
    nobody_notices(Becomes::Full).await;
}

/// Takes all places of an edge, with requests that are never answered; they last as long as what is
/// returned.
fn fill(place: &Place, daemon: &Daemon, key: &Key) -> Vec<Tls> {
    let body = r#"{"model":"claude-demo","max_tokens":1,"messages":[]}"#;
    let hangs = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {}\r\n\
         anthropic-version: 2023-06-01\r\nx-demo-error: hang\r\ncontent-length: {}\r\n\r\n{body}",
        key.text,
        body.len()
    );
    let mut open = Vec::new();
    for tries in 0.. {
        assert!(tries < 1000, "its places cannot be taken");
        let mut tls = place.connect_with(daemon, key).unwrap();
        tls.write_all(hangs.as_bytes()).unwrap();
        tls.flush().unwrap();
        let wait = Some(Duration::from_millis(50));
        tls.sock.set_read_timeout(wait).unwrap();
        // Who is answered is refused: a program has the place now.
        if tls.read(&mut [0]).is_err() {
            open.push(tls);
        }
        if open.len() == TO_THE_MODEL {
            break;
        }
    }
    open
}

async fn nobody_notices(becomes: Becomes) {
    let model = DemoModel::start(Options {
        first_token: Duration::from_millis(2),
        inter_token: Duration::ZERO,
        ..Options::default()
    })
    .unwrap();
    let places = [(); 2].map(|()| {
        let mut place = Place::new();
        place.upstream = model.address();
        place.configure(|text| {
            let upstream = format!("[upstream]\nmax_connections = {TO_THE_MODEL}\n");
            text.replace("threads = 2", "threads = 1")
                .replace("[upstream]\n", &upstream)
        });
        place
    });
    let key = places[0].new_key("alice");
    let journal = |place: &Place| place.path().join("keys.journal");
    std::fs::copy(journal(&places[0]), journal(&places[1])).unwrap();
    let daemons = [places[0].start(), places[1].start()];
    let [first, second] = [0, 1].map(|number: usize| daemons[number].listen.port());
    let mut arguments = to(&places[0], first);
    arguments += &format!(
        " --edge https://edge.test:{second} --resolve edge.test:{second}:127.0.0.1 --no-discovery"
    );
    let ca = places[0].path().join("ca.pem");
    let both = places
        .each_ref()
        .map(|place| std::fs::read_to_string(place.path().join("cert.pem")).unwrap());
    std::fs::write(ca, both.concat()).unwrap();
    let mut command = places[0].command(&arguments);
    command.env("EDGE_API_KEY", &key.text);
    let running = Running::start(&mut command, &places[0].path().join("connect.log"));

    let over = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let programs = (0..PROGRAMS).map(|_| {
        let (over, done) = (Arc::clone(&over), Arc::clone(&done));
        tokio::spawn(program(running.address(), over, done))
    });
    let programs: Vec<_> = programs.collect();
    let enough = async |more: u64| {
        let wanted = done.load(Ordering::SeqCst) + more;
        crate::world::until("requests to be done", || {
            done.load(Ordering::SeqCst) >= wanted
        })
        .await;
    };
    enough(300).await;
    let status = async || {
        let mut program = Program::connect(running.address(), Http::H1).await;
        let asked = crate::program::get("/edge-connect/status");
        program.ask(asked).await.unwrap().json()
    };
    let before = status().await;
    let current = (0..2).find(|number| before["edges"][number]["is_current"] == true);
    let current = current.unwrap();
    let at = Instant::now();
    let filling = match becomes {
        Becomes::Killed => {
            daemons[current].signal(Signal::KILL);
            Vec::new()
        }
        Becomes::Full => fill(&places[current], &daemons[current], &key),
    };
    enough(300).await;
    over.store(true, Ordering::SeqCst);

    let mut saw = Saw::default();
    for program in programs {
        let one = program.await.unwrap();
        saw.took.extend(one.took);
        saw.tried_again += one.tried_again;
        saw.failed.extend(one.failed);
    }
    let mut times = [Vec::new(), Vec::new()];
    for (begun, took) in saw.took {
        // Those that were under way count to the time after.
        times[usize::from(begun + took >= at)].push(took);
    }
    let what = format!("{becomes:?}").to_lowercase();
    for (when, times) in ["before", "after"].into_iter().zip(&mut times) {
        times.sort_unstable();
        for (name, part) in [("p50", 0.5), ("p99", 0.99), ("longest", 1.0)] {
            println!(
                "figure sidecar.{what}.{when}.{name} {:.1} ms",
                quantile(times, part)
            );
        }
        println!(
            "figure sidecar.{what}.{when}.requests {} requests",
            times.len()
        );
    }
    let after = status().await;
    println!(
        "figure sidecar.{what}.tried_again {} requests",
        saw.tried_again
    );
    println!(
        "figure sidecar.{what}.sent_on {} requests",
        after["sent_on"]
    );
    println!("figure sidecar.{what}.failed {} requests", saw.failed.len());
    assert!(
        saw.failed.is_empty(),
        "{:?}\n{}",
        saw.failed,
        running.errors()
    );
    assert!(after["switches"].as_u64() >= Some(1), "{after:#}");
    let under_way = match becomes {
        Becomes::Killed => PROGRAMS as u64,
        // Nothing that was begun there is lost.
        Becomes::Full => 0,
    };
    assert!(
        saw.tried_again <= under_way,
        "only those under way: {}",
        saw.tried_again
    );
    drop(filling);
}
