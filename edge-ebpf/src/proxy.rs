//! A PROXY protocol header before the hello (HAProxy, "The PROXY protocol", versions 1 and
//! 2), on ports where a balancer in front may send one.
//!
//! The header is skipped, and of version 2 the client's prefix is read. Nobody is believed
//! here: whether the sender may say such a thing is userspace's to know, so the prefix is
//! only held against buckets that are exhausted, and charged with nothing.

use aya_ebpf::{EbpfContext as _, helpers::generated::bpf_xdp_load_bytes, programs::XdpContext};
use edge_common::client_hello::Source as _;
use edge_common::flow::FlowKey;
use edge_common::policy::{Reason, Settings};
use edge_common::prefix;

use crate::maps::Next;
use crate::packet::{self, opaque};
use crate::scratch::{Outcome, RateBy, Scratch};
use crate::source::{Buffer, Bytes};
use crate::{Step, begins, connected};

/// Section 2.1: the longest header of version 1 with its end of line, bytes.
const MAX_V1_BYTES: u32 = 107;
/// As much as is looked at.
const LOOK_BYTES: u32 = 128;
/// Section 2.2: twelve bytes that no other protocol begins with.
const V2_SIGNATURE: (u64, u32) = (
    u64::from_le_bytes(*b"\r\n\r\n\0\r\nQ"),
    u32::from_be_bytes(*b"UIT\n"),
);
const V2_FIXED_BYTES: u32 = 16;
const V2_PROXY: u8 = 0x21;
const V2_TCP4: u8 = 0x11;
const V2_TCP6: u8 = 0x21;

/// Skips the header and begins the scan behind it.
#[inline(always)]
pub(crate) fn header(ctx: &XdpContext, scratch: &mut Scratch, settings: &Settings) -> Step {
    scratch.filled = 0;
    let bytes = scratch.payload_bytes;
    let count = if bytes < LOOK_BYTES {
        bytes
    } else {
        LOOK_BYTES
    };
    // At least one: Linux 6.1 does not see it from the comparison above.
    let less_one = opaque(u64::from(count.wrapping_sub(1)));
    if less_one >= u64::from(LOOK_BYTES) {
        return Err(Reason::NotHello);
    }
    let count = (less_one + 1) as u32;
    let to = (&raw mut scratch.buffer).cast();
    // SAFETY: the context is the program's own; the buffer is longer.
    if unsafe { bpf_xdp_load_bytes(ctx.as_ptr().cast(), scratch.payload_at, to, count) } != 0 {
        return Err(Reason::NotHello);
    }
    let source = Buffer::of(scratch, count);
    // One after the other: asked for all at once, the compiler would look at what was never
    // read before it asks whether it was.
    let mut header_bytes = Some(0);
    let mut is_told = false;
    if let Some(head) = source.le64(0) {
        if head == V2_SIGNATURE.0 {
            if let Some(tail) = source.be32(8)
                && tail == V2_SIGNATURE.1
            {
                is_told = true;
                header_bytes = version_2(scratch, &source);
            }
        } else if head as u32 == u32::from_le_bytes(*b"PROX") {
            is_told = true;
            header_bytes = version_1(scratch, &source);
        }
    }
    if !is_told {
        // The header came in a segment of its own, or never will: the hello is one.
        match source.be16(0) {
            Some(first) if begins(first, bytes) => {}
            _ => return Err(Reason::NotHello),
        }
    }
    packet::forget(scratch);
    let Some(header_bytes) = header_bytes else {
        crate::begin(scratch);
        scratch.outcome = Outcome::ProxyHeader as u32;
        return Ok(Next::Judge);
    };
    // A header alone in its segment is a hello of which nothing has come yet.
    connected(ctx, scratch, settings)?;
    crate::begin(scratch);
    let source = Buffer::of(scratch, 0);
    scratch.record.hello.restart(&source);
    scratch.loaded = header_bytes;
    Ok(Next::Scan)
}

/// The header's length, if it is all in this segment.
#[inline(always)]
fn version_1(scratch: &Scratch, source: &Bytes<Buffer>) -> Option<u32> {
    let mut at = 0;
    while at < MAX_V1_BYTES {
        if source.u8(u64::from(at))? == b'\n' {
            let bytes = at + 1;
            return (bytes <= scratch.payload_bytes).then_some(bytes);
        }
        at += 1;
    }
    None
}

/// The header's length, if it is all in this segment; the client's prefix into the scratch
/// memory.
#[inline(always)]
fn version_2(scratch: &mut Scratch, source: &Bytes<Buffer>) -> Option<u32> {
    let bytes = V2_FIXED_BYTES + u32::from(source.be16(14)?);
    if bytes > scratch.payload_bytes {
        return None;
    }
    if source.u8(12)? != V2_PROXY {
        return Some(bytes);
    }
    let family = source.u8(13)?;
    if family == V2_TCP4 && bytes >= V2_FIXED_BYTES + 12 {
        let address = u32::from(source.be16(16)?) << 16 | u32::from(source.be16(18)?);
        scratch.prefix = prefix::of(&[0, 0, FlowKey::MAPPED, address.to_be()]);
        scratch.rate_by = RateBy::Told as u32;
    } else if family == V2_TCP6 && bytes >= V2_FIXED_BYTES + 36 {
        let high = source.le64(16)?;
        let low = source.le64(24)?;
        let words = [
            high as u32,
            (high >> 32) as u32,
            low as u32,
            (low >> 32) as u32,
        ];
        scratch.prefix = prefix::of(&words);
        scratch.rate_by = RateBy::Told as u32;
    }
    Some(bytes)
}
