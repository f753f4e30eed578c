//! The connection, frame by frame; what frames of a client lead to is compared with another
//! server's in `tests/connection`.

mod ends;
mod expecting;
mod floods;

use super::*;
use crate::frame::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Head, PADDED, PING,
    RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// POST, https, / and an authority.
const POST: &[u8] = b"\x83\x87\x84\x41\x01x";

fn config() -> Config {
    Config {
        max_streams: 3,
        stream_window_bytes: 100_000,
        connection_window_bytes: 200_000,
        max_head_bytes: 1000,
        clock: || 0,
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame::head(&mut frame, payload.len(), kind, flags, stream);
    frame.extend_from_slice(payload);
    frame
}

fn update(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, POST)
}

/// A request without a body.
fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, POST)
}

/// A connection and what has come of it.
struct Seen {
    connection: Connection,
    streams: Vec<Stream>,
    body: Vec<u8>,
    events: Vec<String>,
    violation: Option<Code>,
}

impl Seen {
    /// After a preface and SETTINGS that say so much.
    fn begin(settings: &[(u16, u32)]) -> Self {
        let mut seen = Self {
            connection: Connection::new(config()),
            streams: Vec::new(),
            body: Vec::new(),
            events: Vec::new(),
            violation: None,
        };
        let mut bytes = PREFACE.to_vec();
        frame::settings(&mut bytes, settings);
        seen.takes(&bytes);
        assert_eq!(kinds(&seen.written()), [SETTINGS, WINDOW_UPDATE, SETTINGS]);
        seen
    }

    fn takes(&mut self, mut bytes: &[u8]) {
        loop {
            match self.connection.receive(&mut bytes) {
                Ok(None) => return,
                Ok(Some(Event::Request { stream, is_end, .. })) => {
                    self.streams.push(stream);
                    self.events
                        .push(format!("request {} {is_end}", stream.id()));
                }
                Ok(Some(Event::Data {
                    stream,
                    data,
                    is_end,
                })) => {
                    self.body.extend_from_slice(data);
                    if is_end {
                        self.events.push(format!("end {}", stream.id()));
                    }
                }
                Ok(Some(Event::Reset { stream, code })) => {
                    self.events.push(format!("reset {} {code}", stream.id()));
                }
                Ok(Some(Event::Pong)) => self.events.push("pong".to_owned()),
                Err(violation) => {
                    self.violation = Some(violation.code);
                    return;
                }
            }
        }
    }

    /// What has been written since.
    fn written(&mut self) -> Vec<(Head, Vec<u8>)> {
        let output = self.connection.output().collect::<Vec<_>>().concat();
        let (mut frames, mut rest) = (Vec::new(), &output[..]);
        while let Some((head, more)) = rest.split_first_chunk() {
            let head = Head::read(head);
            let (payload, more) = more.split_at(head.length);
            frames.push((head, payload.to_vec()));
            rest = more;
        }
        self.connection.wrote(output.len());
        frames
    }

    fn answer(&mut self, stream: Stream, length: usize) -> Bytes {
        self.connection
            .respond(stream, StatusCode::OK, [], None, false);
        let mut body = Bytes::from(vec![b'x'; length]);
        self.connection.send(stream, &mut body, true);
        body
    }
}

fn kinds(frames: &[(Head, Vec<u8>)]) -> Vec<u8> {
    frames.iter().map(|(head, _)| head.kind).collect()
}

/// Bytes of DATA on a stream.
fn data(frames: &[(Head, Vec<u8>)], stream: Stream) -> usize {
    let data = frames
        .iter()
        .filter(|(head, _)| head.kind == DATA && head.stream == stream.id());
    data.map(|(head, _)| head.length).sum()
}

fn codes(frames: &[(Head, Vec<u8>)]) -> Vec<(u8, u32, Code)> {
    let with_code = frames.iter().filter_map(|(head, payload)| {
        let at = match head.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        let code = u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        Some((head.kind, head.stream, Code(code)))
    });
    with_code.collect()
}

#[test]
fn a_request_is_the_same_whatever_pieces_it_comes_in() {
    let bytes = [
        PREFACE.to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(SETTINGS, ACK, 0, &[]),
        frame(HEADERS, 0, 1, &POST[..2]),
        frame(CONTINUATION, END_HEADERS, 1, &POST[2..]),
        frame(DATA, 0, 1, b"one "),
        frame(0xfa, 0xff, 1, b"nobody knows"),
        frame(DATA, PADDED, 1, b"\x03two ..."),
        frame(PING, 0, 0, b"12345678"),
        frame(DATA, PADDED | END_STREAM, 1, b"\x00three"),
    ];
    let bytes = bytes.concat();
    for size in 1..=bytes.len() {
        let mut seen = Seen {
            connection: Connection::new(config()),
            streams: Vec::new(),
            body: Vec::new(),
            events: Vec::new(),
            violation: None,
        };
        for piece in bytes.chunks(size) {
            seen.takes(piece);
        }
        assert_eq!(seen.events, ["request 1 false", "end 1"], "{size}");
        assert_eq!(seen.body, b"one two three");
        let pong = seen.written().pop().unwrap();
        assert_eq!((pong.0.kind, pong.0.flags), (PING, ACK));
        assert_eq!(pong.1, b"12345678");
    }
}

#[test]
fn an_answer_goes_out_within_the_windows_and_all_of_it_does() {
    let mut seen = Seen::begin(&[(4, 20_000)]);
    seen.takes(&[get(1), get(3)].concat());
    let (one, three) = (seen.streams[0], seen.streams[1]);
    let mut left = seen.answer(one, 30_000);
    let written = seen.written();
    assert_eq!((data(&written, one), left.len()), (20_000, 10_000));
    assert_eq!(kinds(&written), [HEADERS, DATA, DATA]);
    assert_eq!(seen.connection.next_writable(), None, "its window is shut");
    assert!(seen.answer(three, 1000).is_empty());
    seen.takes(&update(1, 4000));
    assert_eq!(seen.connection.next_writable(), Some(one));
    assert!(!seen.connection.send(one, &mut left, true));
    assert_eq!(left.len(), 6000);
    // SETTINGS change all windows, also to less than nothing.
    seen.takes(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    seen.takes(&update(1, 20_000));
    assert_eq!(seen.connection.next_writable(), None, "it was below zero");
    seen.takes(&update(1, 6000));
    assert_eq!(seen.connection.next_writable(), Some(one));
    assert!(seen.connection.send(one, &mut left, true));
    let last = seen.written().pop().unwrap().0;
    assert!(last.kind == DATA && last.has(END_STREAM));
    assert_eq!(seen.connection.open_streams(), 0);
}

#[test]
fn streams_that_wait_for_the_connection_take_turns() {
    let mut seen = Seen::begin(&[(4, 1 << 20)]);
    seen.takes(&[get(1), get(3), get(5)].concat());
    let streams = seen.streams.clone();
    let mut left: Vec<_> = (streams.iter())
        .map(|stream| seen.answer(*stream, 50_000))
        .collect();
    seen.written();
    // The first has had most of the connection's 65,535.
    assert_eq!(left.iter().map(Bytes::len).collect::<Vec<_>>()[0], 0);
    seen.takes(&update(0, 40_000));
    let mut turns = Vec::new();
    while let Some(stream) = seen.connection.next_writable() {
        let at = streams.iter().position(|one| *one == stream).unwrap();
        turns.push(at);
        seen.connection.send(stream, &mut left[at], true);
    }
    assert_eq!(turns, [1, 2, 1], "16 KiB each in its turn");
}

#[test]
fn what_is_not_written_is_bounded() {
    let mut seen = Seen::begin(&[(4, 1 << 30)]);
    seen.takes(&[update(0, 1 << 30), get(1)].concat());
    let one = seen.streams[0];
    let mut left = seen.answer(one, 1 << 20);
    let output = seen.connection.output().map(<[u8]>::len);
    assert!(output.sum::<usize>() < OUTPUT_BYTES + 17_000);
    assert_eq!(seen.connection.next_writable(), None);
    // Pings are answered until there is too much; what is left is taken later.
    let pings = frame(PING, 0, 0, b"12345678").repeat(9000);
    let mut rest = &pings[..];
    assert!(matches!(seen.connection.receive(&mut rest), Ok(None)));
    assert!(seen.connection.is_congested() && !rest.is_empty());
    let mut sent = 0;
    while !left.is_empty() || !rest.is_empty() {
        sent += data(&seen.written(), one);
        assert!(matches!(seen.connection.receive(&mut rest), Ok(None)));
        if let Some(stream) = seen.connection.next_writable() {
            seen.connection.send(stream, &mut left, true);
        }
    }
    assert_eq!(sent + data(&seen.written(), one), 1 << 20);
}

#[test]
fn a_stream_has_half_of_a_connection_window_that_was_not_raised() {
    for (stream_window, raised, then, expected) in [
        (65_535, 0, None, 32_768),
        (40_000, 0, None, 32_768),
        (30_000, 0, None, 30_000),
        (1 << 20, 0, None, 65_535),
        (100_000, 65_535, None, 65_536),
        (65_535, 1 << 20, None, 65_535),
        // Who says it anew knows what it does.
        (65_535, 0, Some(65_535), 65_535),
    ] {
        let mut seen = Seen::begin(&[(4, stream_window)]);
        if raised > 0 {
            seen.takes(&update(0, raised));
        }
        seen.takes(&get(1));
        let one = seen.streams[0];
        let mut left = seen.answer(one, 200_000);
        if let Some(then) = then {
            let [_, _, c, d] = u32::to_be_bytes(then);
            seen.takes(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, c, d]));
        }
        let mut sent = 0;
        loop {
            sent += data(&seen.written(), one);
            match seen.connection.next_writable() {
                Some(stream) => seen.connection.send(stream, &mut left, true),
                None => break,
            };
        }
        assert_eq!(sent, expected, "{stream_window} {raised} {then:?}");
    }
}

#[test]
fn room_is_given_back_as_it_is_read_much_at_a_time() {
    let mut seen = Seen::begin(&[]);
    seen.takes(&post(1));
    let one = seen.streams[0];
    let piece = frame(DATA, 0, 1, &[0; 10_000]);
    for _ in 0..10 {
        seen.takes(&piece);
    }
    assert!(seen.written().is_empty(), "nothing has been read");
    seen.connection.release(one, 49_000);
    assert!(seen.written().is_empty(), "less than half");
    seen.connection.release(one, 1000);
    assert_eq!(kinds(&seen.written()), [WINDOW_UPDATE]);
    for _ in 0..5 {
        seen.takes(&piece);
    }
    assert_eq!(seen.violation, None);
    seen.takes(&piece);
    let cut = format!("reset 1 {}", Code::FLOW_CONTROL_ERROR);
    assert_eq!(seen.events.last(), Some(&cut));
    // What lay unread came back to the connection, over half of whose window it was.
    let written = seen.written();
    assert_eq!(codes(&written), [(RST_STREAM, 1, Code::FLOW_CONTROL_ERROR)]);
    assert_eq!(kinds(&written).last(), Some(&WINDOW_UPDATE));
    seen.takes(&piece);
    assert_eq!(seen.violation, Some(Code::FLOW_CONTROL_ERROR), "it goes on");
}

#[test]
fn padding_comes_back_though_nobody_reads_it() {
    let mut seen = Seen::begin(&[]);
    seen.takes(&post(1));
    let padding = frame(DATA, PADDED, 1, &[255; 256]);
    for _ in 0..5000 {
        seen.takes(&padding);
    }
    assert_eq!(
        (seen.violation, &seen.events[..]),
        (None, &["request 1 false".to_owned()][..])
    );
    assert!(
        kinds(&seen.written())
            .iter()
            .all(|kind| *kind == WINDOW_UPDATE)
    );
}

#[test]
fn an_early_answer_ends_the_stream_when_nobody_reads_the_rest() {
    for discarded_first in [true, false] {
        let mut seen = Seen::begin(&[]);
        seen.takes(&[post(1), frame(DATA, 0, 1, b"begun")].concat());
        let one = seen.streams[0];
        if discarded_first {
            seen.connection.discard(one);
        }
        assert!(seen.answer(one, 10).is_empty());
        if !discarded_first {
            assert_eq!(kinds(&seen.written()), [HEADERS, DATA]);
            assert_eq!(seen.connection.open_streams(), 1);
            seen.connection.discard(one);
        }
        assert_eq!(codes(&seen.written()), [(RST_STREAM, 1, Code::NO_ERROR)]);
        assert_eq!(seen.connection.open_streams(), 0);
        // What was on its way then is nothing to anyone.
        seen.takes(&[frame(DATA, END_STREAM, 1, b"late"), get(3)].concat());
        assert_eq!(seen.events.last().unwrap(), "request 3 true");
    }
}

#[test]
fn more_streams_than_allowed_are_refused_and_the_table_stays_right() {
    let mut seen = Seen::begin(&[]);
    // The last of them puts an authority into the table, which the next one uses.
    let put = frame(HEADERS, END_HEADERS | END_STREAM, 7, POST);
    seen.takes(&[get(1), get(3), get(5), put].concat());
    assert_eq!(
        codes(&seen.written()),
        [(RST_STREAM, 7, Code::REFUSED_STREAM)]
    );
    let one = seen.streams[0];
    assert!(seen.answer(one, 0).is_empty());
    seen.takes(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        9,
        b"\x83\x87\x84\xbe",
    ));
    assert_eq!(seen.events.last().unwrap(), "request 9 true");
}

#[test]
fn a_head_that_is_too_large_is_answered_and_one_without_an_end_is_not() {
    let mut seen = Seen::begin(&[]);
    let mut large = POST.to_vec();
    large.extend_from_slice(b"\x00\x01y\x7f\x80\x08");
    large.extend_from_slice(&[b'y'; 1151]);
    seen.takes(&frame(HEADERS, END_HEADERS, 1, &large));
    let written = seen.written();
    assert_eq!(kinds(&written), [HEADERS, RST_STREAM]);
    assert!(written[0].0.has(END_STREAM));
    assert_eq!(codes(&written)[0].2, Code::NO_ERROR);
    for piece in [&[0; 16_384][..], &[]] {
        let mut seen = Seen::begin(&[]);
        seen.takes(&frame(HEADERS, 0, 1, POST));
        let piece = frame(CONTINUATION, 0, 1, piece);
        let count = (0..100).take_while(|_| {
            seen.takes(&piece);
            seen.violation.is_none()
        });
        assert!(count.count() <= 64);
        assert_eq!(seen.violation, Some(Code::ENHANCE_YOUR_CALM));
    }
}

#[test]
fn requests_that_are_taken_back_again_and_again_end_the_connection() {
    let mut seen = Seen::begin(&[]);
    let mut sent = 0;
    while seen.violation.is_none() {
        let id = 2 * sent + 1;
        seen.takes(&[get(id), frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat());
        seen.written();
        sent += 1;
    }
    assert_eq!(seen.violation, Some(Code::ENHANCE_YOUR_CALM));
    assert_eq!(sent, RESETS.0 + 1);
    // What was answered may be taken back as often as one likes.
    let mut seen = Seen::begin(&[]);
    for number in 0..1000 {
        let id = 2 * number + 1;
        seen.takes(&post(id));
        let stream = seen.streams.pop().unwrap();
        seen.answer(stream, 0);
        seen.takes(&frame(RST_STREAM, 0, id, &[0, 0, 0, 8]));
        seen.written();
    }
    assert_eq!(seen.violation, None);
}

#[test]
fn a_connection_that_goes_serves_what_came_before_the_client_heard_of_it() {
    let mut seen = Seen::begin(&[]);
    seen.takes(&get(1));
    seen.connection.last_call();
    assert!(seen.connection.shut_down());
    assert!(!seen.connection.shut_down());
    let written = seen.written();
    assert_eq!(kinds(&written), [GOAWAY]);
    assert_eq!(written[0].1[..4], [0x7f, 0xff, 0xff, 0xff]);
    seen.takes(&get(3));
    seen.connection.last_call();
    seen.connection.last_call();
    seen.takes(&get(5));
    assert_eq!(seen.events, ["request 1 true", "request 3 true"]);
    let written = seen.written();
    assert_eq!(kinds(&written), [GOAWAY, RST_STREAM]);
    assert_eq!(written[0].1[..4], [0, 0, 0, 3]);
    assert_eq!(codes(&written)[1], (RST_STREAM, 5, Code::REFUSED_STREAM));
    for stream in seen.streams.clone() {
        assert!(!seen.connection.is_over());
        seen.answer(stream, 10);
    }
    assert!(seen.connection.is_over());
}

#[test]
fn a_long_head_of_an_answer_is_cut_into_frames() {
    let mut seen = Seen::begin(&[]);
    seen.takes(&get(1));
    let one = seen.streams[0];
    let mut fields = HeaderMap::new();
    for number in 0..5 {
        let name = format!("x-{number}").parse::<http::HeaderName>().unwrap();
        fields.insert(name, "~".repeat(9000).parse().unwrap());
    }
    fields.insert("connection", "close".parse().unwrap());
    let list = fields.iter().map(|(name, value)| (name, value, false));
    (seen.connection).respond(one, StatusCode::OK, list, Some(7), true);
    let written = seen.written();
    assert_eq!(kinds(&written), [HEADERS, CONTINUATION, CONTINUATION]);
    let flags: Vec<_> = written.iter().map(|(head, _)| head.flags).collect();
    assert_eq!(flags, [END_STREAM, 0, END_HEADERS]);
    let block: Vec<u8> = written.iter().flat_map(|(_, part)| part.clone()).collect();
    let mut names = Vec::new();
    Decoder::new(TABLE_BYTES)
        .decode(&block, &mut |field| names.push(field.name))
        .unwrap();
    assert_eq!(names.len(), 7, "{names:?}");
}
