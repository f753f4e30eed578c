//! Whether a hello has a TCP connection behind it: the socket look-up.
//!
//! A hello from a spoofed source has none. With a listener and no connection it is the
//! listener's stack that knows better only while it answers SYNs by cookies (RFC 4987
//! section 3.6): then a connection is in the hello's own acknowledgement number.
//!
//! That there is a socket is not enough: whoever knows the addresses and ports could speak
//! for it. Only the segment that the socket expects next can come to a verdict, as RFC 5961
//! has it for resets. Where the kernel keeps those numbers the daemon tells, from BTF.

use aya_ebpf::{
    EbpfContext as _,
    bindings::{bpf_sock, bpf_sock_tuple, tcphdr},
    helpers::generated::{
        bpf_probe_read_kernel, bpf_sk_release, bpf_skc_lookup_tcp, bpf_tcp_check_syncookie,
    },
    programs::XdpContext,
};

use core::arch::asm;
use edge_common::policy::Settings;

use crate::packet::{self, MAX_HEADERS_MASK};
use crate::scratch::Scratch;

/// include/net/tcp_states.h
const TCP_ESTABLISHED: u32 = 1;
/// A socket that has just been made, before the segment that made it has been worked on; its
/// `rcv_nxt` is there already.
const TCP_SYN_RECV: u32 = 3;
const TCP_LISTEN: u32 = 10;
const TCP_NEW_SYN_RECV: u32 = 12;
/// include/uapi/linux/bpf.h: the namespace of the device.
const BPF_F_CURRENT_NETNS: u64 = u64::MAX;
/// Source and destination address, source and destination port.
const IPV4_TUPLE_BYTES: u32 = 12;
const IPV6_TUPLE_BYTES: u32 = 36;

/// What is behind a segment.
pub(crate) enum Connection {
    /// One that is being made, whose first segment with a payload is just this one.
    Begins,
    /// A socket, or one that is being made, that expects just this segment next.
    Known,
    /// A socket that does not: a copy of what it has, a piece out of order, or a stranger.
    Other,
    /// A listening socket, and nothing more.
    None,
    /// Not even that: the packet is not for this host.
    NoListener,
}

/// Looks the connection up (Linux 5.2 for the cookie).
#[inline(always)]
pub(crate) fn look(ctx: &XdpContext, scratch: &mut Scratch, settings: &Settings) -> Connection {
    let socket = find(ctx, scratch);
    if socket.is_null() {
        return Connection::NoListener;
    }
    // SAFETY: not null, and held until it is released.
    let state = unsafe { (&raw const (*socket).state).read_volatile() };
    let connection = match state {
        TCP_LISTEN => {
            if has_cookie(ctx, scratch, socket.cast()) {
                Connection::Known
            } else if is_link_local(scratch) {
                // Its socket is bound to the interface that has the address, which may lie
                // above this one (a bridge): the look-up does not find it.
                Connection::Other
            } else {
                Connection::None
            }
        }
        TCP_NEW_SYN_RECV => {
            let client = number(scratch, socket, settings.request_rcv_isn_at);
            let server = number(scratch, socket, settings.request_snt_isn_at);
            match (client, server) {
                (Some(client), Some(server)) => {
                    let is_next = scratch.sequence == client.wrapping_add(1)
                        && scratch.acknowledged == server.wrapping_add(1);
                    if is_next {
                        Connection::Begins
                    } else {
                        Connection::Other
                    }
                }
                // This kernel does not tell.
                _ => Connection::Known,
            }
        }
        TCP_ESTABLISHED | TCP_SYN_RECV => next_of(scratch, socket),
        _ => Connection::Other,
    };
    // SAFETY: it was returned by the look-up, and is released once.
    unsafe { bpf_sk_release(socket.cast()) };
    connection
}

/// RFC 4291 section 2.5.6: fe80::/10.
#[inline(always)]
fn is_link_local(scratch: &Scratch) -> bool {
    u32::from_be(scratch.record.flow.client[0]) >> 22 == 0xfe80 >> 6
}

#[inline(always)]
fn expected(is_next: bool) -> Connection {
    if is_next {
        Connection::Known
    } else {
        Connection::Other
    }
}

/// Whether an established socket expects the segment next.
///
/// Read by the kernel's own types, which costs a fifth of what [`number`] does. For that the
/// offset must be a number that the verifier knows.
#[inline(always)]
fn next_of(scratch: &Scratch, socket: *mut bpf_sock) -> Connection {
    // SAFETY: a static that is written before the program is loaded. Volatile, or the
    // compiler would take the number that stands here.
    let at = unsafe { (&raw const SOCKET_RCV_NXT_AT).read_volatile() };
    if at == 0 {
        // This kernel does not tell.
        return Connection::Known;
    }
    let tcp = as_tcp(socket);
    if tcp == 0 {
        return Connection::Other;
    }
    expected(scratch.sequence == packet::read_u32(tcp + at as usize))
}

/// The socket, which is an established one, as the kernel's `tcp_sock`.
///
/// By `bpf_skc_to_tcp_sock` (helper 137), or, where the kernel has it (Linux 6.2), by
/// `bpf_rdonly_cast`, which becomes no call at all. No object can hold both, for the latter's
/// number is each kernel's own: userspace looks for the first of these instructions, which
/// nothing else begins with, and replaces the second.
#[inline(always)]
fn as_tcp(socket: *mut bpf_sock) -> usize {
    // SAFETY: a static that is written before the program is loaded, as below.
    let of_type = unsafe { (&raw const TCP_SOCK_TYPE).read_volatile() };
    let tcp: u64;
    // SAFETY: the socket is not null, and held. A call changes r0 to r5.
    unsafe {
        asm!(
            "r3 = 1382634830", // CAST_MARK in edge-userspace/src/kernel/cast.rs
            "call 137",
            inout("r1") socket => _,
            inout("r2") of_type => _,
            lateout("r0") tcp,
            lateout("r3") _,
            lateout("r4") _,
            lateout("r5") _,
            options(nostack),
        );
    }
    tcp as usize
}

/// The number of the type `tcp_sock` among the kernel's types. As above.
#[unsafe(no_mangle)]
static TCP_SOCK_TYPE: u64 = 0;

/// Where the kernel's `tcp_sock` keeps the number that is expected of the client next,
/// bytes; 0: not known. Userspace writes it before it loads the program.
#[unsafe(no_mangle)]
static SOCKET_RCV_NXT_AT: u64 = 0;

/// A 32-bit number of the socket at this offset; nothing when the offset is not known.
#[inline(always)]
fn number(scratch: &mut Scratch, socket: *mut bpf_sock, at: u32) -> Option<u32> {
    if at == 0 {
        return None;
    }
    // By way of memory, where the verifier takes the pointer for the number that it is: it
    // allows no arithmetic on the former (needs CAP_PERFMON).
    let address = &raw mut scratch.socket;
    // SAFETY: a word of the scratch memory.
    unsafe { address.write_volatile(socket as u64) };
    // SAFETY: as above.
    let socket = unsafe { address.read_volatile() };
    let to = (&raw mut scratch.number).cast();
    let from = socket.wrapping_add(u64::from(at));
    // SAFETY: the helper reads any kernel address without a fault; the socket is held.
    if unsafe { bpf_probe_read_kernel(to, 4, from as *const _) } != 0 {
        return None;
    }
    // SAFETY: as above.
    Some(unsafe { (&raw const scratch.number).read_volatile() })
}

/// What is returned and is not null must be released.
#[inline(always)]
fn find(ctx: &XdpContext, scratch: &mut Scratch) -> *mut bpf_sock {
    let flow = &scratch.record.flow;
    if scratch.is_ipv6 != 0 {
        // A flow key begins as the tuple does.
        let tuple = (&raw const *flow).cast_mut().cast::<bpf_sock_tuple>();
        // SAFETY: the context is the program's own, the tuple is in a map and as long as
        // is said.
        unsafe {
            bpf_skc_lookup_tcp(
                ctx.as_ptr(),
                tuple,
                IPV6_TUPLE_BYTES,
                BPF_F_CURRENT_NETNS,
                0,
            )
        }
    } else {
        let ports = u32::from(flow.client_port_be) | u32::from(flow.server_port_be) << 16;
        let mut tuple = [flow.client[3], flow.server[3], ports];
        let tuple = (&raw mut tuple).cast::<bpf_sock_tuple>();
        // SAFETY: as above; the tuple is on the stack.
        unsafe {
            bpf_skc_lookup_tcp(
                ctx.as_ptr(),
                tuple,
                IPV4_TUPLE_BYTES,
                BPF_F_CURRENT_NETNS,
                0,
            )
        }
    }
}

#[inline(always)]
fn has_cookie(ctx: &XdpContext, scratch: &Scratch, listener: *mut core::ffi::c_void) -> bool {
    let end = packet::end(ctx);
    let frame = packet::start(ctx);
    let network = frame + (packet::opaque(u64::from(scratch.network_at)) & 31) as usize;
    let at = packet::opaque(u64::from(scratch.transport_at));
    let transport = frame + (at & u64::from(MAX_HEADERS_MASK)) as usize;
    if network + 20 > end || transport + 20 > end {
        return false;
    }
    let transport = transport as *mut tcphdr;
    let valid = if scratch.is_ipv6 != 0 {
        if network + 40 > end {
            return false;
        }
        // SAFETY: the headers are in sight; the socket is held.
        unsafe { bpf_tcp_check_syncookie(listener, network as *mut _, 40, transport, 20) }
    } else {
        // SAFETY: as above.
        unsafe { bpf_tcp_check_syncookie(listener, network as *mut _, 20, transport, 20) }
    };
    valid == 0
}
