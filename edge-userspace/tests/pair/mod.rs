//! A client and a server in network namespaces of their own, a veth pair between them, and
//! the TCP sockets that the server's namespace has.

#![allow(
    dead_code,
    unused_macros,
    clippy::allow_attributes,
    reason = "each test file uses its own part of it"
)]

use nix::sched::{CloneFlags, setns, unshare};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// Returns from the calling test, with a line that names it, unless sockets can be destroyed
/// here. Comes in place of `needs_kernel!`.
macro_rules! needs_destroy {
    () => {
        needs_kernel!();
        if let Err(why) = edge_userspace::kernel::sockets::Sockets::open(Vec::new()) {
            fn here() {}
            $crate::skip::skipped($crate::skip::caller(&here), &why.to_string());
            return;
        }
    };
}

/// A hang guard, not a promise.
pub(crate) const HANG: Duration = Duration::from_secs(20);
/// The server's port.
pub(crate) const PORT: u16 = 443;
pub(crate) const CLIENTS: [&str; 2] = ["10.9.0.2", "2001:db8::2"];
pub(crate) const SERVERS: [&str; 2] = ["10.9.0.1", "2001:db8::1"];

// States in /proc/net/tcp (include/net/tcp_states.h).
pub(crate) const ESTABLISHED: u8 = 1;
pub(crate) const SYN_RECV: u8 = 3;
pub(crate) const FIN_WAIT1: u8 = 4;
pub(crate) const LISTEN: u8 = 10;

/// Two namespaces; the test's thread is in the server's.
pub(crate) struct Net {
    client: File,
    server: File,
}

impl Net {
    pub(crate) fn new() -> Self {
        let here = || File::open("/proc/thread-self/ns/net").unwrap();
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let client = here();
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let server = here();
        let net = Self { client, server };
        // The veth is made in the client's namespace by a process that stands in it.
        let mut stand = net.at_client(|| Command::new("sleep").arg("60").spawn().unwrap());
        ip(&format!(
            "link add edge0 address 02:00:00:00:00:01 type veth peer name client0 \
             address 02:00:00:00:00:02 netns {}",
            stand.id()
        ));
        stand.kill().unwrap();
        stand.wait().unwrap();
        for (host, device, address) in [(1, "edge0", "10.9.0.1"), (2, "client0", "10.9.0.2")] {
            let up = || {
                ip(&format!("addr add {address}/24 dev {device}"));
                ip(&format!("addr add 2001:db8::{host}/64 dev {device} nodad"));
                ip(&format!("link set {device} up"));
            };
            if host == 1 { up() } else { net.at_client(up) }
        }
        net.at_client(|| {
            for server in SERVERS {
                ip(&format!(
                    "neigh replace {server} lladdr 02:00:00:00:00:01 dev client0 nud permanent"
                ));
            }
        });
        net.reach(true);
        net
    }

    /// Does something in the client's namespace.
    pub(crate) fn at_client<T>(&self, act: impl FnOnce() -> T) -> T {
        setns(&self.client, CloneFlags::CLONE_NEWNET).unwrap();
        let done = act();
        setns(&self.server, CloneFlags::CLONE_NEWNET).unwrap();
        done
    }

    /// Whether what the server sends gets to the client.
    pub(crate) fn reach(&self, reaches: bool) {
        let last = if reaches { 2 } else { 9 };
        for client in CLIENTS {
            ip(&format!(
                "neigh replace {client} lladdr 02:00:00:00:00:0{last} dev edge0 nud permanent"
            ));
        }
    }

    /// From now on the client says and hears nothing.
    pub(crate) fn silence(&self) {
        self.reach(false);
        self.at_client(|| ip("link set client0 down"));
    }

    /// Whether the client takes what comes to it. It may send either way.
    pub(crate) fn hear(&self, hears: bool) {
        let act = if hears { "add" } else { "del" };
        self.at_client(|| {
            for client in CLIENTS {
                ip(&format!(
                    "route {act} local {client} dev client0 table local"
                ));
            }
        });
    }

    pub(crate) fn connect(&self, server: usize) -> TcpStream {
        let server: IpAddr = SERVERS[server].parse().unwrap();
        self.at_client(|| TcpStream::connect_timeout(&(server, PORT).into(), HANG).unwrap())
    }
}

pub(crate) fn ip(arguments: &str) {
    let output = (Command::new("ip")
        .args(arguments.split_whitespace())
        .output())
    .expect("iproute2");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {errors}");
}

/// How many TCP sockets of the server's port there are in this namespace, by state.
pub(crate) fn sockets() -> BTreeMap<u8, usize> {
    let mut states = BTreeMap::new();
    for file in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
        for line in text.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            if fields[1].ends_with(&format!(":{PORT:04X}")) {
                *states
                    .entry(u8::from_str_radix(fields[3], 16).unwrap())
                    .or_default() += 1;
            }
        }
    }
    states
}

/// Waits until there are these and no others.
pub(crate) fn wait_for(expected: &[(u8, usize)]) {
    let expected = BTreeMap::from_iter(expected.iter().copied());
    let start = Instant::now();
    while sockets() != expected {
        assert!(start.elapsed() < HANG, "{:?}, not {expected:?}", sockets());
        std::thread::sleep(Duration::from_millis(5));
    }
}
