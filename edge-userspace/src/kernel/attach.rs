//! Attaching the program to interfaces: driver mode, else generic mode, else none, as
//! configured, each step on record and the outcome as the kernel itself tells it.

use super::program::{Program, ProgramError};
use super::{device, vlan};
use crate::config::Attach;
use aya::programs::XdpMode;
use rustix::io::Errno;
use std::fmt;

/// What came of attaching to some interfaces. The links live in the [`Program`].
#[derive(Debug, Default)]
pub(super) struct Attached {
    /// Interface and mode, in the order of attaching.
    pub(super) interfaces: Vec<(String, Mode)>,
    /// Interfaces whose rejects are left to the daemon.
    pub(super) left: Vec<String>,
    /// What was tried and did not work.
    pub(super) notes: Vec<String>,
}

/// Where in the network stack the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// In the driver, before the packet has a socket buffer.
    Driver,
    /// In the stack, on any device.
    Generic,
}

impl Mode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Generic => "generic",
        }
    }

    const fn flag(self) -> XdpMode {
        match self {
            Self::Driver => XdpMode::Driver,
            Self::Generic => XdpMode::Skb,
        }
    }
}

/// An interface refused the program in a mode that the configuration demands.
#[derive(Debug, thiserror::Error)]
#[error(
    "{interface}: the XDP program cannot be attached in {} mode: {cause}. {}",
    .mode.name(), .cause.cure(.interface)
)]
pub struct AttachError {
    interface: String,
    mode: Mode,
    cause: Cause,
}

/// Why one attempt failed.
#[derive(Debug)]
struct Cause(Box<ProgramError>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.os_error() {
            Some(errno) => write!(f, "{errno}"),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Cause {
    fn cure(&self, interface: &str) -> String {
        match self.0.os_error() {
            Some(Errno::BUSY | Errno::EXIST) => {
                let other = device::look(interface)
                    .ok()
                    .and_then(|device| device.attached);
                let id = other.map_or_else(String::new, |program| format!(" (id {})", program.id));
                return format!(
                    "Another XDP program{id} is attached there (`bpftool net` tells whose); stop \
                     its owner or detach it (`ip link set dev {interface} xdp off`)."
                );
            }
            Some(Errno::OPNOTSUPP) => {
                "The driver has no XDP in this mode; set kernel.attach = \"generic\" or \"auto\"."
            }
            Some(Errno::RANGE | Errno::INVAL) => {
                "Most often the MTU is too large for the driver's XDP buffers, or large-receive \
                 offload is on: lower the MTU or turn LRO off (`ethtool -K … lro off`), or set \
                 kernel.attach = \"generic\"."
            }
            Some(Errno::NOSPC | Errno::NOMEM) => {
                "The driver has no queues or memory left for XDP_TX; lower its channel count \
                 (`ethtool -L`), or set kernel.attach = \"generic\"."
            }
            Some(Errno::PERM | Errno::ACCESS) => {
                "Run as root, or give the service CAP_BPF and CAP_NET_ADMIN."
            }
            _ => "See `dmesg` for the driver's own message.",
        }
        .to_owned()
    }
}

/// Attaches to every interface or, when one refuses a demanded mode, to none.
pub(super) fn attach(
    program: &mut Program,
    interfaces: &[String],
    wanted: Attach,
) -> Result<Attached, AttachError> {
    let mut attached = Attached::default();
    for interface in interfaces {
        for &mode in modes(interface, wanted, &mut attached.notes) {
            let refused = match try_attach(program, interface, mode) {
                Ok(left) => {
                    if left {
                        attached.left.push(interface.clone());
                    }
                    let mode = told_mode(interface, mode, &mut attached.notes);
                    attached.interfaces.push((interface.clone(), mode));
                    break;
                }
                Err(cause) => AttachError {
                    interface: interface.clone(),
                    mode,
                    cause: Cause(Box::new(cause)),
                },
            };
            if wanted != Attach::Auto {
                // The links made so far are dropped with the program by the caller.
                return Err(refused);
            }
            attached.notes.push(refused.to_string());
        }
    }
    Ok(attached)
}

/// The modes to try, in order.
fn modes(interface: &str, wanted: Attach, notes: &mut Vec<String>) -> &'static [Mode] {
    let is_veth = || device::look(interface).is_ok_and(|device| device.is_veth);
    // Frames that a driver-mode program sends back over a veth are thrown away unless the
    // peer runs an XDP program too, and the peer is not ours to look at.
    match wanted {
        Attach::Off => &[],
        Attach::Generic => &[Mode::Generic],
        Attach::Driver => {
            if is_veth() {
                notes.push(format!(
                    "{interface}: a veth; answers of driver mode reach its peer only if that \
                     runs an XDP program too, else refused clients wait in vain"
                ));
            }
            &[Mode::Driver]
        }
        Attach::Auto if is_veth() => {
            notes.push(format!(
                "{interface}: a veth; generic mode comes first, because answers of driver mode \
                 reach only a peer with an XDP program of its own (kernel.attach = \"driver\" \
                 takes driver mode)"
            ));
            &[Mode::Generic, Mode::Driver]
        }
        Attach::Auto => match vlan::prefers_generic(interface) {
            Some(why) => {
                notes.push(why);
                &[Mode::Generic, Mode::Driver]
            }
            None => &[Mode::Driver, Mode::Generic],
        },
    }
}

/// Attaches; tells whether rejects on the interface are left to the daemon.
fn try_attach(program: &mut Program, interface: &str, mode: Mode) -> Result<bool, ProgramError> {
    let unanswered = (mode == Mode::Driver).then(|| vlan::unanswered(interface));
    let unanswered = unanswered.flatten();
    if let Some(index) = unanswered {
        program.leave_rejects(index)?;
    }
    let edge = program.edge()?;
    edge.attach(interface, mode.flag()).map_err(Box::new)?;
    Ok(unanswered.is_some())
}

/// The mode that the kernel says it is; what was asked for where it does not say.
fn told_mode(interface: &str, asked: Mode, notes: &mut Vec<String>) -> Mode {
    match device::look(interface).map(|device| device.attached.and_then(|program| program.mode)) {
        Ok(Some(mode)) => mode,
        Ok(None) => {
            notes.push(format!("{interface}: the kernel does not tell the mode"));
            asked
        }
        Err(error) => {
            notes.push(format!(
                "{interface}: the mode cannot be read back: {error}"
            ));
            asked
        }
    }
}
