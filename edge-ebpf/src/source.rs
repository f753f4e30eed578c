//! The scanner's byte sources: the packet's TCP payload by direct packet access, and the
//! buffer into which more complicated ones are loaded.

use aya_ebpf::programs::XdpContext;
use edge_common::client_hello::{ClientHello, Source};
use edge_common::token::{TEXT_LEN, Text};

use crate::packet;
use crate::scratch::{BUFFER_MASK, Scratch};

/// Offsets into the payload are bounded by this, which gives the verifier a range. Compared,
/// not masked: the next item's place need not wait for a branch that is foreseen. None is
/// beyond: the scanner reads nothing behind the record, 2^14 bytes and a header.
const MAX_OFFSET: u64 = 0x7fff;

/// Bytes that can be reached by address.
pub(crate) trait Reach {
    /// As in [`Source`].
    const EXTENSIONS_A_TURN: u32;

    /// How many there are.
    fn bytes(&self) -> u64;

    /// Address of `count` readable bytes at `at`.
    fn reach(&self, at: u64, count: u64) -> Option<usize>;
}

/// The bytes of either kind, as the scanner reads them.
pub(crate) struct Bytes<R>(R);

impl<R: Reach> Bytes<R> {
    /// The first byte, and the second if there is one, if they are in sight.
    #[inline(always)]
    pub(crate) fn first_two(&self) -> Option<u16> {
        if self.0.bytes() >= 2 {
            self.be16(0)
        } else {
            Some(u16::from(self.u8(0)?) << 8)
        }
    }
}

impl<R: Reach> Source for Bytes<R> {
    const EXTENSIONS_A_TURN: u32 = R::EXTENSIONS_A_TURN;

    #[inline(always)]
    fn len(&self) -> u64 {
        self.0.bytes()
    }

    #[inline(always)]
    fn u8(&self, at: u64) -> Option<u8> {
        Some(packet::read_u8(self.0.reach(at, 1)?))
    }

    #[inline(always)]
    fn be16(&self, at: u64) -> Option<u16> {
        Some(packet::read_be16(self.0.reach(at, 2)?))
    }

    #[inline(always)]
    fn be32(&self, at: u64) -> Option<u32> {
        Some(u32::from_be(packet::read_u32(self.0.reach(at, 4)?)))
    }

    #[inline(always)]
    fn le64(&self, at: u64) -> Option<u64> {
        Some(packet::read_u64(self.0.reach(at, 8)?))
    }

    #[inline(always)]
    fn text(&self, at: u64) -> Option<Text> {
        let address = self.0.reach(at, TEXT_LEN as u64)?;
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

/// Whether there are fewer bytes than so many.
///
/// By the difference: from a plain comparison the verifier would learn something about the
/// number of bytes on each path, and would walk the rest once for each.
#[inline(always)]
fn lacks(bytes: u64, count: u64) -> bool {
    (packet::opaque(bytes.wrapping_sub(count)) as i64) < 0
}

/// The payload as far as it lies in the frame's linear part.
pub(crate) struct Payload {
    /// Address of the byte before the payload, the last of the TCP header. From there the
    /// check for one byte is one for two: on Linux 6.1 a check for one comes out as `>=`,
    /// from which its verifier learns nothing.
    before: usize,
    /// Address just after the frame's linear part.
    end: usize,
    bytes: u64,
}

impl Payload {
    #[inline(always)]
    pub(crate) fn of(ctx: &XdpContext, scratch: &Scratch) -> Bytes<Self> {
        let at = scratch.payload_at.wrapping_sub(1) & packet::MAX_HEADERS_MASK;
        Bytes(Self {
            before: packet::start(ctx) + at as usize,
            end: packet::end(ctx),
            bytes: u64::from(scratch.payload_bytes),
        })
    }
}

impl Reach for Payload {
    const EXTENSIONS_A_TURN: u32 = 4;

    #[inline(always)]
    fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline(always)]
    fn reach(&self, at: u64, count: u64) -> Option<usize> {
        if lacks(self.bytes, at + count) {
            return None;
        }
        // Opaque, for the compiler would drop a comparison that it knows to change nothing.
        let at = packet::opaque(at);
        if at > MAX_OFFSET {
            return None;
        }
        let address = self.before + at as usize;
        if address + 1 + count as usize > self.end {
            None
        } else {
            Some(address + 1)
        }
    }
}

/// The filled part of the scratch memory's buffer.
pub(crate) struct Buffer {
    /// Address of the buffer.
    start: usize,
    bytes: u64,
}

impl Buffer {
    #[inline(always)]
    pub(crate) fn of(scratch: &Scratch, bytes: u32) -> Bytes<Self> {
        Bytes(Self {
            start: (&raw const scratch.buffer) as usize,
            bytes: u64::from(bytes),
        })
    }
}

impl Reach for Buffer {
    // Seldom used, and its program is the verifier's longest.
    const EXTENSIONS_A_TURN: u32 = 1;

    #[inline(always)]
    fn bytes(&self) -> u64 {
        self.bytes
    }

    // At most 64 bytes, which the buffer has beyond its mask.
    #[inline(always)]
    fn reach(&self, at: u64, count: u64) -> Option<usize> {
        if lacks(self.bytes, at + count) {
            return None;
        }
        Some(self.start + (packet::opaque(at) & u64::from(BUFFER_MASK)) as usize)
    }
}
