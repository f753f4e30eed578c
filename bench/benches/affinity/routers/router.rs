//! The routers: how each is started before the same upstreams, and where clients ask.
//!
//! The others run as `cargo xtask setup --peers` installs them, with `--policy cache_aware` (as
//! their `--help` has it, the default) and all other defaults but for what a run of seconds
//! needs: upstreams are looked at every second in place of every minute, and tried again after
//! a second. They log warnings only. Clients speak plain HTTP/1.1 with them, which is all that
//! one of them can; with the edge TLS 1.3 and a key, since that is its work.

use super::ROUTER_CPU;
use super::fleet::{TOKENS_PER_MS, UPSTREAMS};
use super::http::Connection;
use crate::PATIENCE;
use crate::place::Place;
use bench::peers::{self, GATEWAYS, Peer, Server, free_address};
use bench::process;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

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
    /// Its process, if it has one, which ends with this.
    _process: Option<peers::Running>,
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
        match self.peer() {
            Some(peer) => peer.version(),
            None => Ok(env!("CARGO_PKG_VERSION").to_owned()),
        }
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
            _process: None,
        };
        match (self, self.peer()) {
            (_, Some(peer)) => self.start_peer(peer, upstreams),
            (Self::Edge, None) => start_edge(upstreams),
            _ => direct(self == Self::Sticky),
        }
    }

    fn peer(self) -> Option<&'static Peer> {
        let name = match self {
            Self::RoundRobin | Self::Sticky | Self::Edge => return None,
            Self::Smg => "smg",
            Self::Vllm => "vllm-router",
            Self::Sglang => "sglang-router",
        };
        let peer = GATEWAYS.iter().find(|peer| peer.name == name);
        Some(peer.expect("one of them"))
    }

    fn start_peer(self, peer: &Peer, upstreams: &[SocketAddr]) -> Running {
        let [address, metrics] = [free_address(), free_address()];
        let mut command = process::pinned(ROUTER_CPU, peer.program());
        let warnings = match self {
            Self::Vllm => "warning",
            _ => {
                command.arg("launch");
                "warn"
            }
        };
        command.args(["--host", "127.0.0.1", "--policy", "cache_aware"]);
        command.args(["--port", &address.port().to_string()]);
        command.args(["--prometheus-host", "127.0.0.1"]);
        command.args(["--prometheus-port", &metrics.port().to_string()]);
        command.args(["--log-level", warnings]);
        command.args(["--health-check-interval-secs", "1"]);
        command.args(["--cb-timeout-duration-secs", "1"]);
        command.args(["--worker-startup-check-interval", "1"]);
        command.arg("--worker-urls");
        command.args(upstreams.iter().map(|address| format!("http://{address}")));
        // What it says is read only while it starts.
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("log");
        let server = Server::start(&mut command, address, &log, PATIENCE).and_then(|mut server| {
            server.until(PATIENCE, || workers(address) >= UPSTREAMS)?;
            Ok(server)
        });
        let server = server.unwrap_or_else(|why| panic!("{}: {why}", self.name()));
        let target = Target {
            addresses: vec![address],
            is_sticky: false,
            tls: None,
            header: String::new(),
        };
        Running::new(target, peers::Running::Other(server))
    }
}

fn start_edge(upstreams: &[SocketAddr]) -> Running {
    let place = Place::new(upstreams, true, TOKENS_PER_MS);
    let daemon = process::on(ROUTER_CPU, || place.start());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(place.roots())
        .with_no_client_auth();
    let target = Target {
        addresses: vec![daemon.address("listen")],
        is_sticky: false,
        tls: Some(Arc::new(tls)),
        header: format!("authorization: Bearer {}\r\n", place.key),
    };
    Running::new(target, peers::Running::Edge(daemon))
}

impl Running {
    fn new(target: Target, process: peers::Running) -> Self {
        let pid = Pid::from_raw(i32::try_from(process.id()).expect("a process's number"));
        Self {
            target,
            clock: Some(clock_getcpuclockid(pid).expect("our child's clock")),
            _process: Some(process),
        }
    }

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

/// How many upstreams a router says that it sends requests to.
fn workers(address: SocketAddr) -> usize {
    let asks = b"GET /workers HTTP/1.1\r\nhost: edge.test\r\n\r\n";
    let answer = Connection::new(address, None).and_then(|mut connection| connection.ask(asks));
    let body = answer.map(|answer| answer.body).unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    body.matches("\"is_healthy\":true").count()
}
