//! One connection: what its client sends becomes [events](Event), and what is sent to it lies in
//! the [output](Connection::output) until the caller has written it.
//!
//! A caller gives each piece that it reads to [`receive`](Connection::receive) until all of it
//! has been taken, answers by [`respond`](Connection::respond) and
//! [`send`](Connection::send), says that it waits for a body by [`ask`](Connection::ask) and
//! what it has read of it by [`release`](Connection::release),
//! serves those that waited by [`next_writable`](Connection::next_writable), and writes.

mod receiving;
mod sending;

use crate::calm::Calm;
use crate::code::{Code, Violation};
use crate::frame;
use crate::head::{Before, RequestHead};
use crate::hpack::{Decoder, Encoder};
use crate::output::Output;
use crate::settings::{self, DEFAULT_WINDOW_BYTES};
use crate::streams::{Stream, Streams};
use receiving::Input;
use std::collections::VecDeque;

/// DATA is put into the output while there is less than that in it: bytes.
pub const OUTPUT_BYTES: usize = 64 * 1024;
/// Nothing more is received while there is more than that in it: answers to what a client sends
/// are what is left then.
const CONGESTED_BYTES: usize = 2 * OUTPUT_BYTES;
/// Our SETTINGS_HEADER_TABLE_SIZE, as it is by default (RFC 9113 section 6.5.2).
const TABLE_BYTES: usize = 4096;
/// A header block that comes to so many times the largest head is not read to its end: the
/// connection ends. A byte of a block may stand for a field of 4 KiB.
const LIST_TIMES: usize = 4;
/// What a PING says.
const ARE_YOU_THERE: [u8; 8] = *b"are you?";

/// Streams that a client may take back at once, before they were answered, and for each second
/// that goes by: each may have been begun at an upstream (CVE-2023-44487).
const RESETS: (u32, u32) = (250, 100);
/// The same for streams that are reset for what it sent, which is as good (CVE-2025-8671).
const FAULTS: (u32, u32) = (250, 100);
/// The same for frames that say nothing to anyone, or ask for an answer of their own.
const IDLE_FRAMES: (u32, u32) = (10_000, 1000);

/// What a connection is to be like.
#[derive(Clone, Debug)]
pub struct Config {
    /// Streams that may be open at a time. More are refused.
    pub max_streams: u32,
    /// What a client may send ahead on one stream, bytes: at most 2^31-1, at least 65,535.
    pub stream_window_bytes: u32,
    /// The same on all of them together.
    pub connection_window_bytes: u32,
    /// Largest head of a request: name, value and 32 for each field, bytes. A larger one is
    /// answered with 431, one of more than four times as much ends the connection.
    pub max_head_bytes: u32,
    /// Seconds from anywhere, that never go back.
    pub clock: fn() -> u64,
}

/// What has come.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request.
    Request {
        /// Its stream.
        stream: Stream,
        /// Its head.
        head: RequestHead,
        /// What its body's length is, as it says; DATA that is shorter or longer ends the
        /// stream.
        length: Option<u64>,
        /// It has no body.
        is_end: bool,
    },
    /// A piece of its body, or its end. Trailers are read and thrown away.
    Data {
        /// Its stream.
        stream: Stream,
        /// To be [released](Connection::release) when it has been read.
        data: &'a [u8],
        /// Nothing comes after it.
        is_end: bool,
    },
    /// A stream has ended, whatever it was about: by the client, or by us for what it sent.
    Reset {
        /// It is over.
        stream: Stream,
        /// Why.
        code: Code,
    },
    /// The client is there: it has answered the [`ping`](Connection::ping).
    Pong,
}

/// How far a connection is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Going {
    No,
    /// The client has been told; what it sent before it hears of that is served.
    Announced,
    /// Streams above that one are refused.
    Last(u32),
    /// It ends now: nothing is sent behind the GOAWAY, and nothing is received.
    Over,
}

/// The server's half of an HTTP/2 connection.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    streams: Streams,
    output: Output,
    input: Input,
    decoder: Decoder,
    encoder: Encoder,
    before: Before,
    /// The highest identifier that a client has used.
    last: u32,
    going: Going,
    /// The client will open no more streams: it has sent a GOAWAY.
    client_goes: bool,
    has_settings: bool,
    windows: Windows,
    /// Streams that have something to send and wait their turn, each once.
    queue: VecDeque<Stream>,
    resets: Calm,
    faults: Calm,
    idle_frames: Calm,
}

/// Windows of the connection, and what all its streams have in common.
#[derive(Debug)]
struct Windows {
    /// What the client has room for, bytes.
    room: i64,
    /// The most that it ever had room for.
    most_room: i64,
    /// SETTINGS_INITIAL_WINDOW_SIZE of the client: what it has room for on a new stream.
    stream_room: i64,
    /// By how much less is used of each stream's window than it has: see [`Windows::lower`].
    lowered: i64,
    /// The client has changed its mind about it: then it knows what it does.
    is_chosen: bool,
    /// What the client may still send.
    credit: i64,
    /// What has been read and not given back.
    owed: i64,
}

impl Windows {
    /// Keeps one stream from taking all of a small connection window.
    ///
    /// A client that never raised its connection window (section 6.9.2: 65,535 bytes) and lets
    /// each stream have as much has all its streams stand still as soon as one of them is not
    /// read: what lies unread of it is the whole connection's. So no stream has more than half of
    /// that on its way. Less would be a risk: clients give room back when half a window has been
    /// read, not before; and a byte more than half, for some do when more than half has been read.
    /// Where a stream has more room than its connection, the client gives back by the connection
    /// alone, and a stream that stops at half would never go on. To two streams that are not read at
    /// once there is no remedy but the client's own, a larger connection window.
    fn lower(&mut self) {
        let half = self.most_room / 2 + 1;
        let helps = half < self.stream_room && self.stream_room <= self.most_room;
        self.lowered = match helps && !self.is_chosen {
            true => self.stream_room - half,
            false => 0,
        };
    }
}

impl Connection {
    /// A connection of which nothing has come; our SETTINGS lie in the output.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let mut windows = Windows {
            room: i64::from(DEFAULT_WINDOW_BYTES),
            most_room: i64::from(DEFAULT_WINDOW_BYTES),
            stream_room: i64::from(DEFAULT_WINDOW_BYTES),
            lowered: 0,
            is_chosen: false,
            credit: i64::from(config.connection_window_bytes),
            owed: 0,
        };
        windows.lower();
        let mut output = Output::default();
        let list = [
            (settings::MAX_CONCURRENT_STREAMS, config.max_streams),
            (settings::INITIAL_WINDOW_SIZE, config.stream_window_bytes),
            (settings::MAX_HEADER_LIST_SIZE, config.max_head_bytes),
        ];
        frame::settings(output.end(), &list);
        let more = config.connection_window_bytes;
        if let Some(more) = more
            .checked_sub(DEFAULT_WINDOW_BYTES)
            .filter(|more| *more > 0)
        {
            frame::window_update(output.end(), 0, more);
        }
        let most_list_bytes = LIST_TIMES * config.max_head_bytes as usize;
        Self {
            config,
            streams: Streams::default(),
            output,
            input: Input::default(),
            decoder: Decoder::new(TABLE_BYTES).with_max_list_bytes(most_list_bytes),
            encoder: Encoder::new(),
            before: Before::default(),
            last: 0,
            going: Going::No,
            client_goes: false,
            has_settings: false,
            windows,
            queue: VecDeque::new(),
            resets: Calm::new(RESETS.0, RESETS.1),
            faults: Calm::new(FAULTS.0, FAULTS.1),
            idle_frames: Calm::new(IDLE_FRAMES.0, IDLE_FRAMES.1),
        }
    }

    /// Streams that are open.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.count()
    }

    /// What is to be written, in parts of which none is empty.
    pub fn output(&self) -> impl Iterator<Item = &[u8]> {
        self.output.parts()
    }

    /// Whether there is something to be written.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.output.len() > 0
    }

    /// So many bytes of the output have been written.
    pub fn wrote(&mut self, count: usize) {
        self.output.wrote(count);
    }

    /// Gives the output a buffer to use, if it has none.
    pub fn lend(&mut self, buffer: &mut Vec<u8>) {
        self.output.lend(buffer);
    }

    /// Takes the output's buffer away, if there is nothing in it.
    pub fn reclaim(&mut self) -> Option<Vec<u8>> {
        self.output.reclaim()
    }

    /// Whether there is so much to be written that nothing more is received until some of it
    /// has been.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.output.len() > CONGESTED_BYTES
    }

    /// Asks the client whether it is there; [`Event::Pong`] is its answer.
    pub fn ping(&mut self) {
        if self.going != Going::Over {
            frame::ping(self.output.end(), 0, ARE_YOU_THERE);
        }
    }

    /// Tells the client to send no more requests; whether it is told now and was not before. What
    /// it sent before it heard of that is served, until the [last call](Connection::last_call)
    /// (section 6.8).
    pub fn shut_down(&mut self) -> bool {
        let is_news = self.going == Going::No;
        if is_news {
            self.going = Going::Announced;
            frame::goaway(self.output.end(), frame::MAX_31_BITS, Code::NO_ERROR);
        }
        is_news
    }

    /// Long enough after [`shut_down`](Connection::shut_down) for what the client had sent by then
    /// to have come: what comes now is refused, and the client told so. Whether it has heard is not
    /// asked by a PING: there are clients (Python's h2, to version 4.4) that fail at any frame
    /// behind a GOAWAY, and lose the answer that came before it.
    pub fn last_call(&mut self) {
        if self.going == Going::Announced {
            self.say_last(Code::NO_ERROR);
        }
    }

    /// Tells the client that the connection ends now, as it is to after that (section 5.4.1). Its
    /// streams are over without a word on each: nothing is sent behind the GOAWAY.
    pub fn go_away(&mut self, code: Code) {
        if self.going == Going::Over {
            return;
        }
        self.say_last(code);
        self.going = Going::Over;
        self.input.end();
        self.streams = Streams::default();
        self.queue.clear();
    }

    /// Tells the client which of its streams is the last that is served.
    fn say_last(&mut self, code: Code) {
        frame::goaway(self.output.end(), self.last, code);
        self.going = Going::Last(self.last);
    }

    /// Whether no stream is open and none will be: when the output has been written the
    /// connection may be closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let no_more = self.client_goes || matches!(self.going, Going::Last(_) | Going::Over);
        no_more && self.streams.count() == 0
    }

    /// Forgets a stream; what of it nobody will read is given back to the connection.
    fn close(&mut self, stream: Stream) {
        if let Some(state) = self.streams.close(stream) {
            if state.is_queued {
                self.queue.retain(|queued| *queued != stream);
            }
            self.owe(state.unread);
        }
    }

    /// Resets a stream, and remembers that and what may still come on it.
    fn reset_id(&mut self, id: u32, code: Code) {
        frame::reset(self.output.end(), id, code);
        let open = self.streams.find(id);
        let credit = match open.and_then(|stream| self.streams.get(stream)) {
            Some(state) => state.credit,
            None => i64::from(self.config.stream_window_bytes),
        };
        self.streams.note_reset(id, credit);
    }

    /// Gives room back to the client on the connection, much at a time.
    fn owe(&mut self, bytes: u32) {
        let windows = &mut self.windows;
        windows.owed += i64::from(bytes);
        if windows.owed >= i64::from(self.config.connection_window_bytes) / 2 {
            frame::window_update(self.output.end(), 0, windows.owed as u32);
            windows.credit += windows.owed;
            windows.owed = 0;
        }
    }

    /// Something changed by which streams may have more room than before. Looks at all of them.
    fn rooms_changed(&mut self) {
        let lowered = self.windows.lowered;
        for (stream, state) in self.streams.iter_mut() {
            if state.waits && !state.is_queued && state.room > lowered {
                state.is_queued = true;
                self.queue.push_back(stream);
            }
        }
    }

    fn fault(&mut self) -> Result<(), Violation> {
        if self.faults.one(self.config.clock) {
            return Ok(());
        }
        Err(Violation::new(
            Code::ENHANCE_YOUR_CALM,
            "too many streams that had to be reset",
        ))
    }

    fn idle_frame(&mut self) -> Result<(), Violation> {
        if self.idle_frames.one(self.config.clock) {
            return Ok(());
        }
        Err(Violation::new(
            Code::ENHANCE_YOUR_CALM,
            "too many frames that say nothing",
        ))
    }
}

#[cfg(test)]
mod tests;
