//! `edge connect` on the client's side: a sidecar for one row, so that the connection that it makes
//! is the row's.

use super::edge::AUDIENCE;
use super::interrupt::Interrupt;
use super::process::Daemon;
use super::scene::Scene;
use std::net::SocketAddr;
use std::time::Duration;

/// A hang guard for its start.
const START_GUARD: Duration = Duration::from_secs(30);
/// What its first line begins with.
const LISTENS: &str = "listening on http://";

/// Starts one that leads to the edge at `to`, with the key of most rows. Gives where it listens.
///
/// # Errors
/// When it does not start.
pub(super) fn start(
    scene: &Scene,
    to: SocketAddr,
    interrupt: &Interrupt,
) -> anyhow::Result<(Daemon, SocketAddr)> {
    let clients = &scene.clients;
    let (name, port) = (clients.name, to.port());
    let arguments = [
        "connect".to_owned(),
        format!("--edge=https://{name}:{port}"),
        format!("--resolve={name}:{port}:{}", to.ip()),
        format!("--ca-file={}", clients.ca.display()),
        format!("--audience={AUDIENCE}"),
        format!("--api-key-file={}", scene.key.file.display()),
        "--listen=127.0.0.1:0".to_owned(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut sidecar = Daemon::start(
        "edge connect",
        scene.stage.client(),
        scene.edge.program(),
        &arguments,
        clients.directory.join("connect.log"),
    )?;
    let listens = interrupt.wait_for("edge connect's start", START_GUARD, || {
        sidecar.check_alive()?;
        let log = sidecar.last_lines(usize::MAX);
        let url = log.lines().find_map(|line| line.strip_prefix(LISTENS));
        Ok(url.and_then(|address| address.parse().ok()))
    })?;
    Ok((sidecar, listens))
}
