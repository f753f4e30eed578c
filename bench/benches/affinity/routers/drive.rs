//! Asks all of a run's requests, each when it is due and its conversation has come so far.

use super::conversations::Request;
use super::http::{Answer, Connection};
use super::router::Target;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// As many can be under way; more wait, which counts.
const CLIENTS: usize = 128;
/// A person or a tool takes that long at least.
const THINKS: Duration = Duration::from_millis(10);
/// Times that one request is asked before the run is given up.
const TRIES: usize = 60;
/// Between two of them.
const WAITS: Duration = Duration::from_millis(100);

/// What came of the requests.
#[derive(Default)]
pub(crate) struct Outcome {
    /// From when each was due until the first event of its answer.
    pub(crate) first_events: Vec<Duration>,
    /// Tries that got no whole answer.
    pub(crate) failed: usize,
    /// What the first of them got.
    pub(crate) failure: Option<String>,
}

/// What a client tells of a request: which, how long its first event took, what its tries got
/// that failed; or why there is no use in going on.
type Told = Result<(usize, Duration, Vec<String>), String>;

/// Connections that wait for the next request, by where they go.
type Idle = Mutex<Vec<(SocketAddr, Connection)>>;

/// One request as it is to be asked.
struct Asking<'a> {
    number: usize,
    request: &'a Request,
    due: Instant,
}

/// Asks them all; every answer is `expected`. `meanwhile` is called often, with the time.
///
/// # Panics
/// When a request gets no answer, however often it is asked, or another one.
pub(crate) fn drive(
    requests: &[Request],
    target: &Target,
    expected: &[u8],
    mut meanwhile: impl FnMut(Duration),
) -> Outcome {
    let (work, waiting) = sync_channel(requests.len());
    let (done, answered) = sync_channel(requests.len());
    let (waiting, idle) = (Mutex::new(waiting), Idle::default());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let (waiting, idle, done) = (&waiting, &idle, done.clone());
            scope.spawn(move || client(waiting, target, expected, idle, &done));
        }
        drop(done);
        schedule(requests, work, &answered, &mut meanwhile)
    })
}

/// Hands out what is due.
fn schedule<'a>(
    requests: &'a [Request],
    work: SyncSender<Asking<'a>>,
    answered: &Receiver<Told>,
    meanwhile: &mut impl FnMut(Duration),
) -> Outcome {
    let start = Instant::now();
    let mut followers = vec![Vec::new(); requests.len()];
    let mut next = BinaryHeap::new();
    for (number, request) in requests.iter().enumerate() {
        match request.after {
            Some(before) => followers[before].push(number),
            None => next.push(Reverse((request.due, number))),
        }
    }
    let mut outcome = Outcome::default();
    while outcome.first_events.len() < requests.len() {
        let now = start.elapsed();
        meanwhile(now);
        while let Some(Reverse((due, number))) = next.peek().copied()
            && due <= now
        {
            next.pop();
            let (request, due) = (&requests[number], start + due);
            let asking = Asking {
                number,
                request,
                due,
            };
            assert!(work.send(asking).is_ok(), "a client gave up");
        }
        let pause = next.peek().map_or(WAITS, |Reverse((due, _))| *due - now);
        match answered.recv_timeout(pause.min(WAITS)) {
            Ok(Err(why)) => panic!("{why}"),
            Ok(Ok((number, first_event, failures))) => {
                outcome.first_events.push(first_event);
                outcome.failed += failures.len();
                outcome.failure = outcome.failure.or(failures.into_iter().next());
                for follower in &followers[number] {
                    let due = requests[*follower].due.max(start.elapsed() + THINKS);
                    next.push(Reverse((due, *follower)));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("every client gave up"),
        }
    }
    outcome
}

fn client(
    waiting: &Mutex<Receiver<Asking<'_>>>,
    target: &Target,
    expected: &[u8],
    idle: &Idle,
    done: &SyncSender<Told>,
) {
    loop {
        let next = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(asking) = next else { return };
        if done
            .send(ask_until(&asking, target, expected, idle))
            .is_err()
        {
            return;
        }
    }
}

/// Asks until there is a whole answer.
fn ask_until(asking: &Asking<'_>, target: &Target, expected: &[u8], idle: &Idle) -> Told {
    let mut failures = Vec::new();
    while failures.len() < TRIES {
        match ask(asking, failures.len(), target, idle) {
            Ok(answer) if answer.status == 200 && answer.body == expected => {
                let first_event = answer.first_event.ok_or("no event has a text")?;
                let waited = first_event.saturating_duration_since(asking.due);
                return Ok((asking.number, waited, failures));
            }
            Ok(answer) => {
                let body = String::from_utf8_lossy(&answer.body);
                if answer.status == 200 && !is_broken_off(&answer.body, expected) {
                    return Err(format!("not the upstream's answer: {body}"));
                }
                failures.push(format!("{}: {body}", answer.status));
            }
            Err(error) => failures.push(error),
        }
        std::thread::sleep(WAITS);
    }
    Err(format!("no answer after {TRIES} tries: {}", failures[0]))
}

/// Whether an answer is right up to where it ends, or where it says that it failed.
fn is_broken_off(body: &[u8], expected: &[u8]) -> bool {
    let alike = body.iter().zip(expected).take_while(|(a, b)| a == b);
    let rest = &body[alike.count()..];
    // An error's event has its beginning in common with the next one.
    rest.is_empty() || memchr::memmem::find(rest, b"error").is_some()
}

fn ask(asking: &Asking<'_>, tries: usize, target: &Target, idle: &Idle) -> Result<Answer, String> {
    let address = target.address(asking.number, asking.request.conversation, tries);
    let kept = {
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().rposition(|(to, _)| *to == address);
        at.map(|at| idle.swap_remove(at).1)
    };
    let mut connection = match kept {
        Some(connection) => connection,
        None => Connection::new(address, target.tls())?,
    };
    let answer = connection.ask(&target.request(&asking.request.body))?;
    if !answer.is_last {
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((address, connection));
    }
    Ok(answer)
}
