//! The layout of frames (RFC 9113 sections 4.1 and 6): reading their heads, writing those that
//! a server sends.

use crate::code::Code;

/// Of each frame.
pub(crate) const HEAD_BYTES: usize = 9;
/// SETTINGS_MAX_FRAME_SIZE, which nobody may set lower; we neither take nor send longer ones.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 16_384;
/// Windows and stream identifiers have 31 bits.
pub(crate) const MAX_31_BITS: u32 = 0x7fff_ffff;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const PRIORITISED: u8 = 0x20;

/// What stands before each frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    #[inline]
    pub(crate) fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [x, y, z, kind, flags, a, b, c, d] = *bytes;
        Self {
            length: u32::from_be_bytes([0, x, y, z]) as usize,
            kind,
            flags,
            // The highest bit is reserved and is ignored.
            stream: u32::from_be_bytes([a, b, c, d]) & MAX_31_BITS,
        }
    }

    #[inline]
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame's head. `length` is at most [`MAX_PAYLOAD_BYTES`].
#[inline]
pub(crate) fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, _, x, y] = (length as u32).to_be_bytes();
    let [a, b, c, d] = stream.to_be_bytes();
    out.extend_from_slice(&[0, x, y, kind, flags, a, b, c, d]);
}

/// The same with a payload of four bytes.
fn four(out: &mut Vec<u8>, kind: u8, stream: u32, value: u32) {
    head(out, 4, kind, 0, stream);
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn settings(out: &mut Vec<u8>, list: &[(u16, u32)]) {
    head(out, 6 * list.len(), SETTINGS, 0, 0);
    for (id, value) in list {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub(crate) fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, SETTINGS, ACK, 0);
}

pub(crate) fn ping(out: &mut Vec<u8>, flags: u8, opaque: [u8; 8]) {
    head(out, 8, PING, flags, 0);
    out.extend_from_slice(&opaque);
}

pub(crate) fn goaway(out: &mut Vec<u8>, last: u32, code: Code) {
    head(out, 8, GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

pub(crate) fn reset(out: &mut Vec<u8>, stream: u32, code: Code) {
    four(out, RST_STREAM, stream, code.0);
}

pub(crate) fn window_update(out: &mut Vec<u8>, stream: u32, more: u32) {
    four(out, WINDOW_UPDATE, stream, more);
}

/// A HEADERS or DATA payload without its padding (sections 6.1 and 6.2); none: there is more of
/// it than of the frame.
pub(crate) fn unpadded<'a>(head: &Head, payload: &'a [u8]) -> Option<&'a [u8]> {
    if !head.has(PADDED) {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*padding))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_are_written() {
        let mut out = Vec::new();
        head(&mut out, 16_384, HEADERS, END_STREAM | PADDED, 77);
        let read = Head::read(out.first_chunk().unwrap());
        assert_eq!((read.length, read.kind, read.stream), (16_384, HEADERS, 77));
        assert!(read.has(END_STREAM) && read.has(PADDED) && !read.has(END_HEADERS));
        out[5] |= 0x80;
        assert_eq!(Head::read(out.first_chunk().unwrap()).stream, 77);
    }

    #[test]
    fn padding_is_taken_off_and_is_not_more_than_there_is() {
        let frame = |flags| Head {
            length: 0,
            kind: DATA,
            flags,
            stream: 1,
        };
        let (plain, padded) = (frame(0), frame(PADDED));
        assert_eq!(unpadded(&plain, b"\x09x"), Some(&b"\x09x"[..]));
        assert_eq!(unpadded(&padded, b"\x00xy"), Some(&b"xy"[..]));
        assert_eq!(unpadded(&padded, b"\x01xy"), Some(&b"x"[..]));
        assert_eq!(unpadded(&padded, b"\x02xy"), Some(&b""[..]));
        assert_eq!(unpadded(&padded, b"\x03xy"), None);
        assert_eq!(unpadded(&padded, b""), None);
    }
}
