//! Whole requests, read in pieces: what counts of them.

mod again;
mod kept;
mod limits;
mod pictures;
mod pieces;
mod results;

use super::*;
use crate::config::Models;
use crate::tokens::{Vocabulary, plain};
use bytes::Bytes;
use calibration::Calibration;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;

const MESSAGES: Shape = Shape::Messages;
const CHAT: Shape = Shape::Chat;

fn read(shape: Shape, limits: Limits, pieces: &[&[u8]]) -> Result<Counted, Refusal> {
    let calibration = Arc::new(Calibration::new(8, None));
    let models = Arc::new(Models::default());
    let mut reading = Reading::new(shape, models, Rc::default(), calibration, limits);
    for piece in pieces {
        let mut is_read = reading.push(Bytes::copy_from_slice(piece))?;
        while !is_read {
            is_read = reading.go_on()?;
        }
    }
    reading.finish()?;
    while !reading.go_on()? {}
    let (counted, held) = reading.counted();
    assert_eq!(held.concat(), pieces.concat(), "byte for byte");
    Ok(counted)
}

fn count(shape: Shape, request: &Value) -> Count {
    let text = request.to_string();
    let counted = read(shape, Limits::default(), &[text.as_bytes()]).unwrap();
    for size in [1, 7, 100] {
        let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
        let again = read(shape, Limits::default(), &pieces).unwrap();
        assert_eq!(again.count, counted.count, "in pieces of {size}");
    }
    counted.count
}

fn tokens(vocabulary: &str, texts: &[&str]) -> u64 {
    let vocabulary = Vocabulary::embedded(vocabulary).unwrap();
    let count = |text: &&str| plain::count(&vocabulary, text.as_bytes());
    texts.iter().map(count).sum()
}

/// The example of OpenAI's cookbook, with the numbers that its API gave for it.
#[test]
fn chat_messages_count_as_published() {
    let messages = json!([
        { "role": "system", "content": "You are a helpful, pattern-following assistant that translates corporate jargon into plain English." },
        { "role": "system", "name": "example_user", "content": "New synergies will help drive top-line growth." },
        { "role": "system", "name": "example_assistant", "content": "Things working well together will increase revenue." },
        { "role": "system", "name": "example_user", "content": "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage." },
        { "role": "system", "name": "example_assistant", "content": "Let's talk later when we're less busy about how to do better." },
        { "role": "user", "content": "This late pivot means we don't have time to boil the ocean for the client deliverable." },
    ]);
    for (model, published) in [
        ("gpt-3.5-turbo", 129),
        ("gpt-4-0613", 129),
        ("gpt-4", 129),
        ("gpt-4o", 124),
        ("gpt-4o-mini", 124),
    ] {
        let count = count(CHAT, &json!({ "model": model, "messages": messages }));
        assert_eq!(
            (count.tokens, count.kind),
            (published, Kind::Exact),
            "{model}"
        );
        assert_eq!((count.low, count.high), (published, published));
        assert_eq!(count.parts.framing, 6 * 3 + 4 + 3);
    }
}

/// What is assumed to be around Claude's texts meets the example in Anthropic's documentation of
/// token counting, which says 14.
#[test]
fn claudes_framing_meets_the_documented_example() {
    let texts = ["You are a scientist", "Hello, Claude"];
    let request = json!({
        "model": "claude-sonnet-4-5",
        "system": texts[0],
        "messages": [{ "role": "user", "content": texts[1] }],
    });
    let framing = count(MESSAGES, &request).parts.framing;
    assert_eq!(tokens("claude-2", &texts) + framing, 14);
}

/// One text in every place that counts, and traps in those that do not.
#[test]
fn everything_that_a_model_reads_counts_and_nothing_else() {
    let words = [
        "zero",
        " one",
        " two",
        " three",
        " four",
        " five",
        " six",
        " seven",
        " eight",
        " nine",
        " ten",
        " eleven",
        " twelve",
        " thirteen",
        " fourteen",
        " fifteen",
    ];
    let w = |n: usize| words[..=n].concat();
    let request = json!({
        "model": "gpt-4o",
        "max_tokens": 1024,
        "metadata": { "user_id": "not counted", "text": "not counted", "content": ["not counted"] },
        "system": [{ "type": "text", "text": w(0), "cache_control": { "type": "ephemeral", "text": "not counted" } }],
        "tools": [{ "name": w(1), "description": w(2), "input_schema": {}, "type": "custom" }],
        "messages": [
            { "role": "user", "content": w(3) },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": w(4), "signature": "not counted" },
                { "type": "redacted_thinking", "data": "not counted" },
                { "type": "text", "text": w(5), "citations": [{ "cited_text": "not counted" }] },
                { "type": "tool_use", "id": "toolu_not_counted", "name": w(6), "input": w(7) },
            ]},
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_not_counted", "content": w(8) },
                { "type": "tool_result", "tool_use_id": "x", "content": [
                    { "type": "text", "text": w(9) },
                    { "type": "search_result", "source": w(10), "title": w(11), "content": [{ "type": "text", "text": w(12) }] },
                ]},
                { "type": "document", "title": w(13), "context": w(14), "source": { "type": "text", "media_type": "text/plain", "data": w(15) } },
                { "type": "document", "source": { "type": "content", "content": [{ "type": "text", "text": w(0) }] } },
            ]},
        ],
    });
    let count = count(MESSAGES, &request);
    let texts: Vec<String> = (0..16).map(w).chain([w(0)]).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(
        count.parts.texts[Part::System as usize],
        tokens("o200k_base", &texts[..1])
    );
    let schema = tokens("o200k_base", &["{}"]);
    let tools = tokens("o200k_base", &texts[1..3]) + schema;
    assert_eq!(count.parts.texts[Part::Tools as usize], tools);
    let conversation = tokens("o200k_base", &texts[3..]);
    assert_eq!(count.parts.texts[Part::Messages as usize], conversation);
    assert_eq!(count.parts.framing, 3 * 3 + 3);
    assert_eq!(count.tokens, count.parts.texts.iter().sum::<u64>() + 12);
    // How the upstream writes a schema is its own affair.
    assert_eq!(count.kind, Kind::Estimate);
    assert!(count.low < count.tokens && count.tokens < count.high);
}

#[test]
fn json_counts_as_it_would_be_written() {
    let input =
        json!({ "a": [1, -2.5e3, { "b": "c\n\"d\"" }, [], {}, true, null], "é": "f", "g": {} });
    // Strings as they are, not as JSON escapes them.
    let written = r#"{"a":[1,-2500.0,{"b":"c"#.to_owned()
        + "\n\"d\""
        + r#""},[],{},true,null],"g":{},"é":"f"}"#;
    for place in ["input", "input_schema"] {
        let request = if place == "input" {
            json!({ "model": "gpt-4o", "messages": [{ "content": [{ "input": input }] }] })
        } else {
            json!({ "model": "gpt-4o", "tools": [{ "input_schema": input }], "messages": [] })
        };
        let count = count(MESSAGES, &request);
        let texts: u64 = count.parts.texts.iter().sum();
        assert_eq!(texts, tokens("o200k_base", &[&written]), "{place}");
    }
}

#[test]
fn chat_counts_tools_and_calls_and_says_that_it_estimates() {
    let request = json!({
        "model": "gpt-4o",
        "tools": [{ "type": "function", "function": { "name": "get_weather", "description": "Weather of a city", "parameters": { "type": "object" } } }],
        "messages": [
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "call_not_counted", "type": "function", "function": { "name": "get_weather", "arguments": "{\"city\":\"Paris\"}" } }] },
            { "role": "tool", "tool_call_id": "call_1", "content": "18 degrees" },
        ],
    });
    let count = count(CHAT, &request);
    let tools = tokens(
        "o200k_base",
        &["get_weather", "Weather of a city", r#"{"type":"object"}"#],
    );
    let conversation = [
        "assistant",
        "get_weather",
        r#"{"city":"Paris"}"#,
        "tool",
        "call_1",
        "18 degrees",
    ];
    let conversation = tokens("o200k_base", &conversation);
    assert_eq!(count.parts.texts, [0, tools, conversation]);
    assert_eq!(count.kind, Kind::Estimate);
}

/// What is reserved for an answer goes by it.
#[test]
fn how_much_a_request_asks_for_is_read_wherever_it_stands() {
    let text = "word ".repeat(2000);
    for (shape, request, expected) in [
        (MESSAGES, "{}".to_owned(), (None, 1)),
        (
            MESSAGES,
            format!(r#"{{"max_tokens":64000,"messages":[{{"role":"user","content":"{text}"}}],"model":"claude-x"}}"#),
            (Some(64_000), 1),
        ),
        (
            MESSAGES,
            format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}],"model":"gpt-4o","max_tokens":7}}"#),
            (Some(7), 1),
        ),
        (
            CHAT,
            r#"{"model":"gpt-4o","max_tokens":5,"max_completion_tokens":900,"n":3,"messages":[]}"#.to_owned(),
            (Some(900), 3),
        ),
        // What stands deeper is none of the request's own; nor is what is no whole number.
        (
            CHAT,
            r#"{"metadata":{"max_tokens":5,"n":9},"tools":[{"type":"function","function":{"name":"f","parameters":{"n":4,"max_tokens":8}}}],"model":"gpt-4o","messages":[]}"#.to_owned(),
            (None, 1),
        ),
        (
            CHAT,
            r#"{"max_tokens":-5,"n":-2,"messages":[]}"#.to_owned(),
            (None, 1),
        ),
        (
            CHAT,
            r#"{"max_tokens":"many","n":null,"messages":[]}"#.to_owned(),
            (None, 1),
        ),
        (
            CHAT,
            r#"{"max_tokens":1.5,"n":25e-1,"messages":[]}"#.to_owned(),
            (None, 1),
        ),
        // A whole number, however it is written.
        (
            CHAT,
            r#"{"max_tokens":1e3,"n":30e-1,"messages":[]}"#.to_owned(),
            (Some(1000), 3),
        ),
        (
            MESSAGES,
            r#"{"max_tokens":1000000.0,"messages":[]}"#.to_owned(),
            (Some(1_000_000), 1),
        ),
        (
            CHAT,
            r#"{"max_tokens":"1_000 ","n":"2","messages":[]}"#.to_owned(),
            (Some(1000), 2),
        ),
        (
            MESSAGES,
            r#"{"max_tokens":0.000105E+6,"messages":[]}"#.to_owned(),
            (Some(105), 1),
        ),
        (
            CHAT,
            r#"{"max_tokens":0e9,"messages":[]}"#.to_owned(),
            (Some(0), 1),
        ),
        (
            CHAT,
            r#"{"max_tokens":99999999999999999999,"messages":[]}"#.to_owned(),
            (Some(u64::MAX), 1),
        ),
        (
            CHAT,
            r#"{"max_tokens":1e99999999999999999999,"messages":[]}"#.to_owned(),
            (Some(u64::MAX), 1),
        ),
    ] {
        for size in [1, 7, 100_000] {
            let pieces: Vec<_> = request.as_bytes().chunks(size).collect();
            let counted = read(shape, Limits::default(), &pieces).unwrap();
            let asked = (counted.max_tokens, counted.choices);
            assert_eq!(asked, expected, "{}", &request[..request.len().min(80)]);
        }
    }
}
