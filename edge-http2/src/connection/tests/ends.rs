//! How a connection ends by a violation, and which one it is.

use super::*;

#[test]
fn nothing_is_sent_behind_the_goaway_of_a_connection_that_ends() {
    for is_broken in [true, false] {
        let mut seen = Seen::begin(&[]);
        seen.takes(&[post(1), frame(DATA, 0, 1, &[0; 10_000]), post(3), get(5)].concat());
        let streams = seen.streams.clone();
        let mut left = seen.answer(streams[2], 100_000);
        assert!(!left.is_empty());
        seen.written();
        if is_broken {
            seen.takes(&[frame(PING, 0, 0, b"1234567"), get(7)].concat());
            assert_eq!(seen.violation, Some(Code::FRAME_SIZE_ERROR));
        } else {
            seen.connection.go_away(Code::NO_ERROR);
            seen.takes(&get(7));
        }
        let connection = &mut seen.connection;
        assert!(connection.is_over() && connection.open_streams() == 0);
        connection.release(streams[0], 10_000);
        connection.discard(streams[1]);
        for stream in &streams {
            connection.respond(*stream, StatusCode::OK, [], None, false);
            connection.reset(*stream, Code::CANCEL);
        }
        assert_eq!(connection.next_writable(), None);
        assert!(connection.send(streams[2], &mut left, true) && left.is_empty());
        connection.ping();
        connection.shut_down();
        connection.go_away(Code::INTERNAL_ERROR);
        let written = seen.written();
        assert_eq!(kinds(&written), [GOAWAY]);
        assert_eq!(written[0].1[..4], [0, 0, 0, 5]);
        assert_eq!(seen.events.len(), 3, "{:?}", seen.events);
    }
}

/// Section 5.1.1 for what never was, section 5.1 for what is over.
#[test]
fn a_head_below_the_last_stream_is_told_from_one_on_a_stream_that_is_over() {
    for (id, code) in [
        (1, Code::PROTOCOL_ERROR),
        (3, Code::STREAM_CLOSED),
        (5, Code::PROTOCOL_ERROR),
        (7, Code::PROTOCOL_ERROR),
        (9, Code::STREAM_CLOSED),
        (11, Code::STREAM_CLOSED),
    ] {
        let mut seen = Seen::begin(&[]);
        for id in [3, 9, 11] {
            seen.takes(&get(id));
            let stream = seen.streams.pop().unwrap();
            seen.answer(stream, 0);
        }
        assert_eq!(seen.violation, None);
        seen.takes(&get(id));
        assert_eq!(seen.violation, Some(code), "{id}");
    }
}
