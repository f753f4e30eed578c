//! Prompts that are too long.

use super::*;

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
