//! What is measured: the edge, the others, and what they are held against.

use crate::target::{AUDIENCE, Target};
use bench::daemon::{self, Daemon, Program};
use bench::peers::{GATEWAYS, PROXIES, Running, Server, Site, Speaks, free_address, template};
use bench::process;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The CPU of what is measured; all else has the other.
pub(crate) const SERVERS_CPU: usize = 0;
/// Of clients and the upstream.
pub(crate) const CLIENTS_CPU: usize = 1;
const PATIENCE: Duration = Duration::from_secs(20);
/// The role of a process of this program, and what it needs.
pub(crate) const ROLE: &str = "EDGE_BENCH_ROLE";

/// A running server and how to reach it.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) target: Arc<Target>,
    running: Running,
}

impl Subject {
    /// A histogram of the edge's: each bucket's upper end in seconds and how many are up to it.
    pub(crate) fn histogram(&self, name: &str) -> Option<Vec<(f64, f64)>> {
        let Running::Edge(daemon) = &self.running else {
            return None;
        };
        let beginning = format!("{name}_bucket{{le=\"");
        let text = daemon.metrics();
        let buckets = text.lines().filter_map(|line| {
            let (end, count) = line.strip_prefix(&beginning)?.split_once("\"} ")?;
            Some((end.parse().ok()?, count.parse().ok()?))
        });
        Some(buckets.collect())
    }

    /// CPU time that its processes have had.
    pub(crate) fn cpu(&self) -> Duration {
        process::cpu(self.running.id())
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        process::resident_bytes(self.running.id())
    }
}

/// What all of a bench share: the upstream, the key, a directory.
pub(crate) struct World {
    directory: tempfile::TempDir,
    upstream: Server,
    key: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self {
            key: daemon::new_key(directory.path(), AUDIENCE),
            upstream: upstream(CLIENTS_CPU, free_address(), directory.path()),
            directory,
        }
    }

    /// A file of that text, for h2load.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).expect("room on the disk");
        path
    }

    /// Starts the subject of that name anew.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub(crate) fn start(&self, name: &'static str) -> Result<Subject, String> {
        let listen = free_address();
        let directory = self.directory.path().join(name);
        let site = Site::new(directory, listen, self.upstream.address, &self.key);
        let (mut speaks, mut is_chat, mut headers) = (Speaks::Plain, false, Vec::new());
        let mut version = env!("CARGO_PKG_VERSION").to_owned();
        let mut patience = None;
        let running = match name {
            "edge_plain" if !daemon::is_other_wanted() => {
                return Err("`edge` is the program as cargo builds it".to_owned());
            }
            "edge" | "edge_chat" | "edge_plain" => {
                let store = self.directory.path().join("keys.journal");
                fs::copy(store, site.directory.join("keys.journal")).expect("the key store");
                let text = site.render(&template("edge", "edge.toml"));
                fs::write(site.directory.join("edge.toml"), text).expect("room on the disk");
                (speaks, is_chat) = (Speaks::Tls, name == "edge_chat");
                let program = match name {
                    "edge_plain" => Program::Ours,
                    _ => Program::Wanted,
                };
                let start = || Daemon::start_as(program, &site.directory, PATIENCE);
                Running::Edge(process::on(SERVERS_CPU, start))
            }
            "splice" => {
                let role = format!("splice {listen} {}", self.upstream.address);
                Running::Other(server(SERVERS_CPU, &role, listen, &site.directory))
            }
            "direct" => Running::Other(upstream(SERVERS_CPU, listen, &site.directory)),
            _ => {
                let peer = (PROXIES.iter().chain(&GATEWAYS)).find(|peer| peer.name == name);
                let peer = peer.ok_or_else(|| format!("no peer is called {name}"))?;
                version = peer.version()?;
                (speaks, is_chat) = (peer.speaks, GATEWAYS.iter().any(|peer| peer.name == name));
                let values = peer.headers.iter();
                headers = values
                    .map(|(name, value)| (*name, site.render(value)))
                    .collect();
                patience = is_chat.then_some(peer.patience);
                Running::Other(peer.start(&site, SERVERS_CPU)?)
            }
        };
        let tokens = matches!(running, Running::Edge(_));
        let mut subject = Subject {
            name,
            version,
            target: Arc::new(Target::new(&site, speaks, tokens, is_chat, headers)),
            running,
        };
        if let (Some(patience), Running::Other(server)) = (patience, &mut subject.running) {
            until_it_answers(server, &subject.target, patience)?;
        }
        Ok(subject)
    }
}

/// Asks until there is a 200: who listens may not know its upstream yet.
fn until_it_answers(
    server: &mut Server,
    target: &Target,
    patience: Duration,
) -> Result<(), String> {
    let body = r#"{"model":"bench","messages":[{"role":"user","content":"Are you there?"}]}"#;
    let request = target.request(body.as_bytes(), "connection: close\r\n");
    let mut last = String::new();
    let ready = server.until(patience, || {
        let mut answer = Vec::new();
        let asked = TcpStream::connect(target.address).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(&request)?;
            stream.read_to_end(&mut answer)
        });
        let text = String::from_utf8_lossy(&answer);
        if text.starts_with("HTTP/1.1 200") {
            return true;
        }
        last = format!("{asked:?}, {text}");
        std::thread::sleep(Duration::from_millis(250));
        false
    });
    ready.map_err(|why| format!("{why}; it answers {last}"))
}

/// This program as the upstream.
fn upstream(cpu: usize, address: SocketAddr, directory: &Path) -> Server {
    server(cpu, &format!("upstream {address}"), address, directory)
}

/// This program in another role.
fn server(cpu: usize, role: &str, address: SocketAddr, directory: &Path) -> Server {
    let ours = std::env::current_exe().expect("our own path");
    let mut command = process::pinned(cpu, ours);
    command.env(ROLE, role);
    let server = Server::start(&mut command, address, &directory.join("log"), PATIENCE);
    server.unwrap_or_else(|why| panic!("{role}: {why}"))
}
