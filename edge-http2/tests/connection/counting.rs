//! A client and a server with the connection between them: the client keeps to the windows and counts.

use crate::client::{DATA, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, literal, padded};
use bytes::Bytes;
use edge_http2::{Code, Config, Connection, Event, Stream};
use http::StatusCode;
use std::collections::{BTreeMap, HashMap};

/// The client's side of a stream.
#[derive(Debug, Default)]
struct Side {
    /// What the server has room for.
    may_send: i64,
    to_send: usize,
    has_sent_end: bool,
    /// What there is room for here.
    room: i64,
    /// What came and was not read.
    unread: usize,
    expected: usize,
    has_end: bool,
}

/// The server's side of a stream.
#[derive(Debug, Default)]
struct Request {
    answer: usize,
    unread: usize,
    /// It has come whole; it is answered when it has been read.
    is_whole: bool,
    rest: Option<Bytes>,
}

pub(crate) struct Both {
    pub(crate) connection: Connection,
    requests: HashMap<Stream, Request>,
    sides: BTreeMap<u32, Side>,
    next: u32,
    may_send: i64,
    room: i64,
    /// SETTINGS_INITIAL_WINDOW_SIZE of either side.
    their_window: i64,
    our_window: i64,
    /// What came on streams that are over and is not given back.
    debt: i64,
    /// What of the server's output is no whole frame yet.
    cut: Vec<u8>,
}

impl Both {
    pub(crate) fn new(window: u32, more: u32) -> Self {
        let connection = Connection::new(Config {
            max_streams: crate::MAX_STREAMS,
            stream_window_bytes: crate::STREAM_WINDOW_BYTES,
            connection_window_bytes: crate::CONNECTION_WINDOW_BYTES,
            max_head_bytes: crate::MAX_HEAD_BYTES,
            clock: || 0,
        });
        let mut both = Self {
            connection,
            requests: HashMap::new(),
            sides: BTreeMap::new(),
            next: 1,
            may_send: 65_535,
            room: 65_535 + i64::from(more),
            their_window: 65_535,
            our_window: i64::from(window),
            debt: 0,
            cut: Vec::new(),
        };
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frame(SETTINGS, 0, 0, &setting(window), &mut bytes);
        if more > 0 {
            frame(WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), &mut bytes);
        }
        both.receive(&bytes);
        both.write(usize::MAX);
        both
    }

    /// The client says another SETTINGS_INITIAL_WINDOW_SIZE.
    pub(crate) fn resize(&mut self, window: u32) {
        let more = i64::from(window) - self.our_window;
        self.our_window = i64::from(window);
        let mut bytes = Vec::new();
        frame(SETTINGS, 0, 0, &setting(window), &mut bytes);
        // What is on its way was sent by the old one.
        self.write(usize::MAX);
        self.sides.values_mut().for_each(|side| side.room += more);
        self.receive(&bytes);
    }

    /// The client takes a request back.
    pub(crate) fn cancel(&mut self, id: u32) {
        let side = self.sides.remove(&id);
        self.debt += side.map_or(0, |side| side.unread as i64);
        let mut bytes = Vec::new();
        frame(RST_STREAM, 0, id, &8_u32.to_be_bytes(), &mut bytes);
        self.receive(&bytes);
    }

    /// The server does not go on with one.
    pub(crate) fn refuse(&mut self, stream: Stream) {
        self.requests.remove(&stream);
        self.connection.reset(stream, Code::CANCEL);
    }

    pub(crate) fn nth(&self, nth: usize) -> Option<u32> {
        self.sides.keys().nth(nth).copied()
    }

    pub(crate) fn ask(&mut self, body: usize, answer: usize) {
        if self.sides.len() >= crate::MAX_STREAMS as usize {
            return;
        }
        let (id, mut block, mut bytes) = (self.next, vec![0x83, 0x87], Vec::new());
        literal(":path", &format!("/{answer}"), &mut block);
        let is_end = body == 0;
        frame(HEADERS, 0x4 | u8::from(is_end), id, &block, &mut bytes);
        self.next += 2;
        let side = Side {
            may_send: self.their_window,
            to_send: body,
            has_sent_end: is_end,
            room: self.our_window,
            expected: answer,
            ..Side::default()
        };
        self.sides.insert(id, side);
        self.receive(&bytes);
    }

    pub(crate) fn send(&mut self, id: u32, most: usize, padding: Option<u8>) {
        let Some(side) = self.sides.get_mut(&id) else {
            return;
        };
        if side.has_sent_end {
            return;
        }
        let around = padding.map_or(0, |padding| i64::from(padding) + 1);
        let room = side.may_send.min(self.may_send).min(16_384) - around;
        if room < 0 {
            return;
        }
        let count = side.to_send.min(most).min(room as usize);
        side.to_send -= count;
        side.has_sent_end = side.to_send == 0;
        side.may_send -= count as i64 + around;
        self.may_send -= count as i64 + around;
        let (flags, payload) = padded(padding, vec![b'x'; count]);
        let mut bytes = Vec::new();
        frame(
            DATA,
            flags | u8::from(side.has_sent_end),
            id,
            &payload,
            &mut bytes,
        );
        self.receive(&bytes);
    }

    pub(crate) fn read(&mut self, id: u32, most: usize) {
        let Some(side) = self.sides.get_mut(&id) else {
            return;
        };
        let count = side.unread.min(most);
        if count == 0 {
            return;
        }
        side.unread -= count;
        self.room += count as i64;
        let mut bytes = Vec::new();
        frame(
            WINDOW_UPDATE,
            0,
            0,
            &(count as u32).to_be_bytes(),
            &mut bytes,
        );
        if !side.has_end {
            side.room += count as i64;
            frame(
                WINDOW_UPDATE,
                0,
                id,
                &(count as u32).to_be_bytes(),
                &mut bytes,
            );
        }
        self.forget(id);
        self.receive(&bytes);
    }

    fn forget(&mut self, id: u32) {
        let Some(side) = self.sides.get(&id) else {
            return;
        };
        if side.has_end && side.has_sent_end && side.unread == 0 {
            assert_eq!(side.expected, 0, "stream {id} has all of its answer");
            self.sides.remove(&id);
        }
    }

    /// What came on streams that are over is given back too.
    fn pay(&mut self) {
        let debt = std::mem::take(&mut self.debt);
        if debt > 0 {
            self.room += debt;
            let mut bytes = Vec::new();
            frame(
                WINDOW_UPDATE,
                0,
                0,
                &(debt as u32).to_be_bytes(),
                &mut bytes,
            );
            self.receive(&bytes);
        }
    }

    /// The server receives.
    pub(crate) fn receive(&mut self, mut input: &[u8]) {
        while !input.is_empty() {
            match self
                .connection
                .receive(&mut input)
                .expect("nothing is wrong")
            {
                Some(Event::Request {
                    stream,
                    head,
                    is_end,
                    ..
                }) => {
                    let answer = head.uri.path()[1..].parse().unwrap();
                    let request = Request {
                        answer,
                        is_whole: is_end,
                        ..Request::default()
                    };
                    self.requests.insert(stream, request);
                    self.serve(stream, 0);
                }
                Some(Event::Data {
                    stream,
                    data,
                    is_end,
                }) => {
                    let request = self.requests.get_mut(&stream).unwrap();
                    request.unread += data.len();
                    request.is_whole = is_end;
                    self.serve(stream, 0);
                }
                Some(Event::Reset {
                    stream,
                    code: Code::CANCEL,
                }) => {
                    self.requests.remove(&stream);
                }
                Some(event) => panic!("{event:?}"),
                None if input.is_empty() => {}
                None => self.write(usize::MAX),
            }
        }
        self.go_on();
    }

    /// The application reads, and answers when it has read all.
    pub(crate) fn serve(&mut self, stream: Stream, most: usize) {
        let Some(request) = self.requests.get_mut(&stream) else {
            return;
        };
        let count = request.unread.min(most);
        request.unread -= count;
        if count > 0 {
            self.connection.release(stream, count as u32);
        }
        if request.is_whole && request.unread == 0 && request.rest.is_none() {
            let answer = Bytes::from(vec![b'y'; request.answer]);
            let is_end = answer.is_empty();
            request.rest = Some(answer);
            self.connection
                .respond(stream, StatusCode::OK, [], None, is_end);
            self.answer(stream);
        }
    }

    fn answer(&mut self, stream: Stream) {
        let rest = self
            .requests
            .get_mut(&stream)
            .and_then(|it| it.rest.as_mut())
            .unwrap();
        if rest.is_empty() || self.connection.send(stream, rest, true) {
            self.requests.remove(&stream);
        }
    }

    fn go_on(&mut self) {
        while let Some(stream) = self.connection.next_writable() {
            self.answer(stream);
        }
    }

    /// The nth request that the server has at hand.
    pub(crate) fn request(&self, nth: usize) -> Option<Stream> {
        self.requests.keys().nth(nth).copied()
    }

    /// Sends padding alone on a stream, so often.
    pub(crate) fn pad(&mut self, id: u32, times: usize) {
        if self.sides.get(&id).is_some_and(|side| side.to_send > 0) {
            for _ in 0..times {
                self.send(id, 0, Some(254));
                self.write(usize::MAX);
            }
        }
    }

    /// So much of what the server has to send is written, and comes.
    pub(crate) fn write(&mut self, mut most: usize) {
        loop {
            let output = self.connection.output().collect::<Vec<_>>().concat();
            let count = output.len().min(most);
            if count == 0 {
                return;
            }
            self.cut.extend_from_slice(&output[..count]);
            self.connection.wrote(count);
            most -= count;
            self.go_on();
            self.take_frames();
        }
    }

    fn take_frames(&mut self) {
        while let Some((head, rest)) = self.cut.split_first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = rest.get(..length) else {
                return;
            };
            let (kind, is_end) = (head[3], head[4] & 1 > 0);
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let number = payload
                .first_chunk()
                .map_or(0, |four| u32::from_be_bytes(*four));
            match (kind, id) {
                (WINDOW_UPDATE, 0) => self.may_send += i64::from(number),
                (WINDOW_UPDATE, id) => {
                    if let Some(side) = self.sides.get_mut(&id) {
                        side.may_send += i64::from(number);
                    }
                }
                (SETTINGS, _) => {
                    for setting in payload.chunks(6).filter(|it| it[..2] == [0, 4]) {
                        let window = u32::from_be_bytes(setting[2..].try_into().unwrap());
                        self.their_window = i64::from(window);
                    }
                }
                (RST_STREAM, id) => {
                    let side = self.sides.remove(&id);
                    self.debt += side.map_or(0, |side| side.unread as i64);
                }
                (HEADERS, id) => {
                    if let Some(side) = self.sides.get_mut(&id) {
                        side.has_end = is_end;
                    }
                }
                (DATA, id) => {
                    self.room -= length as i64;
                    assert!(length == 0 || self.room >= 0, "too much");
                    if let Some(side) = self.sides.get_mut(&id) {
                        side.room -= length as i64;
                        assert!(length == 0 || side.room >= 0, "too much on {id}");
                        side.unread += length;
                        side.expected -= length;
                        side.has_end = is_end;
                    } else {
                        self.debt += length as i64;
                    }
                }
                other => panic!("frame {other:?}"),
            }
            self.cut.drain(..9 + length);
            if kind == DATA || kind == HEADERS {
                self.forget(id);
            }
        }
    }

    /// When all is written nothing lies there for which there is room. (A connection window that the
    /// client never raised is shared in another way.)
    pub(crate) fn nothing_is_kept_back(&mut self, is_raised: bool) {
        self.write(usize::MAX);
        for (id, side) in self.sides.iter().filter(|_| is_raised) {
            let stream = self.requests.iter().find(|it| it.0.id() == *id);
            if stream.is_some_and(|(_, request)| request.rest.is_some()) {
                assert!(side.room <= 0 || self.room <= 0, "stream {id} could go on");
            }
        }
    }

    /// What was ever taken of the connection's window comes back, all of it.
    pub(crate) fn nothing_is_lost(&mut self) {
        self.ask(crate::CONNECTION_WINDOW_BYTES as usize * 2, 0);
        let mut most = self.may_send;
        while let Some(id) = self.nth(0) {
            self.send(id, usize::MAX, None);
            for stream in self.requests.keys().copied().collect::<Vec<_>>() {
                self.serve(stream, usize::MAX);
            }
            self.write(usize::MAX);
            most = most.max(self.may_send);
        }
        assert_eq!(most, i64::from(crate::CONNECTION_WINDOW_BYTES));
    }

    /// All that was begun comes to its end when both sides read.
    pub(crate) fn finish(&mut self) {
        self.resize(65_535);
        for _ in 0..10_000 {
            self.pay();
            for id in self.sides.keys().copied().collect::<Vec<_>>() {
                self.send(id, usize::MAX, None);
                for stream in self.requests.keys().copied().collect::<Vec<_>>() {
                    self.serve(stream, usize::MAX);
                }
                self.write(usize::MAX);
                self.read(id, usize::MAX);
            }
            if self.sides.is_empty() {
                self.write(usize::MAX);
                assert_eq!(self.connection.open_streams(), 0);
                return;
            }
        }
        panic!(
            "{:?} stand still; {} may be sent, {} come",
            self.sides, self.may_send, self.room
        );
    }
}

fn setting(window: u32) -> Vec<u8> {
    [&[0, 4][..], &window.to_be_bytes()].concat()
}
