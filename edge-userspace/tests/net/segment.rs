//! TCP segments, taken out of whole Ethernet frames. It shares no code with the scanner. Not
//! here: making frames ([`super::frames`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One frame of TCP, taken apart.
#[derive(Clone, Copy)]
pub(crate) struct Tcp<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) flags: u8,
    pub(crate) payload: &'a [u8],
}

impl Tcp<'_> {
    // RFC 9293 section 3.1
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const PSH: u8 = 8;
    pub(crate) const ACK: u8 = 16;
}

/// Takes a frame apart: up to two VLAN tags, IPv4 or IPv6 without extension headers.
pub(crate) fn tcp(frame: &[u8]) -> Option<Tcp<'_>> {
    let mut at = 12;
    while matches!(frame.get(at..at + 2)?, [0x81, 0] | [0x88, 0xa8]) {
        at += 4;
    }
    let (ether_type, packet) = (frame.get(at..at + 2)?, frame.get(at + 2..)?);
    let (from, to, segment): (IpAddr, IpAddr, _) = match ether_type {
        [8, 0] if packet.get(9) == Some(&6) => {
            let head = usize::from(packet[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let address = |at: usize| {
                Some(Ipv4Addr::from(
                    <[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?,
                ))
            };
            (
                address(12)?.into(),
                address(16)?.into(),
                packet.get(head..total)?,
            )
        }
        [0x86, 0xdd] if packet.get(6) == Some(&6) => {
            let length = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            let address = |at: usize| {
                Some(Ipv6Addr::from(
                    <[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?,
                ))
            };
            (
                address(8)?.into(),
                address(24)?.into(),
                packet.get(40..40 + length)?,
            )
        }
        _ => return None,
    };
    let word = |at: usize| {
        Some(u32::from_be_bytes(
            segment.get(at..at + 4)?.try_into().ok()?,
        ))
    };
    let ports = word(0)?;
    let head = usize::from(segment.get(12)? >> 4) * 4;
    Some(Tcp {
        from: SocketAddr::new(from, (ports >> 16) as u16),
        to: SocketAddr::new(to, ports as u16),
        sequence: word(4)?,
        acknowledged: word(8)?,
        flags: *segment.get(13)?,
        payload: segment.get(head..)?,
    })
}
