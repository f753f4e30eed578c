//! What becomes of a stream's bytes, cut wherever it may be.

use super::*;
use crate::prompt::output_for_tests;
use crate::relay::side::BodyForm;

/// All that a client gets of a stream that comes in such pieces.
fn relayed<'a>(pieces: impl Iterator<Item = &'a [u8]>, tells_usage: bool) -> (Vec<u8>, Observed) {
    let mut side = Side::new(BodyForm::Events, output_for_tests(), None, None);
    if tells_usage {
        side = side.counting_each();
    }
    let (mut out, mut owed) = (Vec::new(), None);
    for piece in pieces {
        let piece = Bytes::copy_from_slice(piece);
        let (bytes, capped) = along(&mut side, piece, tells_usage, &mut owed, |_| Go::On);
        assert!(capped.is_none());
        out.extend_from_slice(&bytes);
    }
    side.end();
    side.count();
    if let Some(owed) = owed {
        out.extend_from_slice(&owed);
    }
    (out, *side.observed())
}

fn stream(count: usize, end: &str) -> Vec<u8> {
    let mut stream = format!(
        "event: message_start{end}data: {{\"type\":\"message_start\",\"message\":{{\"usage\":{{\"input_tokens\":25,\"output_tokens\":1}}}}}}{end}{end}"
    );
    for n in 0..count {
        let word = ["the ", "água ", "日本", "🦀", "\\n", "\\ud83e\\udd80"][n % 6];
        stream += &format!(
            "event: content_block_delta{end}data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{word}\"}}}}{end}{end}"
        );
    }
    stream += &format!(
        "event: message_delta{end}data: {{\"type\":\"message_delta\",\"usage\":{{\"output_tokens\":{count}}}}}{end}{end}event: message_stop{end}data: {{\"type\":\"message_stop\"}}{end}{end}"
    );
    stream.into_bytes()
}

/// The stream without the edge's own events, and how many those were. None stands within a
/// CRLF.
fn without_usage(mut bytes: &[u8]) -> (Vec<u8>, usize) {
    const BEGIN: &[u8] = b"event: edge_usage\n";
    let (mut rest, mut count) = (Vec::new(), 0);
    while let Some(at) = memchr::memmem::find(bytes, BEGIN) {
        let length = memchr::memmem::find(&bytes[at..], b"\n\n").unwrap() + 2;
        rest.extend_from_slice(&bytes[..at]);
        assert!(!(rest.ends_with(b"\r") && bytes.get(at + length) == Some(&b'\n')));
        bytes = &bytes[at + length..];
        count += 1;
    }
    rest.extend_from_slice(bytes);
    (rest, count)
}

#[test]
fn ten_thousand_events_cut_at_every_byte_arrive_as_they_are() {
    for end in ["\n", "\r\n", "\r"] {
        let whole = stream(10_000, end);
        let (_, seen) = relayed([&whole[..]].into_iter(), false);
        assert_eq!(
            (seen.input, seen.output, seen.is_finished),
            (Some(25), Some(10_000), true)
        );
        for size in [1, 2, 7, 1448, 16_384] {
            let (bytes, same) = relayed(whole.chunks(size), false);
            assert!(bytes == whole, "{end:?}, {size}");
            assert_eq!(same, seen);
            let (bytes, _) = relayed(whole.chunks(size), true);
            let (bytes, count) = without_usage(&bytes);
            assert!(bytes == whole, "{end:?}, {size}");
            assert_eq!(count, 10_000);
        }
        // Each place by itself.
        let whole = stream(30, end);
        let (at_once, seen) = relayed([&whole[..]].into_iter(), true);
        for at in 0..=whole.len() {
            let (first, second) = whole.split_at(at);
            let pieces = || {
                [first, second]
                    .into_iter()
                    .filter(|piece| !piece.is_empty())
            };
            assert_eq!(relayed(pieces(), false), (whole.clone(), seen));
            assert_eq!(
                relayed(pieces(), true),
                (at_once.clone(), seen),
                "{end:?} at {at}"
            );
        }
    }
}

#[test]
fn a_cap_cuts_right_after_the_event_that_passes_it() {
    let whole = stream(300, "\n");
    let sizes = [1, 100, 4096, whole.len()];
    for (size, tells_usage) in sizes
        .into_iter()
        .flat_map(|size| [(size, false), (size, true)])
    {
        // As every stream under a cap is read.
        let side = Side::new(BodyForm::Events, output_for_tests(), None, None);
        let mut side = side.counting_each();
        let (mut out, mut owed, mut capped) = (Vec::new(), None, None);
        for piece in whole.chunks(size) {
            let cap = |seen: &Observed| match seen.relayed_output {
                100.. => Go::Cut(ApiError::rate_limit("x")),
                _ => Go::On,
            };
            let piece = Bytes::copy_from_slice(piece);
            let (bytes, error) = along(&mut side, piece, tells_usage, &mut owed, cap);
            out.extend_from_slice(&bytes);
            capped = error;
            if capped.is_some() {
                break;
            }
        }
        assert!(capped.is_some());
        let tokens = side.observed().relayed_output;
        assert!((100..150).contains(&tokens), "{tokens}");
        assert!(out.ends_with(b"}\n\n"), "{size}");
        if tells_usage {
            // Also after the piece that was the last.
            let out = String::from_utf8(out).unwrap();
            let (_, last) = out.rsplit_once("event: ").unwrap();
            let told = format!("\"output_tokens\":{tokens},");
            assert!(
                last.starts_with("edge_usage\n") && last.contains(&told),
                "{last}"
            );
        } else {
            assert!(whole.starts_with(&out), "{size}");
        }
    }
}
