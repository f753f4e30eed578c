//! Configuration: what a validated one holds. [`load`] reads and checks it.
//!
//! Everything here has been checked when it exists: files were found, values are in
//! range, nothing contradicts. Durations are written in TOML as `"250ms"`, `"5s"`, `"10m"`;
//! sizes in bytes.

mod check;
mod clients;
mod context;
mod files;
mod listed;
mod live;
mod load;
mod models;
mod problem;
mod prompt;
mod proxy_protocol;
mod quotas;
mod read;
pub mod schema;
mod tables;
mod upstreams;
pub mod values;

pub use clients::{Action, Clients, Rule};
pub use context::Context;
pub use files::{Identity, IdentityError};
pub use listed::{ListedModel, Region};
pub use live::{LIVE, Said};
pub use load::{admin_address, load, load_said};
pub use models::{Framing, Model, Models, Name, Tokenizer};
pub use problem::{Error, Problem};
pub use prompt::Prompt;
pub use proxy_protocol::ProxyProtocol;
pub use quotas::Quotas;
pub use upstreams::{Choice, Credential, MAX_UPSTREAMS, SecretSource, Upstream};

use edge_common::policy::{Answer, Window};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[listen]`
    pub listen: Listen,
    /// `[tls]`
    pub tls: Tls,
    /// `[keys]`
    pub keys: Keys,
    /// `[kernel]`
    pub kernel: Kernel,
    /// `[legacy]`
    pub legacy: Legacy,
    /// `[clients]`
    pub clients: Clients,
    /// `[upstream]` or `[[upstreams]]`, at least one.
    pub upstreams: Vec<Upstream>,
    /// How one of them is chosen, of `[upstream]`.
    pub choice: Choice,
    /// `[api]`
    pub api: Api,
    /// `[[regions]]`: the other nodes.
    pub regions: Vec<Region>,
    /// `[prompt]`
    pub prompt: Prompt,
    /// `[quotas]`
    pub quotas: Quotas,
    /// `[context]`
    pub context: Context,
    /// `[admin]`
    pub admin: Admin,
    /// `[log]`
    pub log: Log,
}

/// `[listen]`: where clients connect.
#[derive(Clone, Debug)]
pub struct Listen {
    /// TCP addresses; their ports are the ports that the kernel program watches.
    pub addresses: Vec<SocketAddr>,
    /// Serving threads, each with its own runtime and SO_REUSEPORT listener. Default: one
    /// a core.
    pub threads: NonZeroUsize,
    /// listen(2) backlog of each. Default 4096.
    pub backlog: u32,
    /// From accept to the end of the TLS handshake. Default 5 s.
    pub handshake_timeout: Duration,
    /// Longest ClientHello, records taken off. Default 65,536 bytes.
    pub max_hello_bytes: usize,
    /// Connections at a time, of each serving thread, whose hello is not whole; of more, the
    /// one that has waited longest is closed. Default 4,096.
    pub max_unread_hellos: usize,
    /// Connections at a time, all threads together; more are closed at accept. Default
    /// 65,536.
    pub max_connections: usize,
    /// Streams at a time on one HTTP/2 connection. Default 256.
    pub max_streams: u32,
    /// How long a response of which the client takes nothing may go on; none: as long as the
    /// client likes. Default 180 s.
    pub unread_timeout: Option<Duration>,
    /// How long running streams may go on after a stop signal. Default 30 s.
    pub drain_timeout: Duration,
    /// `[listen.proxy_protocol]`
    pub proxy_protocol: ProxyProtocol,
}

impl Listen {
    /// Whether connections to the address of that number begin with a PROXY header.
    #[must_use]
    pub fn expects_header(&self, number: usize) -> bool {
        let address = self.addresses.get(number);
        address.is_some_and(|address| self.proxy_protocol.addresses.contains(address))
    }
}

/// `[tls]`: the edge's own certificate.
#[derive(Clone, Debug)]
pub struct Tls {
    /// PEM certificate chain, leaf first. Read again when it changes.
    pub certificate: PathBuf,
    /// PEM private key (PKCS#8, PKCS#1 or SEC1).
    pub private_key: PathBuf,
    /// How often the session-ticket key changes. Default 6 h.
    pub ticket_rotation: Duration,
}

/// `[keys]`: who may connect.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The key store, a journal of mode 0600.
    pub store: PathBuf,
    /// This edge's audience. MAC keys of other audiences are not loaded, and a key that has none
    /// for this one is refused, in a header too.
    pub audience: String,
    /// Most keys. More in the store: the rest is refused and said so. Default 100,000.
    pub capacity: u32,
    /// When a token is good. Default 30 s back, 5 s ahead. May change while the daemon runs.
    pub window: Window,
    /// Connections a second of one key, beyond which requests get a 429; 0, the default, for
    /// no limit. May change while the daemon runs.
    pub connections_per_second: u32,
    /// Connections a second of one key, beyond which they are refused; 0 for no limit.
    /// Default 1000. May change while the daemon runs.
    pub connections_per_second_hard: u32,
    /// Used tokens that are surely remembered. Default 1,048,576.
    pub replay_capacity: u32,
}

/// `[kernel]`: the XDP half.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// How to attach. Default [`Attach::Auto`].
    pub attach: Attach,
    /// Network interfaces. Empty: every one that carries a listening address.
    pub interfaces: Vec<String>,
    /// How a reject is answered. Default `alert`.
    pub answer: Answer,
    /// Heartbeat older than this: the kernel passes everything. Default 3 s.
    pub heartbeat_max_age: Duration,
    /// Most sampled events a second and CPU. Default 100.
    pub events_per_second: u32,
    /// Connections followed at a time. Default 32,768.
    pub flows: u32,
    /// Most rejects a second and CPU that are answered to the client at once; of more, the
    /// server's side is freed first. Default 1000.
    pub answers_per_second: u32,
    /// Whether hellos without a TCP connection are dropped. Default true.
    pub connection_check: bool,
}

/// How the XDP program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// Driver mode, else generic mode, else none.
    Auto,
    /// Driver mode or fail.
    Driver,
    /// Generic mode or fail.
    Generic,
    /// No kernel half: userspace decides everything.
    Off,
}

/// `[legacy]`: clients without a token.
#[derive(Clone, Debug)]
pub struct Legacy {
    /// Whether they are refused in the hello. Default false. May change while the daemon runs.
    pub deny: bool,
    /// Connections a second of one source prefix (IPv4 /24, IPv6 /64), beyond which they are
    /// refused; 0 for no limit. Default 500. May change while the daemon runs.
    pub connections_per_second: u32,
    /// As many as a prefix may open at once. Default 1000. May change while the daemon runs.
    pub burst: u32,
    /// Connections a second of all prefixes together, beyond which they are refused; 0 for no
    /// limit. Default 1,000 for each serving thread. May change while the daemon runs.
    pub connections_per_second_total: u32,
    /// Connections of each serving thread that wait for their handshake at a time; more are
    /// refused. Default 1,024.
    pub waiting: usize,
    /// Prefixes that are followed at a time. Default 65,536.
    pub prefix_capacity: u32,
}

/// `[api]`: what requests must look like.
#[derive(Clone, Debug)]
pub struct Api {
    /// Accepted values of `anthropic-version`. Default `["2023-06-01", "2026-10-21"]`.
    pub versions: Vec<String>,
    /// Largest request body. Default 32 MiB.
    pub max_body_bytes: u64,
    /// After so much silence of the upstream an event stream's client gets a `ping`; zero:
    /// never. Default 15 s.
    pub ping_after: Duration,
    /// Name of this node in `x-anthropic-routed-to`. Default the host name.
    pub node: String,
    /// Where clients reach this node, if it says so.
    pub url: Option<String>,
    /// Where this node stands, if it says so.
    pub zone: Option<String>,
    /// `[[api.models]]`: what `/v1/models` lists; empty: what an upstream answers.
    pub models: Vec<ListedModel>,
    /// The secret under which `x-anthropic-layer` is signed; none: one is made at start.
    pub layer_secret: Option<SecretSource>,
}

/// `[admin]`: `/metrics`, `/livez`, `/readyz`, `/status`.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Default `127.0.0.1:9901`.
    pub address: SocketAddr,
}

/// `[log]`
#[derive(Clone, Debug)]
pub struct Log {
    /// A tracing filter, `info` by default.
    pub filter: String,
    /// JSON lines instead of text.
    pub json: bool,
}
