use super::*;
use crate::prompt::calibration::Calibration;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What is found in a response, whole and in pieces.
fn found(body: &str, is_event_stream: bool) -> Option<u64> {
    let mut tokens = Vec::new();
    for size in [1, 7, 1000] {
        let calibration = Arc::new(Calibration::new(1, None));
        let learn = Learn::new(Arc::clone(&calibration), b"m".as_slice().into(), 1000, 0);
        let mut usage = AnswerReading::new(Some(learn), None, is_event_stream).unwrap();
        for piece in body.as_bytes().chunks(size) {
            if usage.pass(piece) {
                break;
            }
        }
        let observed = calibration
            .learnt()
            .first()
            .map(|learnt| learnt.observations);
        assert_eq!(observed.is_some(), usage.found.tokens().is_some());
        tokens.push(usage.found.tokens());
    }
    assert!(tokens.iter().all(|other| *other == tokens[0]), "{tokens:?}");
    tokens[0]
}

#[test]
fn usage_is_where_the_apis_have_it() {
    let usage = r#""usage":{"input_tokens":1200,"cache_creation_input_tokens":30,"cache_read_input_tokens":4,"cache_creation":{"ephemeral_5m_input_tokens":7},"output_tokens":9,"service_tier":"standard"}"#;
    let message = format!(
        r#"{{"type":"message","content":[{{"text":"usage","usage":{{"input_tokens":5}}}}],{usage}}}"#
    );
    assert_eq!(found(&message, false), Some(1234));
    let start = format!(r#"{{"type":"message_start","message":{{"content":[],{usage}}}}}"#);
    let chat = r#"{"choices":[],"usage":{"prompt_tokens":77,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3}}}"#;
    for end in ["\n", "\r\n", "\r"] {
        for data in ["data: ", "data:"] {
            let events = format!(
                "event: ping{end}{data}{{\"type\":\"ping\"}}{end}{end}: comment{end}event: message_start{end}{data}{start}{end}{end}"
            );
            assert_eq!(found(&events, true), Some(1234));
            let events = format!(
                "{data}{{\"usage\":null}}{end}{end}{data}{chat}{end}{end}{data}[DONE]{end}{end}"
            );
            assert_eq!(found(&events, true), Some(77));
        }
    }
    assert_eq!(found(chat, false), Some(77));
    let both = r#"{"usage":{"prompt_tokens":77,"input_tokens":77,"output_tokens":5}}"#;
    assert_eq!(found(both, false), Some(77));
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
        r#"{"usage":{"input_tokens":7"#,
        r#"{"other":{"usage":{"input_tokens":7}}}"#,
        r#"[{"usage":{"input_tokens":7}}]"#,
        "no JSON",
    ] {
        assert_eq!(found(body, false), None, "{body}");
        assert_eq!(found(&format!("data: {body}\n\n"), true), None, "{body}");
    }
}

/// What an answer is said to begin with, whole and in pieces; the flag: it came to its end.
fn opening(body: &str, is_event_stream: bool, is_whole: bool) -> Option<String> {
    let mut openings = Vec::new();
    for size in [1, 7, 1000] {
        let told = Rc::new(RefCell::new(None));
        let tell = Rc::clone(&told);
        let opening = Opening::new(move |text| {
            *tell.borrow_mut() = Some(String::from_utf8_lossy(text).into_owned());
        });
        let mut reading = AnswerReading::new(None, Some(opening), is_event_stream).unwrap();
        let mut pieces = body.as_bytes().chunks(size);
        if !pieces.any(|piece| reading.pass(piece)) && is_whole {
            reading.end();
        }
        openings.push(told.take());
    }
    assert!(
        openings.iter().all(|other| *other == openings[0]),
        "{openings:?}"
    );
    openings.swap_remove(0)
}

fn events(data: &[&str]) -> String {
    data.iter()
        .map(|data| format!("data: {data}\n\n"))
        .collect()
}

const LONG: &str =
    "A text that is longer than what is kept of how an answer begins, which is not much";

#[test]
fn the_beginning_of_the_first_text_is_told() {
    let start = r#"{"type":"message_start","message":{"content":[],"usage":{"input_tokens":1}}}"#;
    let block =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let thinking = r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}"#;
    let delta = |text: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
        )
    };
    let [short, more, long] = ["Yes", ", \\u00e9", LONG].map(delta);
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let tool = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"text","input":{"text":"no"}}}"#;
    for (data, expected) in [
        (
            vec![start, thinking, block, &short, &more, stop],
            Some("Yes, é"),
        ),
        (vec![start, block, &short, stop, block, &more], Some("Yes")),
        (vec![start, block, &short, stop, tool], Some("Yes")),
        (vec![start, block, &long], Some(&LONG[..MOST_BYTES])),
        (vec![start, tool, stop], Some("")),
        (vec!["{no json", &short], Some("Yes")),
    ] {
        assert_eq!(opening(&events(&data), true, true).as_deref(), expected);
    }
    let chat = |index: u8, text: &str| {
        format!(
            r#"{{"choices":[{{"index":{index},"delta":{{"role":"assistant","content":"{text}"}}}}]}}"#
        )
    };
    let chat = [chat(0, "Ye"), chat(1, "No"), chat(0, "s"), "[DONE]".into()];
    let chat: Vec<_> = chat.iter().map(String::as_str).collect();
    assert_eq!(opening(&events(&chat), true, true).as_deref(), Some("Yes"));
    for (body, expected) in [
        (
            r#"{"content":[{"type":"text","text":"Yes"},{"type":"text","text":"No"}]}"#,
            Some("Yes"),
        ),
        (
            r#"{"content":[{"type":"tool_use","input":{"text":"No"}}]}"#,
            Some(""),
        ),
        (r#"{"content":[]}"#, Some("")),
        (
            r#"{"choices":[{"index":0,"message":{"content":"Yes"}},{"index":1,"message":{"content":"No"}}]}"#,
            Some("Yes"),
        ),
        (r#"{"error":{"message":"No"}}"#, None),
    ] {
        assert_eq!(opening(body, false, true).as_deref(), expected, "{body}");
    }
}

#[test]
fn an_answer_that_ends_in_an_error_broke_off() {
    let text = r#"{"delta":{"text":"In the"}}"#;
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(opening(&events(&[text, error]), true, true), None);
    assert_eq!(opening(error, false, true), None);
}

#[test]
fn a_model_that_thinks_for_long_is_not_waited_for() {
    let thinking = r#"{"delta":{"type":"thinking_delta","thinking":"Hm, let me see"}}"#;
    let text = format!(r#"{{"delta":{{"text":"{LONG}"}}}}"#);
    let mut data = vec![thinking; MAX_BEFORE_TEXT_BYTES / thinking.len() + 1];
    data.push(&text);
    assert_eq!(opening(&events(&data), true, true).as_deref(), Some(""));
}

#[test]
fn of_what_breaks_off_nothing_is_told() {
    let data = |text: &str| events(&[&format!(r#"{{"delta":{{"text":"{text}"}}}}"#)]);
    assert_eq!(opening(&data("Yes"), true, false), None);
    assert!(opening(&data(LONG), true, false).is_some());
}
