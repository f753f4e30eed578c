//! Clients that hold a body back until they are asked for it.

use super::*;

/// POST with a body that waits for a 100 (Continue).
fn expecting(stream: u32, expectation: &str) -> Vec<u8> {
    let mut block = POST.to_vec();
    // A literal whose name is the static table's 35th, `expect`.
    block.extend_from_slice(&[0x0f, 20, expectation.len() as u8]);
    block.extend_from_slice(expectation.as_bytes());
    frame(HEADERS, END_HEADERS, stream, &block)
}

#[test]
fn a_client_that_waits_is_asked_for_its_body_once_before_the_answer() {
    for expectation in ["100-continue", "100-Continue"] {
        let mut seen = Seen::begin(&[]);
        seen.takes(&expecting(1, expectation));
        let one = seen.streams[0];
        assert!(seen.written().is_empty(), "nobody wants it yet");
        seen.connection.ask(one);
        seen.connection.ask(one);
        let written = seen.written();
        assert_eq!(kinds(&written), [HEADERS]);
        assert_eq!(written[0].0.flags, END_HEADERS);
        assert_eq!(written[0].1, b"\x08\x03100");
        seen.takes(&frame(DATA, END_STREAM, 1, b"body"));
        seen.answer(one, 10);
        assert_eq!(kinds(&seen.written()), [HEADERS, DATA]);
        seen.connection.ask(one);
        assert!(seen.written().is_empty(), "it is over");
    }
}

/// What comes of a request before its body is asked for.
type Then<'a> = &'a dyn Fn(&mut Seen);

#[test]
fn who_does_not_wait_or_not_any_more_is_not_asked() {
    let nothing = |_: &mut Seen| {};
    let begun = |seen: &mut Seen| {
        let one = seen.streams[0];
        seen.connection
            .respond(one, StatusCode::OK, [], None, false);
        assert_eq!(kinds(&seen.written()), [HEADERS]);
    };
    let some = |seen: &mut Seen| seen.takes(&frame(DATA, 0, 1, b"x"));
    let all = |seen: &mut Seen| seen.takes(&frame(DATA, END_STREAM, 1, b""));
    let reset = |seen: &mut Seen| seen.takes(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    let mut without_a_body = expecting(1, "100-continue");
    without_a_body[4] |= END_STREAM;
    let cases: [(Vec<u8>, Then<'_>); 7] = [
        (post(1), &nothing),
        (expecting(1, "magic"), &nothing),
        (without_a_body, &nothing),
        (expecting(1, "100-continue"), &begun),
        (expecting(1, "100-continue"), &some),
        (expecting(1, "100-continue"), &all),
        (expecting(1, "100-continue"), &reset),
    ];
    for (number, (head, then)) in cases.iter().enumerate() {
        let mut seen = Seen::begin(&[]);
        seen.takes(head);
        let one = seen.streams[0];
        then(&mut seen);
        seen.connection.ask(one);
        assert!(seen.written().is_empty(), "{number}");
    }
    // Nothing in a frame is nothing of a body.
    let mut seen = Seen::begin(&[]);
    seen.takes(&[expecting(1, "100-continue"), frame(DATA, 0, 1, b"")].concat());
    seen.connection.ask(seen.streams[0]);
    assert_eq!(kinds(&seen.written()), [HEADERS]);
}
