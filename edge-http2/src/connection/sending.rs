//! Answers: heads, bodies within the client's windows, ends.

use super::{Connection, OUTPUT_BYTES};
use crate::code::Code;
use crate::frame::{self, DATA, END_HEADERS, END_STREAM, HEAD_BYTES, HEADERS, MAX_PAYLOAD_BYTES};
use crate::head::is_of_http1;
use crate::streams::Stream;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderName, HeaderValue, StatusCode};
use std::mem;

/// Most bytes of a DATA frame's payload: with its head it fills a record of TLS (RFC 8446 section
/// 5.1), so that frames after frames leave no odd end that would be a record, and a write, by itself.
const DATA_BYTES: usize = MAX_PAYLOAD_BYTES - HEAD_BYTES;

impl Connection {
    /// The rest of a request is wanted. A client that waits to be told so gets a 100 (Continue)
    /// (RFC 9110 section 10.1.1, RFC 9113 section 8.1.1), unless some of the body has come or
    /// the answer has begun.
    pub fn ask(&mut self, stream: Stream) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        let is_waited_for = mem::take(&mut state.expects_continue);
        if is_waited_for && !state.is_received {
            let out = self.output.end();
            let begin = out.len();
            frame::head(out, 0, HEADERS, END_HEADERS, stream.id);
            self.encoder.status(StatusCode::CONTINUE, out);
            end_block(out, begin, stream.id);
        }
    }

    /// Sends an answer's head; `length`: a `content-length` to put among its fields; `is_end`: it
    /// has no body. Of a field it is said whether it may be
    /// put into the table of fields that are shorter the next time. Those of HTTP/1.1's
    /// connections are left out (section 8.2.2). To a stream that is over nothing is sent.
    pub fn respond<'f>(
        &mut self,
        stream: Stream,
        status: StatusCode,
        fields: impl IntoIterator<Item = (&'f HeaderName, &'f HeaderValue, bool)>,
        length: Option<u64>,
        is_end: bool,
    ) {
        let Some(state) = self.streams.get_mut(stream).filter(|state| !state.is_sent) else {
            return;
        };
        state.expects_continue = false;
        let out = self.output.end();
        let begin = out.len();
        let flags = END_HEADERS | if is_end { END_STREAM } else { 0 };
        frame::head(out, 0, HEADERS, flags, stream.id);
        self.encoder.status(status, out);
        for (name, value, is_kept) in fields {
            if !is_of_http1(name) {
                self.encoder.field(name, value, is_kept, out);
            }
        }
        if let Some(length) = length {
            self.encoder.number(&CONTENT_LENGTH, length, out);
        }
        end_block(out, begin, stream.id);
        if is_end {
            self.sent(stream);
        }
    }

    /// Sends as much of `data` as there is room for. `true`: that was all of it, and its end if
    /// `is_end`. Else [`next_writable`](Self::next_writable) tells when there is room again.
    ///
    /// When others wait as well each sends 16 KiB in its turn.
    pub fn send(&mut self, stream: Stream, data: &mut Bytes, is_end: bool) -> bool {
        loop {
            let others = !self.queue.is_empty();
            let room = self.windows.room;
            let lowered = self.windows.lowered;
            let Some(state) = self.streams.get_mut(stream).filter(|state| !state.is_sent) else {
                data.clear();
                return true;
            };
            let room = room.min(state.room - lowered).clamp(0, DATA_BYTES as i64) as usize;
            let count = room.min(data.len());
            let is_full = self.output.len() >= OUTPUT_BYTES;
            if (count == 0 || is_full) && !data.is_empty() {
                self.wait(stream);
                return false;
            }
            state.waits = false;
            state.room -= count as i64;
            self.windows.room -= count as i64;
            let is_last = is_end && count == data.len();
            let out = self.output.end();
            if count > 0 || is_last {
                let flags = if is_last { END_STREAM } else { 0 };
                frame::head(out, count, DATA, flags, stream.id);
                self.output.push(data.split_to(count));
            }
            if is_last {
                self.sent(stream);
            }
            if data.is_empty() {
                return true;
            }
            if others {
                self.wait(stream);
                return false;
            }
        }
    }

    /// A stream that has something to send, and for which there is room now. Each is told
    /// once; what it then cannot send makes it wait again.
    pub fn next_writable(&mut self) -> Option<Stream> {
        while self.windows.room > 0 && self.output.len() < OUTPUT_BYTES {
            let stream = self.queue.pop_front()?;
            let lowered = self.windows.lowered;
            if let Some(state) = self.streams.get_mut(stream) {
                state.is_queued = false;
                // When its own window opens it is queued again.
                if state.room > lowered {
                    state.waits = false;
                    return Some(stream);
                }
            }
        }
        None
    }

    fn wait(&mut self, stream: Stream) {
        let lowered = self.windows.lowered;
        if let Some(state) = self.streams.get_mut(stream) {
            state.waits = true;
            if !state.is_queued && state.room > lowered {
                state.is_queued = true;
                self.queue.push_back(stream);
            }
        }
    }

    /// Ends a stream before its time.
    pub fn reset(&mut self, stream: Stream, code: Code) {
        if self.streams.get(stream).is_some() {
            self.reset_id(stream.id, code);
            self.close(stream);
        }
    }

    /// So much of what came on a stream has been read: the client gets the room back, much at a
    /// time.
    pub fn release(&mut self, stream: Stream, bytes: u32) {
        let Some(state) = self.streams.get_mut(stream) else {
            // Its room went back to the connection when it ended.
            return;
        };
        let bytes = bytes.min(state.unread);
        state.unread -= bytes;
        self.owe_on(stream, bytes);
    }

    /// Gives room back on a stream and on its connection.
    pub(super) fn owe_on(&mut self, stream: Stream, bytes: u32) {
        if let Some(state) = self.streams.get_mut(stream)
            && !state.is_received
        {
            state.owed += bytes;
            if state.owed >= self.config.stream_window_bytes / 2 {
                frame::window_update(self.output.end(), stream.id, state.owed);
                state.credit += i64::from(state.owed);
                state.owed = 0;
            }
        }
        self.owe(bytes);
    }

    /// Nobody reads the rest of a request. When it is answered its stream ends, with a
    /// RST_STREAM that says that there was no error (section 8.1).
    pub fn discard(&mut self, stream: Stream) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        let unread = mem::take(&mut state.unread);
        state.is_unwanted = true;
        let (is_received, is_sent) = (state.is_received, state.is_sent);
        self.owe(unread);
        if is_sent && !is_received {
            self.reset_id(stream.id, Code::NO_ERROR);
            self.close(stream);
        }
    }

    /// The answer has come to its end.
    fn sent(&mut self, stream: Stream) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        state.is_sent = true;
        state.waits = false;
        if state.is_received {
            self.close(stream);
        } else if state.is_unwanted {
            self.reset_id(stream.id, Code::NO_ERROR);
            self.close(stream);
        }
    }
}

/// Gives the HEADERS frame that begins there its length, and cuts it into several where it is
/// longer than a frame may be (section 4.3).
fn end_block(out: &mut Vec<u8>, begin: usize, id: u32) {
    let length = out.len() - begin - HEAD_BYTES;
    if length <= MAX_PAYLOAD_BYTES {
        let [_, _, x, y] = (length as u32).to_be_bytes();
        out[begin + 1..begin + 3].copy_from_slice(&[x, y]);
        return;
    }
    let block = out.split_off(begin + HEAD_BYTES);
    let flags = out[begin + 4];
    out.truncate(begin);
    let pieces = block.chunks(MAX_PAYLOAD_BYTES);
    let last = pieces.len() - 1;
    for (number, piece) in pieces.enumerate() {
        let end = if number == last { END_HEADERS } else { 0 };
        match number {
            0 => frame::head(out, piece.len(), HEADERS, flags & !END_HEADERS | end, id),
            _ => frame::head(out, piece.len(), frame::CONTINUATION, end, id),
        }
        out.extend_from_slice(piece);
    }
}
