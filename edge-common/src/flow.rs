//! Who talks to whom, and the record of a verdict that the kernel hands to userspace.

use crate::token::KeyId;

/// A connection as seen from the client: IPv4 addresses are written as IPv4-mapped IPv6
/// (RFC 4291 section 2.5.5.2), ports in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct FlowKey {
    /// The client's address, network byte order.
    pub client: [u32; 4],
    /// The server's address, network byte order.
    pub server: [u32; 4],
    /// The client's port, network byte order.
    pub client_port_be: u16,
    /// The server's port, network byte order.
    pub server_port_be: u16,
    /// Always 0.
    pub padding: u32,
}

impl FlowKey {
    /// The third word of an IPv4-mapped address as it lies in memory: 00 00 ff ff.
    pub const MAPPED: u32 = u32::from_ne_bytes([0, 0, 0xff, 0xff]);
}

/// A sampled verdict, as it travels through the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// CLOCK_MONOTONIC (coarse), nanoseconds.
    pub monotonic_ns: u64,
    /// The key id that the token claimed; 0 when there was no readable token.
    pub key_id: KeyId,
    /// The connection.
    pub flow: FlowKey,
    /// A [`crate::policy::Reason`] by number.
    pub reason: u32,
    /// TCP payload of the judged packet, bytes.
    pub payload_bytes: u32,
}

const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<FlowKey>() == 40 && align_of::<FlowKey>() == 4);
    assert!(offset_of!(FlowKey, server) == 16 && offset_of!(FlowKey, client_port_be) == 32);
    assert!(offset_of!(FlowKey, server_port_be) == 34 && offset_of!(FlowKey, padding) == 36);
    assert!(size_of::<Event>() == 64 && align_of::<Event>() == 8);
    assert!(offset_of!(Event, key_id) == 8 && offset_of!(Event, flow) == 16);
    assert!(offset_of!(Event, reason) == 56 && offset_of!(Event, payload_bytes) == 60);
};
