//! HTTP/2 frame by frame, written and read by hand, so that no library decides what can be said:
//! scripts of frames, floods of them, bodies that are held back, windows to the byte, random schedules, and what tests elsewhere
//! need of it.

mod expecting;
mod floods;
mod heads;
mod maker;
mod peer;
mod refused;
mod schedules;
mod scripts;
mod tails;
mod taken_back;
mod windows;

use crate::client::alpn;
use crate::framing::unescape;
use crate::world::{ALICE, World, soon, token};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What the PING at the end says.
const ASK: &[u8] = b"are-you?";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const ACK: u8 = 1;

/// The codes of RFC 9113 section 7, in their order.
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Literals that are not indexed (RFC 7541 section 6.2.2).
pub(crate) fn block(headers: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for header in headers.split(' ').filter(|header| !header.is_empty()) {
        // A pseudo-header's colon is no separator, and a name may be empty.
        let (name, value) = header.split_once('=').unwrap();
        block.push(0);
        for text in [name, value] {
            let text = unescape(text);
            // One byte of length is enough for what the scripts say.
            assert!(text.len() < 127, "{header}");
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text);
        }
    }
    block
}

/// A connection on which frames are written and read one by one.
pub(crate) struct Wire {
    pub(crate) tls: TlsStream<TcpStream>,
    read: Vec<u8>,
}

pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Wire {
    pub(crate) async fn open(world: &World) -> Self {
        let hello = alpn(&[b"h2", &token(ALICE)]);
        Self {
            tls: world.tls(&hello).await.unwrap(),
            read: Vec::new(),
        }
    }

    /// The same with the client's preface and empty SETTINGS.
    async fn begin(world: &World) -> Self {
        let mut wire = Self::open(world).await;
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        wire.tls.write_all(&begin).await.unwrap();
        wire
    }

    /// The next frame; none when the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((head, rest)) = self.read.split_first_chunk::<9>() {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if let Some(payload) = rest.get(..length) {
                    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                    let frame = Frame {
                        kind: head[3],
                        flags: head[4],
                        stream,
                        payload: payload.to_vec(),
                    };
                    self.read.drain(..9 + length);
                    return Some(frame);
                }
            }
            let read = soon("a frame", self.tls.read_buf(&mut self.read)).await;
            if read.map_or(true, |count| count == 0) {
                return None;
            }
        }
    }
}

/// The status in a response's first block: an index of the static table, or a literal with
/// its name (RFC 7541 appendix A), whose digits may be in Huffman's code.
fn status(block: &[u8]) -> u16 {
    let start = block.iter().position(|byte| byte & 0xe0 != 0x20);
    match &block[start.unwrap_or(0)..] {
        [first @ 0x88..=0x8e, ..] => [200, 204, 206, 304, 400, 404, 500][usize::from(first - 0x88)],
        [0x48 | 0x08 | 0x18, length, digits @ ..] if length & 0x80 == 0 => {
            let digits = std::str::from_utf8(&digits[..usize::from(*length)]).unwrap();
            digits.parse().unwrap()
        }
        [0x48 | 0x08 | 0x18, length, coded @ ..] => {
            let coded = &coded[..usize::from(length & 0x7f)];
            let bits: Vec<u8> = (coded.iter())
                .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
                .collect();
            let (mut at, mut status) = (0, 0);
            for _ in 0..3 {
                let value =
                    |count: usize| bits[at..at + count].iter().fold(0, |v, bit| v << 1 | bit);
                // 0, 1 and 2 have five bits, the other digits six (RFC 7541 appendix B).
                let (digit, length) = match value(5) {
                    digit @ 0..=2 => (digit, 5),
                    _ => (value(6) - 0x19 + 3, 6),
                };
                at += length;
                status = status * 10 + u16::from(digit);
            }
            status
        }
        other => panic!("no status: {other:02x?}"),
    }
}

/// What came back, as `expect` says it.
async fn observe(wire: &mut Wire, expect: &str) -> Vec<String> {
    let mut seen = Vec::new();
    observe_on(wire, &mut seen, |seen| is_observed(seen, expect)).await;
    seen
}

/// Whether the last PING is answered, and an alternative has come true.
fn is_observed(seen: &[String], expect: &str) -> bool {
    let has = |one: &str| seen.iter().any(|s| s == one);
    has("open") && alternatives(expect).any(|wanted| wanted.iter().all(|one| has(one)))
}

/// Notes what comes, until it is enough or the connection has ended.
async fn observe_on(
    wire: &mut Wire,
    seen: &mut Vec<String>,
    is_enough: impl Fn(&[String]) -> bool,
) {
    while !is_enough(seen) {
        let Some(frame) = wire.next().await else {
            seen.push("closed".to_owned());
            return;
        };
        let stream = frame.stream;
        let code = |at: usize| {
            let code = frame
                .payload
                .get(at..at + 4)
                .map(|four| u32::from_be_bytes(four.try_into().unwrap()));
            let code = code.and_then(|code| CODES.get(code as usize));
            code.copied().unwrap_or("?")
        };
        match frame.kind {
            HEADERS if frame.flags & END_HEADERS != 0 => {
                seen.push(format!("status {stream} {}", status(&frame.payload)));
            }
            RST_STREAM => seen.push(format!("rst {stream} {}", code(0))),
            GOAWAY => seen.push(format!("goaway {}", code(4))),
            PING if frame.flags & ACK != 0 && frame.payload == ASK => seen.push("open".to_owned()),
            PING if frame.flags & ACK != 0 => seen.push("pong".to_owned()),
            SETTINGS if frame.flags & ACK == 0 => seen.push("settings".to_owned()),
            SETTINGS => {
                let before = seen.iter().filter(|s| s.starts_with("acknowledged "));
                seen.push(format!("acknowledged {}", before.count() + 1));
            }
            _ => {}
        }
        if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
            seen.push(format!("end {stream}"));
        }
    }
}

fn alternatives(expect: &str) -> impl Iterator<Item = Vec<&str>> {
    (expect.split('|')).map(|wanted| wanted.split(',').map(str::trim).collect())
}
