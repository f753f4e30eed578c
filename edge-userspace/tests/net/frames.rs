//! TCP segments as whole Ethernet frames, checksums filled in: what a client can send that
//! no stack would. Not here: reading frames ([`super::segment`]).

use super::wire::{CLIENT_MAC, SERVER_MAC};
use std::net::{IpAddr, SocketAddr};

/// A client's segment, of which everything but who sends it and where in the stream is
/// fixed: filling that in costs no walk over the payload.
pub(crate) struct Template {
    frame: Vec<u8>,
    /// Where the IP header begins.
    ip: usize,
    /// Where the TCP header begins.
    tcp: usize,
    /// Sum of all 16-bit words under the TCP checksum, the open ones left out.
    sum: u32,
}

const ETHERNET_BYTES: usize = 14;

impl Template {
    /// A segment to `to` with these TCP flags, options (a multiple of four bytes) and payload.
    pub(crate) fn new(to: SocketAddr, flags: u8, options: &[u8], payload: &[u8]) -> Self {
        let head = 20 + options.len();
        let length = (head + payload.len()) as u16;
        let mut frame = [SERVER_MAC, CLIENT_MAC].concat();
        match to.ip() {
            IpAddr::V4(to) => {
                let [a, b] = (20 + length).to_be_bytes();
                // RFC 791: version and header length, don't fragment, 64 hops, TCP.
                frame.extend([8, 0, 0x45, 0, a, b, 0, 0, 0x40, 0, 64, 6, 0, 0, 0, 0, 0, 0]);
                frame.extend(to.octets());
            }
            IpAddr::V6(to) => {
                let [a, b] = length.to_be_bytes();
                // RFC 8200: version, length, TCP, 64 hops.
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, a, b, 6, 64]);
                frame.extend([0; 16]);
                frame.extend(to.octets());
            }
        }
        let (ip, tcp) = (ETHERNET_BYTES, frame.len());
        frame.extend([0, 0]);
        frame.extend(to.port().to_be_bytes());
        frame.extend([0; 8]);
        // RFC 9293 section 3.1: header length in words, flags, window, checksum, urgent.
        frame.extend([(head / 4 * 16) as u8, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        frame.extend(options);
        frame.extend(payload);
        let to = match to.ip() {
            IpAddr::V4(to) => words(&to.octets()),
            IpAddr::V6(to) => words(&to.octets()),
        };
        let sum = to + u32::from(length) + 6 + words(&frame[tcp..]);
        Self {
            frame,
            ip,
            tcp,
            sum,
        }
    }

    /// The frame from this client at this place in the stream, in `frame`.
    pub(crate) fn fill(
        &self,
        frame: &mut Vec<u8>,
        from: SocketAddr,
        sequence: u32,
        acknowledged: u32,
    ) {
        frame.clear();
        frame.extend_from_slice(&self.frame);
        let (ip, tcp) = (self.ip, self.tcp);
        let from_sum = match from.ip() {
            IpAddr::V4(from) => {
                frame[ip + 12..ip + 16].copy_from_slice(&from.octets());
                let sum = fold(words(&frame[ip..tcp]));
                frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
                words(&from.octets())
            }
            IpAddr::V6(from) => {
                frame[ip + 8..ip + 24].copy_from_slice(&from.octets());
                words(&from.octets())
            }
        };
        frame[tcp..tcp + 2].copy_from_slice(&from.port().to_be_bytes());
        frame[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
        frame[tcp + 8..tcp + 12].copy_from_slice(&acknowledged.to_be_bytes());
        let halves = |word: u32| (word >> 16) + (word & 0xffff);
        let sum = self.sum + from_sum + u32::from(from.port());
        let sum = fold(sum + halves(sequence) + halves(acknowledged));
        frame[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
    }

    /// The same in a buffer of its own.
    pub(crate) fn frame(&self, from: SocketAddr, sequence: u32, acknowledged: u32) -> Vec<u8> {
        let mut frame = Vec::new();
        self.fill(&mut frame, from, sequence, acknowledged);
        frame
    }
}

/// Sum of 16-bit words, big-endian, the last one padded (RFC 1071).
fn words(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks(2);
    pairs
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

/// The checksum that belongs to a sum.
fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
