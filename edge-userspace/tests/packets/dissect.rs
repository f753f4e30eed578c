//! From a frame to its TCP segment, in plain slices, as RFC 791, 8200 and 9293 have it,
//! within what the edge says it follows.

use edge_common::flow::FlowKey;
use edge_common::policy::Reason;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
const ACK: u8 = 16;

/// The most IPv6 extension headers that are followed, and how far into the frame the TCP
/// header may begin behind them.
const EXTENSION_HEADERS: usize = 4;
const TCP_AT_MOST: usize = 320;
/// A longer segment is not summed up, bytes with its header.
const SUMMED_AT_MOST: usize = 17 << 10;

/// A segment for one of our ports.
pub(crate) struct Segment<'a> {
    pub(crate) flow: FlowKey,
    /// By the IP header.
    pub(crate) payload_bytes: usize,
    /// As much of it as the frame has.
    pub(crate) payload: &'a [u8],
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) network_at: usize,
    /// Where the TCP header begins in the frame.
    pub(crate) transport_at: usize,
    pub(crate) checksum: Checksum,
}

/// Whether the stack would take the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    Right,
    Wrong,
    /// The frame ends before the segment.
    Cut,
    /// Too long to be summed up.
    TooLong,
}

impl Segment<'_> {
    /// The sequence number after its payload.
    pub(crate) fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.payload_bytes as u32)
    }
}

/// Finds the segment.
pub(crate) fn dissect<'a>(frame: &'a [u8], ports: &[u16]) -> Result<Segment<'a>, Reason> {
    let cut = Reason::HeaderTruncated;
    let be16 = |at: usize| -> Result<u16, Reason> {
        let bytes = frame.get(at..at + 2).ok_or(cut)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let mut kind_at = 12;
    if matches!(be16(kind_at)?, 0x8100 | 0x88a8) {
        kind_at += 4;
        if be16(kind_at)? == 0x8100 {
            kind_at += 4;
        }
    }
    let network_at = kind_at + 2;
    let ip = frame.get(network_at..).ok_or(cut)?;
    let (header_bytes, total, addresses) = match be16(kind_at)? {
        0x0800 => {
            let ip = ip.get(..20).ok_or(cut)?;
            let header = usize::from(ip[0] & 15) * 4;
            let total = usize::from(be16(network_at + 2)?);
            if ip[0] >> 4 != 4 || header < 20 || total < header {
                return Err(cut);
            }
            if ip[9] != 6 {
                return Err(Reason::OtherProtocol);
            }
            if u16::from_be_bytes([ip[6] & 0x3f, ip[7]]) != 0 {
                return Err(Reason::IpFragment);
            }
            let mapped = |a: &[u8]| [&[0; 10][..], &[255, 255], a].concat();
            (header, total, [mapped(&ip[12..16]), mapped(&ip[16..20])])
        }
        0x86dd => {
            let fixed = ip.get(..40).ok_or(cut)?;
            if fixed[0] >> 4 != 6 {
                return Err(cut);
            }
            let header = ipv6_headers(ip, network_at)?;
            let total = 40 + usize::from(be16(network_at + 4)?);
            if total < header {
                return Err(cut);
            }
            let addresses = [fixed[8..24].to_vec(), fixed[24..40].to_vec()];
            (header, total, addresses)
        }
        _ => return Err(Reason::OtherEtherType),
    };
    let packet = &ip[..ip.len().min(total)];
    let tcp = ip.get(header_bytes..header_bytes + 20).ok_or(cut)?;
    if !ports.contains(&u16::from_be_bytes([tcp[2], tcp[3]])) {
        return Err(Reason::OtherPort);
    }
    let payload_at = header_bytes + usize::from(tcp[12] >> 4) * 4;
    if payload_at < header_bytes + 20 || total < payload_at {
        return Err(cut);
    }
    let flags = tcp[13];
    if total > payload_at && flags & SYN == 0 && flags & (RST | ACK) != ACK {
        return Err(Reason::OddFlags);
    }
    let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    let address =
        |a: &[u8]| std::array::from_fn(|i| u32::from_ne_bytes(a[4 * i..][..4].try_into().unwrap()));
    Ok(Segment {
        flow: FlowKey {
            client: address(&addresses[0]),
            server: address(&addresses[1]),
            client_port_be: u16::from_ne_bytes([tcp[0], tcp[1]]),
            server_port_be: u16::from_ne_bytes([tcp[2], tcp[3]]),
            padding: 0,
        },
        payload_bytes: total - payload_at,
        payload: packet.get(payload_at..).unwrap_or_default(),
        flags,
        sequence: word(4),
        acknowledged: word(8),
        network_at,
        transport_at: network_at + header_bytes,
        checksum: checksum(&addresses, packet, header_bytes, total),
    })
}

/// RFC 9293 section 3.1; or the pseudo-header's sum alone, for the device to complete.
fn checksum(addresses: &[Vec<u8>; 2], packet: &[u8], tcp_at: usize, total: usize) -> Checksum {
    if packet.len() < total {
        return Checksum::Cut;
    }
    let tcp = &packet[tcp_at..];
    let pseudo = words(&addresses[0]) + words(&addresses[1]) + 6 + tcp.len() as u64;
    if folded(pseudo) == u16::from_be_bytes([tcp[16], tcp[17]]) {
        Checksum::Right
    } else if tcp.len() > SUMMED_AT_MOST {
        Checksum::TooLong
    } else if folded(pseudo + words(tcp)) == 0xffff {
        Checksum::Right
    } else {
        Checksum::Wrong
    }
}

/// The sum of 16-bit words, the last one padded (RFC 1071).
pub(crate) fn words(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks(2);
    pairs
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

pub(crate) fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// How long the IPv6 header and those that are followed behind it are.
fn ipv6_headers(ip: &[u8], network_at: usize) -> Result<usize, Reason> {
    let (mut next, mut at) = (ip[6], 40);
    for turn in 0.. {
        match next {
            6 if network_at + at > TCP_AT_MOST => return Err(Reason::OtherProtocol),
            6 => return Ok(at),
            44 => return Err(Reason::IpFragment),
            0 | 43 | 60 if turn < EXTENSION_HEADERS && network_at + at <= TCP_AT_MOST => {}
            _ => return Err(Reason::OtherProtocol),
        }
        let header = ip.get(at..at + 8).ok_or(Reason::HeaderTruncated)?;
        if next == 43 && header[3] != 0 {
            return Err(Reason::OtherProtocol);
        }
        next = header[0];
        at += 8 + 8 * usize::from(header[1]);
    }
    unreachable!("a header is not followed for ever")
}
