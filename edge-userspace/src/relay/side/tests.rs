//! Usage, errors and text are seen wherever they stand.

mod opening;
mod pieces;
mod unread;

use super::stream::MAX_EVENT_BYTES;
use super::*;
use crate::prompt::calibration::Calibration;
use crate::prompt::output_for_tests;
use std::sync::Arc;

/// Reads a body in pieces of that size, to its end.
fn read(body: &[u8], is_event_stream: bool, size: usize) -> (Observed, Vec<Ended>) {
    let mut side = side(is_event_stream);
    let ended = feed(&mut side, body.chunks(size));
    side.end();
    side.count();
    (*side.observed(), ended)
}

fn side(is_event_stream: bool) -> Box<Side> {
    Side::new(form(is_event_stream), output_for_tests(), None, None)
}

fn form(is_event_stream: bool) -> BodyForm {
    if is_event_stream {
        BodyForm::Events
    } else {
        BodyForm::Json
    }
}

fn feed<'a>(side: &mut Side, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Ended> {
    let mut all = Vec::new();
    for piece in pieces {
        let mut at = 0;
        while at < piece.len() {
            let (taken, ended) = side.read(&piece[at..]);
            assert!(taken > 0);
            at += taken;
            all.extend(ended);
        }
    }
    all
}

/// What is seen of a body, the same whatever pieces it comes in.
fn observed(body: &str, is_event_stream: bool) -> Observed {
    let whole = read(body.as_bytes(), is_event_stream, body.len().max(1));
    for size in [1, 7, 1000] {
        assert_eq!(
            read(body.as_bytes(), is_event_stream, size),
            whole,
            "{size}: {body}"
        );
    }
    whole.0
}

fn events(data: &[&str]) -> String {
    data.iter()
        .map(|data| format!("data: {data}\n\n"))
        .collect()
}

/// What is learnt of the prompt's tokens, and what is seen of them.
fn prompt(body: &str, is_event_stream: bool) -> Option<u64> {
    let calibration = Arc::new(Calibration::new(1, None));
    let learn = Learn::for_tests(Arc::clone(&calibration), b"m", 1000);
    let mut side = Side::new(form(is_event_stream), output_for_tests(), Some(learn), None);
    feed(&mut side, [body.as_bytes()].into_iter());
    side.end();
    side.count();
    let seen = observed(body, is_event_stream).prompt();
    assert_eq!(side.observed().prompt(), seen);
    let learnt = calibration.learnt();
    assert_eq!(!learnt.is_empty(), seen.is_some(), "{body}");
    seen
}

const USAGE: &str = r#""usage":{"input_tokens":1200,"cache_creation_input_tokens":30,"cache_read_input_tokens":4,"cache_creation":{"ephemeral_5m_input_tokens":7},"output_tokens":9,"service_tier":"standard"}"#;

#[test]
fn usage_is_where_the_apis_have_it() {
    let message = format!(
        r#"{{"type":"message","content":[{{"text":"usage","usage":{{"input_tokens":5}}}}],{USAGE}}}"#
    );
    assert_eq!(prompt(&message, false), Some(1234));
    let seen = observed(&message, false);
    assert_eq!(
        (seen.input, seen.cache_read, seen.cache_written),
        (Some(1200), Some(4), Some(30))
    );
    assert_eq!(
        (seen.output, seen.is_finished, seen.is_error),
        (Some(9), true, false)
    );
    let start = format!(r#"{{"type":"message_start","message":{{"content":[],{USAGE}}}}}"#);
    let chat = r#"{"choices":[],"usage":{"prompt_tokens":77,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3}}}"#;
    for end in ["\n", "\r\n", "\r"] {
        for data in ["data: ", "data:"] {
            let events = format!(
                "event: ping{end}{data}{{\"type\":\"ping\"}}{end}{end}: comment{end}event: message_start{end}{data}{start}{end}{end}"
            );
            assert_eq!(prompt(&events, true), Some(1234));
            assert_eq!(observed(&events, true).output, Some(9));
            let events = format!(
                "{data}{{\"usage\":null}}{end}{end}{data}{chat}{end}{end}{data}[DONE]{end}{end}"
            );
            assert_eq!(prompt(&events, true), Some(77));
            let seen = observed(&events, true);
            assert_eq!(
                (seen.input, seen.cache_read, seen.output),
                (Some(74), Some(3), Some(5))
            );
            assert!(seen.is_finished && seen.events == 3);
        }
    }
    assert_eq!(prompt(chat, false), Some(77));
    let both = r#"{"usage":{"prompt_tokens":77,"input_tokens":77,"output_tokens":5}}"#;
    assert_eq!(prompt(both, false), Some(77));
}

#[test]
fn what_is_no_usage_teaches_nothing() {
    for body in [
        "{}",
        r#"{"usage":null}"#,
        r#"{"usage":{"output_tokens":3}}"#,
        r#"{"usage":{"input_tokens":1.5}}"#,
        r#"{"usage":{"input_tokens":-1}}"#,
        r#"{"usage":{"input_tokens":99999999999999999999999}}"#,
        r#"{"usage":{"input_tokens":"7"}}"#,
        r#"{"usage":{"input_tokens":null}}"#,
        r#"{"usage":[7]}"#,
        r#"{"usage":{"input_tokens":7"#,
        r#"{"other":{"usage":{"input_tokens":7}}}"#,
        r#"[{"usage":{"input_tokens":7}}]"#,
        "no JSON",
    ] {
        assert_eq!(prompt(body, false), None, "{body}");
        assert_eq!(prompt(&format!("data: {body}\n\n"), true), None, "{body}");
    }
}

#[test]
fn figures_are_cumulative_and_the_last_one_stands() {
    let delta = |usage: &str| format!(r#"{{"type":"message_delta","delta":{{}},"usage":{usage}}}"#);
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":null}}}"#;
    let stream = events(&[
        start,
        &delta(r#"{"output_tokens":5}"#),
        &delta("null"),
        &delta(r#"{"output_tokens":9,"input_tokens":12,"cache_read_input_tokens":3}"#),
        &delta(r#"{"output_tokens":null,"input_tokens":"x"}"#),
    ]);
    let seen = observed(&stream, true);
    assert_eq!(
        (seen.input, seen.cache_read, seen.output),
        (Some(12), Some(3), Some(9))
    );
    // Two in one object: as every JSON parser has it.
    let twice = r#"{"usage":{"input_tokens":1},"usage":{"input_tokens":2}}"#;
    assert_eq!(observed(twice, false).input, Some(2));
    assert_eq!(observed(&events(&[twice]), true).input, Some(2));
    // An event that is cut off was never said.
    let cut = format!(
        "{}data: {}",
        events(&[start]),
        delta(r#"{"output_tokens":7}"#)
    );
    assert_eq!(observed(&cut, true).output, Some(1));
    let huge = u64::MAX;
    let huge = delta(&format!(
        r#"{{"input_tokens":{huge},"cache_read_input_tokens":{huge},"output_tokens":{huge}}}"#
    ));
    assert_eq!(observed(&events(&[&huge]), true).prompt(), None, "no model");
}

#[test]
fn an_error_is_seen_wherever_it_stands() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let start = r#"{"type":"message_start","message":{}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    for (stream, expected) in [
        (events(&[error]), (true, false)),
        (format!("event: error\ndata: {error}\n\n"), (true, false)),
        ("event: error\ndata: no JSON\n\n".to_owned(), (true, false)),
        (events(&[start, error]), (true, false)),
        (events(&[start, stop]), (false, true)),
        (
            format!("event: message_stop\ndata: {stop}\n\n"),
            (false, true),
        ),
        (
            events(&[r#"{"error":null,"choices":[]}"#, "[DONE]"]),
            (false, true),
        ),
        (events(&[r#"{"error":{"message":"x"}}"#]), (true, false)),
        (events(&[r#"{"error":"x"}"#]), (true, false)),
        (
            events(&[r#"{"choices":[{"delta":{"content":"error"}}]}"#]),
            (false, false),
        ),
        ("event: error\n\n".to_owned(), (false, false)),
        ("data: [DONE]\n".to_owned(), (false, false)),
        ("data: [DONE] \n\n".to_owned(), (false, false)),
        ("data: [DO\ndata: NE]\n\n".to_owned(), (false, false)),
    ] {
        let seen = observed(&stream, true);
        assert_eq!((seen.is_error, seen.is_finished), expected, "{stream}");
    }
    assert!(observed(error, false).is_error);
    assert!(!observed(error, false).is_finished);
}

#[test]
fn a_stream_that_began_has_a_last_event() {
    let start = r#"{"type":"message_start","message":{}}"#;
    let error = r#"{"type":"error","error":{}}"#;
    for (data, lacks) in [
        (vec![start], true),
        (vec![start, r#"{"type":"message_stop"}"#], false),
        (vec![start, error], false),
        (vec![r#"{"choices":[]}"#], false),
        (vec![], false),
    ] {
        let mut side = side(true);
        feed(&mut side, [events(&data).as_bytes()].into_iter());
        side.end();
        side.count();
        assert_eq!(side.lacks_last_event(), lacks, "{data:?}");
    }
}

/// How many tokens a text has by the vocabulary that these tests count with.
fn tokens(text: &str) -> u64 {
    let mut output = output_for_tests();
    output.push(text.as_bytes());
    output.tokens()
}

#[test]
fn text_thinking_and_inputs_of_tools_are_counted() {
    let delta = |index: u8, kind: &str, field: &str, text: &str| {
        let text = serde_json::Value::from(text).to_string();
        format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{field}":{text}}}}}"#
        )
    };
    let chat = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let (hm, text) = ("Hm, let me see.", "The água \"says\"\n日本語 🦀");
    let signature = delta(
        0,
        "signature_delta",
        "signature",
        "EqQBCgIYAhIM1gbcDa9GJwZA2b3h",
    );
    let stream = events(&[
        &delta(0, "thinking_delta", "thinking", hm),
        &signature,
        &delta(1, "text_delta", "text", text),
        &delta(1, "text_delta", "text", text),
        &delta(2, "input_json_delta", "partial_json", r#"{"a":[1,"#),
        &delta(2, "input_json_delta", "partial_json", r#"2]}"#),
    ]);
    let expected = tokens(hm) + tokens(&text.repeat(2)) + tokens(r#"{"a":[1,2]}"#);
    let seen = observed(&stream, true);
    assert_eq!((seen.relayed_output, seen.relayed_exact), (expected, true));
    let stream = events(&[
        &chat(r#"{"role":"assistant","content":""}"#),
        &chat(r#"{"content":"Hi th"}"#),
        &chat(r#"{"content":"ere"}"#),
        &chat(r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\":1}"}}]}"#),
    ]);
    let seen = observed(&stream, true);
    assert_eq!(seen.relayed_output, tokens("Hi theref{\"a\":1}"));
    let message = r#"{"content":[{"type":"text","text":"Hi there"},{"type":"tool_use","name":"f","input":{"key":["value"]}}]}"#;
    let seen = observed(message, false);
    assert_eq!(seen.relayed_output, tokens("Hi there") + tokens("keyvalue"));
    assert!(!seen.relayed_exact, "the input's punctuation is not known");
}

#[test]
fn each_piece_of_content_is_told_with_its_block() {
    let delta =
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"x"}}"#;
    let start =
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"text","text":""}}"#;
    let stream = events(&[start, delta, r#"{"type":"ping"}"#, delta]);
    let (_, ended) = read(stream.as_bytes(), true, 5);
    let blocks: Vec<_> = ended.iter().map(|ended| ended.delta_of).collect();
    assert_eq!(blocks, [None, Some(3), None, Some(3)]);
}

#[test]
fn of_an_event_that_is_too_long_the_rest_is_passed_unread() {
    let long = format!(
        r#"{{"pad":"{}","usage":{{"input_tokens":7}}}}"#,
        "x".repeat(MAX_EVENT_BYTES)
    );
    let stream = events(&[&long, r#"{"usage":{"input_tokens":8}}"#]);
    let mut side = side(true);
    let ended = feed(&mut side, stream.as_bytes().chunks(1 << 14));
    assert_eq!((ended.len(), side.unread_events()), (2, 1));
    assert!(!ended[0].has_changed && ended[1].has_changed);
    assert_eq!(side.observed().input, Some(8));
}
