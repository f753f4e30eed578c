//! Flow control (RFC 9113, section 5.2), with a client that keeps to the windows and counts.
//!
//! Whatever it does: no more is sent than it has room for, and nothing is kept back for which it has
//! room; it is never told that it sent too much, and never has to wait for ever.

use crate::client::{DATA, frame, padded};
use crate::counting::Both;
use edge_http2::{Code, Event};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Act {
    /// A request whose body has so many bytes, and its answer.
    Ask { body: usize, answer: usize },
    /// The nth open stream sends as much as it may, but no more, with padding.
    Send {
        nth: usize,
        most: usize,
        padding: Option<u8>,
    },
    /// It sends padding alone, so often: 257 times fill a window to the last byte.
    Pad { nth: usize, times: usize },
    /// So much of what came is read.
    Read { nth: usize, most: usize },
    /// SETTINGS_INITIAL_WINDOW_SIZE.
    Window(u32),
    /// The server's application reads so much of a body.
    Serve { nth: usize, most: usize },
    /// The client takes a request back, or the server refuses to go on with one.
    Cancel { nth: usize, is_client: bool },
    /// So much of the server's output is written.
    Write(usize),
}

fn any_act() -> impl Strategy<Value = Act> {
    let most = || prop_oneof![2 => 0..2_000_usize, 2 => 0..70_000_usize, 1 => Just(usize::MAX)];
    let padding = || prop_oneof![2 => Just(None), 1 => any::<u8>().prop_map(Some)];
    let lengths = || prop_oneof![1 => Just(0), 2 => 0..1_000_usize, 2 => 0..300_000_usize];
    prop_oneof![
        2 => (lengths(), lengths()).prop_map(|(body, answer)| Act::Ask { body, answer }),
        6 => (0..8_usize, most(), padding())
            .prop_map(|(nth, most, padding)| Act::Send { nth, most, padding }),
        1 => (0..8_usize, prop_oneof![0..300_usize, Just(300)]).prop_map(|(nth, times)| Act::Pad { nth, times }),
        4 => (0..8_usize, most()).prop_map(|(nth, most)| Act::Read { nth, most }),
        1 => (0..200_000_u32).prop_map(Act::Window),
        4 => (0..8_usize, most()).prop_map(|(nth, most)| Act::Serve { nth, most }),
        1 => (0..8_usize, any::<bool>())
            .prop_map(|(nth, is_client)| Act::Cancel { nth, is_client }),
        3 => most().prop_map(Act::Write),
    ]
}

fn act(both: &mut Both, act: &Act) {
    let (id, stream) = match act {
        Act::Send { nth, .. } | Act::Pad { nth, .. } | Act::Read { nth, .. } => {
            (both.nth(*nth), None)
        }
        Act::Serve { nth, .. } => (None, both.request(*nth)),
        Act::Cancel { nth, .. } => (both.nth(*nth), both.request(*nth)),
        Act::Ask { .. } | Act::Window(_) | Act::Write(_) => (None, None),
    };
    match (*act, id, stream) {
        (Act::Ask { body, answer }, ..) => both.ask(body, answer),
        (Act::Send { most, padding, .. }, Some(id), _) => both.send(id, most, padding),
        (Act::Pad { times, .. }, Some(id), _) => both.pad(id, times),
        (Act::Read { most, .. }, Some(id), _) => both.read(id, most),
        (Act::Window(window), ..) => both.resize(window),
        (Act::Serve { most, .. }, _, Some(stream)) => both.serve(stream, most),
        (
            Act::Cancel {
                is_client: true, ..
            },
            Some(id),
            _,
        ) => both.cancel(id),
        (
            Act::Cancel {
                is_client: false, ..
            },
            _,
            Some(stream),
        ) => both.refuse(stream),
        (Act::Write(most), ..) => both.write(most),
        // There are not so many.
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn both_windows_are_kept_and_used(
        window in 0..200_000_u32,
        more in prop_oneof![Just(0), 1..100_000_u32, Just(10_000_000)],
        acts in proptest::collection::vec(any_act(), 0..60),
    ) {
        let mut both = Both::new(window, more);
        for next in &acts {
            act(&mut both, next);
            if let Act::Write(usize::MAX) = next {
                both.nothing_is_kept_back(more > 1_000_000);
            }
        }
        both.finish();
        both.nothing_is_lost();
    }
}

/// Every byte of a stream's window may be used, by padding too, and none more.
#[test]
fn a_byte_too_much_on_a_stream_ends_it() {
    let mut both = Both::new(65_535, 0);
    both.ask(usize::MAX, 0);
    let padding = data(1, Some(200), 0);
    both.receive(&padding);
    for bytes in [
        16_384,
        16_384,
        16_384,
        crate::STREAM_WINDOW_BYTES as usize - 201 - 3 * 16_384,
    ] {
        both.receive(&data(1, None, bytes));
    }
    match both.connection.receive(&mut &data(1, None, 1)[..]) {
        Ok(Some(Event::Reset { stream, code })) => {
            assert_eq!((stream.id(), code), (1, Code::FLOW_CONTROL_ERROR));
        }
        other => panic!("{other:?}"),
    }
}

/// The same of the connection's.
#[test]
fn a_byte_too_much_on_a_connection_ends_it() {
    let mut both = Both::new(65_535, 0);
    let mut left = crate::CONNECTION_WINDOW_BYTES as usize;
    for id in [1, 3, 5, 7] {
        both.ask(usize::MAX, 0);
        for _ in 0..3 {
            let bytes = left.min(16_384);
            both.receive(&data(id, None, bytes));
            left -= bytes;
        }
    }
    both.receive(&data(1, None, left));
    let violation = both
        .connection
        .receive(&mut &data(3, None, 1)[..])
        .unwrap_err();
    assert_eq!(violation.code, Code::FLOW_CONTROL_ERROR);
}

fn data(id: u32, padding: Option<u8>, bytes: usize) -> Vec<u8> {
    let (flags, payload) = padded(padding, vec![b'x'; bytes]);
    let mut out = Vec::new();
    frame(DATA, flags, id, &payload, &mut out);
    out
}
