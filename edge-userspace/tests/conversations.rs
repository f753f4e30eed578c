//! Conversations as real clients send them: where the next turn meets what the turn before it
//! left, and where it must not.

use edge_userspace::config::Models;
use edge_userspace::context::{Chain, ContextId, Owner, Secret, Tenant};
use edge_userspace::prompt::calibration::Calibration;
use edge_userspace::prompt::{Counters, Limits, Reading, Shape};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;

/// Everybody's requests of one process.
struct Edge {
    secret: Secret,
    models: Arc<Models>,
    counters: Rc<Counters>,
    calibration: Arc<Calibration>,
}

const OWNER: Owner = Owner {
    tenant: Tenant(1),
    context: ContextId::NONE,
};

impl Edge {
    fn new() -> Self {
        Self {
            secret: Secret::random().unwrap(),
            models: Arc::new(Models::default()),
            counters: Rc::default(),
            calibration: Arc::new(Calibration::new(8, None)),
        }
    }

    fn chain(&self, shape: Shape, owner: Owner, body: &str) -> Option<Chain> {
        let mut reading = Reading::new(
            shape,
            Arc::clone(&self.models),
            Rc::clone(&self.counters),
            Arc::clone(&self.calibration),
            Limits::default(),
        )
        .chained(&self.secret);
        assert!(reading.push(body.as_bytes().to_vec().into()).unwrap());
        reading.finish().unwrap();
        reading.chain(&self.secret, owner)
    }

    /// How many messages of what turn `before` stored are what turn `after` finds, and whether
    /// that is what it looks for first among those of at least one message.
    fn met(&self, shape: Shape, before: &Value, after: &Value) -> Option<(u32, bool)> {
        let chain = |body: &Value| self.chain(shape, OWNER, &body.to_string()).unwrap();
        let (before, after) = (chain(before), chain(after));
        let stored: Vec<_> = before.stores().collect();
        let mut probes = after.probe().filter(|probe| probe.messages > 0).zip(0..);
        probes.find_map(|(probe, at)| {
            let found = stored
                .iter()
                .find(|it| it.fingerprint == probe.fingerprint)?;
            assert_eq!(found.messages, probe.messages);
            // The whole request is looked for before: it may be one that is sent again.
            Some((probe.messages, at <= 1))
        })
    }
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn marked(text: &str) -> Value {
    json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } })
}

fn user(content: impl Into<Value>) -> Value {
    json!({ "role": "user", "content": content.into() })
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({ "role": "assistant", "content": content.into() })
}

fn request(messages: Vec<Value>) -> Value {
    json!({ "model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages })
}

fn with(mut request: Value, key: &str, value: impl Into<Value>) -> Value {
    request[key] = value.into();
    request
}

/// What it is, the turn before, the next turn, and how many messages of the former are found.
type Case = (&'static str, Value, Value, Option<u32>);

fn hits() -> Vec<Case> {
    let thinking = json!({ "type": "thinking", "thinking": "hm, a greeting", "signature": "c2ln" });
    let redacted = json!({ "type": "redacted_thinking", "data": "c2VjcmV0" });
    let call = json!({ "type": "tool_use", "id": "t1", "name": "weather", "input": { "city": "Bern", "days": 1.0 } });
    let called_again = json!({ "input": { "days": 1, "city": "Bern" }, "name": "weather", "id": "t1", "type": "tool_use" });
    let result =
        |content: Value| json!({ "type": "tool_result", "tool_use_id": "t1", "content": content });
    let billed = |nonce: &str| {
        json!([
            { "type": "text", "text": format!("x-anthropic-billing-header: cc_version=2.1; cch={nonce};") },
            { "type": "text", "text": "You help.", "cache_control": { "type": "ephemeral" } },
        ])
    };
    let first = || request(vec![user("Hi")]);
    vec![
        (
            "the next turn",
            first(),
            request(vec![user("Hi"), assistant("Hello!"), user("More")]),
            Some(1),
        ),
        (
            "a string, then one block",
            first(),
            request(vec![
                user(json!([text("Hi")])),
                assistant("Hello!"),
                user("More"),
            ]),
            Some(1),
        ),
        (
            "a cache mark that moves",
            request(vec![user(json!([marked("Hi")]))]),
            request(vec![
                user(json!([text("Hi")])),
                assistant("Hello!"),
                user(json!([marked("More")])),
            ]),
            Some(1),
        ),
        (
            "thinking that is kept, then dropped",
            request(vec![
                user("Hi"),
                assistant(json!([thinking, redacted, text("Hello!")])),
                user("More"),
            ]),
            request(vec![
                user("Hi"),
                assistant("Hello!"),
                user("More"),
                assistant("Yes"),
                user("And?"),
            ]),
            Some(3),
        ),
        (
            "an edited last message: what stands before it",
            request(vec![user("Hi"), assistant("Hello!"), user("More")]),
            request(vec![user("Hi"), assistant("Hello!"), user("Less")]),
            None,
        ),
        (
            "an edited last message: the turn before is still there",
            first(),
            request(vec![user("Hi"), assistant("Hello!"), user("Less")]),
            Some(1),
        ),
        (
            "a regenerated answer: the same request again",
            request(vec![user("Hi"), assistant("Hello!"), user("More")]),
            request(vec![user("Hi"), assistant("Hello!"), user("More")]),
            Some(3),
        ),
        (
            "a regenerated answer: another one, and on",
            request(vec![user("Hi")]),
            request(vec![user("Hi"), assistant("Good day!"), user("More")]),
            Some(1),
        ),
        (
            "an assistant prefill that the answer went on from",
            request(vec![user("As JSON"), assistant("{")]),
            request(vec![user("As JSON"), assistant("{\"a\": 1}"), user("More")]),
            Some(1),
        ),
        (
            "a tool loop",
            request(vec![user("Weather?")]),
            request(vec![
                user("Weather?"),
                assistant(json!([text("Looking"), call])),
                user(json!([result(json!("18 degrees"))])),
            ]),
            Some(1),
        ),
        (
            "a tool loop, on: calls and results written another way",
            request(vec![
                user("Weather?"),
                assistant(json!([call])),
                user(json!([result(json!("18 degrees"))])),
            ]),
            request(vec![
                user("Weather?"),
                assistant(json!([called_again])),
                user(json!([with(
                    result(json!([text("18 degrees")])),
                    "is_error",
                    false
                )])),
                assistant("18 degrees."),
                user("Thanks"),
            ]),
            Some(3),
        ),
        (
            "a billing nonce",
            with(first(), "system", billed("a1b2c")),
            with(
                request(vec![user("Hi"), assistant("Hello!"), user("More")]),
                "system",
                billed("9f8e7"),
            ),
            Some(1),
        ),
        (
            "a system prompt as a string, then as a block",
            with(first(), "system", "You help."),
            with(
                request(vec![user("Hi"), assistant("Hello!"), user("More")]),
                "system",
                json!([marked("You help.")]),
            ),
            Some(1),
        ),
        (
            "parameters that are no part of a prefix",
            with(first(), "temperature", 0.1),
            with(
                request(vec![user("Hi"), assistant("Hello!"), user("More")]),
                "max_tokens",
                5,
            ),
            Some(1),
        ),
    ]
}

fn misses() -> Vec<Case> {
    let next = || request(vec![user("Hi"), assistant("Hello!"), user("More")]);
    let picture = |data: &str| {
        request(vec![
            user(
                json!([{ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data } }]),
            ),
            assistant("A cat"),
            user("Sure?"),
        ])
    };
    let first_of = |request: &Value| {
        let mut first = request.clone();
        first["messages"].as_array_mut().unwrap().truncate(1);
        first
    };
    vec![
        (
            "another first message",
            request(vec![user("Ho")]),
            next(),
            None,
        ),
        (
            "another author",
            request(vec![assistant("Hi")]),
            next(),
            None,
        ),
        (
            "another model",
            with(request(vec![user("Hi")]), "model", "claude-haiku-4-5"),
            next(),
            None,
        ),
        (
            "another system prompt",
            with(request(vec![user("Hi")]), "system", "You help."),
            with(next(), "system", "You hinder."),
            None,
        ),
        (
            "a nonce's line elsewhere is text",
            with(
                request(vec![user("Hi")]),
                "system",
                json!([text("You help."), text("x-anthropic-billing-header: 1")]),
            ),
            with(
                next(),
                "system",
                json!([text("You help."), text("x-anthropic-billing-header: 2")]),
            ),
            None,
        ),
        (
            "other tools",
            with(request(vec![user("Hi")]), "tools", json!([{ "name": "a" }])),
            with(next(), "tools", json!([{ "name": "b" }])),
            None,
        ),
        (
            "tools in another order",
            with(
                request(vec![user("Hi")]),
                "tools",
                json!([{ "name": "a" }, { "name": "b" }]),
            ),
            with(next(), "tools", json!([{ "name": "b" }, { "name": "a" }])),
            None,
        ),
        (
            "a message in two blocks",
            request(vec![user("HiHo")]),
            request(vec![
                user(json!([text("Hi"), text("Ho")])),
                assistant("Hello!"),
                user("More"),
            ]),
            None,
        ),
        (
            "a call with other input",
            request(vec![
                user("Go"),
                assistant(
                    json!([{ "type": "tool_use", "id": "t", "name": "n", "input": { "a": 1 } }]),
                ),
                user("x"),
            ]),
            request(vec![
                user("Go"),
                assistant(
                    json!([{ "type": "tool_use", "id": "t", "name": "n", "input": { "a": "1" } }]),
                ),
                user("x"),
                assistant("y"),
                user("z"),
            ]),
            None,
        ),
        (
            "a cache mark within a call's input is input",
            request(vec![
                user("Go"),
                assistant(
                    json!([{ "type": "tool_use", "id": "t", "name": "n", "input": { "cache_control": 1 } }]),
                ),
                user("x"),
            ]),
            request(vec![
                user("Go"),
                assistant(json!([{ "type": "tool_use", "id": "t", "name": "n", "input": {} }])),
                user("x"),
                assistant("y"),
                user("z"),
            ]),
            None,
        ),
        (
            "another picture",
            first_of(&picture("AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH")),
            picture("AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHI"),
            None,
        ),
    ]
}

#[test]
fn the_next_turn_meets_the_turn_before_it_where_it_should() {
    let edge = Edge::new();
    for (what, before, after, messages) in hits() {
        let met = edge.met(Shape::Messages, &before, &after);
        assert_eq!(met.map(|(messages, _)| messages), messages, "{what}");
        if let Some((_, is_first)) = met {
            assert!(is_first, "{what}: not with its first look-ups");
        }
    }
}

#[test]
fn it_misses_where_it_must() {
    let edge = Edge::new();
    for (what, before, after, _) in misses() {
        assert_eq!(edge.met(Shape::Messages, &before, &after), None, "{what}");
    }
}

#[test]
fn chat_completions_meet_as_well() {
    let edge = Edge::new();
    let system = json!({ "role": "system", "content": "You help." });
    let call = |arguments: &str| {
        json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "weather", "arguments": arguments } }
        ]})
    };
    let result = json!({ "role": "tool", "tool_call_id": "c1", "content": "18 degrees" });
    let request = |messages: Vec<Value>| json!({ "messages": messages, "model": "gpt-4o" });
    let before = request(vec![
        system.clone(),
        user("Weather?"),
        call(r#"{"city":"Bern","days":2}"#),
        result.clone(),
    ]);
    // As a program writes it that has read it.
    let mut again = call(r#"{ "days": 2.0, "city": "B\u0065rn" }"#);
    again.as_object_mut().unwrap().remove("content");
    again["refusal"] = Value::Null;
    again["annotations"] = json!([]);
    let after = |call: Value| {
        request(vec![
            system.clone(),
            user(json!([text("Weather?")])),
            call,
            result.clone(),
            assistant("18 degrees."),
            user("Thanks"),
        ])
    };
    let met = |after: &Value| edge.met(Shape::Chat, &before, after);
    assert_eq!(met(&after(again)), Some((4, true)));
    for other in [r#"{"city":"Bonn","days":2}"#, r#"{"city":"Bern"}"#, "{", ""] {
        assert_eq!(met(&after(call(other))), None, "{other}");
    }
    // No JSON is equal to itself.
    let broken = request(vec![user("Weather?"), call("{\"city"), result.clone()]);
    let on = request(vec![
        user("Weather?"),
        call("{\"city"),
        result,
        assistant("?"),
        user("Again"),
    ]);
    assert_eq!(edge.met(Shape::Chat, &broken, &on), Some((3, true)));
}

#[test]
fn tenants_contexts_and_processes_never_share_a_name() {
    let edge = Edge::new();
    let body = with(
        request(vec![user("Hi"), assistant("Hello!"), user("More")]),
        "system",
        "You help.",
    );
    let body = body.to_string();
    let names = |edge: &Edge, shape, tenant, context| {
        let owner = Owner {
            tenant: Tenant(tenant),
            context,
        };
        let chain = edge.chain(shape, owner, &body).unwrap();
        let all = chain.boundaries().iter().chain(chain.probe());
        all.map(|it| it.fingerprint).collect::<Vec<_>>()
    };
    let context = |name: &[u8]| edge.secret.context_id(name);
    let messages = Shape::Messages;
    let ours = names(&edge, messages, 1, ContextId::NONE);
    assert_eq!(ours, names(&edge, messages, 1, ContextId::NONE));
    for (what, others) in [
        ("tenant", names(&edge, messages, 2, ContextId::NONE)),
        ("context", names(&edge, messages, 1, context(b"a"))),
        // Tenant and context do not run into each other.
        ("both", names(&edge, messages, 0, ContextId(1))),
        ("shape", names(&edge, Shape::Chat, 1, ContextId::NONE)),
        ("process", names(&Edge::new(), messages, 1, ContextId::NONE)),
    ] {
        assert!(ours.iter().all(|name| !others.contains(name)), "{what}");
    }
    assert_ne!(context(b"a"), context(b"b"));
    assert_ne!(context(b""), ContextId::NONE);
    let other = names(&edge, messages, 1, context(b"b"));
    assert_ne!(other, names(&edge, messages, 1, context(b"a")));
}

#[test]
fn what_has_no_canonical_form_is_equal_to_nothing() {
    let edge = Edge::new();
    let chain = |messages: &str| {
        let body = format!(r#"{{"model":"m","messages":[{messages}]}}"#);
        edge.chain(Shape::Messages, OWNER, &body).unwrap()
    };
    let good = r#"{"role":"user","content":"Hi"}"#;
    let many: Vec<_> = (0..1025).map(|key| format!(r#""{key}":0"#)).collect();
    for bad in [
        r#"{"role":"user","content":"a","content":"b"}"#.to_owned(),
        r#"{"role":"user","content":[{"type":"tool_use","input":{"a":1,"a":2}}]}"#.to_owned(),
        format!(
            r#"{{"role":"user","content":[{{"input":{{{}}}}}]}}"#,
            many.join(",")
        ),
        r#""text""#.to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        "7".to_owned(),
    ] {
        let chain = chain(&format!("{good},{bad},{good}"));
        // What stands before it has its name, what comes after has none.
        assert_eq!(chain.boundaries().len(), 1, "{bad:.80}");
        assert_eq!(chain.stores().count(), 0, "{bad:.80}");
    }
    let body = format!(r#"{{"model":"m","messages":[{good}],"tools":[{{"a":1,"a":2}}]}}"#);
    assert_eq!(edge.chain(Shape::Messages, OWNER, &body), None);
    for body in ["[]", "null", "\"x\"", "7"] {
        assert_eq!(edge.chain(Shape::Messages, OWNER, body), None, "{body}");
    }
}

#[test]
fn a_request_looks_for_the_newest_first_and_for_no_more_than_it_may() {
    let edge = Edge::new();
    let messages: Vec<_> = (0..101)
        .map(|n| match n % 2 {
            0 => user(format!("{n}")),
            _ => assistant(format!("{n}")),
        })
        .collect();
    let body = with(request(messages), "system", "You help.");
    let chain = edge.chain(Shape::Messages, OWNER, &body.to_string());
    let chain = chain.unwrap();
    let probes: Vec<_> = chain.probe().map(|probe| probe.messages).collect();
    assert_eq!(probes[..4], [101, 99, 97, 95]);
    // Last the system prompt alone.
    assert_eq!((probes.len(), probes.last()), (33, Some(&0)));
    let stores: Vec<_> = chain.stores().map(|store| store.messages).collect();
    assert_eq!(stores, [101, 0]);
    assert_eq!(chain.head().messages, 0);
}

#[test]
fn the_last_user_messages_text_and_an_hours_mark_are_seen() {
    let edge = Edge::new();
    let chain = |body: &Value| {
        edge.chain(Shape::Messages, OWNER, &body.to_string())
            .unwrap()
    };
    let long = "é".repeat(400);
    let mark = json!({ "type": "ephemeral", "ttl": "1h" });
    for (body, opening, is_long) in [
        (
            request(vec![user("Hi"), assistant("x")]),
            "Hi".as_bytes(),
            false,
        ),
        (
            request(vec![
                user("Hi"),
                assistant("x"),
                user(json!([text("one "), text("two")])),
            ]),
            b"one two",
            false,
        ),
        (
            request(vec![
                user("Hi"),
                user(json!([{ "type": "tool_result", "content": "18" }])),
            ]),
            b"",
            false,
        ),
        (
            request(vec![user(long.clone())]),
            &long.as_bytes()[..256],
            false,
        ),
        (
            with(
                request(vec![user("Hi")]),
                "system",
                json!([with(text("a"), "cache_control", mark)]),
            ),
            b"Hi",
            true,
        ),
        (
            with(request(vec![user("1h")]), "system", json!([marked("1h")])),
            b"1h",
            false,
        ),
    ] {
        let chain = chain(&body);
        assert_eq!(chain.last_user_opening(), opening, "{body}");
        assert_eq!(chain.is_long(), is_long, "{body}");
    }
}

/// Writes JSON with keys in another order, escapes, blanks and numbers spelled another way.
struct Writer {
    state: u64,
    text: String,
}

impl Writer {
    fn draw(&mut self, below: u64) -> u64 {
        // The generator of Numerical Recipes.
        self.state = (self.state)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    fn blank(&mut self) {
        let blanks = ["", "", "", " ", "\n\t"];
        let blank = blanks[self.draw(5) as usize];
        self.text += blank;
    }

    fn string(&mut self, text: &str) {
        use std::fmt::Write as _;
        self.text.push('"');
        for character in text.chars() {
            if self.draw(8) == 0 || character < ' ' {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(self.text, "\\u{unit:04x}").unwrap();
                }
            } else if "\"\\/".contains(character) {
                self.text.push('\\');
                self.text.push(character);
            } else {
                self.text.push(character);
            }
        }
        self.text.push('"');
    }

    fn value(&mut self, value: &Value) {
        self.blank();
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                for at in (1..fields.len()).rev() {
                    let other = self.draw(at as u64 + 1) as usize;
                    fields.swap(at, other);
                }
                self.list('{', '}', fields.len(), |writer, at| {
                    writer.blank();
                    writer.string(fields[at].0);
                    writer.blank();
                    writer.text.push(':');
                    writer.value(fields[at].1);
                });
            }
            Value::Array(elements) => self.list('[', ']', elements.len(), |writer, at| {
                writer.value(&elements[at]);
            }),
            Value::String(text) => self.string(text),
            Value::Number(number) => {
                let whole = number.as_i64().unwrap();
                let written = match self.draw(4) {
                    0 => format!("{whole}.0"),
                    1 => format!("{whole}e0"),
                    2 => format!("{whole}0E-1"),
                    _ => format!("{whole}"),
                };
                self.text += &written;
            }
            other => self.text += &other.to_string(),
        }
        self.blank();
    }

    fn list(
        &mut self,
        begin: char,
        end: char,
        length: usize,
        mut write: impl FnMut(&mut Self, usize),
    ) {
        self.text.push(begin);
        for at in 0..length {
            if at > 0 {
                self.text.push(',');
            }
            write(self, at);
        }
        self.text.push(end);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        prop::sample::select(vec![
            "content",
            "type",
            "text",
            "input",
            "cache_control",
            "role",
            "source",
            "name",
        ])
        .prop_map(String::from),
        "[a-zé\"]{1,30}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z é\n\"\\\\/😀]{0,60}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 120, 80, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..80).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// However a request is written, its prefixes have the same names; and a text that differs
    /// gives others, from there on.
    #[test]
    fn how_it_is_written_changes_no_name(
        messages in prop::collection::vec(any_json(), 1..5),
        system in any_json(),
        tools in any_json(),
        seed in any::<u64>(),
        chat in any::<bool>(),
    ) {
        let shape = if chat { Shape::Chat } else { Shape::Messages };
        let edge = Edge::new();
        let messages: Vec<_> = messages.into_iter().map(user).collect();
        let body = json!({
            "model": "claude-x", "system": system, "tools": tools, "messages": messages,
        });
        let chain = edge.chain(shape, OWNER, &body.to_string());
        let mut writer = Writer { state: seed, text: String::new() };
        writer.value(&body);
        let again = edge.chain(shape, OWNER, &writer.text);
        let names = |chain: &Option<Chain>| {
            let chain = chain.as_ref().unwrap();
            let all = std::iter::once(chain.head()).chain(chain.boundaries().iter().copied());
            all.map(|it| it.fingerprint).collect::<Vec<_>>()
        };
        prop_assert_eq!(names(&chain), names(&again), "{}", writer.text);
        prop_assert_eq!(names(&chain).len(), messages.len() + 1);
        // One message more or less in the middle.
        let at = (seed % messages.len() as u64) as usize;
        let mut other = body;
        other["messages"][at]["more"] = "x".into();
        let other = names(&edge.chain(shape, OWNER, &other.to_string()));
        for (nth, (one, other)) in names(&chain).into_iter().zip(other).enumerate() {
            prop_assert_eq!(one == other, nth <= at, "{} of {}", nth, at);
        }
    }
}
