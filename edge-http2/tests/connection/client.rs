//! A client that writes what it is told to.

use crate::ops::{Head, On, Op, Request, Trailers};

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
pub(crate) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITISED: u8 = 0x20;

/// Knows which streams it opened.
#[derive(Debug, Default)]
pub(crate) struct Client {
    has_begun: bool,
    pub(crate) opened: Vec<u32>,
}

impl Client {
    pub(crate) fn id(&self, on: On) -> u32 {
        let next = self.opened.last().map_or(1, |last| last + 2);
        match on {
            On::Opened(nth) => {
                let nth = self.opened.iter().rev().nth(nth).or(self.opened.first());
                nth.copied().unwrap_or(next)
            }
            On::Idle => next + 20,
            On::Even => 2,
            On::Connection => 0,
        }
    }

    /// The stream that is named, if it was opened before.
    pub(crate) fn target(&self, op: &Op) -> Option<u32> {
        match op {
            Op::Data { on, .. } | Op::Trailers { on, .. } | Op::Reset { on, .. } => {
                Some(self.id(*on))
            }
            Op::Window { on, .. } | Op::Frame { on, .. } => Some(self.id(*on)),
            Op::Request(_) | Op::Settings(_) | Op::Priority(_) => None,
        }
    }

    pub(crate) fn write(&mut self, op: &Op) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            frame(SETTINGS, 0, 0, &[], &mut out);
            // So that no stream is kept back for the sake of others.
            frame(WINDOW_UPDATE, 0, 0, &10_000_000_u32.to_be_bytes(), &mut out);
        }
        match op {
            Op::Request(request) => {
                let id = self.opened.last().map_or(1, |last| last + 2);
                self.opened.push(id);
                request.write(id, &mut out);
            }
            Op::Data {
                on,
                bytes,
                padding,
                is_end,
            } => {
                let (flags, payload) = padded(*padding, vec![b'x'; *bytes]);
                let flags = flags | if *is_end { END_STREAM } else { 0 };
                frame(DATA, flags, self.id(*on), &payload, &mut out);
            }
            Op::Trailers { on, kind, is_end } => {
                let mut block = Vec::new();
                match kind {
                    Trailers::Good => literal("x-trailer", "1", &mut block),
                    Trailers::Pseudo => literal(":path", "/1", &mut block),
                }
                let flags = END_HEADERS | if *is_end { END_STREAM } else { 0 };
                frame(HEADERS, flags, self.id(*on), &block, &mut out);
            }
            Op::Reset { on, code } => {
                frame(RST_STREAM, 0, self.id(*on), &code.to_be_bytes(), &mut out);
            }
            Op::Window { on, more } => {
                frame(
                    WINDOW_UPDATE,
                    0,
                    self.id(*on),
                    &more.to_be_bytes(),
                    &mut out,
                );
            }
            Op::Settings(list) => {
                let mut payload = Vec::new();
                for (id, value) in list {
                    payload.extend_from_slice(&id.to_be_bytes());
                    payload.extend_from_slice(&value.to_be_bytes());
                }
                frame(SETTINGS, 0, 0, &payload, &mut out);
            }
            Op::Priority(on) => frame(PRIORITY, 0, self.id(*on), &[0, 0, 0, 0, 7], &mut out),
            Op::Frame {
                kind,
                flags,
                on,
                bytes,
                byte,
            } => {
                frame(*kind, *flags, self.id(*on), &vec![*byte; *bytes], &mut out);
            }
        }
        out
    }
}

impl Request {
    fn write(&self, id: u32, out: &mut Vec<u8>) {
        let path = format!("/{}", self.answer);
        let mut fields = vec![
            (":method", "POST"),
            (":scheme", "https"),
            (":path", &path),
            (":authority", "edge.example"),
        ];
        let large = "x".repeat(5_000);
        match self.head {
            Head::Without(place) => drop(fields.remove(place)),
            Head::Twice(place) => fields.push(fields[place]),
            Head::With(name, value) => fields.push((name, value)),
            Head::Late => fields.extend([("x", "1"), (":path", "/1")]),
            Head::Large => fields.push(("large", &large)),
            Head::Good | Head::Broken => {}
        }
        let length = self.length.map(|it| it.to_string());
        if let Some(length) = &length {
            fields.push(("content-length", length));
        }
        let mut block = Vec::new();
        for (name, value) in fields {
            literal(name, value, &mut block);
        }
        if self.head == Head::Broken {
            block.push(0x80);
        }
        let mut pieces = block.chunks(block.len().div_ceil(self.frames));
        let priority: &[u8] = if self.is_prioritised {
            &[0, 0, 0, 0, 7]
        } else {
            &[]
        };
        let first = [priority, pieces.next().unwrap_or_default()].concat();
        let (mut flags, first) = padded(self.padding, first);
        if self.is_prioritised {
            flags |= PRIORITISED;
        }
        if self.is_end {
            flags |= END_STREAM;
        }
        let rest: Vec<_> = pieces.collect();
        if rest.is_empty() {
            flags |= END_HEADERS;
        }
        frame(HEADERS, flags, id, &first, out);
        for (nth, piece) in rest.iter().enumerate() {
            let flags = if nth + 1 == rest.len() {
                END_HEADERS
            } else {
                0
            };
            frame(CONTINUATION, flags, id, piece, out);
        }
    }
}

/// A payload with its padding around it, and the flag that says so.
pub(crate) fn padded(padding: Option<u8>, payload: Vec<u8>) -> (u8, Vec<u8>) {
    match padding {
        None => (0, payload),
        Some(padding) => {
            let zeros = vec![0; usize::from(padding)];
            (PADDED, [&[padding], &payload[..], &zeros].concat())
        }
    }
}

/// A field that passes by the table.
pub(crate) fn literal(name: &str, value: &str, block: &mut Vec<u8>) {
    block.push(0);
    for text in [name, value] {
        if text.len() < 127 {
            block.push(text.len() as u8);
        } else {
            block.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                block.push(rest as u8 | 128);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
        block.extend_from_slice(text.as_bytes());
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}
