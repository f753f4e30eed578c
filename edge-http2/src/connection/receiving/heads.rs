//! Header blocks: requests, and trailers.

use super::{Block, MAX_BLOCK_BYTES, MAX_CONTINUATIONS, Outcome};
use crate::code::{Code, Violation};
use crate::connection::{Connection, Event, Going};
use crate::fields::Fields;
use crate::frame::{self, END_HEADERS, END_STREAM, Head, PRIORITISED};
use crate::head::{Gathering, Wrong, is_trailer};
use crate::hpack;
use crate::streams::{State, Stream};
use http::StatusCode;
use http::header::EXPECT;

impl Connection {
    pub(super) fn headers<'a>(&mut self, head: &Head, payload: &[u8]) -> Outcome<'a> {
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

    pub(super) fn continuation<'a>(&mut self, head: &Head, payload: &[u8]) -> Outcome<'a> {
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
    pub(super) fn block<'a>(&mut self, id: u32, is_end: bool, block: &[u8]) -> Outcome<'a> {
        if id.is_multiple_of(2) {
            return Err(Violation::protocol("HEADERS on a stream of the server's"));
        }
        if id > self.last {
            return self.request(id, is_end, block);
        }
        // Closed by the first use of a higher one, and never in use itself (section 5.1.1).
        if self.streams.was_skipped(id) {
            return Err(Violation::protocol("a new stream below the last one"));
        }
        let mut is_good = true;
        let decoded = self
            .decoder
            .decode(block, &mut |field| is_good &= is_trailer(&field));
        decoded.map_err(undecodable)?;
        match self.streams.find(id) {
            Some(stream) => self.trailers(stream, is_end && is_good),
            // It was on its way when the stream was reset.
            None if self.streams.reset_credit(id).is_some() => self.idle_frame().map(|()| None),
            None => Err(Violation::new(
                Code::STREAM_CLOSED,
                "HEADERS on a stream that is closed",
            )),
        }
    }

    pub(super) fn request<'a>(&mut self, id: u32, is_end: bool, block: &[u8]) -> Outcome<'a> {
        self.streams.note_skipped(self.last, id);
        self.last = id;
        let most_bytes = self.config.max_head_bytes as usize;
        let mut gathering = Gathering::new(&mut self.before, most_bytes);
        let decoded = self
            .decoder
            .decode(block, &mut |field| gathering.take(field));
        decoded.map_err(undecodable)?;
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
            Ok((head, length)) => {
                state.left = length;
                state.expects_continue = !is_end && expects_continue(&head.fields);
                Ok(Some(Event::Request {
                    stream: self.streams.open(state),
                    head,
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
    pub(super) fn malformed<'a>(&mut self, id: u32) -> Outcome<'a> {
        self.fault()?;
        self.reset_id(id, Code::PROTOCOL_ERROR);
        Ok(None)
    }

    pub(super) fn trailers<'a>(&mut self, stream: Stream, is_good: bool) -> Outcome<'a> {
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
}

/// Whether a client waits for a 100 (Continue) before it sends the body (RFC 9110 section 10.1.1).
fn expects_continue(fields: &Fields) -> bool {
    let mut expectations = fields.get_all(EXPECT);
    expectations.any(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

fn undecodable(error: hpack::Error) -> Violation {
    match error {
        hpack::Error::List => {
            let code = Code::ENHANCE_YOUR_CALM;
            Violation::new(code, "a header block of far more than is read of one")
        }
        _ => {
            let code = Code::COMPRESSION_ERROR;
            Violation::new(code, "a header block that cannot be decoded")
        }
    }
}
