//! New keys and their terms.

use crate::place::{Place, errors};
use serde_json::Value;

#[test]
fn a_new_key_is_shown_once_and_only_what_checks_it_is_stored() {
    let place = Place::new();
    let key = place.good("keys new --store s --name alice --audience demo");
    let key = key.trim();
    assert!(
        key.starts_with("sk-edge-") && key.len() == 8 + 43,
        "the key alone: {key}"
    );
    assert_eq!(place.mode("s"), 0o600);
    assert!(!place.read("s").contains(key));
    let list = place.good("keys list --store s");
    assert!(list.contains("alice") && list.contains("good"), "{list}");
    let json = place.json("keys list --store s --json");
    assert_eq!(json[0]["name"], "alice");
    assert_eq!(json[0]["audiences"][0], "demo");
    let entry: Value = serde_json::from_str(place.read("s").lines().nth(1).unwrap()).unwrap();
    for secret in [&entry["key_hash"], &entry["mac_keys"]["demo"]] {
        let secret = secret.as_str().unwrap();
        assert!(!list.contains(secret) && !json.to_string().contains(secret));
    }
}

#[test]
fn a_key_can_go_into_a_file_instead() {
    let place = Place::new();
    let new = "keys new --store s --name alice --audience demo --api-key-out k";
    assert_eq!(place.good(new), "");
    assert_eq!(place.mode("k"), 0o600);
    assert!(place.read("k").starts_with("sk-edge-"));
    let before = place.read("s");
    let error = place.bad(new);
    assert!(error.contains("not overwritten"), "{error}");
    assert_eq!(place.read("s"), before, "no entry without its key");
    let json = place.json("keys new --store s --name bob --audience demo --api-key-out k2 --json");
    assert_eq!(json["api_key_file"], "k2");
    assert!(json.get("api_key").is_none());
}

#[test]
fn terms_are_kept_and_nonsense_is_refused() {
    let place = Place::new();
    let json = place.json(
        "keys new --store s --name a --audience x --audience y --not-before 2027-01-15 --valid-for 10d --alpn-only --json",
    );
    assert_eq!(json["not_before_s"], 1_799_971_200_u64);
    assert_eq!(json["not_after_s"], 1_799_971_200_u64 + 864_000);
    assert_eq!(json["audiences"], serde_json::json!(["x", "y"]));
    assert_eq!(
        (&json["alpn_only"], &json["state"]),
        (&true.into(), &"not yet valid".into())
    );
    assert!(json["api_key"].as_str().unwrap().starts_with("sk-edge-"));
    for (arguments, expected) in [
        ("--name a --audience x --audience x", "twice"),
        ("--name a --audience x,y", "give --audience twice"),
        ("--name a --audience=", "1 to 255 bytes"),
        ("--name a --audience x --not-after 5", "is over already"),
        (
            "--name a --audience x --not-before 4000000000 --not-after 3900000000",
            "end before it begins",
        ),
    ] {
        let error = place.bad(&format!("keys new --store s {arguments}"));
        assert!(error.contains(expected), "{error}");
    }
    let spaced = (place.command("keys new --store s --name a --audience"))
        .arg("x y")
        .output()
        .unwrap();
    assert_eq!(spaced.status.code(), Some(1));
    assert!(
        errors(&spaced).contains("no white space"),
        "{}",
        errors(&spaced)
    );
    for usage in [
        "keys new --store s --name a",
        "keys new --store s --name a --audience x --not-after 5 --valid-for 5d",
        "keys new --store s --name a --audience x --valid-for 5",
        "keys revoke --store s",
        "keys nonsense",
    ] {
        assert_eq!(place.edge(usage).status.code(), Some(2), "{usage}");
    }
}

#[test]
fn a_prompts_limit_is_given_changed_and_taken_away() {
    let place = Place::new();
    let alice = place
        .json("keys new --store s --audience demo --json --name alice --max-prompt-tokens 200000");
    assert_eq!(alice["max_prompt_tokens"], 200_000);
    let id = alice["key_id"].as_str().unwrap();
    let limit = || place.json("keys list --store s --json")[0]["max_prompt_tokens"].clone();
    let list = place.good("keys list --store s");
    assert!(list.contains("(prompts up to 200000 tokens)"), "{list}");
    let change = format!("keys limit --store s {id} --max-prompt-tokens");
    place.good(&format!("{change} 5"));
    assert_eq!(limit(), 5);
    // Another change leaves it as it is.
    place.good(&format!(
        "keys limit --store s {id} --connections-per-second 7"
    ));
    assert_eq!(limit(), 5);
    place.good(&format!("{change} default"));
    assert_eq!(limit(), Value::Null);
    let usage = place.edge(&format!("{change} 1000000001"));
    assert_eq!(usage.status.code(), Some(2));
    assert!(errors(&usage).contains("a whole number up to 1000000000, or default"));
}

#[test]
fn quotas_and_models_are_given_changed_and_taken_away() {
    let place = Place::new();
    let alice = place.json(
        "keys new --store s --audience demo --json --name alice --requests-per-minute 50 --tokens-per-day 0 --model claude-*",
    );
    assert_eq!(alice["requests_per_minute"], 50);
    assert_eq!(alice["tokens_per_day"], 0);
    assert_eq!(alice["input_tokens_per_minute"], Value::Null);
    assert_eq!(alice["models"], serde_json::json!(["claude-*"]));
    let id = alice["key_id"].as_str().unwrap();
    let entry = || place.json("keys list --store s --json")[0].clone();
    let list = place.good("keys list --store s");
    assert!(
        list.contains("(50 requests/min, any tokens/day, models claude-*)"),
        "{list}"
    );
    let change = format!("keys limit --store s {id}");
    place.good(&format!(
        "{change} --input-tokens-per-minute 70000 --output-tokens-per-minute 8000 --concurrent-requests 5 --tokens-per-day default"
    ));
    let changed = entry();
    assert_eq!(changed["requests_per_minute"], 50, "as it was");
    assert_eq!(changed["input_tokens_per_minute"], 70_000);
    assert_eq!(changed["output_tokens_per_minute"], 8000);
    assert_eq!(changed["concurrent_requests"], 5);
    assert_eq!(changed["tokens_per_day"], Value::Null);
    assert_eq!(changed["models"], serde_json::json!(["claude-*"]));
    place.good(&format!("{change} --model gpt-4o --model o3*"));
    assert_eq!(entry()["models"], serde_json::json!(["gpt-4o", "o3*"]));
    place.good(&format!("{change} --model default"));
    assert_eq!(entry()["models"], Value::Null);
    assert_eq!(entry()["requests_per_minute"], 50);
    let error = place.bad(&format!("{change} --model a*b"));
    assert!(error.contains("its beginning and *"), "{error}");
    let usage = place.edge(&format!("{change} --tokens-per-day 1000000000001"));
    assert_eq!(usage.status.code(), Some(2));
    assert!(errors(&usage).contains("a whole number up to 1000000000000, or default"));
    // Without a change it says what holds.
    let before = place.read("s");
    let told = place.good(&change);
    let own = "50 requests/min, 70000 input tokens/min, 8000 output tokens/min, 5 requests at a time; for the rest the edge's configuration holds\n";
    assert_eq!(told, format!("key {id} (alice): {own}"));
    assert_eq!(place.read("s"), before);
}

#[test]
fn keys_go_by_name_where_one_alone_has_it_and_what_holds_is_said() {
    let place = Place::new();
    let new = "keys new --store s --audience demo --json --name";
    let id = |name: &str| {
        place.json(&format!("{new} {name}"))["key_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (alice, bob, first, second) = (id("alice"), id("bob"), id("twin"), id("twin"));
    let limit = "keys limit --store s";
    let told = place.edge(&format!("{limit} alice {bob} --tokens-per-day 5000"));
    let own = "5000 tokens/day; for the rest the edge's configuration holds";
    assert_eq!(
        errors(&told),
        format!("key {alice} (alice) is limited: {own}\nkey {bob} (bob) is limited: {own}\n")
    );
    // Under its name and its id it is one key.
    let json = place.json(&format!(
        "{limit} bob {bob} --tokens-per-day default --json"
    ));
    assert_eq!(json["limited"], serde_json::json!([bob]));
    assert_eq!(json["keys"][0]["name"], "bob");
    assert_eq!(json["keys"][0]["tokens_per_day"], Value::Null);
    let told = place.good(&format!("{limit} alice bob"));
    let none = "by the edge's configuration alone";
    assert_eq!(
        told,
        format!("key {alice} (alice): {own}\nkey {bob} (bob): {none}\n")
    );
    let shown = place.json(&format!("{limit} alice --json"));
    assert_eq!(shown["keys"][0]["tokens_per_day"], 5000);
    // A name that several have, or nobody, changes nothing.
    place.good(&format!("keys revoke --store s {second}"));
    let before = place.read("s");
    for command in ["limit --tokens-per-day 1", "limit", "revoke", "remove"] {
        let error = place.bad(&format!("keys {command} --store s alice twin"));
        let twins =
            format!("has 2 keys named \"twin\": {first} (good), {second} (revoked); say by its id");
        assert!(error.contains(&twins), "{error}");
        let error = place.bad(&format!("keys {command} --store s alice nobody"));
        assert!(error.contains("has no key named \"nobody\""), "{error}");
    }
    assert_eq!(place.read("s"), before);
    place.good("keys revoke --store s alice");
    let list = place.json("keys list --store s --json");
    let state = |id: &str| {
        let key = list
            .as_array()
            .unwrap()
            .iter()
            .find(|key| key["key_id"] == id);
        key.unwrap()["state"].clone()
    };
    assert_eq!(
        (state(&alice), state(&bob)),
        ("revoked".into(), "good".into())
    );
}

#[test]
fn rates_are_given_changed_and_taken_away() {
    let place = Place::new();
    let new = "keys new --store s --audience demo --json --name";
    let alice = place.json(&format!("{new} alice --connections-per-second 50"));
    assert_eq!(alice["connections_per_second"], 50);
    assert_eq!(alice["connections_per_second_hard"], Value::Null);
    let bob = place.json(&format!("{new} bob"));
    let id = |key: &Value| key["key_id"].as_str().unwrap().to_owned();
    let (alice, bob) = (id(&alice), id(&bob));
    let rates = |of: usize| {
        let list = place.json("keys list --store s --json");
        ["", "_hard"].map(|kind| list[of][format!("connections_per_second{kind}")].clone())
    };
    let limit = "keys limit --store s";
    place.good(&format!(
        "{limit} {alice} {bob} --connections-per-second-hard 0"
    ));
    // In the order of their last put.
    assert_eq!(rates(0), [Value::from(50), Value::from(0)]);
    assert_eq!(rates(1), [Value::Null, Value::from(0)]);
    let list = place.good("keys list --store s");
    assert!(list.contains("50/s, refused from any number/s"), "{list}");
    place.good(&format!("{limit} {alice} --connections-per-second default"));
    assert_eq!(
        rates(1),
        [Value::Null, Value::from(0)],
        "alice is the last now"
    );
    // What is so already is not written again.
    let before = place.read("s");
    place.good(&format!(
        "{limit} {alice} {bob} --connections-per-second-hard 0"
    ));
    assert_eq!(place.read("s"), before);

    for (wrong, told) in [
        (
            format!("{limit} 0000000000000000"),
            "has no key 0000000000000000",
        ),
        (
            format!("{limit} {alice} 0000000000000000 --connections-per-second 1"),
            "has no key 0000000000000000",
        ),
    ] {
        let error = place.bad(&wrong);
        assert!(error.contains(told), "{error}");
    }
    let usage = place.edge(&format!("{limit} {alice} --connections-per-second 1000001"));
    assert_eq!(usage.status.code(), Some(2));
    assert!(errors(&usage).contains("a whole number up to 1000000, or default"));
    assert_eq!(place.read("s"), before);
    // A revoked key stays revoked.
    place.good(&format!("keys revoke --store s {bob}"));
    place.good(&format!("{limit} {bob} --connections-per-second 1"));
    let list = place.good("keys list --store s");
    assert!(
        list.lines()
            .any(|line| line.contains("bob") && line.contains("revoked"))
    );
}

#[test]
fn tokens_are_made_from_a_key_file() {
    let place = Place::new();
    std::fs::write(place.path().join("k"), "sk-edge-test\n").unwrap();
    let token = || place.good("token --api-key-file k --audience demo --issued-at 1800000000");
    let [first, second] = [token(), token()];
    for token in [&first, &second] {
        let token = token.strip_suffix('\n').unwrap();
        assert_eq!(token.len(), 61);
        assert!(
            token.starts_with("ezl1-16c90ee8f37ea61f6b49d200"),
            "{token}"
        );
    }
    assert_ne!(first, second, "each has its own nonce");
    let error = place.bad("token --api-key-file none --audience demo");
    assert!(error.contains("none: cannot read the API key"), "{error}");
    assert_eq!(
        errors(&place.edge("token --api-key-file k --audience demo")),
        ""
    );
    std::fs::write(place.path().join("other"), "my-own-form\n").unwrap();
    let output = place.edge("token --api-key-file other --audience demo");
    assert!(output.status.success() && output.stdout.starts_with(b"ezl1-"));
    let warning = errors(&output);
    assert!(
        warning.contains("does not begin with sk-edge-") && !warning.contains("my-own"),
        "{warning}"
    );
    let error = place.bad("token --api-key-file k --audience demo --issued-at 5000000000");
    assert!(error.contains("2106"), "{error}");
}
