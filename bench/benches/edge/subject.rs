//! What is measured: the edge, the others, and what they are held against.

use crate::target::Target;
use bench::daemon;
use bench::peers::{GATEWAYS, PROXIES, Server, Site, Speaks, free_address, template};
use bench::process;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
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
    pub(crate) server: Server,
    /// Where the edge tells its metrics.
    admin: Option<SocketAddr>,
}

impl Subject {
    /// A histogram of the edge's: each bucket's upper end in seconds and how many are up to it.
    pub(crate) fn histogram(&self, name: &str) -> Option<Vec<(f64, f64)>> {
        use std::io::{Read as _, Write as _};
        let mut admin = std::net::TcpStream::connect(self.admin?).expect("the admin address");
        (admin.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")).expect("the admin address");
        let mut text = String::new();
        admin.read_to_string(&mut text).expect("metrics");
        let beginning = format!("{name}_bucket{{le=\"");
        let buckets = text.lines().filter_map(|line| {
            let (end, count) = line.strip_prefix(&beginning)?.split_once("\"} ")?;
            Some((end.parse().ok()?, count.parse().ok()?))
        });
        Some(buckets.collect())
    }

    /// CPU time that its processes have had.
    pub(crate) fn cpu(&self) -> Duration {
        process::cpu(self.server.id())
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        process::resident_bytes(self.server.id())
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
        let new = "keys new --store keys.journal --name bench --audience bench --api-key-out key";
        let output = edge_command(CLIENTS_CPU, directory.path())
            .args(new.split(' '))
            .output();
        let output = output.expect("edge keys new");
        assert!(output.status.success(), "{output:?}");
        let key = fs::read_to_string(directory.path().join("key")).expect("the key");
        let address = free_address();
        let upstream = role(
            CLIENTS_CPU,
            &format!("upstream {address}"),
            directory.path(),
        );
        Self {
            upstream: upstream.start(address),
            directory,
            key: key.trim().to_owned(),
        }
    }

    fn site(&self, name: &str, listen: SocketAddr) -> Site {
        let directory = self.directory.path().join(name);
        Site::new(directory, listen, self.upstream.address, &self.key)
    }

    /// A file of that text, for h2load.
    pub(crate) fn file(&self, name: &str, text: &str) -> std::path::PathBuf {
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
        let site = self.site(name, listen);
        let subject = |version: String, server, speaks, is_edge, is_chat| Subject {
            name,
            version,
            target: Arc::new(Target::new(&site, speaks, is_edge, is_chat)),
            server,
            admin: None,
        };
        match name {
            "edge" | "edge_chat" => {
                let directory = &site.directory;
                let store = self.directory.path().join("keys.journal");
                fs::copy(store, directory.join("keys.journal")).expect("the key store");
                let text = site.render(&template("edge", "edge.toml"));
                fs::write(directory.join("edge.toml"), text).expect("room on the disk");
                let mut command = edge_command(SERVERS_CPU, directory);
                command.args(["run", "--config", "edge.toml"]);
                let server = Starting {
                    command,
                    log: directory.join("log"),
                };
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let (log, is_chat) = (server.log.clone(), name == "edge_chat");
                let server = server.start(listen);
                let mut subject = subject(version, server, Speaks::Tls, true, is_chat);
                subject.admin = Some(admin(&log));
                Ok(subject)
            }
            "splice" => {
                let arguments = format!("splice {listen} {}", self.upstream.address);
                let server = role(SERVERS_CPU, &arguments, &site.directory).start(listen);
                let version = "of this program".to_owned();
                Ok(subject(version, server, Speaks::Plain, false, false))
            }
            "direct" => {
                let server = role(SERVERS_CPU, &format!("upstream {listen}"), &site.directory);
                let version = "of this program".to_owned();
                Ok(subject(
                    version,
                    server.start(listen),
                    Speaks::Plain,
                    false,
                    false,
                ))
            }
            _ => {
                let peer = (PROXIES.iter().chain(&GATEWAYS)).find(|peer| peer.name == name);
                let peer = peer.ok_or_else(|| format!("no peer is called {name}"))?;
                let version = peer.version()?;
                let server = peer.start(&site, SERVERS_CPU)?;
                let is_chat = GATEWAYS.iter().any(|gateway| gateway.name == name);
                let mut subject = subject(version, server, peer.speaks, false, is_chat);
                let target = Arc::get_mut(&mut subject.target).expect("nobody else has it");
                let headers = peer.headers.iter();
                let headers = headers.map(|(name, value)| (*name, site.render(value)));
                target.headers = headers.collect();
                if is_chat {
                    until_it_answers(&subject, peer.patience)?;
                }
                Ok(subject)
            }
        }
    }
}

/// What the line "serving" of the edge's log says of the admin address.
fn admin(log: &Path) -> SocketAddr {
    let began = std::time::Instant::now();
    loop {
        let text = fs::read_to_string(log).expect("the log");
        if let Some(line) = text
            .lines()
            .find(|line| line.contains("\"message\":\"serving\""))
        {
            let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
            let address = line["fields"]["admin"].as_str().expect("an address");
            return address
                .trim_matches(['[', ']'])
                .parse()
                .expect("an address");
        }
        assert!(began.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks until there is a 200: who listens may not know its upstream yet.
fn until_it_answers(subject: &Subject, patience: Duration) -> Result<(), String> {
    use std::io::{Read as _, Write as _};
    let target = &subject.target;
    let body = r#"{"model":"bench","messages":[{"role":"user","content":"Are you there?"}]}"#;
    let more: String = (target.headers.iter())
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request = format!(
        "POST {} HTTP/1.1\r\nhost: edge.test\r\nconnection: close\r\n{more}\
         content-type: application/json\r\nauthorization: Bearer {}\r\n\
         content-length: {}\r\n\r\n{body}",
        target.path(),
        target.key,
        body.len()
    );
    let began = std::time::Instant::now();
    loop {
        let mut answer = Vec::new();
        let asked = std::net::TcpStream::connect(target.address).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(request.as_bytes())?;
            stream.read_to_end(&mut answer)
        });
        let text = String::from_utf8_lossy(&answer);
        if text.starts_with("HTTP/1.1 200") {
            return Ok(());
        }
        if began.elapsed() > patience {
            return Err(format!("it answers {asked:?}, {text}"));
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// The edge's own program, pinned: that of `EDGE_BENCH_EDGE`, else this one as it.
fn edge_command(cpu: usize, directory: &Path) -> Command {
    let mut command = match std::env::var_os("EDGE_BENCH_EDGE") {
        Some(program) => process::pinned(cpu, program),
        None => {
            let ours = std::env::current_exe().expect("our own path");
            let mut command = process::pinned(cpu, ours);
            command.env(daemon::AS_EDGE, "1");
            command
        }
    };
    command.current_dir(directory).env_remove("NOTIFY_SOCKET");
    command.stdin(Stdio::null());
    command
}

/// A server to be started.
struct Starting {
    command: Command,
    log: std::path::PathBuf,
}

impl Starting {
    fn start(mut self, address: SocketAddr) -> Server {
        let log = fs::File::create(&self.log).expect("room on the disk");
        self.command.stdout(Stdio::null()).stderr(log);
        let server = Server::start(&mut self.command, address, &self.log, PATIENCE);
        server.unwrap_or_else(|why| panic!("{why}"))
    }
}

/// This program in another role.
fn role(cpu: usize, role: &str, directory: &Path) -> Starting {
    let ours = std::env::current_exe().expect("our own path");
    let mut command = process::pinned(cpu, ours);
    command.env(ROLE, role).stdin(Stdio::null());
    let name = role.split(' ').next().unwrap_or_default();
    Starting {
        command,
        log: directory.join(format!("{name}.log")),
    }
}
