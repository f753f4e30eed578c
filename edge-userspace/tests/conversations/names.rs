//! Whose names are whose, what has none, and which are looked for.

use crate::edge::{Edge, OWNER, assistant, marked, request, text, user, with};
use edge_userspace::context::{ContextId, Owner, Tenant};
use edge_userspace::prompt::Shape;
use serde_json::{Value, json};

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
                json!([with(text("a"), "cache_control", mark.clone())]),
            ),
            b"Hi",
            true,
        ),
        // As good as one at the last block.
        (
            with(request(vec![user("Hi")]), "cache_control", mark),
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

/// As a small body can have them that wants to take much memory.
#[test]
fn of_very_many_messages_the_first_have_names_and_memory_is_bounded() {
    let edge = Edge::new();
    let body = |messages: usize| {
        let messages = vec!["{}"; messages].join(",");
        format!(r#"{{"model":"m","system":"You help.","messages":[{messages}]}}"#)
    };
    let chain = |messages| edge.chain(Shape::Messages, OWNER, &body(messages)).unwrap();
    let (whole, more) = (chain(8192), chain(8193));
    assert_eq!(whole.stores().count(), 2);
    assert_eq!(more.boundaries(), whole.boundaries());
    // Nobody takes the first for the whole.
    assert_eq!((more.whole(), more.stores().count()), (None, 1));
    let bytes = |messages| edge.names_bytes(&body(messages));
    assert!(bytes(1) < 16 << 10, "{}", bytes(1));
    assert!(bytes(100_000) < 2 << 20, "{}", bytes(100_000));
}

/// Arguments that are JSON are a tree of their own; what it takes is known too.
#[test]
fn memory_of_arguments_is_counted() {
    let edge = Edge::new();
    let object = |inner: String| {
        let keys: Vec<_> = (0..1000).map(|key| format!("\"{key:x}\":0")).collect();
        format!("{{{},\"z\":{inner}}}", keys.join(","))
    };
    let arguments = (0..4).fold("0".to_owned(), |inner, _| object(inner));
    let body = json!({
        "model": "gpt-4o",
        "messages": [{ "role": "assistant", "tool_calls": [{
            "type": "function", "function": { "name": "f", "arguments": arguments },
        }] }],
    });
    let kib = edge.names_bytes_of(Shape::Chat, &body.to_string()) >> 10;
    assert!(kib >= 256, "{kib} KiB");
}
