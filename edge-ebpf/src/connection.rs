//! Whether a hello has a TCP connection behind it: the socket look-up.
//!
//! A hello from a spoofed source has none. With a listener and no connection it is the
//! listener's stack that knows better only while it answers SYNs by cookies (RFC 4987
//! section 3.6): then a connection is in the hello's own acknowledgement number.

use aya_ebpf::{
    EbpfContext as _,
    bindings::{bpf_sock, bpf_sock_tuple, tcphdr},
    helpers::generated::{bpf_sk_release, bpf_skc_lookup_tcp, bpf_tcp_check_syncookie},
    programs::XdpContext,
};

use crate::packet::{self, MAX_HEADERS_MASK};
use crate::scratch::Scratch;

/// include/net/tcp_states.h
const TCP_LISTEN: u32 = 10;
/// include/uapi/linux/bpf.h: the namespace of the device.
const BPF_F_CURRENT_NETNS: u64 = u64::MAX;
/// Source and destination address, source and destination port.
const IPV4_TUPLE_BYTES: u32 = 12;
const IPV6_TUPLE_BYTES: u32 = 36;

/// What is behind a segment.
pub(crate) enum Connection {
    /// A socket, or one that is being made.
    Known,
    /// A listening socket, and nothing more.
    None,
    /// Not even that: the packet is not for this host.
    NoListener,
}

/// Looks the connection up (Linux 5.2 for the cookie).
#[inline(always)]
pub(crate) fn look(ctx: &XdpContext, scratch: &mut Scratch) -> Connection {
    let socket = find(ctx, scratch);
    if socket.is_null() {
        return Connection::NoListener;
    }
    let is_listener = state_of(socket) == TCP_LISTEN;
    let known = !is_listener || has_cookie(ctx, scratch, socket.cast());
    // SAFETY: it was returned by the look-up, and is released once.
    unsafe { bpf_sk_release(socket.cast()) };
    if known {
        Connection::Known
    } else {
        Connection::None
    }
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
fn state_of(socket: *mut bpf_sock) -> u32 {
    // SAFETY: not null, and held until it is released.
    unsafe { (&raw const (*socket).state).read_volatile() }
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
