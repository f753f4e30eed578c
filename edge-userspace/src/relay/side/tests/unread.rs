//! What cannot be read is never passed over without a word, and counts by its bytes.

use super::*;

/// What is seen of a body of that form in one piece and in many, why not all of it was read,
/// and how many bytes were not.
fn seen(body: &[u8], form: BodyForm) -> (Observed, Option<(UnreadAnswer, u64)>) {
    let mut all = [body.len().max(1), 1, 7].into_iter().map(|size| {
        let mut side = Side::new(form, output_for_tests(), None, None);
        feed(&mut side, body.chunks(size));
        side.end();
        side.count();
        (*side.observed(), side.unread())
    });
    let first = all.next().unwrap();
    for other in all {
        assert_eq!(other, first, "{form:?}: {}", String::from_utf8_lossy(body));
    }
    first
}

fn message(text: &str, usage: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]{usage}}}"#)
}

const USAGE: &str = r#","usage":{"input_tokens":9,"output_tokens":5}"#;

#[test]
fn what_can_be_read_is_not_unread() {
    let whole = message("Hi there", USAGE);
    let stream = events(&[r#"{"usage":{"output_tokens":3}}"#, "[DONE]", ""]);
    for (body, form) in [
        (whole.as_str(), BodyForm::Json),
        (&stream, BodyForm::Events),
        ("", BodyForm::Events),
    ] {
        let (observed, unread) = seen(body.as_bytes(), form);
        assert_eq!((observed.is_unread, unread), (false, None), "{body}");
    }
}

#[test]
fn of_a_whole_answer_what_is_behind_the_fault_counts_by_its_bytes() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = format!(
        r#"{{"content":[{{"type":"text","text":"Hi there"}},{{"type":"tool_use","input":{{"x":{deep}}}}}]{USAGE}}}"#
    );
    let (observed, unread) = seen(deep.as_bytes(), BodyForm::Json);
    let (why, bytes) = unread.unwrap();
    // It goes no deeper than 127, of which four are around it.
    let at = deep.find("[[").unwrap() as u64 + (127 - 4);
    assert_eq!((why, bytes), (UnreadAnswer::Depth, deep.len() as u64 - at));
    let read = tokens("Hi there") + tokens("x");
    assert_eq!(observed.relayed_output, read + bytes.div_ceil(4));
    assert_eq!((observed.output, observed.is_unread), (None, true));
    assert!(!observed.relayed_exact && !observed.is_finished);

    let broken = message("Hi there", ",");
    let (observed, unread) = seen(broken.as_bytes(), BodyForm::Json);
    assert_eq!(unread, Some((UnreadAnswer::Json, 1)));
    assert_eq!(observed.relayed_output, tokens("Hi there") + 1);
    let early = &broken[..broken.len() - 2];
    let (observed, unread) = seen(early.as_bytes(), BodyForm::Json);
    assert_eq!(unread, Some((UnreadAnswer::Json, 0)), "all of it was read");
    assert_eq!(observed.relayed_output, tokens("Hi there"));

    let mut latin = message("caf_ au lait", USAGE).into_bytes();
    let at = latin.iter().position(|byte| *byte == b'_').unwrap();
    latin[at] = 0xe9;
    let mut side = Side::new(BodyForm::Json, output_for_tests(), None, None);
    feed(&mut side, [&latin[..]].into_iter());
    side.end();
    side.count();
    let (why, bytes) = side.unread().unwrap();
    assert_eq!(
        (why, bytes),
        (UnreadAnswer::Utf8, (latin.len() - at) as u64)
    );
    assert!(side.observed().relayed_output >= bytes / 4);
}

#[test]
fn a_body_that_says_not_what_it_is_is_read_as_what_it_looks_like() {
    let whole = message("Hi there", USAGE);
    let (observed, unread) = seen(whole.as_bytes(), BodyForm::Unsaid);
    assert_eq!(unread, Some((UnreadAnswer::ContentType, 0)));
    assert_eq!((observed.input, observed.output), (Some(9), Some(5)));
    assert!(observed.is_finished && !observed.is_unread);
    let stop = r#"{"type":"message_stop"}"#;
    let stream = events(&[r#"{"usage":{"output_tokens":3}}"#, stop]);
    let (observed, unread) = seen(stream.as_bytes(), BodyForm::Unsaid);
    assert_eq!(unread, Some((UnreadAnswer::ContentType, 0)));
    assert_eq!((observed.output, observed.is_finished), (Some(3), true));
    let text = "Good morning to all of you.";
    let (observed, unread) = seen(text.as_bytes(), BodyForm::Unsaid);
    assert_eq!(unread, Some((UnreadAnswer::ContentType, 27)));
    assert_eq!((observed.relayed_output, observed.is_unread), (7, true));
    let (observed, unread) = seen(b"", BodyForm::Unsaid);
    assert_eq!(unread, Some((UnreadAnswer::ContentType, 0)));
    assert_eq!(observed.relayed_output, 0);
}

#[test]
fn what_is_compressed_counts_by_its_bytes_while_it_comes() {
    let mut side = Side::new(BodyForm::Encoded, output_for_tests(), None, None);
    feed(&mut side, [&[0x1f; 600][..], &[0x8b; 401]].into_iter());
    side.count();
    assert_eq!(side.unread(), Some((UnreadAnswer::Encoded, 1001)));
    assert_eq!(side.observed().relayed_output, 501);
    assert!(side.observed().is_unread && !side.observed().relayed_exact);
}

#[test]
fn of_an_error_it_is_not_told() {
    let mut side = Side::new(BodyForm::Json, output_for_tests(), None, None).of_error();
    feed(&mut side, [&b"<html>"[..]].into_iter());
    side.end();
    side.count();
    assert_eq!(side.unread(), None);
}

#[test]
fn an_event_that_cannot_be_read_counts_and_a_usage_after_it_is_the_last_word() {
    let delta = |text: &str| {
        format!(
            r#"{{"type":"content_block_delta","delta":{{"type":"text_delta","text":"{text}"}}}}"#
        )
    };
    let start =
        r#"{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}"#;
    let usage = r#"{"type":"message_delta","usage":{"output_tokens":4}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let broken = r#"{"type":"content_block_delta","delta"}"#;
    let hi = delta("Hi");
    let at_all = broken.len() as u64 - (broken.rfind('}').unwrap() as u64);
    let stream = events(&[start, &hi, broken, usage, stop]);
    let (observed, unread) = seen(stream.as_bytes(), BodyForm::Events);
    assert_eq!(unread, Some((UnreadAnswer::Json, at_all)));
    assert_eq!((observed.output, observed.is_unread), (Some(4), false));
    assert_eq!(observed.relayed_output, tokens("Hi") + at_all.div_ceil(4));
    // The one with the usage is the one that is broken.
    let broken = usage.replace("4}", "4]");
    let stream = events(&[start, &hi, &broken, stop]);
    let (observed, unread) = seen(stream.as_bytes(), BodyForm::Events);
    assert_eq!(unread, Some((UnreadAnswer::Json, 2)));
    assert_eq!((observed.output, observed.is_unread), (Some(1), true));
    // All that is longer than what is read of one.
    let long = delta(&"x".repeat(MAX_EVENT_BYTES + 100));
    let stream = events(&[start, &long, stop]);
    let mut side = Side::new(BodyForm::Events, output_for_tests(), None, None);
    feed(&mut side, stream.as_bytes().chunks(1 << 14));
    side.end();
    side.count();
    let cut = (long.len() - MAX_EVENT_BYTES) as u64;
    assert_eq!(side.unread(), Some((UnreadAnswer::Length, cut)));
    assert!(side.observed().is_unread);
}
