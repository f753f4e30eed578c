//! Whether the stack will take a segment: its TCP checksum.
//!
//! A segment that was damaged on its way is thrown away by the stack, and the client sends
//! it again; what is read in it is no evidence against anyone. So it is looked at before a
//! hello is refused, and before a part of one is kept. Not here: IPv4's own header checksum.

use aya_ebpf::{
    EbpfContext as _,
    helpers::generated::{bpf_csum_diff, bpf_xdp_load_bytes},
    programs::XdpContext,
};

use crate::packet::{self, MAX_HEADERS_MASK, opaque, read_u8, read_u16, read_u32, write_u32};
use crate::scratch::{BUFFER_MASK, SUM_AT, SUM_BYTES, Scratch};

/// How much of a segment in sight is summed up in a turn, bytes, and in how many turns:
/// two full segments of Ethernet's usual size.
const STRIDE_BYTES: u32 = 32;
const MAX_STRIDES: u32 = 92;
const STRIDES_MASK: u64 = 0xfff;
/// As many turns as the longest hello that is followed takes with all headers.
const MAX_TURNS: u32 = 34;
const TCP_BYTES: u32 = 20;
const CHECKSUM_AT: usize = 16;
const PROTOCOL_TCP: u8 = 6;

const _: () = {
    // What is loaded last is padded to a word.
    assert!(MAX_STRIDES as u64 * STRIDE_BYTES as u64 <= STRIDES_MASK);
    assert!(SUM_AT + SUM_BYTES + 4 <= BUFFER_MASK);
    assert!(MAX_TURNS * SUM_BYTES >= crate::scan::MAX_HELLO_BYTES + 60);
};

/// What the checksum of the segment at hand says.
pub(crate) enum Checksum {
    /// The stack will take the segment.
    Right,
    /// The stack will throw it away.
    Wrong,
    /// The segment is longer than is followed.
    TooLong,
    /// The frame ends before the segment does.
    NotLinear,
}

/// Sums the segment up (RFC 9293 section 3.1).
///
/// A segment that has not been on a wire carries its pseudo-header's sum alone, which the
/// device would have completed: on veth, on virtio and behind GRO the stack takes it so
/// (`CHECKSUM_PARTIAL`, include/linux/skbuff.h).
#[inline(always)]
pub(crate) fn look(ctx: &XdpContext, scratch: &mut Scratch) -> Checksum {
    let bytes = TCP_BYTES + scratch.options_bytes + scratch.payload_bytes;
    if packet::frame_bytes(ctx) < scratch.transport_at + bytes {
        return Checksum::NotLinear;
    }
    let header = packet::start(ctx) + (scratch.transport_at & MAX_HEADERS_MASK) as usize;
    if header + TCP_BYTES as usize > packet::end(ctx) {
        return Checksum::NotLinear;
    }
    let pseudo = folded(pseudo_header(scratch, bytes));
    if u32::from(read_u16(header + CHECKSUM_AT)) == pseudo {
        return Checksum::Right;
    }
    if let Some(sum) = in_sight(packet::end(ctx), header, bytes) {
        return of_sum(sum + u64::from(pseudo));
    }
    if bytes > MAX_TURNS * SUM_BYTES {
        return Checksum::TooLong;
    }
    scratch.summed_bytes = 0;
    scratch.sum = pseudo;
    let mut turn = 0;
    while turn < MAX_TURNS {
        turn += 1;
        packet::forget(scratch);
        let left = bytes.wrapping_sub(scratch.summed_bytes);
        if left == 0 {
            break;
        }
        if add(ctx, scratch, left).is_none() {
            return Checksum::NotLinear;
        }
    }
    packet::forget(scratch);
    of_sum(u64::from(scratch.sum))
}

#[inline(always)]
fn of_sum(sum: u64) -> Checksum {
    if folded(sum) == 0xffff {
        Checksum::Right
    } else {
        Checksum::Wrong
    }
}

/// The sum of a segment that lies in the frame's linear part, as most do: by words where
/// they are, without a call. Nothing when it does not, or is long.
#[inline(always)]
fn in_sight(end: usize, header: usize, bytes: u32) -> Option<u64> {
    let (mut at, mut left) = (header, bytes);
    // Two sums: one would have each addition wait for the one before.
    let (mut even, mut odd) = (0, 0);
    let mut turn = 0;
    while turn < MAX_STRIDES && left >= STRIDE_BYTES {
        turn += 1;
        if at + STRIDE_BYTES as usize > end {
            return None;
        }
        let word = |number: usize| u64::from(read_u32(at + 4 * number));
        even += word(0) + word(2) + word(4) + word(6);
        odd += word(1) + word(3) + word(5) + word(7);
        at += STRIDE_BYTES as usize;
        left -= STRIDE_BYTES;
    }
    if left >= STRIDE_BYTES {
        return None;
    }
    // As if it were not known where the loop ended: the verifier walks the rest once.
    let strides = u64::from(bytes & !(STRIDE_BYTES - 1));
    at = header + (opaque(strides) & STRIDES_MASK) as usize;
    let left = opaque(u64::from(left));
    let word = |at: usize| u64::from(read_u32(at));
    if left & 16 != 0 {
        if at + 16 > end {
            return None;
        }
        even += word(at) + word(at + 8);
        odd += word(at + 4) + word(at + 12);
        at += 16;
    }
    if left & 8 != 0 {
        if at + 8 > end {
            return None;
        }
        even += word(at);
        odd += word(at + 4);
        at += 8;
    }
    if left & 4 != 0 {
        if at + 4 > end {
            return None;
        }
        even += word(at);
        at += 4;
    }
    if left & 2 != 0 {
        if at + 2 > end {
            return None;
        }
        odd += u64::from(read_u16(at));
        at += 2;
    }
    if left & 1 != 0 {
        // Two bytes from the one before, as a segment has: a check for one comes out as
        // `>=` on Linux 6.1 (see `source`).
        let before = at - 1;
        if before + 2 > end {
            return None;
        }
        even += u64::from(u16::from_ne_bytes([read_u8(before + 1), 0]));
    }
    Some(even + odd)
}

/// Adds the next part of the segment, of which so much is left.
#[inline(always)]
fn add(ctx: &XdpContext, scratch: &mut Scratch, left: u32) -> Option<()> {
    let count = if left < SUM_BYTES { left } else { SUM_BYTES };
    // At least one: Linux 6.1 does not see it from the comparison above.
    let less_one = opaque(u64::from(count.wrapping_sub(1)));
    if less_one >= u64::from(SUM_BYTES) {
        return None;
    }
    let count = less_one as u32 + 1;
    let to = (&raw mut scratch.buffer) as usize + SUM_AT as usize;
    // The last word may not be filled.
    write_u32(
        to + (opaque(less_one) & u64::from(SUM_BYTES - 4)) as usize,
        0,
    );
    let from = scratch.transport_at + scratch.summed_bytes;
    // SAFETY: the context is the program's own; the buffer has room for as many bytes
    // behind what a scan uses.
    if unsafe { bpf_xdp_load_bytes(ctx.as_ptr().cast(), from, to as *mut _, count) } != 0 {
        return None;
    }
    let padded = (less_one as u32 + 4) & !3;
    let none = core::ptr::null_mut();
    // SAFETY: as above, and a word more.
    let sum = unsafe { bpf_csum_diff(none, 0, to as *mut _, padded, scratch.sum) };
    if sum < 0 {
        return None;
    }
    scratch.sum = sum as u32;
    scratch.summed_bytes += count;
    Some(())
}

/// The pseudo-header's words as they lie in memory. The words that make an IPv4 address an
/// IPv6 one do no harm: their sum is 0xffff, which is nothing in this arithmetic.
#[inline(always)]
fn pseudo_header(scratch: &Scratch, segment_bytes: u32) -> u64 {
    let length = (segment_bytes as u16).to_be_bytes();
    let flow = &scratch.record.flow;
    let mut sum = u64::from(u32::from_ne_bytes([0, PROTOCOL_TCP, length[0], length[1]]));
    let mut word = 0;
    while word < 4 {
        sum += u64::from(flow.client[word]) + u64::from(flow.server[word]);
        word += 1;
    }
    sum
}

/// Sixteen bits of a sum (RFC 1071); 0 only for 0.
#[inline(always)]
fn folded(sum: u64) -> u32 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u32
}
