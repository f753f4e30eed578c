//! Whatever pieces a body comes in, it is read alike.

use super::*;
use proptest::prelude::*;

/// A stream with all that it may have in it, of about so many events.
fn stream_of(count: usize, end: &str) -> String {
    let words = [
        "the ",
        "água ",
        "über ",
        "日本 ",
        "🦀 ",
        "\\u00e9\\n",
        "\\ud83e\\udd80",
        "\\\"x\\\" ",
    ];
    let mut stream = format!(
        "\u{feff}: hello{end}event: message_start{end}data: {{\"type\":\"message_start\",\"message\":{{\"usage\":{{\"input_tokens\":25,\"output_tokens\":1,\"cache_read_input_tokens\":null}}}}}}{end}{end}"
    );
    for n in 0..count {
        let (word, block) = (words[n % words.len()], n * 3 / count.max(1));
        let (kind, field) = [
            ("thinking_delta", "thinking"),
            ("text_delta", "text"),
            ("input_json_delta", "partial_json"),
        ][block];
        let space = if n % 3 == 0 { "" } else { " " };
        stream += &format!(
            "event: content_block_delta{end}data:{space}{{\"type\":\"content_block_delta\",\"index\":{block},{}\"delta\":{{\"type\":\"{kind}\",\"{field}\":\"{word}\"}}}}{end}{end}",
            if n % 7 == 0 {
                format!("{end}data: ")
            } else {
                String::new()
            }
        );
        if n % 11 == 0 {
            stream += &format!(
                ": keep-alive{end}{end}event:ping{end}data: {{\"type\": \"ping\"}}{end}{end}"
            );
        }
    }
    stream
        + &format!(
            "event: message_delta{end}data: {{\"type\":\"message_delta\",\"delta\":{{}},\"usage\":{{\"output_tokens\":{count}}}}}{end}{end}event: message_stop{end}data: {{\"type\":\"message_stop\"}}{end}{end}"
        )
}

#[test]
fn ten_thousand_events_cut_at_every_byte_are_the_same() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = stream_of(10_000, end);
        let (whole, ended) = read(stream.as_bytes(), true, stream.len());
        assert!(whole.events > 10_000 && whole.is_finished);
        assert_eq!((whole.input, whole.output), (Some(25), Some(10_000)));
        assert!(whole.relayed_output > 10_000);
        // Every byte of it is a boundary here.
        assert_eq!(read(stream.as_bytes(), true, 1), (whole, ended.clone()));
        for size in [2, 3, 61, 1448, 16_384] {
            assert_eq!(
                read(stream.as_bytes(), true, size),
                (whole, ended.clone()),
                "{size}"
            );
        }
        // Of a shorter one each place by itself, with all the rest in one piece.
        let stream = stream_of(60, end);
        let (whole, ended) = read(stream.as_bytes(), true, stream.len());
        for at in 0..=stream.len() {
            let (first, second) = stream.as_bytes().split_at(at);
            let mut side = side(true);
            let cut = feed(&mut side, [first, second].into_iter());
            side.end();
            side.count();
            assert_eq!((side.observed(), &cut), (&whole, &ended), "{end:?} at {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn whatever_comes_breaks_nothing(body in proptest::collection::vec(any::<u8>(), 0..300), size in 1usize..9) {
        for is_event_stream in [false, true] {
            let whole = read(&body, is_event_stream, body.len().max(1));
            prop_assert_eq!(read(&body, is_event_stream, size), whole);
        }
    }

    #[test]
    fn damaged_streams_are_read_alike_in_any_pieces(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        size in 1usize..40,
    ) {
        let mut body = stream_of(20, "\n").into_bytes();
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let (mut whole, mut ended) = read(&body, true, body.len());
        let (mut cut, mut cut_ended) = read(&body, true, size);
        if std::str::from_utf8(&body).is_err() {
            // How far a text that is no UTF-8 was read before that was seen goes by the pieces.
            whole.relayed_output = 0;
            cut.relayed_output = 0;
            for ended in ended.iter_mut().chain(&mut cut_ended) {
                ended.has_changed = false;
            }
        }
        prop_assert_eq!((cut, cut_ended), (whole, ended));
    }
}
