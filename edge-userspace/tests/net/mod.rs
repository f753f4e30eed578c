//! What the live tests share: namespaces and the wire between them, a real daemon at one
//! end, clients by library and by raw frames at the other, and a count of what really went
//! over the wire. Not here: what is expected of the edge.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses its own part of it"
)]

/// Returns from the calling test, with a line that names it, unless frames can be tagged and
/// lost here.
#[allow(unused_macros, reason = "as above")]
macro_rules! needs_tcx {
    () => {
        if let Err(why) = $crate::net::bpf::permitted() {
            fn here() {}
            $crate::skip::skipped($crate::skip::caller(&here), &why);
            return;
        }
    };
}

pub(crate) mod bpf;
pub(crate) mod capture;
pub(crate) mod client;
#[path = "../packets/dissect.rs"]
pub(crate) mod dissect;
pub(crate) mod edge;
#[path = "../../../edge-common/tests/common/files.rs"]
pub(crate) mod files;
pub(crate) mod frames;
#[path = "../../../edge-common/tests/common/generated.rs"]
pub(crate) mod generated;
pub(crate) mod handshake;
#[path = "../../../edge-common/tests/common/made.rs"]
pub(crate) mod made;
pub(crate) mod namespace;
pub(crate) mod packet;
#[path = "../packets/frames.rs"]
pub(crate) mod packets;
#[path = "../daemon/process.rs"]
pub(crate) mod process;
pub(crate) mod segment;
pub(crate) mod sockets;
mod system;
pub(crate) mod wire;

/// A number that an environment variable gives, or else this: for runs that are longer than
/// an ordinary one.
pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text}: not a number"))
    })
}
