//! Two edges as processes, one of them killed under load: a program that tries again on a 5xx, as
//! the official SDKs do, notices nothing but time.

use crate::command::{Running, to};
use crate::process::Place;
use crate::program::{Http, Program, message};
use edge_userspace::demo_model::{DemoModel, Options};
use rustix::process::Signal;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_is_killed_is_not_noticed_but_for_time() {
    let model = DemoModel::start(Options {
        first_token: Duration::from_millis(2),
        inter_token: Duration::ZERO,
        ..Options::default()
    })
    .unwrap();
    let places = [(); 2].map(|()| {
        let mut place = Place::new();
        place.upstream = model.address();
        place.configure(|text| text);
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
    let killed_at = Instant::now();
    daemons[current.unwrap()].signal(Signal::KILL);
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
        times[usize::from(begun + took >= killed_at)].push(took);
    }
    for (when, times) in ["before", "after"].into_iter().zip(&mut times) {
        times.sort_unstable();
        println!(
            "{when} the kill: {} requests, p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
            times.len(),
            quantile(times, 0.5),
            quantile(times, 0.99),
            quantile(times, 1.0),
        );
    }
    let after = status().await;
    println!(
        "programs tried again {} times; the sidecar sent {} on and moved {} times",
        saw.tried_again, after["sent_on"], after["switches"]
    );
    assert!(
        saw.failed.is_empty(),
        "{:?}\n{}",
        saw.failed,
        running.errors()
    );
    assert!(after["switches"].as_u64() >= Some(1), "{after:#}");
    assert!(
        saw.tried_again <= PROGRAMS as u64,
        "only those under way: {}",
        saw.tried_again
    );
}
