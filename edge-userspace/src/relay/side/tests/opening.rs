//! How an answer begins, as it is told.

use super::*;
use crate::context::hints::MOST_BYTES;
use std::cell::RefCell;
use std::rc::Rc;

/// What an answer is said to begin with, whole and in pieces; the flag: it came to its end.
fn opening(body: &str, is_event_stream: bool, is_whole: bool) -> Option<String> {
    let mut openings = Vec::new();
    for size in [1, 7, 1000] {
        let told = Rc::new(RefCell::new(None));
        let tell = Rc::clone(&told);
        let opening = Opening::new(move |text| {
            *tell.borrow_mut() = Some(String::from_utf8_lossy(text).into_owned());
        });
        let mut side = Side::new(
            form(is_event_stream),
            output_for_tests(),
            None,
            Some(opening),
        );
        feed(&mut side, body.as_bytes().chunks(size));
        if is_whole {
            side.end();
            side.count();
        }
        openings.push(told.take());
    }
    assert!(
        openings.iter().all(|other| *other == openings[0]),
        "{openings:?}"
    );
    openings.swap_remove(0)
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
    let mut data = vec![thinking; (64 << 10) / thinking.len() + 1];
    data.push(&text);
    assert_eq!(opening(&events(&data), true, true).as_deref(), Some(""));
}

#[test]
fn of_what_breaks_off_nothing_is_told() {
    let data = |text: &str| events(&[&format!(r#"{{"delta":{{"text":"{text}"}}}}"#)]);
    assert_eq!(opening(&data("Yes"), true, false), None);
    assert!(opening(&data(LONG), true, false).is_some());
}
