//! Everything that has to be there before the first row: network, files, keys, daemons.
//! Dropping it takes all of it down again, the daemons first.

use super::clients::Clients;
use super::counters::Admin;
use super::edge::{Edge, Key, Settings};
use super::interrupt::Interrupt;
use super::network::{self, Network, Place};
use super::process::{Daemon, output_of};
use super::programs::Programs;
use super::system::LoadedPass;
use crate::capabilities;
use anyhow::Context as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The name in the demo's certificate.
const NAME: &str = "edge.demo";
/// A hang guard for a daemon's start.
const START_GUARD: Duration = Duration::from_secs(30);

/// What this machine lets us do.
#[derive(Debug)]
pub(super) enum Stage {
    /// Namespaces of our own, and the kernel half unless it is not wanted.
    Namespaces { network: Network, kernel_half: bool },
    /// Loopback and userspace only, for this reason.
    Loopback {
        /// In words.
        why: String,
    },
}

/// Whether the system said that it may not be, or that it knows no such thing: rights can be
/// taken away from root too (a container's seccomp, lockdown).
fn is_refusal(error: &anyhow::Error) -> bool {
    let by_number = error.chain().any(|cause| {
        let number = (cause.downcast_ref::<std::io::Error>()).and_then(|e| e.raw_os_error());
        matches!(number, Some(libc::EPERM | libc::ENOSYS))
    });
    // What `ip` says of the first, and what is said of a machine without it.
    let text = format!("{error:#}");
    let by_words = ["Operation not permitted", "command is missing"];
    by_number || by_words.iter().any(|words| text.contains(words))
}

impl Stage {
    /// Takes the best that is permitted.
    ///
    /// # Errors
    /// When it is permitted and does not work: that is no reason to show less.
    pub(super) fn best(kernel_half: bool) -> anyhow::Result<Self> {
        let built = if kernel_half {
            LoadedPass::load()
                .context("BPF is not permitted")
                .and_then(|pass| Network::build(Some(&pass)))
        } else {
            Network::build(None)
        };
        match built {
            Ok(network) => Ok(Self::Namespaces {
                network,
                kernel_half,
            }),
            Err(error) if capabilities::has_needed() && !is_refusal(&error) => Err(error),
            Err(error) => Ok(Self::Loopback {
                why: format!("{error:#}"),
            }),
        }
    }

    /// Whether the edge is to attach its kernel half.
    pub(super) const fn kernel_half(&self) -> bool {
        matches!(
            self,
            Self::Namespaces {
                kernel_half: true,
                ..
            }
        )
    }

    /// What `kernel.attach` is to be.
    const fn attach(&self) -> &'static str {
        match self {
            Self::Namespaces {
                network,
                kernel_half: true,
            } if network.carries_driver_mode() => "driver",
            Self::Namespaces {
                kernel_half: true, ..
            } => "generic",
            _ => "off",
        }
    }

    /// Where the daemons run.
    pub(super) const fn server(&self) -> &Place {
        match self {
            Self::Namespaces { network, .. } => &network.server,
            Self::Loopback { .. } => &Place::Here,
        }
    }

    /// Where the clients run.
    pub(super) const fn client(&self) -> &Place {
        match self {
            Self::Namespaces { network, .. } => &network.client,
            Self::Loopback { .. } => &Place::Here,
        }
    }

    /// The table's first line.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Namespaces { kernel_half: true, .. } => {
                "The edge with its kernel half, in network namespaces of its own.".to_owned()
            }
            Self::Namespaces { .. } => {
                "The edge in userspace only, as asked for (--no-xdp), in network namespaces of its own.".to_owned()
            }
            Self::Loopback { why } => {
                format!(
                    "The edge in userspace only, on loopback, because {why}. Run it as root to see the kernel half."
                )
            }
        }
    }

    fn addresses(&self) -> anyhow::Result<Addresses> {
        if matches!(self, Self::Namespaces { .. }) {
            let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            return Ok(Addresses {
                v4: SocketAddr::new(network::SERVER_V4, 443),
                v6: Some(SocketAddr::new(network::SERVER_V6, 443)),
                admin: local(9901),
                model: local(8080),
            });
        }
        let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).ok();
        let v4 = || free_address(Ipv4Addr::LOCALHOST.into());
        Ok(Addresses {
            v4: v4()?,
            v6: v6.and_then(|listener| listener.local_addr().ok()),
            admin: v4()?,
            model: v4()?,
        })
    }
}

/// A port that nobody has at the moment.
fn free_address(ip: IpAddr) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((ip, 0)).with_context(|| format!("no free port on {ip}"))?;
    Ok(listener.local_addr()?)
}

#[derive(Clone, Copy, Debug)]
struct Addresses {
    v4: SocketAddr,
    v6: Option<SocketAddr>,
    admin: SocketAddr,
    model: SocketAddr,
}

/// The demo, up and running.
#[derive(Debug)]
pub(super) struct Scene {
    // Dropped in this order.
    daemons: [Daemon; 2],
    /// The network.
    pub(super) stage: Stage,
    /// The edge's commands.
    pub(super) edge: Edge,
    /// How to start clients.
    pub(super) clients: Clients,
    /// How to ask the daemons.
    pub(super) admin: Admin,
    /// The edge's IPv4 address.
    pub(super) v4: SocketAddr,
    /// Its IPv6 address, where this machine has IPv6.
    pub(super) v6: Option<SocketAddr>,
    /// The edge's key store.
    pub(super) store: PathBuf,
    /// The key of most rows.
    pub(super) key: Key,
    /// Another key of the same store.
    pub(super) other: Key,
    /// The key that will be revoked.
    pub(super) doomed: Key,
    /// A key of another store.
    pub(super) stranger: Key,
    directory: TempDir,
}

impl Scene {
    /// Sets everything up on `stage` and waits until the edge is ready.
    ///
    /// # Errors
    /// When a part cannot be made or a daemon does not start; what was made is gone then.
    pub(super) fn set(
        stage: Stage,
        programs: Programs,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let directory = temporary_directory()?;
        let at = |name: &str| directory.path().join(name);
        let addresses = stage.addresses()?;
        make_certificate(&programs.edge_demo, directory.path(), &addresses)?;

        let edge = Edge::new(programs.edge, directory.path().to_owned());
        let store = at("keys.store");
        let key = edge.new_key(&store, "alice")?;
        let other = edge.new_key(&store, "bob")?;
        let doomed = edge.new_key(&store, "mallory")?;
        let stranger = edge.new_key(&at("other.store"), "stranger")?;
        let listen: Vec<SocketAddr> = [Some(addresses.v4), addresses.v6]
            .into_iter()
            .flatten()
            .collect();
        let configuration = edge.configure(&Settings {
            listen: &listen,
            store: &store,
            attach: stage.attach(),
            model: addresses.model,
            admin: addresses.admin,
        })?;

        let admin = Admin {
            edge: addresses.admin,
            model: addresses.model,
        };
        let place = stage.server();
        let mut model = Daemon::start(
            "the demo model",
            place,
            edge.program(),
            &["demo-model", "--listen", &addresses.model.to_string()],
            at("model.log"),
        )?;
        interrupt.wait_for("the demo model's start", START_GUARD, || {
            model.check_alive()?;
            Ok(admin.model_stats(place).ok())
        })?;
        let mut daemon = Daemon::start(
            "the edge",
            place,
            edge.program(),
            &["run", "--config", &configuration.display().to_string()],
            at("edge.log"),
        )?;
        interrupt.wait_for("the edge's start", START_GUARD, || {
            daemon.check_alive()?;
            Ok(admin.is_ready(place)?.then_some(()))
        })?;

        let clients = Clients::new(programs.edge_demo, directory.path(), at("ca.pem"), NAME)?;
        Ok(Self {
            daemons: [daemon, model],
            stage,
            edge,
            clients,
            admin,
            v4: addresses.v4,
            v6: addresses.v6,
            store,
            key,
            other,
            doomed,
            stranger,
            directory,
        })
    }

    /// How the kernel half is attached, as the edge itself says.
    ///
    /// # Errors
    /// When it is not attached although it should be.
    pub(super) fn describe_kernel_half(&self) -> anyhow::Result<String> {
        let status = self.admin.status(self.stage.server())?;
        let kernel = &status["kernel"];
        let mode = kernel["mode"].as_str().unwrap_or("none");
        if !self.stage.kernel_half() {
            return Ok("Every hello is decided in userspace.".to_owned());
        }
        if mode == "none" {
            let notes = &kernel["notes"];
            anyhow::bail!(
                "the edge did not attach its kernel half: {notes}\n{}",
                self.last_words()
            );
        }
        let interfaces = kernel["interfaces"].as_array().into_iter().flatten();
        let names: Vec<_> = interfaces.filter_map(|i| i["name"].as_str()).collect();
        let names = names.join(", ");
        Ok(format!(
            "XDP is attached in {mode} mode to {names}, inside its namespace."
        ))
    }

    /// The edge's last words, for a row that went wrong.
    pub(super) fn last_words(&self) -> String {
        self.daemons[0].last_lines(20)
    }

    /// Fails when a daemon has ended.
    ///
    /// # Errors
    /// As said.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        self.daemons.iter_mut().try_for_each(Daemon::check_alive)
    }

    /// Stops the daemons and takes everything down.
    ///
    /// # Errors
    /// When a daemon did not end well, or the temporary files stay.
    pub(super) fn strike(mut self) -> anyhow::Result<()> {
        for daemon in &mut self.daemons {
            daemon.stop_well()?;
        }
        self.directory.close().context("temporary files are left")
    }
}

/// A directory of our own; those that killed runs have left, with keys in them, are removed.
fn temporary_directory() -> anyhow::Result<TempDir> {
    let parent = std::env::temp_dir();
    for name in network::leftovers(&parent) {
        // Somebody else's is theirs to remove.
        let _ = std::fs::remove_dir_all(parent.join(name));
    }
    tempfile::Builder::new()
        .prefix(&network::own_name(""))
        .tempdir()
        .context("no temporary directory")
}

/// A throw-away authority and the edge's certificate.
fn make_certificate(tool: &Path, directory: &Path, addresses: &Addresses) -> anyhow::Result<()> {
    let mut command = Command::new(tool);
    command
        .arg("certificate")
        .arg("--directory")
        .arg(directory)
        .arg(NAME);
    for address in [Some(addresses.v4), addresses.v6].into_iter().flatten() {
        command.arg(address.ip().to_string());
    }
    output_of(&mut command).map(drop)
}
