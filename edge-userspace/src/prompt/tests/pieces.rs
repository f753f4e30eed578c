//! Requests of any form, in any pieces, and what one turn reads of them.

use super::kept::{OWNER, body};
use super::*;
use crate::context::Secret;
use proptest::prelude::*;

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
    // Whether it comes as a whole, or in pieces of a frame each, which may all be there.
    let text = Bytes::from(text);
    for (encoding, body, size) in [
        (Encoding::Gzip, &body, body.len()),
        (Encoding::Gzip, &body, 1000),
        (Encoding::Identity, &text, text.len()),
        (Encoding::Identity, &text, 16 << 10),
    ] {
        let calibration = Arc::new(Calibration::new(8, None));
        let models = Arc::new(Models::default());
        let limits = Limits::default();
        let reading = Reading::new(CHAT, models, Rc::default(), calibration, limits);
        let mut reading = reading.encoded(encoding, 1 << 30);
        let mut turns = 1;
        for piece in body.chunks(size) {
            let mut is_read = reading.push(Bytes::copy_from_slice(piece)).unwrap();
            while !is_read {
                turns += 1;
                is_read = reading.go_on().unwrap();
            }
        }
        // A turn ends within one step of the decoder.
        let fewest = BLANKS / ((256 + 64) << 10);
        let most = BLANKS / (256 << 10) + 2;
        assert!(
            (fewest..=most).contains(&turns),
            "{encoding:?} {size} {turns}"
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

    /// Nor does a prefix get another name, or the request another fingerprint.
    #[test]
    fn pieces_change_no_name(request in body(), size in 1..80_usize, chat in any::<bool>()) {
        let secret = Secret::demonstration();
        let models = Arc::new(Models::default());
        let names = |size: usize| {
            let calibration = Arc::new(Calibration::new(8, None));
            let shape = if chat { CHAT } else { MESSAGES };
            let models = Arc::clone(&models);
            let reading = Reading::new(shape, models, Rc::default(), calibration, Limits::default());
            let mut reading = reading.chained(&secret).with_wire_form();
            for piece in request.chunks(size) {
                let mut is_read = reading.push(Bytes::copy_from_slice(piece)).unwrap();
                while !is_read {
                    is_read = reading.go_on().unwrap();
                }
            }
            reading.finish().unwrap();
            let fingerprint = reading.wire_form().map(|form| form.fingerprint);
            (reading.chain(&secret, OWNER), fingerprint)
        };
        let whole = names(usize::MAX);
        prop_assert!(whole.0.is_some());
        prop_assert_eq!(names(size), whole);
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
