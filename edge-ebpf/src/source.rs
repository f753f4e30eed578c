//! The packet's TCP payload as the scanner's byte source, by direct packet access.

use aya_ebpf::programs::XdpContext;
use edge_common::client_hello::{ClientHello, Scanned, Source};
use edge_common::token::{TEXT_LEN, Text};

use crate::packet::{self, Scratch};

/// Offsets into the payload are bounded by this mask, which gives the verifier a range.
/// It changes none: the scanner reads nothing beyond the record, 2^14 bytes and a header.
const OFFSET_MASK: u64 = 0x7fff;
/// And lengths by this one: an IP packet's is 16 bits.
const LENGTH_MASK: u64 = 0xffff;

pub(crate) struct Payload {
    /// Address of the byte before the payload, the last of the TCP header. From there the
    /// check for one byte is one for two: on Linux 6.1 a check for one comes out as `>=`,
    /// from which its verifier learns nothing.
    before: usize,
    /// Address just after the frame's linear part.
    end: usize,
    bytes: u32,
}

impl Payload {
    #[inline(always)]
    pub(crate) fn new(ctx: &XdpContext, scratch: &Scratch) -> Self {
        let at = scratch.payload_at.wrapping_sub(1) & packet::MAX_HEADERS_MASK;
        Self {
            before: packet::start(ctx) + at as usize,
            end: packet::end(ctx),
            bytes: scratch.payload_bytes,
        }
    }

    /// Whether what `scanned` says may be so only because the program does not see the
    /// segment's end: the scan ran into the end of the linear part, or skipped beyond it
    /// to a hello's end that the frame does not have.
    #[inline(always)]
    pub(crate) fn cut_short(&self, ctx: &XdpContext, scratch: &Scratch, scanned: Scanned) -> bool {
        // The sum is hidden from the compiler, which would make a difference of pointers
        // of it; the verifier forbids that.
        let last = self.before + (u64::from(self.bytes) & LENGTH_MASK) as usize;
        if (packet::opaque(last as u64) as usize) < self.end {
            return false;
        }
        match scanned {
            Scanned::Incomplete => true,
            Scanned::Found | Scanned::Absent => {
                packet::frame_bytes(ctx) < scratch.payload_at + scratch.payload_bytes
            }
            _ => false,
        }
    }

    /// Address of `count` readable bytes at `at`.
    #[inline(always)]
    fn reach(&self, at: u32, count: u32) -> Option<usize> {
        if at + count > self.bytes {
            return None;
        }
        // Opaque, for the compiler would drop a mask that it knows to change nothing.
        let address = self.before + (packet::opaque(u64::from(at)) & OFFSET_MASK) as usize;
        if address + 1 + count as usize > self.end {
            None
        } else {
            Some(address + 1)
        }
    }
}

impl Source for Payload {
    #[inline(always)]
    fn len(&self) -> u32 {
        self.bytes
    }

    #[inline(always)]
    fn u8(&self, at: u32) -> Option<u8> {
        Some(packet::read_u8(self.reach(at, 1)?))
    }

    #[inline(always)]
    fn be16(&self, at: u32) -> Option<u16> {
        Some(packet::read_be16(self.reach(at, 2)?))
    }

    #[inline(always)]
    fn le64(&self, at: u32) -> Option<u64> {
        Some(packet::read_u64(self.reach(at, 8)?))
    }

    #[inline(always)]
    fn text(&self, at: u32) -> Option<Text> {
        let address = self.reach(at, TEXT_LEN as u32)?;
        let word = |i: usize| packet::read_u64(address + 8 * i);
        Some([
            word(0),
            word(1),
            word(2),
            word(3),
            word(4),
            word(5),
            word(6),
        ])
    }

    #[inline(always)]
    fn fence(&self, hello: &mut ClientHello) {
        packet::forget(hello);
    }
}
