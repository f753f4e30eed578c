//! What the tests have too: namespaces, whole frames, packet sockets, small XDP programs.
#![expect(dead_code, reason = "the tests use more of it")]

#[path = "../../../edge-userspace/tests/net/bpf.rs"]
pub(crate) mod bpf;
#[path = "../../../edge-userspace/tests/net/frames.rs"]
pub(crate) mod frames;
#[path = "../../../edge-userspace/tests/net/namespace.rs"]
pub(crate) mod namespace;
#[path = "../../../edge-userspace/tests/net/packet.rs"]
pub(crate) mod packet;
#[path = "../../../edge-userspace/tests/net/segment.rs"]
pub(crate) mod segment;
#[path = "../../../edge-userspace/tests/net/system.rs"]
pub(crate) mod system;

/// What those ask for of the wire that they are used on.
pub(crate) mod wire {
    pub(crate) const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    pub(crate) const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
}
