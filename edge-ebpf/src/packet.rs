//! Packet headers: from the frame's first byte to the TCP payload.
//!
//! Ethernet, at most two VLAN tags, IPv4 with options, IPv6 with the extension headers that
//! are plain to skip, TCP with options. Everything else passes under a reason of its own.
//! Checksums are not looked at here ([`crate::checksum`]).

use aya_ebpf::{EbpfContext as _, helpers::generated::bpf_xdp_get_buff_len, programs::XdpContext};
use core::arch::asm;
use edge_common::flow::FlowKey;
use edge_common::policy::Reason;

use crate::maps;
use crate::scratch::Scratch;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100; // IEEE 802.1Q
const ETHERTYPE_QINQ: u16 = 0x88a8; // IEEE 802.1ad
const PROTOCOL_TCP: u8 = 6;
// RFC 8200 section 4.
const NEXT_HEADER_HOP_BY_HOP: u8 = 0;
const NEXT_HEADER_ROUTING: u8 = 43;
const NEXT_HEADER_FRAGMENT: u8 = 44;
const NEXT_HEADER_DESTINATION: u8 = 60;
/// RFC 8200 section 4.1 lists at most four of those that are followed.
const MAX_EXTENSION_HEADERS: u32 = 4;
/// Where the TCP header may begin at most, so that everything lies within the mask.
const MAX_TRANSPORT_AT: u32 = 320;

pub(crate) const TCP_FIN: u8 = 0x01;
pub(crate) const TCP_SYN: u8 = 0x02;
pub(crate) const TCP_RST: u8 = 0x04;
pub(crate) const TCP_ACK: u8 = 0x10;

/// All headers together fit: [`MAX_TRANSPORT_AT`] and 60 of TCP.
pub(crate) const MAX_HEADERS_MASK: u32 = 0x1ff;

/// What the TCP segment is.
pub(crate) enum Segment {
    /// It opens a connection.
    Syn,
    /// It has no payload.
    Bare,
    /// It has payload, and belongs to a connection by its flags.
    Payload,
}

/// Finds the TCP segment for one of our ports, and its payload.
#[inline(always)]
pub(crate) fn parse(ctx: &XdpContext, scratch: &mut Scratch) -> Result<Segment, Reason> {
    let protocol = ethernet(ctx, scratch)?;
    let total = match protocol {
        ETHERTYPE_IPV4 => ipv4(ctx, scratch)?,
        ETHERTYPE_IPV6 => ipv6(ctx, scratch)?,
        _ => return Err(Reason::OtherEtherType),
    };
    tcp(ctx, scratch, total)
}

#[inline(always)]
fn ethernet(ctx: &XdpContext, scratch: &mut Scratch) -> Result<u16, Reason> {
    let frame = start(ctx);
    let end = end(ctx);
    if frame + 14 > end {
        return Err(Reason::HeaderTruncated);
    }
    let mut protocol = read_be16(frame + 12);
    scratch.network_at = 14;
    if protocol == ETHERTYPE_VLAN || protocol == ETHERTYPE_QINQ {
        if frame + 18 > end {
            return Err(Reason::HeaderTruncated);
        }
        protocol = read_be16(frame + 16);
        scratch.network_at = 18;
        if protocol == ETHERTYPE_VLAN {
            if frame + 22 > end {
                return Err(Reason::HeaderTruncated);
            }
            protocol = read_be16(frame + 20);
            scratch.network_at = 22;
        }
    }
    Ok(protocol)
}

/// Returns the length of what follows the IP header, bytes.
#[inline(always)]
fn ipv4(ctx: &XdpContext, scratch: &mut Scratch) -> Result<u32, Reason> {
    let header = start(ctx) + (scratch.network_at & MAX_HEADERS_MASK) as usize;
    if header + 20 > end(ctx) {
        return Err(Reason::HeaderTruncated);
    }
    let version_and_length = read_u8(header);
    let length = u32::from(version_and_length & 15) * 4;
    let total = u32::from(read_be16(header + 2));
    if version_and_length >> 4 != 4 || length < 20 || total < length {
        return Err(Reason::HeaderTruncated);
    }
    if read_u8(header + 9) != PROTOCOL_TCP {
        return Err(Reason::OtherProtocol);
    }
    // More-fragments flag and offset (RFC 791 section 3.1).
    if read_be16(header + 6) & 0x3fff != 0 {
        return Err(Reason::IpFragment);
    }
    scratch.is_ipv6 = 0;
    scratch.transport_at = scratch.network_at + length;
    Ok(total - length)
}

/// Returns the length of what follows the IP header, bytes.
#[inline(always)]
fn ipv6(ctx: &XdpContext, scratch: &mut Scratch) -> Result<u32, Reason> {
    let header = start(ctx) + (scratch.network_at & MAX_HEADERS_MASK) as usize;
    if header + 40 > end(ctx) || read_u8(header) >> 4 != 6 {
        return Err(Reason::HeaderTruncated);
    }
    scratch.is_ipv6 = 1;
    let begin = scratch.network_at + 40;
    scratch.transport_at = begin;
    let bytes = u32::from(read_be16(header + 4));
    let protocol = read_u8(header + 6);
    if protocol != PROTOCOL_TCP {
        extension_headers(ctx, scratch, protocol)?;
    }
    let skipped = scratch.transport_at - begin;
    if bytes < skipped {
        return Err(Reason::HeaderTruncated);
    }
    Ok(bytes - skipped)
}

/// Skips extension headers that only say how the packet travels. Fragments are never
/// parsed, and a packet that has not yet reached the last address of its route is not for
/// this host.
#[inline(always)]
fn extension_headers(ctx: &XdpContext, scratch: &mut Scratch, first: u8) -> Result<(), Reason> {
    let mut protocol = first;
    let mut turn = 0;
    while turn < MAX_EXTENSION_HEADERS {
        turn += 1;
        forget(scratch);
        match protocol {
            NEXT_HEADER_HOP_BY_HOP | NEXT_HEADER_ROUTING | NEXT_HEADER_DESTINATION => {}
            NEXT_HEADER_FRAGMENT => return Err(Reason::IpFragment),
            _ => return Err(Reason::OtherProtocol),
        }
        let at = scratch.transport_at;
        if at > MAX_TRANSPORT_AT {
            return Err(Reason::OtherProtocol);
        }
        let header = start(ctx) + (at & MAX_HEADERS_MASK) as usize;
        if header + 8 > end(ctx) {
            return Err(Reason::HeaderTruncated);
        }
        // RFC 8200 section 4.4: segments left.
        if protocol == NEXT_HEADER_ROUTING && read_u8(header + 3) != 0 {
            return Err(Reason::OtherProtocol);
        }
        protocol = read_u8(header);
        scratch.transport_at = at + 8 + 8 * u32::from(read_u8(header + 1));
        if protocol == PROTOCOL_TCP {
            return if scratch.transport_at > MAX_TRANSPORT_AT {
                Err(Reason::OtherProtocol)
            } else {
                Ok(())
            };
        }
    }
    match protocol {
        NEXT_HEADER_FRAGMENT => Err(Reason::IpFragment),
        _ => Err(Reason::OtherProtocol),
    }
}

#[inline(always)]
fn tcp(ctx: &XdpContext, scratch: &mut Scratch, total: u32) -> Result<Segment, Reason> {
    let header = start(ctx) + (scratch.transport_at & MAX_HEADERS_MASK) as usize;
    if header + 20 > end(ctx) {
        return Err(Reason::HeaderTruncated);
    }
    if !maps::watched(read_be16(header + 2)) {
        return Err(Reason::OtherPort);
    }
    let length = u32::from(read_u8(header + 12) >> 4) * 4;
    if length < 20 || total < length {
        return Err(Reason::HeaderTruncated);
    }
    addresses(ctx, scratch)?;
    let header = start(ctx) + (scratch.transport_at & MAX_HEADERS_MASK) as usize;
    if header + 20 > end(ctx) {
        return Err(Reason::HeaderTruncated);
    }
    let ports = read_u32(header);
    scratch.record.flow.client_port_be = ports as u16;
    scratch.record.flow.server_port_be = (ports >> 16) as u16;
    scratch.record.flow.padding = 0;
    scratch.sequence = u32::from_be(read_u32(header + 4));
    scratch.acknowledged = u32::from_be(read_u32(header + 8));
    scratch.options_bytes = length - 20;
    scratch.payload_at = scratch.transport_at + length;
    scratch.payload_bytes = total - length;
    let flags = read_u8(header + 13);
    scratch.tcp_flags = u32::from(flags);
    if flags & TCP_SYN != 0 {
        return Ok(Segment::Syn);
    }
    if total == length {
        return Ok(Segment::Bare);
    }
    if flags & (TCP_RST | TCP_ACK) != TCP_ACK {
        return Err(Reason::OddFlags);
    }
    Ok(Segment::Payload)
}

/// Whose connection it is: read when it is known that the packet is for us, for most are
/// not.
#[inline(always)]
fn addresses(ctx: &XdpContext, scratch: &mut Scratch) -> Result<(), Reason> {
    let header = start(ctx) + (scratch.network_at & MAX_HEADERS_MASK) as usize;
    let flow = &mut scratch.record.flow;
    if scratch.is_ipv6 == 0 {
        if header + 20 > end(ctx) {
            return Err(Reason::HeaderTruncated);
        }
        flow.client = [0, 0, FlowKey::MAPPED, read_u32(header + 12)];
        flow.server = [0, 0, FlowKey::MAPPED, read_u32(header + 16)];
        return Ok(());
    }
    if header + 40 > end(ctx) {
        return Err(Reason::HeaderTruncated);
    }
    let word = |at: usize| read_u32(header + at);
    flow.client = [word(8), word(12), word(16), word(20)];
    flow.server = [word(24), word(28), word(32), word(36)];
    Ok(())
}

/// Address of the frame's first byte.
///
/// Loaded by hand, as is [`end`]: the verifier knows a packet pointer only as the word
/// that the load left in a 64-bit register, and the compiler, which sees a 32-bit field,
/// would extend it some blocks later, which the verifier takes for arithmetic.
#[inline(always)]
pub(crate) fn start(ctx: &XdpContext) -> usize {
    let start: u64;
    // SAFETY: the context is the program's own; `data` is the first field of `xdp_md`.
    unsafe { asm!("{0} = *(u32 *)({1} + 0)", out(reg) start, in(reg) ctx.ctx, options(nostack)) }
    start as usize
}

/// Address just after the frame's linear part.
#[inline(always)]
pub(crate) fn end(ctx: &XdpContext) -> usize {
    let end: u64;
    // SAFETY: as above; `data_end` is the second field.
    unsafe { asm!("{0} = *(u32 *)({1} + 4)", out(reg) end, in(reg) ctx.ctx, options(nostack)) }
    end as usize
}

/// The frame's length in bytes, over all its buffers (Linux 5.18).
#[inline(always)]
pub(crate) fn frame_bytes(ctx: &XdpContext) -> u32 {
    // SAFETY: the context is the program's own. The length is asked for, not computed from
    // the packet pointers: frames may lie in several buffers.
    unsafe { bpf_xdp_get_buff_len(ctx.as_ptr().cast()) as u32 }
}

/// Whether the frame has as many bytes. Nearly every one has them in sight, without a call.
#[inline(always)]
pub(crate) fn has(ctx: &XdpContext, bytes: u32) -> bool {
    let behind = start(ctx) + (opaque(u64::from(bytes)) & 0x7fff) as usize;
    (bytes <= 0x7fff && behind <= end(ctx)) || frame_bytes(ctx) >= bytes
}

// The packet is read and written as volatile: the compiler must not merge, widen or move
// accesses away from the bounds check that the verifier ties them to.

/// The byte at an address that was checked against the packet's end.
#[inline(always)]
pub(crate) fn read_u8(address: usize) -> u8 {
    // SAFETY: checked by the caller; the verifier refuses the program otherwise.
    unsafe { core::ptr::read_volatile(address as *const u8) }
}

/// Two bytes, the first highest.
#[inline(always)]
pub(crate) fn read_be16(address: usize) -> u16 {
    // SAFETY: as above; BPF packet access need not be aligned.
    u16::from_be(unsafe { core::ptr::read_volatile(address as *const u16) })
}

/// Two bytes as they lie in memory.
#[inline(always)]
pub(crate) fn read_u16(address: usize) -> u16 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(address as *const u16) }
}

/// Four bytes as they lie in memory.
#[inline(always)]
pub(crate) fn read_u32(address: usize) -> u32 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(address as *const u32) }
}

/// Eight bytes as they lie in memory.
#[inline(always)]
pub(crate) fn read_u64(address: usize) -> u64 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(address as *const u64) }
}

/// Writes one byte.
#[inline(always)]
pub(crate) fn write_u8(address: usize, value: u8) {
    // SAFETY: as above.
    unsafe { core::ptr::write_volatile(address as *mut u8, value) }
}

/// Writes two bytes as they lie in memory.
#[inline(always)]
pub(crate) fn write_u16(address: usize, value: u16) {
    // SAFETY: as above.
    unsafe { core::ptr::write_volatile(address as *mut u16, value) }
}

/// Writes four bytes as they lie in memory.
#[inline(always)]
pub(crate) fn write_u32(address: usize, value: u32) {
    // SAFETY: as above.
    unsafe { core::ptr::write_volatile(address as *mut u32, value) }
}

/// Makes the compiler believe that `value` may have changed in memory.
///
/// One instruction that does nothing: with none, the line table would have two entries
/// at one place, which the kernel refuses.
#[inline(always)]
pub(crate) fn forget<T>(value: &mut T) {
    // SAFETY: copies a register onto itself; that it claims to touch memory is the point.
    unsafe { asm!("{0} = {0}", in(reg) value as *mut T, options(nostack, preserves_flags)) }
}

/// Hides a number's origin from the compiler, so that a bound put on it afterwards is
/// really emitted. Must be an instruction: an empty one is folded away.
#[inline(always)]
pub(crate) fn opaque(mut value: u64) -> u64 {
    // SAFETY: copies a register onto itself.
    unsafe { asm!("{0} = {0}", inout(reg) value, options(nomem, nostack, preserves_flags)) }
    value
}
