//! What prefixes count, and that what is remembered of one need not be counted again.

use edge_userspace::config::Models;
use edge_userspace::context::{Chain, ContextId, Owner, Secret, Tenant};
use edge_userspace::prompt::calibration::Calibration;
use edge_userspace::prompt::{Counted, Counters, Kind, Limits, Reading, Shape};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;

const OWNER: Owner = Owner {
    tenant: Tenant(1),
    context: ContextId::NONE,
};

/// What a request comes to.
struct Read {
    counted: Counted,
    chain: Option<Chain>,
    /// Whether what was known of a prefix was taken.
    knew: bool,
}

thread_local! {
    static COUNTERS: Rc<Counters> = Rc::default();
    static MODELS: Arc<Models> = Arc::new(Models::default());
}

fn reading(shape: Shape) -> Box<Reading> {
    Reading::new(
        shape,
        MODELS.with(Arc::clone),
        COUNTERS.with(Rc::clone),
        Arc::new(Calibration::new(8, None)),
        Limits::default(),
    )
}

fn push(reading: &mut Reading, body: &str, size: usize) {
    for piece in body.as_bytes().chunks(size) {
        let mut is_read = reading.push(piece.to_vec().into()).unwrap();
        while !is_read {
            is_read = reading.go_on().unwrap();
        }
    }
    reading.finish().unwrap();
}

/// Reads a body that comes in pieces of `size`; of a prefix messages and tokens may be known.
fn read(shape: Shape, body: &str, size: usize, known: Option<(u64, u64)>) -> Read {
    let secret = Secret::demonstration();
    let mut reading = reading(shape).chained(&secret);
    push(&mut reading, body, size);
    let chain = reading.chain(&secret, OWNER);
    let knew = known.is_some_and(|(messages, tokens)| reading.know(messages, tokens));
    while !reading.go_on().unwrap() {}
    let (counted, held) = reading.counted();
    assert_eq!(held.concat(), body.as_bytes());
    Read {
        counted,
        chain,
        knew,
    }
}

fn without_names(shape: Shape, body: &str) -> Counted {
    let mut reading = reading(shape);
    push(&mut reading, body, usize::MAX);
    while !reading.go_on().unwrap() {}
    reading.counted().0
}

/// With only so many of its messages.
fn cut(request: &Value, messages: usize) -> Value {
    let mut request = request.clone();
    request["messages"]
        .as_array_mut()
        .unwrap()
        .truncate(messages);
    request
}

/// The model's name first, or last.
fn written(request: &Value, model_first: bool) -> String {
    let mut rest = request.clone();
    let model = rest.as_object_mut().unwrap().remove("model").unwrap();
    let rest = rest.to_string();
    let inside = &rest[1..rest.len() - 1];
    match model_first {
        true => format!("{{\"model\":{model},{inside}}}"),
        false => format!("{{{inside},\"model\":{model}}}"),
    }
}

const PER_REQUEST: u64 = 3;

/// Every prefix of a request, in every way.
fn every_prefix(shape: Shape, request: &Value, sizes: &[usize]) {
    let messages = request["messages"].as_array().unwrap().len();
    let text = written(request, false);
    let whole = read(shape, &text, usize::MAX, None);
    let count = whole.counted.count;
    assert_eq!(count, without_names(shape, &text).count);
    let tokens = |messages: usize| whole.counted.prefixes.tokens(messages as u64);
    assert_eq!(tokens(messages), Some(count.tokens - PER_REQUEST), "{text}");
    assert_eq!(tokens(messages + 1), None);
    let chain = whole.chain.as_ref().unwrap();
    assert_eq!(chain.boundaries().len(), messages);
    for known in 0..=messages {
        let prefix = tokens(known).unwrap();
        // The same as of a request that ends there.
        let shorter = without_names(shape, &written(&cut(request, known), true)).count;
        assert_eq!(prefix, shorter.tokens - PER_REQUEST, "{known} of {text}");
        for (&size, first) in sizes.iter().zip([true, false].into_iter().cycle()) {
            let text = written(request, first);
            let again = read(shape, &text, size, Some((known as u64, prefix)));
            assert!(again.knew, "{text}");
            let counted = again.counted;
            let same = (counted.count.tokens, counted.count.kind, counted.model);
            let expected = (count.tokens, count.kind, whole.counted.model.clone());
            assert_eq!(same, expected, "{known} of {text} in pieces of {size}");
            assert!(counted.count.low <= count.low && count.high <= counted.count.high);
            if count.kind == Kind::Exact {
                assert_eq!(
                    (counted.count.low, counted.count.high),
                    (count.low, count.high)
                );
            }
            for later in known..=messages {
                let prefix = counted.prefixes.tokens(later as u64);
                assert_eq!(prefix, tokens(later), "{later} after {known} of {text}");
            }
            if known > 0 {
                assert_eq!(counted.prefixes.tokens(known as u64 - 1), None);
            }
            assert_eq!(again.chain, whole.chain);
        }
    }
}

/// A PNG's head in base64, of that size.
fn png(width: u32, height: u32) -> String {
    use base64::Engine as _;
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend(width.to_be_bytes());
    png.extend(height.to_be_bytes());
    png.extend([8, 6, 0, 0, 0]);
    png.extend([7; 500]);
    base64::engine::general_purpose::STANDARD.encode(png)
}

fn conversations() -> Vec<(Shape, Value)> {
    let texts = [
        "Hi",
        "What's the weather in Zürich today? \n\n 12345",
        "日本語のテキスト and code: fn main() { println!(\"{}\", 1 + 2); }",
        "",
        "A longer answer. ".repeat(40).leak(),
    ];
    let picture = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": png(600, 400) } });
    let call = json!({ "type": "tool_use", "id": "t1", "name": "weather", "input": { "city": "Bern", "days": [1, 2.50] } });
    let result = json!({ "type": "tool_result", "tool_use_id": "t1", "content": [{ "type": "text", "text": "18 degrees" }, picture] });
    let message = |n: usize| match n % 7 {
        5 => {
            json!({ "role": "assistant", "content": [{ "type": "thinking", "thinking": texts[2], "signature": "x" }, call] })
        }
        6 => json!({ "content": [result], "role": "user" }),
        _ => {
            json!({ "role": if n.is_multiple_of(2) { "user" } else { "assistant" }, "content": texts[n % 5] })
        }
    };
    let mut all = Vec::new();
    for model in ["gpt-4o", "gpt-4-0613", "o3-mini", "chatgpt-4o-latest"] {
        for length in [0, 1, 3, 9] {
            let messages: Vec<_> = (0..length).map(message).collect();
            all.push((
                Shape::Messages,
                json!({ "model": model, "messages": messages }),
            ));
            all.push((
                Shape::Messages,
                json!({
                    "model": model,
                    "messages": messages,
                    "system": [{ "type": "text", "text": texts[1] }, picture],
                    "tools": [{ "name": "weather", "description": texts[1], "input_schema": { "type": "object" } }],
                    "output_format": { "type": "json_schema" },
                }),
            ));
        }
        let url = format!("data:image/png;base64,{}", png(1000, 700));
        let chat = json!([
            { "role": "system", "content": texts[1] },
            { "role": "user", "name": "Anna", "content": [{ "type": "text", "text": texts[2] }, { "type": "image_url", "image_url": { "url": url } }] },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{\"a\": 1}" } }] },
            { "role": "tool", "tool_call_id": "c", "content": texts[4] },
            { "role": "assistant", "name": "Bert", "content": texts[0] },
        ]);
        for tools in [
            json!([]),
            json!([{ "type": "function", "function": { "name": "f", "parameters": {} } }]),
        ] {
            all.push((
                Shape::Chat,
                json!({ "model": model, "messages": chat, "tools": tools }),
            ));
        }
    }
    all
}

#[test]
fn with_any_prefix_known_the_count_is_that_of_the_whole() {
    for (shape, request) in conversations() {
        every_prefix(shape, &request, &[usize::MAX, 1000, 61]);
    }
}

#[test]
fn of_an_estimate_nothing_is_known_but_each_prefix_has_its_part() {
    for (shape, mut request) in conversations() {
        request["model"] = "claude-sonnet-4-5".into();
        let messages = request["messages"].as_array().unwrap().len() as u64;
        let text = request.to_string();
        let read = read(shape, &text, 100, Some((messages, 7)));
        assert!(!read.knew, "an estimate is no sum of its texts' estimates");
        let counted = read.counted;
        assert_eq!(counted.count, without_names(shape, &text).count);
        let prefixes: Vec<_> = (0..=messages)
            .map(|messages| counted.prefixes.tokens(messages).unwrap())
            .collect();
        assert!(prefixes.is_sorted(), "{prefixes:?}");
        assert_eq!(prefixes.last(), Some(&(counted.count.tokens - PER_REQUEST)));
    }
}

#[test]
fn what_cannot_be_is_not_believed() {
    for (shape, request) in conversations() {
        let text = request.to_string();
        let count = without_names(shape, &text).count;
        let messages = request["messages"].as_array().unwrap().len() as u64;
        // Less than the framing of one message, or of messages that are not there.
        for known in [(1, 0), (messages + 1, 1000), (u64::MAX, 1)] {
            assert_eq!(read(shape, &text, 500, Some(known)).counted.count, count);
        }
    }
}

#[test]
fn equal_names_of_what_counts_mean_equal_counts() {
    let request = |first: Value, model: &str| {
        let body =
            json!({ "model": model, "messages": [first, { "role": "user", "content": "x" }] });
        read(Shape::Messages, &body.to_string(), usize::MAX, None)
    };
    let user = |content: Value| json!({ "role": "user", "content": content });
    let model = "gpt-4o";
    let text = json!({ "type": "text", "text": "one two" });
    let marked =
        json!({ "type": "text", "text": "one two", "cache_control": { "type": "ephemeral" } });
    let thinking = json!({ "type": "thinking", "thinking": "so much", "signature": "s" });
    let call = |input: &str| {
        format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"n","input":{input}}}]}}"#
        )
    };
    let plain = request(user(json!("one two")), model);
    let exact = |read: &Read| read.chain.as_ref().unwrap().boundaries()[1];
    for (what, other, is_equal) in [
        ("a block", request(user(json!([text])), model), true),
        ("a mark", request(user(json!([marked])), model), true),
        (
            "thinking",
            request(user(json!([text, thinking])), model),
            false,
        ),
        (
            "a model of the same vocabulary",
            request(user(json!("one two")), "gpt-4o-mini"),
            false,
        ),
    ] {
        let (one, other_one) = (exact(&plain), exact(&other));
        assert_eq!(one.exact == other_one.exact, is_equal, "{what}");
        if is_equal {
            assert_eq!(one.fingerprint, other_one.fingerprint, "{what}");
            assert_eq!(plain.counted.count, other.counted.count, "{what}");
        }
    }
    // One conversation, but other texts: the order of keys, and how numbers are written.
    let of = |input: &str| {
        let body = format!(r#"{{"model":"gpt-4o","messages":[{}]}}"#, call(input));
        let read = read(Shape::Messages, &body, usize::MAX, None);
        read.chain.unwrap().boundaries()[0]
    };
    let one = of(r#"{"a":1,"b":[true]}"#);
    for (input, is_equal) in [
        (r#"{ "a" : 1, "b" : [ true ] }"#, true),
        (r#"{"\u0061":1,"b":[true]}"#, true),
        (r#"{"b":[true],"a":1}"#, false),
        (r#"{"a":1.0,"b":[true]}"#, false),
    ] {
        let other = of(input);
        assert_eq!(one.fingerprint, other.fingerprint, "{input}");
        assert_eq!(one.exact == other.exact, is_equal, "{input}");
    }
    // Other rules count another way.
    let secret = Secret::demonstration();
    let body = json!({ "model": model, "messages": [] }).to_string();
    let mut names = [0; 2].map(|_| {
        let mut reading = Reading::new(
            Shape::Messages,
            Arc::new(Models::default()),
            Rc::default(),
            Arc::new(Calibration::new(8, None)),
            Limits::default(),
        )
        .chained(&secret);
        push(&mut reading, &body, usize::MAX);
        reading.chain(&secret, OWNER).unwrap().head()
    });
    assert_eq!(names[0].fingerprint, names[1].fingerprint);
    names.sort_by_key(|name| name.exact);
    assert_ne!(names[0].exact, names[1].exact);
}

fn any_content() -> impl Strategy<Value = Value> {
    let text = "[a-zé \n\"\\\\1]{0,40}";
    prop_oneof![
        text.prop_map(Value::from),
        prop::collection::vec(
            (text, 0..5_usize).prop_map(|(text, kind)| match kind {
                0 => json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }),
                1 => json!({ "type": "thinking", "thinking": text }),
                2 => json!({ "type": "tool_use", "name": "n", "input": { "z": text, "a": [1, null] } }),
                3 => json!({ "type": "tool_result", "content": [{ "type": "text", "text": text }] }),
                _ => json!({ "type": "document", "source": { "type": "text", "data": text }, "title": "t" }),
            }),
            0..4
        )
        .prop_map(Value::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_conversation_with_any_prefix_known(
        contents in prop::collection::vec(any_content(), 1..6),
        system in prop::option::of(any_content()),
        model in prop::sample::select(vec!["gpt-4o", "gpt-4"]),
        size in 1..200_usize,
    ) {
        let roles = ["user", "assistant"].into_iter().cycle();
        let messages: Vec<_> = (contents.into_iter().zip(roles))
            .map(|(content, role)| json!({ "role": role, "content": content }))
            .collect();
        let mut request = json!({ "model": model, "messages": messages });
        if let Some(system) = system {
            request["system"] = system;
        }
        every_prefix(Shape::Messages, &request, &[size]);
    }

    /// Where the hash of what counts is equal, so is the count: a message written in two ways.
    #[test]
    fn what_counts_the_same_has_the_same_count(
        contents in prop::collection::vec(any_content(), 1..4),
        change in 0..6_usize,
        chat in any::<bool>(),
    ) {
        let shape = if chat { Shape::Chat } else { Shape::Messages };
        let message = |content: &Value| json!({ "role": "user", "content": content });
        let messages: Vec<_> = contents.iter().map(message).collect();
        let request = |messages: &[Value]| {
            json!({ "model": "gpt-4o", "messages": messages }).to_string()
        };
        let text = request(&messages);
        let other = match change {
            0 => text.replace("\"text\":", "\"cache_control\":{\"type\":\"e\"},\"text\":"),
            1 => text.replace("\"type\":\"thinking\"", "\"type\":\"text\""),
            2 => text.replace("[1,null]", "[1, null ]"),
            3 => text.replace("[1,null]", "[1.0,null]"),
            4 => text.replace("\"type\":\"text\"", "\"is_error\":false,\"type\":\"text\""),
            _ => text.replace("\"role\":\"user\"", "\"role\":\"user\",\"refusal\":null"),
        };
        let (one, other) = (
            read(shape, &text, usize::MAX, None),
            read(shape, &other, usize::MAX, None),
        );
        let (Some(a), Some(b)) = (&one.chain, &other.chain) else {
            return Err(TestCaseError::fail("both have names"));
        };
        let pairs = a.boundaries().iter().zip(b.boundaries());
        for (a, b) in pairs.filter(|(a, b)| a.exact == b.exact) {
            let at = u64::from(a.messages);
            prop_assert_eq!(one.counted.prefixes.tokens(at), other.counted.prefixes.tokens(at));
            prop_assert_eq!(a.messages, b.messages);
        }
        // What does not count changes nothing of it.
        if [0, 2, 5].contains(&change) {
            prop_assert_eq!(a.boundaries(), b.boundaries());
        }
    }

    /// The name is the same in whatever pieces a body comes, also when the model's name makes
    /// what has come so far be read again.
    #[test]
    fn pieces_change_no_name(
        before in "[a-zé\n\"\\\\]{0,30}",
        after in "[a-zé\n\"\\\\]{0,300}",
        size in 1..60_usize,
        chained in any::<bool>(),
    ) {
        let secret = Secret::demonstration();
        let body = format!(
            r#"{{"system":{},"model":"gpt-4o","messages":[{{"content":{},"role":"user"}}]}}"#,
            json!(before), json!(after)
        );
        let names = |size| {
            let mut reading = reading(Shape::Messages).with_wire_form();
            if chained {
                reading = reading.chained(&secret);
            }
            push(&mut reading, &body, size);
            let chain = reading.chain(&secret, OWNER);
            prop_assert_eq!(chain.is_some(), chained);
            Ok((reading.wire_form().unwrap(), chain))
        };
        let whole = names(usize::MAX)?;
        prop_assert_eq!(names(size)?, whole);
    }
}
