//! What attackers must know of a frame that comes back to them: TCP over IPv4 without VLAN
//! tags, as their wire carries it.

use std::net::{Ipv4Addr, SocketAddr};

/// A segment, without its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) to: SocketAddr,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) flags: u8,
    pub(crate) payload_bytes: u32,
}

impl Segment {
    // RFC 9293 section 3.1
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const PSH: u8 = 8;
    pub(crate) const ACK: u8 = 16;

    /// Takes a frame apart.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(12..)?.strip_prefix(&[8, 0])?;
        if *packet.get(9)? != 6 {
            return None;
        }
        let head = usize::from(packet[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let segment = packet.get(head..total)?;
        let word = |at: usize| -> Option<u32> {
            let bytes = segment.get(at..at + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
        let payload = segment
            .len()
            .checked_sub(usize::from(*segment.get(12)? >> 4) * 4)?;
        Some(Self {
            to: SocketAddr::new(Ipv4Addr::from(octets).into(), word(0)? as u16),
            sequence: word(4)?,
            acknowledged: word(8)?,
            flags: *segment.get(13)?,
            payload_bytes: payload as u32,
        })
    }
}
