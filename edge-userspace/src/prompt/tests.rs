//! Whole requests, read in pieces.

use super::*;
use crate::config::Models;
use crate::tokens::{Vocabulary, plain};
use bytes::Bytes;
use calibration::Calibration;
use proptest::prelude::*;
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

/// A PNG's head in base64, of that size.
fn png(width: u32, height: u32) -> String {
    use base64::Engine as _;
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend(width.to_be_bytes());
    png.extend(height.to_be_bytes());
    png.extend([8, 6, 0, 0, 0]);
    png.extend([7; 2000]);
    base64::engine::general_purpose::STANDARD.encode(png)
}

#[test]
fn pictures_count_by_their_size_and_not_as_text() {
    let picture = |source: Value| {
        json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": [
            { "type": "text", "text": "What is this?" },
            { "type": "image", "source": source },
        ]}]})
    };
    let text = tokens("o200k_base", &["What is this?"]);
    let base64 = json!({ "type": "base64", "media_type": "image/png", "data": png(1000, 1000) });
    let sized = count(MESSAGES, &picture(base64));
    assert_eq!((sized.parts.pictures, sized.kind), (1334, Kind::Exact));
    assert_eq!(sized.tokens, text + 1334 + 6);
    // In any order, and without a type.
    let data = png(1000, 1000);
    for (source, tokens, kind) in [
        (
            format!(r#""type":"base64","data":"{data}""#),
            1334,
            Kind::Exact,
        ),
        (
            format!(r#""data":"{data}","type":"base64""#),
            1334,
            Kind::Exact,
        ),
        (format!(r#""data":"{data}""#), 1334, Kind::Exact),
        (
            r#""data":"one two three","type":"text""#.to_owned(),
            3,
            Kind::Exact,
        ),
        (
            r#""type":"text","data":"one two three""#.to_owned(),
            3,
            Kind::Exact,
        ),
        (r#""data":"one two three""#.to_owned(), 3, Kind::Exact),
        // A text that begins as a picture does.
        (
            format!(r#""data":"{data}","type":"text""#),
            data.len() as u64,
            Kind::Estimate,
        ),
    ] {
        let text = format!(
            r#"{{"model":"gpt-4o","messages":[{{"content":[{{"source":{{{source}}}}}]}}]}}"#
        );
        let count = read(MESSAGES, Limits::default(), &[text.as_bytes()])
            .unwrap()
            .count;
        assert_eq!(
            (count.tokens - 6, count.kind),
            (tokens, kind),
            "{source:.40}"
        );
    }
    for elsewhere in [
        json!({ "type": "url", "url": "https://example.com/a.png" }),
        json!({ "type": "file", "file_id": "file_1" }),
    ] {
        let fetched = count(MESSAGES, &picture(elsewhere));
        assert_eq!(
            (fetched.parts.pictures, fetched.kind),
            (1600, Kind::Estimate)
        );
        assert_eq!(fetched.low, text + 1 + 6);
    }
    let broken = json!({ "type": "base64", "media_type": "image/png", "data": "AAAA" });
    assert_eq!(count(MESSAGES, &picture(broken)).kind, Kind::Estimate);
}

#[test]
fn pictures_of_chat_count_by_tiles() {
    let request = |model: &str, url: &str, detail: &str| {
        json!({ "model": model, "messages": [{ "role": "user", "content": [
            { "type": "image_url", "image_url": { "url": url, "detail": detail } },
        ]}]})
    };
    let url = format!("data:image/png;base64,{}", png(2048, 4096));
    for (model, detail, tokens) in [
        ("gpt-4o", "high", 1105),
        ("gpt-4o", "auto", 1105),
        ("gpt-4o", "low", 85),
        ("gpt-4o-mini", "low", 2833),
        ("o1", "high", 75 + 6 * 150),
    ] {
        let count = count(CHAT, &request(model, &url, detail));
        assert_eq!(count.parts.pictures, tokens, "{model} {detail}");
    }
    let fetched = count(
        CHAT,
        &request("gpt-4o", "https://example.com/a.png", "high"),
    );
    assert_eq!(
        (fetched.parts.pictures, fetched.kind),
        (765, Kind::Estimate)
    );
    let fetched = count(CHAT, &request("gpt-4o", "https://example.com/a.png", "low"));
    assert_eq!((fetched.parts.pictures, fetched.kind), (85, Kind::Exact));
}

#[test]
fn a_prompt_is_too_long_as_soon_as_that_is_sure() {
    let limits = Limits {
        key: Some(100),
        node: Some(1000),
        context: false,
    };
    let long = "word ".repeat(5000);
    let first = format!(r#"{{"model":"gpt-4o","messages":[{{"role":"user","content":"{long}"#);
    let Err(Refusal::TooLong(refused)) = read(CHAT, limits, &[first.as_bytes()]) else {
        panic!("refused before its end");
    };
    assert_eq!(
        (refused.limit, refused.whose, refused.is_estimate),
        (100, Whose::Key, false)
    );
    assert!(refused.tokens > 100, "{refused:?}");
    assert_eq!(
        refused.to_string(),
        format!(
            "prompt is at least {} tokens; this key's limit is 100",
            refused.tokens
        )
    );
    // Before the model is known, by a number that holds for every vocabulary.
    let first = format!(r#"{{"messages":[{{"role":"user","content":"{long}"#);
    let Err(Refusal::TooLong(refused)) = read(MESSAGES, limits, &[first.as_bytes()]) else {
        panic!("refused before its end");
    };
    assert!(refused.tokens > 100 && !refused.is_estimate, "{refused:?}");
    let only_node = Limits {
        key: None,
        node: Some(1000),
        context: false,
    };
    let Err(Refusal::TooLong(refused)) = read(MESSAGES, only_node, &[first.as_bytes()]) else {
        panic!("refused before its end");
    };
    assert_eq!((refused.limit, refused.whose), (1000, Whose::Node));
}

#[test]
fn a_limit_is_the_longest_that_passes() {
    let request =
        json!({ "messages": [{ "role": "user", "content": "one two three" }], "model": "gpt-4o" });
    let text = request.to_string();
    let tokens = count(CHAT, &request).tokens;
    for (limit, passes) in [(tokens, true), (tokens - 1, false)] {
        let limits = Limits {
            key: Some(limit),
            node: None,
            context: false,
        };
        assert_eq!(read(CHAT, limits, &[text.as_bytes()]).is_ok(), passes);
    }
    // An estimate says so.
    let text = text.replace("gpt-4o", "claude-x");
    let limits = Limits {
        key: Some(1),
        node: None,
        context: false,
    };
    let Err(Refusal::TooLong(refused)) = read(MESSAGES, limits, &[text.as_bytes()]) else {
        panic!("refused");
    };
    assert!(
        refused.is_estimate && refused.to_string().contains("is estimated at"),
        "{refused}"
    );
}

/// An estimate of a beginning may be more than that of the whole.
#[test]
fn an_estimate_refuses_what_is_too_long_in_the_end_and_nothing_else() {
    let words = [
        "==",
        "{}[]();",
        "12345",
        " 99.5, ",
        "     ",
        "привет ",
        "AbC9xQ2",
        "a ",
        "hello ",
    ];
    for (one, other) in words.iter().flat_map(|one| words.map(|other| (one, other))) {
        for (times, size) in [(50, 60), (50, 500), (100, 526), (300, 420), (500, 790)] {
            let text = format!("{one}{other}{other}").repeat(times / 3)
                + &one.repeat(times)
                + &other.repeat(times);
            let request = format!(r#"{{"model":"claude-x","messages":[{{"content":"{text}"}}]}}"#);
            let pieces: Vec<_> = request.as_bytes().chunks(size).collect();
            let passes = |limit| {
                let limits = Limits {
                    key: Some(limit),
                    node: None,
                    context: false,
                };
                read(MESSAGES, limits, &pieces).map(|counted| counted.count.tokens)
            };
            let tokens = passes(u64::MAX).unwrap();
            assert_eq!(
                passes(tokens),
                Ok(tokens),
                "{one:?} {other:?} {times} {size}"
            );
            assert!(
                passes(tokens - 1).is_err(),
                "{one:?} {other:?} {times} {size}"
            );
        }
    }
}

#[test]
fn owned_keys_come_once() {
    for key in [
        "model",
        "max_tokens",
        "stream",
        "messages",
        "system",
        "tools",
    ] {
        for again in [
            key.to_owned(),
            format!("\\u{:04x}{}", key.as_bytes()[0], &key[1..]),
        ] {
            let text = format!(r#"{{"{key}":1,"other":2,"{again}":3}}"#);
            let Err(Refusal::Json(error)) = read(MESSAGES, Limits::default(), &[text.as_bytes()])
            else {
                panic!("{text} is refused");
            };
            assert_eq!(error.what, json::Wrong::Duplicate(key));
        }
    }
    // Others, and those of inner objects, may.
    let text = r#"{"other":1,"other":2,"metadata":{"model":1,"model":2}}"#;
    assert!(read(MESSAGES, Limits::default(), &[text.as_bytes()]).is_ok());
    let text =
        r#"{"messages":[{"content":[{"source":{"type":"base64","data":"x","type":"text"}}]}]}"#;
    assert!(read(MESSAGES, Limits::default(), &[text.as_bytes()]).is_err());
}

#[test]
fn what_is_no_request_is_read_all_the_same() {
    for text in [
        "null",
        "[]",
        "3",
        "\"x\"",
        "{}",
        r#"{"model":7,"messages":3}"#,
        r#"{"messages":[[{"content":[]}],3]}"#,
    ] {
        let counted = read(MESSAGES, Limits::default(), &[text.as_bytes()]).unwrap();
        assert!(counted.count.tokens <= 10, "{text}: {:?}", counted.count);
    }
    let long = format!(r#"{{"model":"{}","messages":[]}}"#, "m".repeat(5000));
    let counted = read(MESSAGES, Limits::default(), &[long.as_bytes()]).unwrap();
    assert!(counted.model.is_empty() && counted.learn.is_none());
}

/// A piece that is small encoded is read in turns, and each turn is bounded.
#[test]
fn one_turn_reads_no_more_than_a_part() {
    use decode::Encoding;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;
    const BLANKS: usize = 8 << 20;
    let request = r#"{"messages":[{"role":"user","content":"one two"}],"model":"gpt-4o"}"#;
    let text = [&vec![b' '; BLANKS][..], request.as_bytes()].concat();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&text).unwrap();
    let body = Bytes::from(encoder.finish().unwrap());
    for (encoding, body, most_turns) in [
        (Encoding::Gzip, body, BLANKS / (256 << 10) + 2),
        (
            Encoding::Identity,
            Bytes::from(text),
            BLANKS / (256 << 10) + 2,
        ),
    ] {
        let calibration = Arc::new(Calibration::new(8, None));
        let models = Arc::new(Models::default());
        let limits = Limits::default();
        let reading = Reading::new(CHAT, models, Rc::default(), calibration, limits);
        let mut reading = reading.encoded(encoding, 1 << 30);
        let mut turns = 1;
        let mut is_read = reading.push(body).unwrap();
        while !is_read {
            turns += 1;
            is_read = reading.go_on().unwrap();
        }
        // A turn ends within one step of the decoder.
        let fewest = BLANKS / ((256 + 64) << 10);
        assert!(
            (fewest..=most_turns).contains(&turns),
            "{encoding:?} {turns}"
        );
        reading.finish().unwrap();
        while !reading.go_on().unwrap() {}
        assert_eq!(reading.counted().0.count.tokens, 2 + 1 + 3 + 3);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "model",
        "messages",
        "system",
        "tools",
        "content",
        "text",
        "source",
        "data",
        "type",
        "input",
        "image_url",
        "url",
        "detail",
        "name",
        "role",
        "function",
        "parameters",
        "tool_calls",
        "arguments",
        "thinking",
        "input_schema",
        "x",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z é\n]{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["gpt-4o", "claude-x", "base64", "text", "low"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|pairs| Value::Object(
                pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Of any shape, in any pieces: the same count, and never a panic.
    #[test]
    fn pieces_change_nothing(request in any_json(), size in 1..40_usize, chat in any::<bool>()) {
        let shape = if chat { CHAT } else { MESSAGES };
        let text = request.to_string();
        let whole = read(shape, Limits::default(), &[text.as_bytes()]).map(|counted| counted.count);
        let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
        let again = read(shape, Limits::default(), &pieces).map(|counted| counted.count);
        prop_assert_eq!(again, whole);
    }

    /// Where the keys stand changes nothing either.
    #[test]
    fn order_changes_nothing(text in "[a-z ]{0,60}", rotate in 0..4_usize) {
        let parts = [
            r#""model":"gpt-4o""#.to_owned(),
            format!(r#""messages":[{{"role":"user","content":"{text}"}}]"#),
            format!(r#""tools":[{{"name":"x","description":"{text}"}}]"#),
            r#""max_tokens":5"#.to_owned(),
        ];
        let request = |rotate: usize| {
            let mut parts = parts.clone();
            parts.rotate_left(rotate);
            format!("{{{}}}", parts.join(","))
        };
        for shape in [CHAT, MESSAGES] {
            let count = |rotate| read(shape, Limits::default(), &[request(rotate).as_bytes()]).unwrap().count;
            prop_assert_eq!(count(rotate), count(0));
        }
    }
}
