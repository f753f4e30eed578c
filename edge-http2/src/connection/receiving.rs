//! What comes from the client, frame by frame.
//!
//! Frames are read where they lie when they are whole, and gathered when they are not; DATA is
//! given on as it comes. What is wrong with one stream ends that stream, what is wrong with more
//! the connection (RFC 9113 section 5.4).

use super::{ARE_YOU_THERE, Connection, Event, Going, LAST_CALL};
use crate::code::{Code, Violation};
use crate::frame::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEAD_BYTES, HEADERS, Head,
    MAX_31_BITS, MAX_PAYLOAD_BYTES, PADDED, PING, PRIORITISED, PRIORITY, PUSH_PROMISE, RST_STREAM,
    SETTINGS, WINDOW_UPDATE,
};
use crate::head::{Gathering, Wrong, is_trailer};
use crate::settings::Changes;
use crate::streams::{State, Stream};
use http::StatusCode;
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
    /// The connection has ended by what came.
    Broken,
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
    /// more is received.
    pub fn receive<'a>(&mut self, input: &mut &'a [u8]) -> Outcome<'a> {
        while !input.is_empty() && !self.is_congested() {
            match self.step(input) {
                Ok(None) => {}
                Ok(event) => return Ok(event),
                Err(violation) => {
                    self.input = Input {
                        at: At::Broken,
                        ..Input::default()
                    };
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
            At::Broken => {
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
                Ok(None)
            }
            // Priorities of RFC 7540 (section 5.3.2).
            _ => self.idle_frame().map(|()| None),
        }
    }

    fn headers<'a>(&mut self, head: &Head, payload: &[u8]) -> Outcome<'a> {
        let fragment = frame::unpadded(head, payload).and_then(|payload| {
            let priority = if head.has(PRIORITISED) { 5 } else { 0 };
            payload.get(priority..)
        });
        let Some(fragment) = fragment else {
            return Err(Violation::protocol(
                "HEADERS with more padding than payload",
            ));
        };
        let is_end = head.has(END_STREAM);
        if head.has(END_HEADERS) {
            return self.block(head.stream, is_end, fragment);
        }
        self.input.block = Some(Box::new(Block {
            stream: head.stream,
            is_end,
            bytes: fragment.to_vec(),
            continuations: 0,
        }));
        Ok(None)
    }

    fn continuation<'a>(&mut self, head: &Head, payload: &[u8]) -> Outcome<'a> {
        let Some(block) = &mut self.input.block else {
            return Ok(None);
        };
        block.continuations += 1;
        block.bytes.extend_from_slice(payload);
        if block.continuations > MAX_CONTINUATIONS || block.bytes.len() > MAX_BLOCK_BYTES {
            let code = Code::ENHANCE_YOUR_CALM;
            return Err(Violation::new(code, "a header block without an end"));
        }
        if !head.has(END_HEADERS) {
            return Ok(None);
        }
        match self.input.block.take() {
            Some(block) => self.block(block.stream, block.is_end, &block.bytes),
            None => Ok(None),
        }
    }

    /// A whole header block.
    fn block<'a>(&mut self, id: u32, is_end: bool, block: &[u8]) -> Outcome<'a> {
        if id.is_multiple_of(2) {
            return Err(Violation::protocol("HEADERS on a stream of the server's"));
        }
        if id > self.last {
            return self.request(id, is_end, block);
        }
        let mut is_good = true;
        let decoded = self
            .decoder
            .decode(block, &mut |field| is_good &= is_trailer(&field));
        decoded.map_err(|_| compression())?;
        match self.streams.find(id) {
            Some(stream) => self.trailers(stream, is_end && is_good),
            // It was on its way when the stream was reset.
            None if self.streams.reset_credit(id).is_some() => Ok(None),
            None => Err(Violation::new(
                Code::STREAM_CLOSED,
                "HEADERS on a stream that is closed",
            )),
        }
    }

    fn request<'a>(&mut self, id: u32, is_end: bool, block: &[u8]) -> Outcome<'a> {
        self.last = id;
        let most_bytes = self.config.max_head_bytes as usize;
        let mut gathering = Gathering::new(&mut self.before, most_bytes);
        let decoded = self
            .decoder
            .decode(block, &mut |field| gathering.take(field));
        decoded.map_err(|_| compression())?;
        let gathered = gathering.finish();
        let is_late = matches!(self.going, Going::Last(last) if id > last);
        if is_late || self.streams.count() >= self.config.max_streams as usize {
            self.idle_frame()?;
            self.reset_id(id, Code::REFUSED_STREAM);
            return Ok(None);
        }
        let room = self.windows.stream_room;
        let mut state = State::new(id, room, i64::from(self.config.stream_window_bytes));
        state.is_received = is_end;
        match gathered {
            Ok((_, Some(length))) if is_end && length > 0 => self.malformed(id),
            Ok((request, length)) => {
                state.left = length;
                Ok(Some(Event::Request {
                    stream: self.streams.open(state),
                    request: Box::new(request),
                    length,
                    is_end,
                }))
            }
            Err(Wrong::Malformed) => self.malformed(id),
            Err(Wrong::TooLarge) => {
                let stream = self.streams.open(state);
                let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                self.respond(stream, status, [], None, true);
                self.discard(stream);
                Ok(None)
            }
        }
    }

    /// A request of which nothing is known here but its number.
    fn malformed<'a>(&mut self, id: u32) -> Outcome<'a> {
        self.fault()?;
        self.reset_id(id, Code::PROTOCOL_ERROR);
        Ok(None)
    }

    fn trailers<'a>(&mut self, stream: Stream, is_good: bool) -> Outcome<'a> {
        let Some(state) = self.streams.get_mut(stream) else {
            return Ok(None);
        };
        if state.is_received {
            return self.broke(stream, Code::STREAM_CLOSED);
        }
        if !is_good || state.left.is_some_and(|left| left > 0) {
            return self.broke(stream, Code::PROTOCOL_ERROR);
        }
        let is_unwanted = state.is_unwanted;
        self.received(stream);
        let data = &[];
        Ok((!is_unwanted).then_some(Event::Data {
            stream,
            data,
            is_end: true,
        }))
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

    /// DATA begins, and so many bytes of it are around the data: padding and its length, of
    /// which the latter has been read.
    fn begin_data<'a>(&mut self, head: &Head, around: usize) -> Outcome<'a> {
        let Some(length) = head.length.checked_sub(around) else {
            return Err(Violation::protocol("DATA with more padding than payload"));
        };
        let padding = around.saturating_sub(1);
        self.windows.credit -= head.length as i64;
        if self.windows.credit < 0 {
            let code = Code::FLOW_CONTROL_ERROR;
            return Err(Violation::new(code, "more than the connection's window"));
        }
        let is_end = head.has(END_STREAM);
        if length == 0 && !is_end {
            self.idle_frame()?;
        }
        self.input.at = At::Skipped(length + padding);
        if length + padding == 0 {
            self.input.at = At::Head;
        }
        let Some(stream) = self.streams.find(head.stream) else {
            self.owe(head.length as u32);
            return self.data_on_closed(head);
        };
        let Some(state) = self.streams.get_mut(stream) else {
            return Ok(None);
        };
        state.credit -= head.length as i64;
        let is_over = state.credit < 0;
        let left = match state.left {
            Some(left) => left.checked_sub(length as u64).map(Some),
            None => Some(None),
        };
        let is_wrong = left.is_none_or(|left| is_end && left.is_some_and(|left| left > 0));
        if state.is_received || is_over || is_wrong {
            let code = match state.is_received {
                true => Code::STREAM_CLOSED,
                false if is_over => Code::FLOW_CONTROL_ERROR,
                false => Code::PROTOCOL_ERROR,
            };
            self.owe(head.length as u32);
            return self.broke(stream, code);
        }
        state.left = left.flatten();
        if state.is_unwanted {
            self.owe(head.length as u32);
            if is_end {
                self.received(stream);
            }
            return Ok(None);
        }
        // Nobody reads what is around it.
        self.owe_on(stream, around as u32);
        if length == 0 && !is_end {
            return Ok(None);
        }
        self.input.at = At::Data(Data {
            stream,
            left: length,
            padding,
            is_end,
        });
        if length > 0 {
            return Ok(None);
        }
        Ok(self.data(
            Data {
                stream,
                left: 0,
                padding,
                is_end,
            },
            &mut &[][..],
        ))
    }

    /// What was on its way when its stream was reset is nothing to anyone, as long as it keeps
    /// to the window that the stream had.
    fn data_on_closed<'a>(&mut self, head: &Head) -> Outcome<'a> {
        let id = head.stream;
        if id > self.last || id.is_multiple_of(2) {
            return Err(Violation::protocol("DATA on a stream that is idle"));
        }
        match self.streams.reset_credit(id) {
            Some(credit) => {
                *credit -= head.length as i64;
                if *credit < 0 {
                    let code = Code::FLOW_CONTROL_ERROR;
                    return Err(Violation::new(code, "more than a stream's window"));
                }
            }
            None => {
                self.fault()?;
                self.reset_id(id, Code::STREAM_CLOSED);
            }
        }
        Ok(None)
    }

    /// The next piece of DATA.
    fn data<'a>(&mut self, data: Data, input: &mut &'a [u8]) -> Option<Event<'a>> {
        let piece = take(input, data.left);
        let left = data.left - piece.len();
        self.input.at = match (left, data.padding) {
            (0, 0) => At::Head,
            (0, padding) => At::Skipped(padding),
            _ => At::Data(Data { left, ..data }),
        };
        let stream = data.stream;
        let length = piece.len() as u32;
        let is_end = left == 0 && data.is_end;
        match self.streams.get_mut(stream) {
            Some(state) if !state.is_unwanted => state.unread += length,
            // It ended, or is not wanted, since the frame began.
            other => {
                let is_open = other.is_some();
                self.owe(length);
                if is_open && is_end {
                    self.received(stream);
                }
                return None;
            }
        }
        if is_end {
            self.received(stream);
        }
        Some(Event::Data {
            stream,
            data: piece,
            is_end,
        })
    }

    fn client_reset<'a>(&mut self, id: u32, code: Code) -> Outcome<'a> {
        let Some(stream) = self.streams.find(id) else {
            return self.on_closed(id).map(|()| None);
        };
        // What was answered already may well be taken back.
        if self.streams.get(stream).is_some_and(|state| !state.is_sent)
            && !self.resets.one(self.config.clock)
        {
            return Err(Violation::new(
                Code::ENHANCE_YOUR_CALM,
                "too many requests that are taken back",
            ));
        }
        self.close(stream);
        Ok(Some(Event::Reset { stream, code }))
    }

    /// A frame for a stream that is not open is passed over, if the stream ever was.
    fn on_closed(&mut self, id: u32) -> Result<(), Violation> {
        if id > self.last || id.is_multiple_of(2) {
            return Err(Violation::protocol("a frame on a stream that is idle"));
        }
        self.idle_frame()
    }

    fn settings(&mut self, head: &Head, payload: &[u8]) -> Result<(), Violation> {
        if head.has(ACK) {
            return Ok(());
        }
        let is_first = !mem::replace(&mut self.has_settings, true);
        if !is_first {
            self.idle_frame()?;
        }
        let changes = Changes::read(payload)?;
        if let Some(bytes) = changes.table_bytes {
            self.encoder.set_max_table_bytes(bytes);
        }
        if let Some(bytes) = changes.window_bytes {
            let more = i64::from(bytes) - self.windows.stream_room;
            self.windows.stream_room = i64::from(bytes);
            self.windows.is_chosen = !is_first;
            for (_, state) in self.streams.iter_mut() {
                state.room += more;
                if state.room > i64::from(MAX_31_BITS) {
                    let code = Code::FLOW_CONTROL_ERROR;
                    return Err(Violation::new(code, "a window over 2^31-1"));
                }
            }
            self.rooms_changed();
        }
        frame::settings_ack(self.output.end());
        Ok(())
    }

    fn pinged<'a>(&mut self, head: &Head, payload: &[u8]) -> Outcome<'a> {
        let Ok(opaque) = <[u8; 8]>::try_from(payload) else {
            return Ok(None);
        };
        self.idle_frame()?;
        if !head.has(ACK) {
            frame::ping(self.output.end(), ACK, opaque);
        } else if opaque == LAST_CALL && self.going == Going::Announced {
            self.go_away(Code::NO_ERROR);
        } else if opaque == ARE_YOU_THERE {
            return Ok(Some(Event::Pong));
        }
        Ok(None)
    }

    fn window_update<'a>(&mut self, id: u32, more: u32) -> Outcome<'a> {
        let most = i64::from(MAX_31_BITS);
        if id == 0 {
            if more == 0 {
                return Err(Violation::protocol("WINDOW_UPDATE of nothing"));
            }
            let windows = &mut self.windows;
            windows.room += i64::from(more);
            if windows.room > most {
                let code = Code::FLOW_CONTROL_ERROR;
                return Err(Violation::new(code, "a window over 2^31-1"));
            }
            if windows.room > windows.most_room {
                windows.most_room = windows.room;
                self.rooms_changed();
            }
            return Ok(None);
        }
        let Some(stream) = self.streams.find(id) else {
            return self.on_closed(id).map(|()| None);
        };
        let lowered = self.windows.lowered;
        let Some(state) = self.streams.get_mut(stream) else {
            return Ok(None);
        };
        state.room += i64::from(more);
        if more == 0 {
            return self.broke(stream, Code::PROTOCOL_ERROR);
        }
        if state.room > most {
            return self.broke(stream, Code::FLOW_CONTROL_ERROR);
        }
        if state.waits && !state.is_queued && state.room > lowered {
            state.is_queued = true;
            self.queue.push_back(stream);
        }
        Ok(None)
    }
}

fn compression() -> Violation {
    let code = Code::COMPRESSION_ERROR;
    Violation::new(code, "a header block that cannot be decoded")
}
