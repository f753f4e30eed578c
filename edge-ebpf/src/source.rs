//! The packet's TCP payload as the scanner's byte source, by direct packet access.

use aya_ebpf::programs::XdpContext;
use edge_common::client_hello::{ClientHello, Scanned, Source};
use edge_common::token::{TEXT_LEN, Text};

use crate::packet::{self, Scratch};

/// Offsets into the payload are bounded by this mask, which gives the verifier a range.
/// It changes none: the scanner reads nothing beyond the record, 2^14 bytes and a header.
const OFFSET_MASK: u64 = 0x7fff;

pub(crate) struct Payload {
    start: usize,
    end: usize,
    bytes: u32,
}

impl Payload {
    #[inline(always)]
    pub(crate) fn new(ctx: &XdpContext, scratch: &Scratch) -> Self {
        let start = packet::start(ctx) + (scratch.payload_at & packet::MAX_HEADERS_MASK) as usize;
        Self {
            start,
            end: packet::end(ctx),
            bytes: scratch.payload_bytes,
        }
    }

    /// Whether the scan ended because part of the packet is not in the linear part,
    /// rather than because the segment ends.
    #[inline(always)]
    pub(crate) fn cut_short(&self, scanned: Scanned) -> bool {
        // The sum is hidden from the compiler, which would make a difference of pointers
        // of it; the verifier forbids that.
        let after = self.start + (u64::from(self.bytes) & OFFSET_MASK) as usize;
        matches!(scanned, Scanned::Incomplete) && packet::opaque(after as u64) as usize > self.end
    }

    /// Address of `count` readable bytes at `at`.
    #[inline(always)]
    fn reach(&self, at: u32, count: u32) -> Option<usize> {
        if at + count > self.bytes {
            return None;
        }
        // Opaque, for the compiler would drop a mask that it knows to change nothing.
        let address = self.start + (packet::opaque(u64::from(at)) & OFFSET_MASK) as usize;
        if address + count as usize > self.end {
            None
        } else {
            Some(address)
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
        // Two bytes are checked where one would do: on Linux 6.1 the comparison for one
        // comes out as `>=`, from which its verifier learns nothing. Where there is no
        // second byte, the first is read by way of the one before it.
        if let Some(address) = self.reach(at, 2) {
            return Some(packet::read_u8(address));
        }
        let address = self.reach(at.checked_sub(1)?, 2)?;
        Some(packet::read_u8(address + 1))
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
