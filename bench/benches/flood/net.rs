//! Three wires into the server's network namespace: the attackers', the honest clients', and
//! one on which everything is dropped, for the control. What each wire delivers is received
//! by a thread of the kernel of its own (threaded NAPI), pinned beside the server: so the
//! server's CPU bears what a server bears that has a network card, and the attackers' bears
//! nothing of it. Not here: who sends ([`super::attackers`], [`super::clients`]).

use super::shared::bpf::{self, Action, Link};
use super::shared::namespace::{Namespace, ip};
use super::shared::system::{self, Offload};
use super::shared::wire::{CLIENT_MAC, SERVER_MAC};
use bench::process;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

/// The server's ends.
pub(crate) const ATTACKED: &str = "att0";
pub(crate) const HONEST: &str = "hon0";
const DROPPED: &str = "drp0";
/// The other ends.
pub(crate) const ATTACKING: &str = "att1";
pub(crate) const CONTROL: &str = "drp1";
const CLIENTS: &str = "hon1";

/// Where servers listen, on all their wires.
pub(crate) const PORT: u16 = 443;
/// The server, to attackers.
pub(crate) const TARGET: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), PORT);
/// The server, to honest clients.
pub(crate) const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 8, 0, 1)), PORT);

/// Of the attackers' end, where a stack answers for some of them.
const STACK_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// What the server has to itself.
pub(crate) const SERVER_CPU: usize = 0;
/// What everybody else has.
pub(crate) const OTHER_CPU: usize = 1;

/// The namespaces and wires. The calling thread, which made them, lives in the server's.
/// They end with the process, however it ends.
pub(crate) struct Net {
    pub(crate) attackers: Namespace,
    pub(crate) clients: Namespace,
    /// The kernel's threads that receive for the server.
    pub(crate) receivers: Vec<u32>,
    _programs: [Link; 2],
}

impl Net {
    /// # Errors
    /// What is missing: rights, iproute2, a kernel with threaded NAPI (5.12).
    pub(crate) fn new() -> Result<Self, String> {
        let before = receivers();
        Namespace::new().enter();
        let (attackers, clients) = (Namespace::new(), Namespace::new());
        // What comes back to attackers without a stack is addressed to nobody that has one: the
        // kernel throws it away as soon as they have seen it.
        let [server_mac, client_mac, nobodys_mac] =
            [SERVER_MAC, STACK_MAC, CLIENT_MAC].map(|mac| {
                let digits = mac.map(|byte| format!("{byte:02x}"));
                digits.join(":")
            });
        wire(
            ATTACKED,
            ATTACKING,
            &attackers,
            Some((&server_mac, &client_mac)),
        );
        wire(HONEST, CLIENTS, &clients, None);
        wire(
            DROPPED,
            CONTROL,
            &attackers,
            Some((&server_mac, &client_mac)),
        );
        ip(&format!("addr add 10.9.0.1/24 dev {ATTACKED}"));
        ip(&format!("addr add 10.8.0.1/24 dev {HONEST}"));
        // More addresses than a neighbour table holds, so by way of a gateway.
        ip(&format!(
            "neigh replace 10.9.0.2 lladdr {client_mac} dev {ATTACKED} nud permanent"
        ));
        ip(&format!(
            "neigh replace 10.9.0.3 lladdr {nobodys_mac} dev {ATTACKED} nud permanent"
        ));
        ip("route add 10.64.0.0/10 via 10.9.0.2");
        ip("route add 10.128.0.0/9 via 10.9.0.3");
        attackers.run(|| {
            ip(&format!("addr add 10.9.0.2/24 dev {ATTACKING}"));
            ip(&format!(
                "neigh replace 10.9.0.1 lladdr {server_mac} dev {ATTACKING} nud permanent"
            ));
            // Addresses of attackers that have a stack; those of the others it does not know.
            ip("route add local 10.64.0.0/10 dev lo");
        });
        clients.run(|| ip(&format!("addr add 10.8.0.2/24 dev {CLIENTS}")));
        let attach = |interface, action| {
            bpf::attach_xdp(interface, action)
                .map_err(|error| format!("XDP on {interface}: {error}"))
        };
        let drops = attach(DROPPED, Action::Drop)?;
        // Without one here what a driver-mode program sends back is thrown away.
        let passes = attackers.run(|| {
            let passes = attach(ATTACKING, Action::Pass)?;
            // The program makes it receive by NAPI; attackers gain nothing by GRO.
            let _ = system::switch_off(ATTACKING, Offload::GenericReceive);
            Ok::<_, String>(passes)
        })?;
        let ours = receive_by_threads(&before, &attackers, &clients)?;
        let server = [ATTACKED, HONEST, DROPPED];
        let (mut ours_on_server, mut others) = (Vec::new(), Vec::new());
        for (pid, interface) in ours {
            if server.contains(&interface.as_str()) {
                ours_on_server.push(pid);
            } else {
                others.push(pid);
            }
        }
        ours_on_server
            .iter()
            .try_for_each(|pid| process::pin(*pid, SERVER_CPU))?;
        others
            .iter()
            .try_for_each(|pid| process::pin(*pid, OTHER_CPU))?;
        Ok(Self {
            attackers,
            clients,
            receivers: ours_on_server,
            _programs: [drops, passes],
        })
    }
}

/// A pair of interfaces, both up, whose frames are as on a wire.
fn wire(here: &str, there: &str, other: &Namespace, macs: Option<(&str, &str)>) {
    let [ours, theirs] = match macs {
        Some((ours, theirs)) => [format!("address {ours} "), format!("address {theirs} ")],
        None => [String::new(), String::new()],
    };
    let path = other.path();
    ip(&format!(
        "link add {here} {ours}type veth peer name {there} {theirs}netns {path}"
    ));
    let up = |interface: &str| {
        if macs.is_some() {
            for offload in Offload::ALL {
                // What a device cannot do it need not be forbidden.
                let _ = system::switch_off(interface, offload);
            }
        }
        // It makes veth receive by NAPI, also without an XDP program.
        system::switch_on(interface, Offload::GenericReceive).expect("GRO on a veth");
        ip(&format!("link set {interface} up"));
    };
    up(here);
    other.run(|| up(there));
}

/// Makes every interface's frames be received by a thread; gives those threads.
fn receive_by_threads(
    before: &HashMap<u32, String>,
    attackers: &Namespace,
    clients: &Namespace,
) -> Result<HashMap<u32, String>, String> {
    threaded(ATTACKED)?;
    threaded(HONEST)?;
    threaded(DROPPED)?;
    attackers.run(|| threaded(ATTACKING))?;
    clients.run(|| threaded(CLIENTS))?;
    let began = Instant::now();
    loop {
        let mut now = receivers();
        now.retain(|pid, _| !before.contains_key(pid));
        let has = |name: &str| now.values().any(|interface| interface == name);
        if [ATTACKED, HONEST, DROPPED, ATTACKING, CLIENTS]
            .into_iter()
            .all(has)
        {
            return Ok(now);
        }
        if began.elapsed() > Duration::from_secs(5) {
            return Err(format!("no kernel threads that receive: {now:?}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sysfs shows the interfaces of the namespace in which it was mounted.
fn threaded(interface: &str) -> Result<(), String> {
    let script =
        format!("mount -t sysfs none /sys && echo 1 > /sys/class/net/{interface}/threaded");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .output()
        .map_err(|error| format!("unshare (util-linux): {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("threaded NAPI on {interface}: {}", why.trim()))
}

/// The kernel's threads that receive, and for which interface.
fn receivers() -> HashMap<u32, String> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let (interface, _) = name.trim().strip_prefix("napi/")?.rsplit_once('-')?;
        Some((pid, interface.to_owned()))
    })
    .collect()
}
