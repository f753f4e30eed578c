//! The connection with the application on it.

use crate::client::{PING, frame};
use crate::seen::{ROUND, Reader, Seen};
use bytes::Bytes;
use edge_http2::{Config, Connection, Event, Stream};
use http::StatusCode;
use std::collections::HashMap;

pub(crate) struct Server {
    connection: Connection,
    reader: Reader,
    /// How long each stream's answer is to be, and what is left of it when it has begun.
    answers: HashMap<Stream, (usize, Option<Bytes>)>,
    has_ended: bool,
}

impl Server {
    pub(crate) fn new() -> Self {
        let connection = Connection::new(Config {
            max_streams: crate::MAX_STREAMS,
            stream_window_bytes: crate::STREAM_WINDOW_BYTES,
            connection_window_bytes: crate::CONNECTION_WINDOW_BYTES,
            max_head_bytes: crate::MAX_HEAD_BYTES,
            clock: || 0,
        });
        let (reader, answers) = (Reader::default(), HashMap::new());
        Self {
            connection,
            reader,
            answers,
            has_ended: false,
        }
    }

    /// What comes of `bytes` in pieces of at most so many.
    pub(crate) fn step(&mut self, bytes: &[u8], most: usize) -> Seen {
        let mut seen = Seen::default();
        for piece in bytes.chunks(most) {
            self.receive(piece, &mut seen);
        }
        if !self.has_ended {
            let mut round = Vec::new();
            frame(PING, 0, 0, &ROUND, &mut round);
            self.receive(&round, &mut seen);
        }
        seen
    }

    fn receive(&mut self, mut input: &[u8], seen: &mut Seen) {
        loop {
            let mut ready = None;
            match self.connection.receive(&mut input) {
                Ok(Some(Event::Request {
                    stream,
                    head,
                    is_end,
                    ..
                })) => {
                    let length = head.uri.path()[1..].parse().unwrap_or(0);
                    self.answers.insert(stream, (length, None));
                    ready = is_end.then_some(stream);
                }
                Ok(Some(Event::Data {
                    stream,
                    data,
                    is_end,
                })) => {
                    let length = data.len() as u32;
                    self.connection.release(stream, length);
                    ready = is_end.then_some(stream);
                }
                Ok(Some(Event::Reset { stream, .. })) => drop(self.answers.remove(&stream)),
                Ok(Some(Event::Pong)) => {}
                Ok(None) => {
                    self.flush(seen);
                    if input.is_empty() {
                        return;
                    }
                }
                Err(_) => {
                    self.has_ended = true;
                    self.flush(seen);
                    return;
                }
            }
            if let Some(stream) = ready {
                let (length, rest) = self.answers.get_mut(&stream).unwrap();
                *rest = Some(Bytes::from(vec![b'y'; *length]));
                let is_end = *length == 0;
                self.connection
                    .respond(stream, StatusCode::OK, [], None, is_end);
                self.send(stream);
            }
        }
    }

    fn send(&mut self, stream: Stream) {
        if let Some((_, Some(rest))) = self.answers.get_mut(&stream)
            && (rest.is_empty() || self.connection.send(stream, rest, true))
        {
            self.answers.remove(&stream);
        }
    }

    /// Writes all that can be written.
    fn flush(&mut self, seen: &mut Seen) {
        loop {
            while !self.has_ended
                && let Some(stream) = self.connection.next_writable()
            {
                self.send(stream);
            }
            let output = self.connection.output().collect::<Vec<_>>().concat();
            self.reader.read(&output, seen);
            self.connection.wrote(output.len());
            if output.is_empty() {
                return;
            }
        }
    }
}
