//! What a turn finds of the turn before it.

use crate::edge::{Edge, OWNER, assistant, marked, request, text, user, with};
use edge_userspace::prompt::Shape;
use serde_json::{Value, json};

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
        // The system prompt and the question are the same; only the former is shared.
        assert_eq!(met(&after(call(other))), Some((1, false)), "{other}");
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
fn chats_that_begin_alike_share_their_system_prompt() {
    let edge = Edge::new();
    let system = |role: &str, text: &str| json!({ "role": role, "content": text });
    let chat = |messages: Vec<Value>| json!({ "messages": messages, "model": "gpt-4o" });
    let met =
        |before: Vec<Value>, after: Vec<Value>| edge.met(Shape::Chat, &chat(before), &chat(after));
    let developer = system("developer", "You help.");
    let more = system("system", "In French.");
    for first in [system("system", "You help."), developer.clone()] {
        let before = vec![first.clone(), user("Weather?")];
        let after = vec![first.clone(), user("Time?")];
        assert_eq!(met(before, after), Some((1, true)), "{first}");
    }
    let two = |question: &str| vec![developer.clone(), more.clone(), user(question)];
    assert_eq!(met(two("Weather?"), two("Time?")), Some((2, true)));
    // Another prompt, more of it, and one that stands later are others.
    let other = vec![system("developer", "You do not."), user("Time?")];
    assert_eq!(met(two("Weather?"), other), None);
    let shorter = vec![developer.clone(), user("Time?")];
    assert_eq!(met(two("Weather?"), shorter), None);
    let later = |question: &str| vec![user("Hello"), more.clone(), user(question)];
    assert_eq!(met(later("Weather?"), later("Time?")), None);
    let chain = |messages: Vec<Value>| {
        let body = chat(messages).to_string();
        edge.chain(Shape::Chat, OWNER, &body).unwrap()
    };
    let named = chain(two("Weather?"));
    let messages: Vec<_> = named.stores().map(|store| store.messages).collect();
    assert_eq!((messages, named.system_messages()), (vec![3, 2], 2));
    // Nothing follows: it is a whole request, which it shares with its like alone.
    let alone = chain(vec![developer]);
    assert_eq!((alone.stores().count(), alone.system_messages()), (1, 0));
}
