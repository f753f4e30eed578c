//! Runs a frame again as if it were new: for the benches, attached by nobody.

use aya_ebpf::{
    EbpfContext as _,
    bindings::xdp_action::{XDP_ABORTED, XDP_PASS},
    helpers::generated::{bpf_xdp_adjust_tail, bpf_xdp_store_bytes},
    programs::XdpContext,
};
use edge_common::rehearsal::{CONNECTIONS, FRAME_BYTES};

use crate::maps::{self, Next};
use crate::packet::{self, opaque, read_u16, write_u16};

/// Where the TCP source port stands: behind 14 bytes of Ethernet and 20 of IPv4.
const SOURCE_PORT_AT: usize = 34;
const SEQUENCE_AT: usize = SOURCE_PORT_AT + 4;
/// And the TCP checksum.
const CHECKSUM_AT: usize = SOURCE_PORT_AT + 16;

/// Replaces two bytes; returns what the sum of the packet changes by.
#[inline(always)]
fn replace(at: usize, new: u16) -> u32 {
    let old = read_u16(at);
    write_u16(at, new);
    u32::from(!old) + u32::from(new)
}

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
    if rehearsal.is_forgetting != 0 {
        maps::forget_all();
    }
    let port = rehearsal
        .first_port
        .wrapping_add(turn & rehearsal.ports_mask);
    let of = (opaque(u64::from(turn & rehearsal.ports_mask)) & (CONNECTIONS as u64 - 1)) as usize;
    let sequences = (&raw const rehearsal.sequences).cast::<u32>();
    // SAFETY: within the array, by the mask.
    let sequence = unsafe { sequences.add(of).read_volatile() };
    let sequence = sequence.wrapping_add(rehearsal.offsets[(which & 1) as usize]);
    let start = packet::start(ctx);
    if start + CHECKSUM_AT + 2 > packet::end(ctx) {
        return XDP_ABORTED;
    }
    // The checksum follows (RFC 1624): the frame is to be as a client would send it.
    let mut sum = u32::from(!read_u16(start + CHECKSUM_AT));
    sum += replace(start + SOURCE_PORT_AT, (port as u16).to_be());
    sum += replace(start + SEQUENCE_AT, ((sequence >> 16) as u16).to_be());
    sum += replace(start + SEQUENCE_AT + 2, (sequence as u16).to_be());
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
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
