//! Plays one row: starts its client, steers it where it has to be steered, and gathers what
//! the client saw and what the edge counted meanwhile.

use super::clients::{self, Call};
use super::connect;
use super::counters::Counters;
use super::interrupt::Interrupt;
use super::model;
use super::row::{Act, Client, Header, Row, Token, Turn, Version};
use super::scene::Scene;
use super::talk::Running;
use edge_demo::{Milestone, Report, unix_ns};
use std::time::{Duration, Instant};

/// How long the counters must have been still before a row is over.
const STILL: Duration = Duration::from_millis(20);
/// A hang guard for counters that never come to rest.
const REST_GUARD: Duration = Duration::from_secs(10);

/// What happened in one row.
#[derive(Clone, Debug)]
pub(super) struct Played {
    /// What the client saw.
    pub(super) report: Report,
    /// What the edge counted meanwhile.
    pub(super) counted: Counters,
    /// From the start of the client's process to its end.
    pub(super) took: Duration,
    /// How long after the row's event something else happened.
    pub(super) delay: Option<Delay>,
}

/// A time that the row is about.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    /// From what to what.
    pub(super) what: &'static str,
    /// How long.
    pub(super) took: Duration,
    /// What it should stay below.
    pub(super) aim: Duration,
}

/// Why a row is left out.
#[derive(Clone, Debug)]
pub(super) struct Skipped(pub(super) String);

/// Plays a row.
///
/// # Errors
/// When interrupted, or when something fails that is no part of the demonstration.
pub(super) fn play(
    scene: &Scene,
    row: &Row,
    interrupt: &Interrupt,
) -> anyhow::Result<Result<Played, Skipped>> {
    interrupt.check()?;
    let program = match row.client {
        Client::Rustls => None,
        Client::OpenSsl => Some("openssl"),
        Client::Python => Some("python3"),
        Client::Curl | Client::Connect => Some("curl"),
    };
    if let Some(program) = program
        && !is_installed(program)
    {
        return Ok(Err(Skipped(format!("{program} is not installed"))));
    }
    let to = if row.v6 { scene.v6 } else { Some(scene.v4) };
    let Some(to) = to else {
        return Ok(Err(Skipped("no IPv6 on this machine".to_owned())));
    };
    let own = match row.act {
        Act::BeRevoked | Act::ComeBackRevoked => &scene.doomed,
        Act::Turn(Turn::OfAnotherKey) => &scene.other,
        _ => &scene.key,
    };
    let mut call = Call {
        to,
        h2: row.h2,
        tokens: scene.edge.tokens(row.token, own, &scene.stranger)?,
        post_quantum: row.post_quantum,
        key_file: match row.header {
            Header::None => None,
            Header::Own => Some(own.file.clone()),
            Header::Other => Some(scene.other.file.clone()),
        },
        version: match row.version {
            Version::Good => Some("2023-06-01"),
            Version::Wrong => Some("1999-12-31"),
            Version::Missing => None,
        },
        headers: model::headers(row.act),
        body: model::body(row.act),
        act: match row.act {
            Act::Stream | Act::Ask | Act::Turn(_) | Act::BeRevoked | Act::ComeBackRevoked => "ask",
            Act::AskTwice => "ask-twice",
            Act::LeaveBeforeFirstByte => "leave-before-first-byte",
            Act::LeaveMidStream => "leave-mid-stream",
            Act::CancelStream => "cancel-stream",
            Act::NotTls => "not-tls",
        },
    };

    if row.token == Token::Used && !use_up(scene, &call, interrupt)? {
        anyhow::bail!("the first connection with the token was not served");
    }
    let place = scene.stage.server();
    let before = scene.admin.counters(place)?;
    let sidecar = match row.client {
        Client::Connect => Some(connect::start(scene, to, interrupt)?),
        _ => None,
    };
    if let Some((_, local)) = &sidecar {
        call.to = *local;
    }
    let started = Instant::now();
    let mut running = scene
        .clients
        .start(row.client, scene.stage.client(), &call)?;
    let steered = match row.act {
        Act::LeaveBeforeFirstByte | Act::LeaveMidStream | Act::CancelStream => {
            leave(scene, row.act, &mut running, interrupt)?
        }
        Act::BeRevoked => revoke(scene, &mut running, interrupt)?,
        _ => Steered::Nothing,
    };
    let (out, err) = running.finish(interrupt)?;
    let took = started.elapsed();
    let report = clients::report(row.client, &out, &err)?;
    if let Some((mut sidecar, _)) = sidecar {
        sidecar.stop_well()?;
    }
    let delay = match steered {
        Steered::Nothing => None,
        Steered::Noticed(took) => Some(Delay {
            what: "until the model noticed",
            took,
            aim: Duration::from_millis(100),
        }),
        Steered::Revoked { unix_ns: at } => report.answers.last().map(|answer| Delay {
            what: "from `edge keys revoke` to the stream's end",
            took: Duration::from_nanos(answer.ended_unix_ns.saturating_sub(at)),
            aim: Duration::from_secs(1),
        }),
    };
    Ok(Ok(Played {
        report,
        counted: rest(scene, &before, interrupt)?,
        took,
        delay,
    }))
}

enum Steered {
    Nothing,
    /// The model saw the client leave, this long afterwards.
    Noticed(Duration),
    /// The key was revoked at this time.
    Revoked {
        unix_ns: u64,
    },
}

/// Another connection of the same client uses the tokens; whether it was served.
fn use_up(scene: &Scene, call: &Call, interrupt: &Interrupt) -> anyhow::Result<bool> {
    let client = Client::Rustls;
    let running = (scene.clients).start(client, scene.stage.client(), call)?;
    let (out, err) = running.finish(interrupt)?;
    let report = clients::report(client, &out, &err)?;
    let before = scene.admin.counters(scene.stage.server())?;
    rest(scene, &before, interrupt)?;
    Ok(report.answers.len() == 1 && report.error.is_none())
}

/// Lets the client leave once its request runs at the model, and waits until the model has
/// noticed.
fn leave(
    scene: &Scene,
    act: Act,
    running: &mut Running,
    interrupt: &Interrupt,
) -> anyhow::Result<Steered> {
    let place = scene.stage.server();
    let stats = || anyhow::Ok(model::Stats::read(&scene.admin.model_stats(place)?)?);
    let before = stats()?;
    let ready = running.milestone(interrupt, |m| matches!(m, Milestone::Ready).then_some(()))?;
    if ready.is_none() {
        // It ended early; its report says why.
        return Ok(Steered::Nothing);
    }
    interrupt.wait_for("the request at the model", REST_GUARD, || {
        Ok((stats()?.active > 0).then_some(()))
    })?;
    running.tell();
    let left = running.milestone(interrupt, |m| match m {
        Milestone::Left { unix_ns } => Some(*unix_ns),
        _ => None,
    })?;
    let Some(left) = left else {
        return Ok(Steered::Nothing);
    };
    let noticed = interrupt.wait_for("the model to notice", REST_GUARD, || {
        let now = stats()?;
        Ok((now.cancelled > before.cancelled).then_some(now.last_cancelled_unix_ns))
    })?;
    if act == Act::CancelStream {
        running.tell();
    }
    Ok(Steered::Noticed(Duration::from_nanos(
        noticed.saturating_sub(left),
    )))
}

/// Revokes the client's key once its stream runs.
fn revoke(scene: &Scene, running: &mut Running, interrupt: &Interrupt) -> anyhow::Result<Steered> {
    let ready = running.milestone(interrupt, |m| matches!(m, Milestone::Ready).then_some(()))?;
    if ready.is_none() {
        return Ok(Steered::Nothing);
    }
    let at = unix_ns();
    scene.edge.revoke(&scene.store, &scene.doomed)?;
    Ok(Steered::Revoked { unix_ns: at })
}

/// Waits until nothing more is counted, and gives what was.
fn rest(scene: &Scene, before: &Counters, interrupt: &Interrupt) -> anyhow::Result<Counters> {
    let place = scene.stage.server();
    let deadline = Instant::now() + REST_GUARD;
    let mut last = scene.admin.counters(place)?;
    loop {
        interrupt.sleep(STILL)?;
        let now = scene.admin.counters(place)?;
        if now == last || Instant::now() > deadline {
            return Ok(now.since(before));
        }
        last = now;
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
