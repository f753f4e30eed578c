//! The routers: how each is started before the same upstreams, and where clients ask.
//!
//! The others run as `cargo xtask setup --peers` installs them, with `--policy cache_aware` (as
//! their `--help` has it, the default) and all other defaults but for what a run of seconds
//! needs: upstreams are looked at every second in place of every minute, and tried again after
//! a second. They log warnings only. Clients speak plain HTTP/1.1 with them, which is all that
//! one of them can; with the edge TLS 1.3 and a key, since that is its work.

use super::fleet::{TOKENS_PER_MS, UPSTREAMS};
use super::http::Connection;
use super::{OTHER_CPU, ROUTER_CPU};
use crate::PATIENCE;
use crate::place::{Daemon, Place};
use bench::process;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use rustls::ClientConfig;
use std::any::Any;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Router {
    /// Nothing: clients ask the upstreams in turn.
    RoundRobin,
    /// Nothing: each conversation stays with one upstream, drawn for it.
    Sticky,
    Edge,
    Smg,
    Vllm,
    Sglang,
}

/// Where clients ask.
pub(crate) struct Target {
    addresses: Vec<SocketAddr>,
    is_sticky: bool,
    tls: Option<Arc<ClientConfig>>,
    /// One more header, or nothing.
    header: String,
}

/// A router that takes requests. Dropping it ends it.
pub(crate) struct Running {
    pub(crate) target: Target,
    /// Its processor time.
    clock: Option<ClockId>,
    /// Its process, if it has one.
    _process: Box<dyn Any>,
}

/// A process that is killed with what holds it.
struct Other {
    child: Child,
    _log: tempfile::TempDir,
}

impl Router {
    pub(crate) const ALL: [Self; 6] = [
        Self::RoundRobin,
        Self::Sticky,
        Self::Edge,
        Self::Smg,
        Self::Vllm,
        Self::Sglang,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::Sticky => "sticky",
            Self::Edge => "edge",
            Self::Smg => "smg",
            Self::Vllm => "vllm_router",
            Self::Sglang => "sglang_router",
        }
    }

    /// Whether there is none: clients ask upstreams themselves.
    pub(crate) fn is_none(self) -> bool {
        matches!(self, Self::RoundRobin | Self::Sticky)
    }

    /// Its version; else what is not there.
    pub(crate) fn version(self) -> Result<String, String> {
        let Some(program) = self.program() else {
            return Ok(env!("CARGO_PKG_VERSION").to_owned());
        };
        if !program.exists() {
            return Err(format!(
                "{} is not there; cargo xtask setup --peers installs it",
                program.display()
            ));
        }
        let python = program.with_file_name("python");
        let name = self.name().replace('_', "-");
        let asks = format!("import importlib.metadata as m; print(m.version({name:?}))");
        let output = Command::new(&python).args(["-c", &asks]).output();
        let output = output.map_err(|error| format!("{}: {error}", python.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Starts it and waits until it sends requests to all of the upstreams.
    pub(crate) fn start(self, upstreams: &[SocketAddr]) -> Running {
        let direct = |is_sticky| Running {
            target: Target {
                addresses: upstreams.to_vec(),
                is_sticky,
                tls: None,
                header: String::new(),
            },
            clock: None,
            _process: Box::new(()),
        };
        match self {
            Self::RoundRobin => direct(false),
            Self::Sticky => direct(true),
            Self::Edge => start_edge(upstreams),
            Self::Smg | Self::Vllm | Self::Sglang => self.start_peer(upstreams),
        }
    }

    fn program(self) -> Option<PathBuf> {
        let (peer, program) = match self {
            Self::RoundRobin | Self::Sticky | Self::Edge => return None,
            Self::Smg => ("smg", "smg"),
            Self::Vllm => ("vllm-router", "vllm-router"),
            // Its own name for its program.
            Self::Sglang => ("sglang-router", "smg"),
        };
        Some(
            bench::peers::folder()
                .join(peer)
                .join("venv/bin")
                .join(program),
        )
    }

    fn start_peer(self, upstreams: &[SocketAddr]) -> Running {
        let program = self.program().expect("a peer has one");
        let [port, metrics] = [free_port(), free_port()];
        let mut command = process::pinned(ROUTER_CPU, program);
        let warnings = match self {
            Self::Vllm => "warning",
            _ => {
                command.arg("launch");
                "warn"
            }
        };
        command.args(["--host", "127.0.0.1", "--policy", "cache_aware"]);
        command.args(["--port", &port.to_string()]);
        command.args(["--prometheus-host", "127.0.0.1"]);
        command.args(["--prometheus-port", &metrics.to_string()]);
        command.args(["--log-level", warnings]);
        command.args(["--health-check-interval-secs", "1"]);
        command.args(["--cb-timeout-duration-secs", "1"]);
        command.args(["--worker-startup-check-interval", "1"]);
        command.arg("--worker-urls");
        command.args(upstreams.iter().map(|address| format!("http://{address}")));
        let log = tempfile::tempdir().expect("a directory");
        let file = |name: &str| File::create(log.path().join(name)).expect("a log");
        command
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"));
        let child = command.spawn().expect("taskset and setpriv of util-linux");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process's number"));
        let mut router = Other { child, _log: log };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let began = Instant::now();
        while workers(address) < UPSTREAMS {
            assert!(
                router.is_running() && began.elapsed() < PATIENCE,
                "{} does not serve: {}",
                self.name(),
                router.said()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Running {
            target: Target {
                addresses: vec![address],
                is_sticky: false,
                tls: None,
                header: String::new(),
            },
            clock: Some(clock_getcpuclockid(pid).expect("our child's clock")),
            _process: Box::new(router),
        }
    }
}

fn start_edge(upstreams: &[SocketAddr]) -> Running {
    let place = Place::new(upstreams, true, TOKENS_PER_MS);
    // What it starts runs where the thread does that starts it.
    process::pin_to(ROUTER_CPU);
    let daemon = Daemon::start(&place);
    process::pin_to(OTHER_CPU);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(place.roots())
        .with_no_client_auth();
    let pid = Pid::from_raw(i32::try_from(daemon.id()).expect("a process's number"));
    Running {
        target: Target {
            addresses: vec![daemon.address],
            is_sticky: false,
            tls: Some(Arc::new(tls)),
            header: format!("authorization: Bearer {}\r\n", place.key()),
        },
        clock: Some(clock_getcpuclockid(pid).expect("our child's clock")),
        _process: Box::new(daemon),
    }
}

impl Running {
    /// Processor time that it has taken so far, all of its threads together.
    pub(crate) fn processor_time(&self) -> Duration {
        let time = self.clock.map(|clock| clock.now().expect("it runs"));
        time.map_or(Duration::ZERO, Duration::from)
    }
}

impl Target {
    /// Where a request goes in one of its tries.
    pub(crate) fn address(&self, number: usize, conversation: usize, tries: usize) -> SocketAddr {
        let first = match self.is_sticky {
            true => bench::trace::random::mix(conversation as u64) as usize % self.addresses.len(),
            false => number,
        };
        self.addresses[(first + tries) % self.addresses.len()]
    }

    pub(crate) fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref()
    }

    /// A request with that body.
    pub(crate) fn request(&self, body: &str) -> Vec<u8> {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: edge.test\r\n{}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.header,
            body.len()
        );
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

impl Other {
    fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    fn said(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self._log.path().join(name));
        [read("out"), read("err")]
            .map(Result::unwrap_or_default)
            .concat()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many upstreams a router says that it sends requests to.
fn workers(address: SocketAddr) -> usize {
    let asks = b"GET /workers HTTP/1.1\r\nhost: edge.test\r\n\r\n";
    let answer = Connection::new(address, None).and_then(|mut connection| connection.ask(asks));
    let body = answer.map(|answer| answer.body).unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    body.matches("\"is_healthy\":true").count()
}

/// A port that nothing listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
