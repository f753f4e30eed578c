//! Frames that say nothing, each sort alone: so many are borne, then the connection ends.

use super::*;
use crate::frame::PRIORITY;

/// What is borne at once, and forgiven at the first look at the clock.
const MOST: usize = 2 * IDLE_FRAMES.0 as usize;

/// A connection with an open stream 1, one that was reset by us (3), and one that came to its end (5).
fn begun() -> Seen {
    let mut seen = Seen::begin(&[]);
    seen.takes(&[post(1), post(3), get(5)].concat());
    seen.connection.reset(seen.streams[1], Code::CANCEL);
    assert!(seen.answer(seen.streams[2], 10).is_empty());
    seen.written();
    seen
}

#[test]
fn what_says_nothing_is_borne_for_a_while_and_no_longer() {
    let eight = b"01234567";
    for (what, flood) in [
        ("PRIORITY", frame(PRIORITY, 0, 7, b"\0\0\0\0\x10")),
        ("PING", frame(PING, 0, 0, eight)),
        ("answers to PING", frame(PING, ACK, 0, eight)),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("windows", frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\x01")),
        ("tables", frame(SETTINGS, 0, 0, b"\0\x01\xff\xff\xff\xff")),
        ("acknowledged SETTINGS", frame(SETTINGS, ACK, 0, &[])),
        ("GOAWAY", frame(GOAWAY, 0, 0, eight)),
        ("unknown", frame(0xfa, 0, 0, b"?")),
        ("unknown on a stream", frame(0xfa, 0, 1, &[])),
        ("empty DATA", frame(DATA, 0, 1, &[])),
        ("padding", frame(DATA, PADDED, 1, b"\x00")),
        ("DATA behind a reset", frame(DATA, 0, 3, &[])),
        ("its end", frame(DATA, END_STREAM, 3, &[])),
        ("trailers behind it", frame(HEADERS, END_HEADERS, 3, &[])),
        ("more resets of it", frame(RST_STREAM, 0, 3, b"\0\0\0\x08")),
        ("windows of it", update(3, 1)),
        ("windows behind the end", update(5, 1)),
    ] {
        let mut seen = begun();
        let mut count = 0;
        while seen.violation.is_none() && count <= MOST {
            seen.takes(&flood);
            seen.written();
            count += 1;
        }
        assert_eq!(seen.violation, Some(Code::ENHANCE_YOUR_CALM), "{what}");
        assert!(count > MOST / 4, "{what}: {count}");
    }
}

/// Small steps of the windows are no flood as such: a client may give back each event that it reads.
#[test]
fn windows_may_open_a_byte_at_a_time() {
    let mut seen = Seen::begin(&[(4, 100)]);
    seen.takes(&[get(1), get(3)].concat());
    let (one, three) = (seen.streams[0], seen.streams[1]);
    let mut left = seen.answer(one, 100 + 2 * MOST);
    assert_eq!(data(&seen.written(), one), 100);
    for _ in 0..2 * MOST {
        seen.takes(&[update(1, 1), update(0, 1)].concat());
        assert_eq!(seen.connection.next_writable(), Some(one));
        seen.connection.send(one, &mut left, true);
        assert_eq!(data(&seen.written(), one), 1);
    }
    assert!(left.is_empty());
    assert!(seen.answer(three, 100).is_empty());
    assert_eq!(seen.violation, None);
}

/// A byte of a block stands for a field of the table: what is too large is told as such, what is far
/// too large is not read.
#[test]
fn a_short_block_that_stands_for_much_is_not_read_to_its_end() {
    // A field of 500 bytes into the table, and the first field without an entry of its own.
    let large = [&b"\x40\x01a\x7f\xd4\x02"[..], &[b'v'; 467]].concat();
    let begin = b"\x83\x87\x84\x01\x01x";
    let asked = |times: usize| {
        let mut seen = Seen::begin(&[]);
        seen.takes(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            1,
            &[&begin[..], &large].concat(),
        ));
        assert_eq!(seen.events, ["request 1 true"]);
        let block = [begin.to_vec(), vec![0xbe; times]].concat();
        seen.takes(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &block));
        (seen.streams.len(), seen.violation, seen.written())
    };
    assert_eq!(asked(1).0, 2, "there is room for one");
    let (streams, violation, written) = asked(7);
    assert_eq!((streams, violation), (1, None));
    assert_eq!(kinds(&written), [HEADERS], "431");
    let (streams, violation, written) = asked(8);
    assert_eq!((streams, violation), (1, Some(Code::ENHANCE_YOUR_CALM)));
    assert_eq!(kinds(&written), [GOAWAY]);
}
