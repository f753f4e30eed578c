//! What comes from the client, frame by frame.
//!
//! Frames are read where they lie when they are whole, and gathered when they are not; DATA is
//! given on as it comes. What is wrong with one stream ends that stream, what is wrong with more
//! the connection (RFC 9113 section 5.4).

mod control;
mod data;
mod heads;

use super::{Connection, Event};
use crate::code::{Code, Violation};
use crate::frame::{
    ACK, CONTINUATION, DATA, GOAWAY, HEAD_BYTES, HEADERS, Head, MAX_31_BITS, MAX_PAYLOAD_BYTES,
    PADDED, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use crate::streams::Stream;
use std::mem;

/// What a client says first (section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Most CONTINUATIONs of a header block, and most bytes of one as it is sent: twice what the
/// fields may be takes no more, unless Huffman's code is used where it is of no use.
const MAX_CONTINUATIONS: u32 = 64;
const MAX_BLOCK_BYTES: usize = 256 * 1024;

/// How far reading has come.
#[derive(Debug, Default)]
pub(super) struct Input {
    at: At,
    /// Of a frame's head, or of a payload, what has come so far.
    gathered: Vec<u8>,
    /// A header block that goes on in CONTINUATIONs.
    block: Option<Box<Block>>,
}

impl Input {
    /// Whatever comes from now on is thrown away.
    pub(super) fn end(&mut self) {
        *self = Self {
            at: At::Over,
            ..Self::default()
        };
    }
}

#[derive(Clone, Copy, Debug)]
enum At {
    /// In the preface, after so many bytes of it.
    Preface(usize),
    /// Before a frame, or in its head.
    Head,
    /// In a payload that is to be read whole.
    Payload(Head),
    /// Before DATA's length of padding.
    Padding(Head),
    /// In DATA.
    Data(Data),
    /// In so many bytes that say nothing; they count for the connection's window already.
    Skipped(usize),
    /// The connection has ended: nothing counts any more.
    Over,
}

impl Default for At {
    fn default() -> Self {
        Self::Preface(0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Data {
    stream: Stream,
    left: usize,
    padding: usize,
    is_end: bool,
}

#[derive(Debug)]
struct Block {
    stream: u32,
    is_end: bool,
    bytes: Vec<u8>,
    continuations: u32,
}

/// What came of a frame. Nothing: it is done with.
type Outcome<'a> = Result<Option<Event<'a>>, Violation>;

/// As many bytes as there are, but not more than `most`, taken off `input`.
fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    taken
}

fn four(payload: &[u8]) -> u32 {
    payload
        .first_chunk()
        .map_or(0, |four| u32::from_be_bytes(*four))
}

impl Connection {
    /// Takes of `input` what leads to the next event, or all of it. What is left without an
    /// event is to be given again when the output [has been written](Self::is_congested).
    ///
    /// # Errors
    /// The client broke the protocol. A GOAWAY that says so lies in the output, and nothing
    /// more is received or sent: see [`go_away`](Self::go_away).
    pub fn receive<'a>(&mut self, input: &mut &'a [u8]) -> Outcome<'a> {
        while !input.is_empty() && !self.is_congested() {
            match self.step(input) {
                Ok(None) => {}
                Ok(event) => return Ok(event),
                Err(violation) => {
                    self.go_away(violation.code);
                    return Err(violation);
                }
            }
        }
        Ok(None)
    }

    fn step<'a>(&mut self, input: &mut &'a [u8]) -> Outcome<'a> {
        match self.input.at {
            At::Preface(at) => {
                let part = take(input, PREFACE.len() - at);
                let end = at + part.len();
                if part != &PREFACE[at..end] {
                    return Err(Violation::protocol("no preface of HTTP/2"));
                }
                self.input.at = match end {
                    _ if end == PREFACE.len() => At::Head,
                    _ => At::Preface(end),
                };
                Ok(None)
            }
            At::Head => {
                if self.input.gathered.is_empty()
                    && let Some((head, rest)) = input.split_first_chunk::<HEAD_BYTES>()
                {
                    *input = rest;
                    return self.begin(Head::read(head), input);
                }
                let missing = HEAD_BYTES - self.input.gathered.len();
                self.input.gathered.extend_from_slice(take(input, missing));
                match self.input.gathered.first_chunk::<HEAD_BYTES>() {
                    Some(head) => {
                        let head = Head::read(head);
                        self.input.gathered = Vec::new();
                        self.begin(head, input)
                    }
                    None => Ok(None),
                }
            }
            At::Payload(head) => {
                if self.input.gathered.is_empty() && input.len() >= head.length {
                    let payload = take(input, head.length);
                    self.input.at = At::Head;
                    return self.frame(&head, payload);
                }
                let missing = head.length - self.input.gathered.len();
                self.input.gathered.extend_from_slice(take(input, missing));
                if self.input.gathered.len() < head.length {
                    return Ok(None);
                }
                let payload = mem::take(&mut self.input.gathered);
                self.input.at = At::Head;
                self.frame(&head, &payload)
            }
            At::Padding(head) => match take(input, 1) {
                [padding] => self.begin_data(&head, usize::from(*padding) + 1),
                _ => Ok(None),
            },
            At::Data(data) => Ok(self.data(data, input)),
            At::Skipped(left) => {
                let left = left - take(input, left).len();
                self.input.at = if left == 0 {
                    At::Head
                } else {
                    At::Skipped(left)
                };
                Ok(None)
            }
            At::Over => {
                *input = &[];
                Ok(None)
            }
        }
    }

    /// A frame's head has come.
    fn begin<'a>(&mut self, head: Head, input: &mut &'a [u8]) -> Outcome<'a> {
        if head.length > MAX_PAYLOAD_BYTES {
            return Err(Violation::size("a frame of more than 16,384 bytes"));
        }
        if !self.has_settings && (head.kind != SETTINGS || head.has(ACK)) {
            return Err(Violation::protocol("no SETTINGS behind the preface"));
        }
        match &self.input.block {
            Some(block) if head.kind != CONTINUATION || head.stream != block.stream => {
                return Err(Violation::protocol("another frame within a header block"));
            }
            None if head.kind == CONTINUATION => {
                return Err(Violation::protocol("CONTINUATION of no header block"));
            }
            _ => {}
        }
        let is_of_stream = head.stream != 0;
        let (wants_stream, length) = match head.kind {
            DATA | HEADERS | CONTINUATION => (Some(true), None),
            PRIORITY => (Some(true), Some(5)),
            RST_STREAM => (Some(true), Some(4)),
            SETTINGS if head.has(ACK) => (Some(false), Some(0)),
            SETTINGS => (Some(false), None),
            PUSH_PROMISE => return Err(Violation::protocol("PUSH_PROMISE by a client")),
            PING => (Some(false), Some(8)),
            GOAWAY => (Some(false), None),
            WINDOW_UPDATE => (None, Some(4)),
            _ => {
                self.idle_frame()?;
                self.input.at = At::Skipped(head.length);
                return self.if_empty(head.length);
            }
        };
        if wants_stream.is_some_and(|wants| wants != is_of_stream) {
            return Err(Violation::protocol("a frame on the wrong kind of stream"));
        }
        if length.is_some_and(|length| length != head.length) {
            return Err(Violation::size("a frame of a length that it cannot have"));
        }
        if head.kind == DATA {
            if !head.has(PADDED) {
                return self.begin_data(&head, 0);
            }
            if head.length == 0 {
                return Err(Violation::size("padding without its length"));
            }
            self.input.at = At::Padding(head);
            return Ok(None);
        }
        if input.len() >= head.length {
            let payload = take(input, head.length);
            return self.frame(&head, payload);
        }
        self.input.at = At::Payload(head);
        Ok(None)
    }

    /// A frame without a payload is over as it begins.
    fn if_empty<'a>(&mut self, length: usize) -> Outcome<'a> {
        if length == 0 {
            self.input.at = At::Head;
        }
        Ok(None)
    }

    /// A whole frame that is no DATA; its length is one that it may have.
    fn frame<'a>(&mut self, head: &Head, payload: &[u8]) -> Outcome<'a> {
        self.input.at = At::Head;
        match head.kind {
            HEADERS => self.headers(head, payload),
            CONTINUATION => self.continuation(head, payload),
            RST_STREAM => self.client_reset(head.stream, Code(four(payload))),
            SETTINGS => self.settings(head, payload).map(|()| None),
            PING => self.pinged(head, payload),
            WINDOW_UPDATE => self.window_update(head.stream, four(payload) & MAX_31_BITS),
            GOAWAY if payload.len() < 8 => Err(Violation::size("GOAWAY that is cut")),
            GOAWAY => {
                self.client_goes = true;
                self.idle_frame().map(|()| None)
            }
            // Priorities of RFC 7540 (section 5.3.2).
            _ => self.idle_frame().map(|()| None),
        }
    }

    /// A stream ends for what came on it.
    fn broke<'a>(&mut self, stream: Stream, code: Code) -> Outcome<'a> {
        self.fault()?;
        self.reset(stream, code);
        Ok(Some(Event::Reset { stream, code }))
    }

    /// The request has come to its end.
    fn received(&mut self, stream: Stream) {
        if let Some(state) = self.streams.get_mut(stream) {
            state.is_received = true;
            if state.is_sent {
                self.close(stream);
            }
        }
    }
}
