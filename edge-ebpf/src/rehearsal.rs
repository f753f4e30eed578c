//! Runs a frame again as if it were new: for the benches, attached by nobody.

use aya_ebpf::{
    EbpfContext as _,
    bindings::xdp_action::{XDP_ABORTED, XDP_PASS},
    helpers::generated::{bpf_xdp_adjust_tail, bpf_xdp_store_bytes},
    programs::XdpContext,
};
use edge_common::rehearsal::FRAME_BYTES;

use crate::maps::{self, Next};
use crate::packet::{self, opaque, read_u16, write_u16};

/// Where the TCP source port stands: behind 14 bytes of Ethernet and 20 of IPv4.
const SOURCE_PORT_AT: usize = 34;
/// And the TCP checksum.
const CHECKSUM_AT: usize = SOURCE_PORT_AT + 16;

/// Puts the frame back and goes on with it, or passes it.
#[inline(always)]
pub(crate) fn again(ctx: &XdpContext) -> u32 {
    let Some(rehearsal) = maps::rehearsal() else {
        return XDP_ABORTED;
    };
    let run = rehearsal.runs;
    rehearsal.runs = run.wrapping_add(1);
    let (turn, which) = if rehearsal.frames == 2 {
        (run >> 1, run & 1)
    } else {
        (run, 0)
    };
    let length = rehearsal.lengths[(which & 1) as usize];
    // SAFETY: the context is the program's own; packet pointers are read anew afterwards.
    let failed = unsafe {
        let now = packet::frame_bytes(ctx);
        bpf_xdp_adjust_tail(ctx.as_ptr().cast(), length as i32 - now as i32)
    };
    let less_one = opaque(u64::from(length.wrapping_sub(1)));
    if failed != 0 || less_one >= FRAME_BYTES as u64 {
        return XDP_ABORTED;
    }
    let from =
        (&raw mut rehearsal.bytes) as usize + (opaque(u64::from(which)) & 1) as usize * FRAME_BYTES;
    // SAFETY: as above; the frame in the map is as long as a frame can be.
    let failed =
        unsafe { bpf_xdp_store_bytes(ctx.as_ptr().cast(), 0, from as *mut _, less_one as u32 + 1) };
    let start = packet::start(ctx);
    if failed != 0 || start + CHECKSUM_AT + 2 > packet::end(ctx) {
        return XDP_ABORTED;
    }
    let port = rehearsal
        .first_port
        .wrapping_add(turn & rehearsal.ports_mask);
    // The checksum follows (RFC 1624): the frame is to be as a client would send it.
    let port = (port as u16).to_be();
    let old = read_u16(start + SOURCE_PORT_AT);
    let sum = u32::from(!read_u16(start + CHECKSUM_AT)) + u32::from(!old) + u32::from(port);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    write_u16(start + SOURCE_PORT_AT, port);
    write_u16(start + CHECKSUM_AT, !(sum as u16));
    if rehearsal.is_on != 0 {
        maps::go_on(ctx, Next::Edge);
        return XDP_ABORTED;
    }
    if rehearsal.cut_bytes != 0 {
        // SAFETY: as above.
        let _ = unsafe { bpf_xdp_adjust_tail(ctx.as_ptr().cast(), -(rehearsal.cut_bytes as i32)) };
    }
    XDP_PASS
}
