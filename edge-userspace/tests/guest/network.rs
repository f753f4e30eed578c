//! Two network namespaces and a veth pair between them, on the threads of one test. What a
//! kernel has no module for is told before anything depends on it.

use crate::skip;
use std::process::Command;

/// The edge's addresses, with the port that it listens on: the namespace is the test's own.
pub(crate) const ADDRESSES: [&str; 2] = ["10.9.0.1:443", "[2001:db8::1]:443"];

/// The calling thread, and those that it starts, get a network of their own.
pub(crate) fn own_namespace() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    ip("link set lo up");
}

/// What the edge and its clients speak over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// The veth pair itself.
    Plain,
    /// VLAN 5 on it, the clients' tags kept beside the packets, as veth does by default.
    TagsAside,
    /// VLAN 5 on it, the clients' tags in the packets.
    TagsInside,
}

impl Link {
    /// The edge's end, `edge0`, and the other in the namespace of thread `client`.
    pub(crate) fn lay(self, client: i32) {
        ip(&format!(
            "link add edge0 type veth peer name client0 netns {client}"
        ));
        ip("link set edge0 up");
        self.address("edge0", 1);
    }

    /// The clients' end, which cuts what it sends into segments, as on a wire; every
    /// post-quantum hello is longer than one.
    pub(crate) fn take_up(self) {
        ip("link set client0 mtu 1400 gso_max_segs 1");
        ip("link set client0 up");
        if self == Self::TagsInside {
            run("ethtool", "-K client0 txvlan off");
        }
        self.address("client0", 2);
        if self != Self::Plain {
            ip("link set client0.5 gso_max_segs 1");
            deaf_without_tag("client0");
        }
    }

    fn address(self, device: &str, host: u8) {
        let device = match self {
            Self::Plain => device.to_owned(),
            Self::TagsAside | Self::TagsInside => {
                let on_top = format!("{device}.5");
                ip(&format!(
                    "link add link {device} name {on_top} type vlan id 5"
                ));
                ip(&format!("link set {on_top} up"));
                on_top
            }
        };
        ip(&format!("addr add 10.9.0.{host}/24 dev {device}"));
        ip(&format!("addr add 2001:db8::{host}/64 dev {device} nodad"));
    }
}

/// What comes to this device without a tag is for nobody, as behind a switch. Linux by
/// itself would take it for the VLAN's, since the address is its own.
fn deaf_without_tag(device: &str) {
    let write = |file: &str| {
        let file = format!("/proc/sys/net/{}", file.replace("DEVICE", device));
        std::fs::write(&file, "1").unwrap_or_else(|error| panic!("{file}: {error}"));
    };
    write("ipv4/conf/DEVICE/rp_filter");
    write("ipv6/conf/DEVICE/disable_ipv6");
}

/// Needed by every scene.
pub(crate) const VETH: &str = "ip link add probe0 type veth peer name probe1";

/// Whether this kernel has what these commands need; if not, `test` is told as skipped.
pub(crate) fn can(test: &str, commands: &[&str]) -> bool {
    let lacking = lacks(commands);
    if let Some(why) = &lacking {
        skip::skipped(test, why);
    }
    lacking.is_none()
}

/// What this kernel lacks for these commands, by the first that fails; they are tried in a
/// namespace that ends with them.
fn lacks(commands: &[&str]) -> Option<String> {
    let tried = std::thread::scope(|scope| {
        let tried = scope.spawn(|| {
            own_namespace();
            commands.iter().find_map(|command| refused(command))
        });
        tried.join()
    });
    tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn refused(command: &str) -> Option<String> {
    let mut words = command.split(' ');
    let program = words.next().unwrap_or_default();
    match Command::new(program).args(words).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or_default();
            Some(format!("`{command}`: {said}"))
        }
        Err(error) => Some(format!("{program}: {error}")),
    }
}

pub(crate) fn ip(arguments: &str) -> String {
    run("ip", arguments)
}

pub(crate) fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// TCP segments that this thread's namespace has sent again (RFC 4022, tcpRetransSegs).
pub(crate) fn segments_sent_again() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = table.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = columns.find(|(name, _)| *name == "RetransSegs").unwrap();
    value.parse().unwrap()
}
