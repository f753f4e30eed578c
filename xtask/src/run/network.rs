//! Network namespaces of our own, joined by a veth pair: the demo's whole network. No
//! interface outside them is ever touched. Dropping takes everything down.

use super::system::{self, LoadedPass, Offload, PassProgram};
use anyhow::{Context as _, bail};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where `ip netns` keeps its names.
const DIRECTORY: &str = "/run/netns";
/// What every namespace and every directory of ours is called by: this, our pid, a role.
const PREFIX: &str = "edge-demo-";

/// Addresses for documentation (RFC 5737, RFC 3849): they lead nowhere outside.
pub(super) const SERVER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The server's IPv6 address.
pub(super) const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
const CLIENT_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const CLIENT_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2));

/// The server's end of the veth pair, in the server's namespace.
pub(super) const SERVER_INTERFACE: &str = "edge0";
/// The client's end, in the client's namespace.
pub(super) const CLIENT_INTERFACE: &str = "client0";

/// Where a process or a socket lives.
#[derive(Debug)]
pub(super) enum Place {
    /// The namespace that xtask was started in.
    Here,
    /// One of ours.
    Namespace(Namespace),
}

impl Place {
    /// A command that runs `program` here.
    pub(super) fn command(&self, program: &Path) -> Command {
        match self {
            Self::Here => Command::new(program),
            Self::Namespace(namespace) => {
                // Not setns by hand: this also gives the child the namespace's own /sys.
                let mut command = Command::new("ip");
                command
                    .args(["netns", "exec", &namespace.name])
                    .arg(program);
                command
            }
        }
    }

    /// The words to type before a command so that it runs here.
    pub(super) fn prefix(&self) -> String {
        match self {
            Self::Here => String::new(),
            Self::Namespace(namespace) => format!("ip netns exec {} ", namespace.name),
        }
    }

    /// Runs `work` on a thread that lives here.
    ///
    /// # Errors
    /// When the namespace cannot be entered; else what `work` gives.
    pub(super) fn run<T: Send>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let Self::Namespace(namespace) = self else {
            return work();
        };
        // A thread of its own: setns is per thread, and ours has to stay where it is.
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let path = Path::new(DIRECTORY).join(&namespace.name);
                let file = File::open(&path).with_context(|| path.display().to_string())?;
                system::enter_network_namespace(&file)
                    .with_context(|| format!("cannot enter {}", path.display()))?;
                work()
            });
            inside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// The name of a thing of ours.
pub(super) fn own_name(role: &str) -> String {
    format!("{PREFIX}{}-{role}", std::process::id())
}

/// A named network namespace; gone when dropped.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
}

impl Namespace {
    fn new(role: &str) -> anyhow::Result<Self> {
        let name = own_name(role);
        ip(&["netns", "add", &name])?;
        let namespace = Self { name };
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            eprintln!(
                "could not delete network namespace {}: {error:#}",
                self.name
            );
        }
    }
}

/// Both namespaces and the wire between them.
#[derive(Debug)]
pub(super) struct Network {
    // In this order: the program is detached before its interface goes.
    pass: Option<PassProgram>,
    /// Where the edge and the demo model run.
    pub(super) server: Place,
    /// Where the clients run.
    pub(super) client: Place,
}

impl Network {
    /// Builds the network. `peer` is the program for the client's end of the pair: the kernel
    /// carries driver-mode XDP_TX over veth only when the other end has a program too.
    ///
    /// # Errors
    /// When a namespace, the pair or an address cannot be made; what was made is gone then.
    pub(super) fn build(peer: Option<&LoadedPass>) -> anyhow::Result<Self> {
        sweep();
        let server = Namespace::new("server")?;
        let client = Namespace::new("client")?;
        // Born inside: neither end is ever seen outside.
        ip(&[
            "-n",
            &client.name,
            "link",
            "add",
            CLIENT_INTERFACE,
            "type",
            "veth",
            "peer",
            "name",
            SERVER_INTERFACE,
            "netns",
            &server.name,
        ])?;
        let ends = [
            (&server, SERVER_INTERFACE, SERVER_V4, SERVER_V6),
            (&client, CLIENT_INTERFACE, CLIENT_V4, CLIENT_V6),
        ];
        for (namespace, interface, v4, v6) in ends {
            let name = &namespace.name;
            ip(&["-n", name, "link", "set", interface, "up"])?;
            ip(&[
                "-n",
                name,
                "address",
                "add",
                &format!("{v4}/24"),
                "dev",
                interface,
            ])?;
            // Nobody else is on this wire, so there is no duplicate address to look for.
            ip(&[
                "-n",
                name,
                "address",
                "add",
                &format!("{v6}/64"),
                "dev",
                interface,
                "nodad",
            ])?;
        }
        let (server, client) = (Place::Namespace(server), Place::Namespace(client));
        for (place, interface) in [(&server, SERVER_INTERFACE), (&client, CLIENT_INTERFACE)] {
            place.run(|| wire_like(interface))?;
        }
        // A kernel whose veth takes no driver-mode program leaves generic mode.
        let pass =
            peer.and_then(|program| client.run(|| Ok(program.attach(CLIENT_INTERFACE)?)).ok());
        Ok(Self {
            pass,
            server,
            client,
        })
    }

    /// Whether answers of a driver-mode program would reach the client.
    pub(super) const fn carries_driver_mode(&self) -> bool {
        self.pass.is_some()
    }
}

/// Makes a veth end behave like a wire: segments of at most one MTU, checksums filled in.
fn wire_like(interface: &str) -> anyhow::Result<()> {
    for offload in [
        Offload::SendChecksum,
        Offload::TcpSegmentation,
        Offload::GenericSegmentation,
        Offload::GenericReceive,
    ] {
        system::switch_off(interface, offload)
            .with_context(|| format!("cannot switch off {offload:?} on {interface}"))?;
    }
    Ok(())
}

/// Takes down the namespaces that a run that was killed outright has left.
fn sweep() {
    for name in leftovers(Path::new(DIRECTORY)) {
        drop(Namespace { name });
    }
}

/// Names in `directory` that belong to a run that is no more.
pub(super) fn leftovers(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_left = |name: &String| {
        let rest = name.strip_prefix(PREFIX);
        let owner = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    names.filter(is_left).collect()
}

/// Runs `ip`, quietly.
fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        // A second Ctrl-C must not end it while it takes down what was made.
        .process_group(0)
        .output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("the `ip` command is missing (apt-get install iproute2)")
        }
        other => other.context("cannot run `ip`")?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`ip {}`: {}", arguments.join(" "), said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Mutex;

    /// Names carry our pid, so one network at a time in this process.
    static ONE: Mutex<()> = Mutex::new(());

    fn names_of_ours() -> Vec<String> {
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let entries = std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(&prefix)).collect()
    }

    #[test]
    fn both_families_reach_the_server_and_nothing_is_left() {
        needs_kernel!();
        let _one = ONE.lock();
        let pass = LoadedPass::load().unwrap();
        let network = Network::build(Some(&pass)).unwrap();
        assert_eq!(names_of_ours().len(), 2);
        for ip in [SERVER_V4, SERVER_V6] {
            let listener = network
                .server
                .run(|| Ok(TcpListener::bind((ip, 0))?))
                .unwrap();
            let to = listener.local_addr().unwrap();
            let mut client = network.client.run(|| Ok(TcpStream::connect(to)?)).unwrap();
            client.write_all(b"over the wire").unwrap();
            drop(client);
            let mut heard = String::new();
            listener
                .accept()
                .unwrap()
                .0
                .read_to_string(&mut heard)
                .unwrap();
            assert_eq!(heard, "over the wire");
        }
        drop(network);
        assert_eq!(names_of_ours(), [""; 0]);
    }

    #[test]
    fn a_panic_leaves_nothing() {
        needs_kernel!();
        let _one = ONE.lock();
        let outcome = std::panic::catch_unwind(|| {
            let _network = Network::build(None).unwrap();
            assert_eq!(names_of_ours().len(), 2);
            panic!("amid the demo");
        });
        let said = outcome.unwrap_err();
        assert_eq!(said.downcast_ref(), Some(&"amid the demo"));
        assert_eq!(names_of_ours(), [""; 0]);
    }

    #[test]
    fn what_a_killed_run_has_left_is_swept_and_a_living_ones_is_not() {
        needs_kernel!();
        let _one = ONE.lock();
        // A pid that is certainly gone: a child that has been waited for.
        let mut child = Command::new("true").spawn().unwrap();
        let dead = format!("{PREFIX}{}-server", child.id());
        child.wait().unwrap();
        ip(&["netns", "add", &dead]).unwrap();
        let living = Namespace::new("living").unwrap();
        sweep();
        let there = |name: &str| Path::new(DIRECTORY).join(name).exists();
        assert!(!there(&dead));
        assert!(there(&living.name));
    }
}
