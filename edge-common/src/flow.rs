//! Who talks to whom: the key of a connection, the table in which the kernel half follows
//! hellos over several segments and remembers what it decided, and the records that it
//! hands to userspace.
//!
//! The flow table is set-associative and bounded: a set of [`WAYS`] places, the tags of
//! which lie in one cache line ([`FlowSet`]), and a [`FlowSlot`] for each. When a set is
//! full the entry that was touched longest ago goes, and before it any whose connection is
//! closed. The kernel writes it; userspace may read it, under the set's sequence counter.

use crate::client_hello::ClientHello;
use crate::siphash;
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

    /// The connection's place in the flow table: the low half numbers the set, the high
    /// half is the tag, never 0.
    ///
    /// Quick, and under a secret, but no cryptographic hash: who finds addresses that share
    /// a set gains that they push each other out of it.
    #[inline(always)]
    #[must_use]
    pub const fn place(&self, secret: siphash::Key, sets_mask: u32) -> (u32, u32) {
        let [a, b, c, d] = self.client;
        let high = (a as u64 | (b as u64) << 32) ^ secret[0];
        let low = (c as u64 | (d as u64) << 32) ^ secret[1];
        let ports = self.client_port_be as u64 | (self.server_port_be as u64) << 16;
        let [e, f, g, h] = self.server;
        let server =
            (e as u64 | (f as u64) << 32).wrapping_mul(SPREAD) ^ (g as u64 | (h as u64) << 32);
        let hash = mix(mix(high, low) ^ server, ports ^ secret[0]);
        let tag = (hash >> 32) as u32;
        (hash as u32 & sets_mask, if tag == 0 { 1 } else { tag })
    }
}

/// An odd number with its bits all over.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Two multiplications that spread a word over all bits.
#[inline(always)]
pub(crate) const fn mix(word: u64, secret: u64) -> u64 {
    let mut hash = word.wrapping_mul(SPREAD);
    hash ^= hash >> 32;
    hash = (hash ^ secret).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

/// Places of a set of the flow table.
pub const WAYS: u32 = 4;

/// By how much an entry is older, in a set's sequence, when nothing of its connection is
/// left but the memory that it was refused.
pub const CLOSED_AGE: u32 = 1 << 30;

/// A set of the flow table: one cache line. Place `i` is slot `WAYS * set + i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct FlowSet {
    /// Odd while a CPU writes in the set; two more after each time.
    pub sequence: u32,
    /// Always 0.
    pub padding: u32,
    /// The tags of the connections; 0 for a free place.
    pub tags: [u32; WAYS as usize],
    /// The set's sequence when each was last written: which was so longest ago. Those that
    /// are closed count as [`CLOSED_AGE`] older.
    pub touched: [u32; WAYS as usize],
    /// Always 0.
    pub rest: [u32; 6],
}

/// How far the kernel is with a connection.
pub mod state {
    /// The place is free.
    pub const FREE: u32 = 0;
    /// A hello has begun; the next segment goes on.
    pub const BEGUN: u32 = 1;
    /// The hello has its verdict and passed.
    pub const JUDGED: u32 = 2;
    /// The hello was refused; the client has been answered or will be.
    pub const REJECTED: u32 = 3;
    /// The hello was refused, and the server's side has been reset.
    pub const CLOSED: u32 = 4;
}

/// The most bytes that are kept of a segment for the next.
pub const KEPT_BYTES: usize = 64;

/// What the kernel knows of one connection. Also the record of its verdict for userspace.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FlowSlot {
    /// Whose it is.
    pub flow: FlowKey,
    /// One of [`state`].
    pub state: u32,
    /// A [`crate::policy::Reason`] by number, when there is a verdict.
    pub reason: u32,
    /// TCP sequence number of the hello's first byte.
    pub first: u32,
    /// TCP sequence number of the byte after the last that was followed: where the server
    /// is when all before has reached it. Of a refused hello: where its last segment begins.
    pub next: u32,
    /// When the entry was made, CLOCK_MONOTONIC (coarse), nanoseconds.
    pub began_ns: u64,
    /// When the verdict was given, CLOCK_MONOTONIC (coarse), nanoseconds.
    pub judged_ns: u64,
    /// The key id that the token claimed; 0 when there was no readable token.
    pub key_id: KeyId,
    /// Of a refused hello: what the client acknowledged, where the answer's bytes begin.
    pub acknowledged: u32,
    /// Of a refused hello: the sequence number after its last byte.
    pub end: u32,
    /// Segments that carried the hello so far.
    pub segments: u32,
    /// Bytes of the hello that were followed so far.
    pub hello_bytes: u32,
    /// How many of `kept` are used.
    pub kept_bytes: u32,
    /// Always 0.
    pub padding: u32,
    /// The scan under way.
    pub hello: ClientHello,
    /// The bytes that the scan has not consumed.
    pub kept: [u64; KEPT_BYTES / 8],
}

/// A refused connection, as the daemon is told of it so that nothing of it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Rejected {
    /// CLOCK_MONOTONIC (coarse), nanoseconds.
    pub monotonic_ns: u64,
    /// The connection.
    pub flow: FlowKey,
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
    assert!(size_of::<FlowSet>() == 64 && offset_of!(FlowSet, tags) == 8);
    assert!(offset_of!(FlowSet, touched) == 24 && offset_of!(FlowSet, rest) == 40);
    assert!(size_of::<FlowSlot>() == 256 && align_of::<FlowSlot>() == 8);
    assert!(offset_of!(FlowSlot, state) == 40 && offset_of!(FlowSlot, began_ns) == 56);
    assert!(offset_of!(FlowSlot, acknowledged) == 80 && offset_of!(FlowSlot, hello) == 104);
    assert!(offset_of!(FlowSlot, kept) == 192 && KEPT_BYTES >= crate::client_hello::MAX_PARTIAL);
    assert!(size_of::<Rejected>() == 48 && offset_of!(Rejected, flow) == 8);
    assert!(size_of::<Event>() == 64 && align_of::<Event>() == 8);
    assert!(offset_of!(Event, key_id) == 8 && offset_of!(Event, flow) == 16);
    assert!(offset_of!(Event, reason) == 56 && offset_of!(Event, payload_bytes) == 60);
};
