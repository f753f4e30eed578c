//! Frames that are not in the data: around hellos, and changed at random.

use super::dissect::{dissect, folded, words};
use super::generated::Random;
use edge_common::flow::FlowKey;

/// Below this a frame lies in one buffer: a page less the kernel's room around it.
pub(crate) const ONE_BUFFER: usize = 3400;

/// TCP sequence number of the first byte that a client sends.
pub(crate) const FIRST: u32 = 0x0102_0304;

/// A client's segment, its payload `offset` bytes behind the first, with its checksum.
pub(crate) fn segment(version: u8, offset: usize, payload: &[u8]) -> Vec<u8> {
    let mut frame = if version == 4 {
        ipv4(payload)
    } else {
        ipv6(payload)
    };
    let sequence = FIRST.wrapping_add(offset as u32).to_be_bytes();
    let at = frame.len() - payload.len() - 16;
    frame[at..at + 4].copy_from_slice(&sequence);
    seal(&mut frame);
    frame
}

/// The same from this port.
pub(crate) fn segment_from(port: u16, version: u8, offset: usize, payload: &[u8]) -> Vec<u8> {
    let mut frame = segment(version, offset, payload);
    let at = frame.len() - payload.len() - 20;
    frame[at..at + 2].copy_from_slice(&port.to_be_bytes());
    seal(&mut frame);
    frame
}

/// Puts the right TCP checksum into a frame for port 443, if it is a whole segment.
pub(crate) fn seal(frame: &mut [u8]) {
    let Ok(segment) = dissect(frame, &[443]) else {
        return;
    };
    let (at, flow) = (segment.transport_at, segment.flow);
    let addresses = flow.client.iter().chain(&flow.server);
    let addresses: Vec<u8> = addresses.flat_map(|word| word.to_ne_bytes()).collect();
    let bytes = usize::from(frame[at + 12] >> 4) * 4 + segment.payload_bytes;
    if frame.len() < at + bytes {
        return;
    }
    frame[at + 16..at + 18].fill(0);
    // What makes an IPv4 address an IPv6 one adds 0xffff, which is nothing.
    let sum = words(&addresses) + 6 + bytes as u64 + words(&frame[at..at + bytes]);
    frame[at + 16..at + 18].copy_from_slice(&(!folded(sum)).to_be_bytes());
}

/// Leaves the checksum to a device: the pseudo-header's sum alone.
pub(crate) fn leave_to_device(frame: &mut [u8]) {
    seal(frame);
    let Ok(segment) = dissect(frame, &[443]) else {
        return;
    };
    let at = segment.transport_at;
    let bytes = usize::from(frame[at + 12] >> 4) * 4 + segment.payload_bytes;
    if frame.len() < at + bytes {
        return;
    }
    // What is under a right checksum adds up to all ones; without the segment's own part
    // the pseudo-header is left.
    let own = folded(words(&frame[at..at + bytes]));
    frame[at + 16..at + 18].copy_from_slice(&(!own).to_be_bytes());
}

/// What opens a connection of this client, server and ports.
pub(crate) fn syn(flow: &FlowKey) -> Vec<u8> {
    let bytes = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_ne_bytes()).collect() };
    let mut frame;
    if flow.client[..3] == [0, 0, FlowKey::MAPPED] && flow.server[..3] == [0, 0, FlowKey::MAPPED] {
        frame = ipv4(&[]);
        frame[26..30].copy_from_slice(&bytes(&flow.client[3..]));
        frame[30..34].copy_from_slice(&bytes(&flow.server[3..]));
    } else {
        frame = ipv6(&[]);
        frame[22..38].copy_from_slice(&bytes(&flow.client));
        frame[38..54].copy_from_slice(&bytes(&flow.server));
    }
    let at = frame.len() - 20;
    frame[at..at + 2].copy_from_slice(&flow.client_port_be.to_ne_bytes());
    frame[at + 2..at + 4].copy_from_slice(&flow.server_port_be.to_ne_bytes());
    frame[at + 13] = 2;
    frame
}

/// A client's segment over IPv4, without a checksum.
pub(crate) fn ipv4(payload: &[u8]) -> Vec<u8> {
    let total = (40 + payload.len() as u16).to_be_bytes();
    let mut frame = [&[2; 6][..], &[4; 6], &[8, 0, 0x45, 0], &total].concat();
    frame.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    tcp(frame, payload)
}

/// The same over IPv6.
pub(crate) fn ipv6(payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let mut frame = [&[2; 6][..], &[4; 6], &[0x86, 0xdd, 0x60, 0, 0, 0], &length].concat();
    frame.extend([6, 64]);
    frame.extend([&[0xfd; 15][..], &[1], &[0xfd; 15], &[2]].concat());
    tcp(frame, payload)
}

fn tcp(mut frame: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    frame.extend([
        0xc3, 0x50, 1, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    frame.extend(payload);
    frame
}

/// One change to a frame: of a byte, a bit, the length; half of them within the headers.
pub(crate) fn change(random: &mut Random, frame: &mut Vec<u8>) {
    if frame.is_empty() {
        return;
    }
    let reach = if random.below(2) == 0 {
        frame.len().min(80)
    } else {
        frame.len()
    };
    let at = random.below(reach);
    match random.below(8) {
        0 | 1 => frame[at] = random.next() as u8,
        2 | 3 => frame[at] ^= 1 << random.below(8),
        4 => frame[at] = *random.of(&[0, 1, 0x7f, 0x80, 0xff]),
        5 => frame.insert(at, random.next() as u8),
        6 => drop(frame.remove(at)),
        _ => frame.truncate(random.below(frame.len() + 1)),
    }
}
