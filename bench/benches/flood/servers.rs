//! Those that are attacked, each a process on a CPU of its own: the edge with its kernel half
//! in driver mode, in generic mode, and without it; the peers; and the floor, which accepts
//! connections and closes them. Not here: what is asked of them.

use super::net::{PORT, SERVER_CPU};
use super::place::Place;
use bench::daemon::Daemon;
use bench::peers::{PROXIES, Peer, Running, Server};
use bench::process;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// Set for the process that is to be the floor.
const AS_FLOOR: &str = "EDGE_BENCH_AS_FLOOR";
/// A hang guard.
const PATIENCE: Duration = Duration::from_secs(30);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// The edge, with `kernel.attach` set to that.
    Edge(&'static str),
    Peer(Peer),
    /// What any server must pay for a connection over TCP.
    Floor,
}

impl Target {
    /// All, ours first.
    pub(crate) fn all() -> Vec<Self> {
        let ours = ["driver", "generic", "off"].map(Self::Edge);
        let peers = PROXIES.map(Self::Peer);
        ours.into_iter().chain(peers).chain([Self::Floor]).collect()
    }

    /// Its name in figures.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Edge(attach) => format!("edge_{attach}"),
            Self::Peer(peer) => peer.name.to_owned(),
            Self::Floor => "floor".to_owned(),
        }
    }

    /// Its version, or why it cannot be had.
    pub(crate) fn version(self) -> Result<String, String> {
        match self {
            Self::Peer(peer) => peer.version(),
            _ => Ok(env!("CARGO_PKG_VERSION").to_owned()),
        }
    }

    /// Whether it answers requests.
    pub(crate) const fn serves(self) -> bool {
        !matches!(self, Self::Floor)
    }

    pub(crate) const fn is_peer(self) -> bool {
        matches!(self, Self::Peer(_))
    }

    /// Starts it, and waits until it takes connections.
    pub(crate) fn start(self, place: &Place) -> Result<Running, String> {
        match self {
            Self::Edge(attach) => {
                place.configure(attach);
                let start = || Daemon::start(&place.site.directory, PATIENCE);
                Ok(Running::Edge(process::on(SERVER_CPU, start)))
            }
            Self::Peer(peer) => peer.start(&place.site, SERVER_CPU).map(Running::Other),
            Self::Floor => {
                let own = std::env::current_exe().map_err(|error| error.to_string())?;
                let mut command = process::pinned(SERVER_CPU, own);
                command.env(AS_FLOOR, "1");
                let address = SocketAddr::from(([127, 0, 0, 1], PORT));
                let log = place.site.directory.join("log");
                Server::start(&mut command, address, &log, PATIENCE).map(Running::Other)
            }
        }
    }
}

/// Whether this process is to be the floor.
pub(crate) fn is_floor() -> bool {
    std::env::var_os(AS_FLOOR).is_some()
}

/// Accepts connections and closes them, until it is ended.
pub(crate) fn be_floor() {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("the port");
    // std's backlog is 128; a second listen(2) sets it anew.
    rustix::net::listen(&listener, 4096).expect("a socket of ours");
    for tcp in listener.incoming() {
        drop(tcp);
    }
}
