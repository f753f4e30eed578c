//! Lines and records.

use super::*;
use crate::keys::derive;
use crate::secret::ApiKey;

fn key(text: &str) -> StoredKey {
    let key = ApiKey::new(text.as_bytes().to_vec());
    StoredKey {
        id: derive::key_id(&key),
        name: "a \"quoted\" name".into(),
        key_hash: derive::key_hash(&key),
        mac_keys: ["demo", "two"]
            .map(|audience| (audience.into(), derive::mac_key(&key, audience)))
            .into(),
        not_before_s: 5,
        not_after_s: 10,
        alpn_only: true,
        rates: Default::default(),
        max_prompt_tokens: None,
        allowance: None,
        created_at_s: 4,
        revoked_at_s: None,
    }
}

fn rated() -> StoredKey {
    StoredKey {
        rates: Rates {
            connections_per_second: Some(0),
            connections_per_second_hard: Some(MAX_RATE),
        },
        ..key("c")
    }
}

fn written(record: &Record) -> String {
    let mut out = Zeroizing::default();
    record.write(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn what_is_written_reads_back() {
    let mut open = key("b");
    (open.not_before_s, open.not_after_s) = (0, u64::MAX);
    (open.alpn_only, open.revoked_at_s) = (false, Some(7));
    open.mac_keys.clear();
    let id = open.id;
    for record in [
        Record::Put(key("a")),
        Record::Put(rated()),
        Record::Put(open),
        Record::Revoke { id, at_s: 9 },
        Record::Remove(id),
    ] {
        let text = written(&record);
        let line = text.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(
            Record::parse(line.as_bytes()).as_ref(),
            Ok(&record),
            "{line}"
        );
    }
}

#[test]
fn the_line_has_the_documented_shape() {
    let mut key = key("sk-edge-test");
    key.name = "alice".into();
    key.mac_keys.truncate(1);
    assert_eq!(
        written(&Record::Put(key)),
        concat!(
            r#"{"put":"16c90ee8f37ea61f","name":"alice","#,
            r#""key_hash":"97a59d641b06991d977a747c9b2b3bc805c3e42eca3ece189195baf015623916","#,
            r#""mac_keys":{"demo":"dd0a70cd36ab09f377bda082827a7738"},"#,
            r#""not_before_s":5,"not_after_s":10,"alpn_only":true,"created_at_s":4}"#,
            "\n",
        ),
    );
}

#[test]
fn rates_are_written_where_there_are_any() {
    assert!(!written(&Record::Put(key("a"))).contains("connections"));
    let text = written(&Record::Put(rated()));
    let rates = r#""connections_per_second":0,"connections_per_second_hard":1000000,"#;
    assert!(text.contains(rates), "{text}");
    assert_eq!(rated().at("demo").rates, rated().rates);
    for (from, to) in [
        ("1000000", "1000001"),
        ("1000000", "-1"),
        ("1000000", "99999999999"),
        ("1000000", "\"many\""),
    ] {
        let error = Record::parse(text.replace(from, to).trim_end().as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "connections_per_second_hard: should be a whole number up to 1000000",
            "{to}"
        );
    }
}

#[test]
fn a_prompts_limit_is_written_where_there_is_one() {
    assert!(!written(&Record::Put(key("a"))).contains("prompt"));
    let limited = StoredKey {
        max_prompt_tokens: Some(200_000),
        ..key("a")
    };
    let text = written(&Record::Put(limited.clone()));
    assert!(text.contains(r#""max_prompt_tokens":200000,"#), "{text}");
    assert_eq!(
        Record::parse(text.trim_end().as_bytes()),
        Ok(Record::Put(limited.clone()))
    );
    assert_eq!(limited.at("demo").max_prompt_tokens, Some(200_000));
    let error = Record::parse(text.replace("200000", "-1").trim_end().as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "max_prompt_tokens: should be a whole number"
    );
    let revoke = r#"{"revoke":"16c90ee8f37ea61f","max_prompt_tokens":1}"#;
    assert!(Record::parse(revoke.as_bytes()).is_err());
}

#[test]
fn an_allowance_is_written_where_there_is_one_and_older_lines_have_none() {
    let all: [Option<u64>; 5] = std::array::from_fn(|at| Some(at as u64 * 1000));
    let allowance = Allowance {
        quotas: Quotas::of(all),
        models: parse_models(&["claude-*".to_owned(), "gpt-4o".to_owned()]).unwrap(),
    };
    let limited = StoredKey {
        allowance: allowance.clone().boxed(),
        ..key("d")
    };
    let text = written(&Record::Put(limited.clone()));
    for part in [
        r#""requests_per_minute":0,"input_tokens_per_minute":1000,"output_tokens_per_minute":2000"#,
        r#""concurrent_requests":3000,"tokens_per_day":4000,"models":["claude-*","gpt-4o"]"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
    let read = Record::parse(text.trim_end().as_bytes()).unwrap();
    assert_eq!(read, Record::Put(limited.clone()));
    let record = limited.at("demo");
    assert_eq!(record.quotas(), allowance.quotas);
    for (model, allowed) in [("claude-x", true), ("gpt-4o", true), ("gpt-4o-mini", false)] {
        assert_eq!(record.allows_model(model.as_bytes()), allowed, "{model}");
    }
    // A line of before has none of it, and so allows all.
    let text = written(&Record::Put(key("d")));
    assert!(
        !text.contains("minute") && !text.contains("models"),
        "{text}"
    );
    let open = key("d").at("demo");
    assert_eq!(
        (open.quotas(), open.allows_model(b"any")),
        (Quotas::default(), true)
    );
    for (from, to, expected) in [
        (
            "\"tokens_per_day\":4000",
            "\"tokens_per_day\":1000000000001",
            "tokens_per_day: should be",
        ),
        (
            "\"tokens_per_day\":4000",
            "\"tokens_per_day\":\"x\"",
            "tokens_per_day: should be",
        ),
        ("[\"claude-*\"", "[\"cl*de\"", "models: a model is a name"),
        ("[\"claude-*\"", "[7", "models: should be a list of texts"),
    ] {
        let text = written(&Record::Put(limited.clone()));
        assert!(text.contains(from), "{text}");
        let error = Record::parse(text.trim_end().replace(from, to).as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{to}: {error}");
    }
}

#[test]
fn a_record_shows_the_policy_of_its_audience_only() {
    let key = key("a");
    let record = key.at("two");
    assert_eq!(record.policy.unwrap().mac_key, key.mac_keys[1].1.words());
    assert!(key.at("three").policy.is_none());
}

#[test]
fn bad_lines_are_told_apart_and_never_quoted() {
    let secret = "dd0a70cd36ab09f377bda082827a7738";
    let good = written(&Record::Put(key("a")));
    let good = good.trim_end();
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    let id = key("a").id;
    for (text, expected) in [
        (String::new(), "no JSON object"),
        ("[1]".into(), "no JSON object"),
        (good[..good.len() - 1].to_owned(), "no JSON object"),
        (format!("{good}x"), "no JSON object"),
        ("{}".into(), "put, revoke or remove"),
        (
            format!(r#"{{"put":"{id}","revoke":"{id}"}}"#),
            "put, revoke or remove",
        ),
        (
            format!(r#"{{"revoke":"{secret}"}}"#),
            "revoke: is no key id",
        ),
        (
            format!(r#"{{"revoke":"{id}","name":"x"}}"#),
            "belongs into a put line",
        ),
        (
            format!(r#"{{"remove":"{id}","at_s":1}}"#),
            "belongs into a put line",
        ),
        (
            with(r#""not_before_s":5"#, r#""not_before_s":11"#),
            "not_after_s: is before",
        ),
        (
            with(
                r#""not_before_s":5"#,
                &format!(r#""not_before_s":"{secret}""#),
            ),
            "not_before_s: should be a whole number",
        ),
        (
            with(r#""not_before_s":5"#, r#""not_before_s":-5"#),
            "not_before_s: should be a whole number",
        ),
        (
            with(r#""alpn_only":true"#, r#""alpn_only":1"#),
            "alpn_only: should be true or false",
        ),
        (
            with(r#""alpn_only""#, r#""alpnonly""#),
            "alpnonly: is none of",
        ),
        (
            with(r#""alpn_only""#, &format!(r#""{secret}""#)),
            "a field: is none of",
        ),
        (
            with(
                r#""alpn_only":true"#,
                r#""alpn_only":true,"alpn_only":true"#,
            ),
            "twice",
        ),
        (
            with(r#""demo""#, r#""two""#),
            "mac_keys: an audience stands there twice",
        ),
        (with(r#""demo""#, r#""""#), "mac_keys: an audience should"),
        (with(r#""key_hash""#, r#""put""#), "twice"),
        (
            with(r#""name""#, r#""at_s":1,"name""#),
            "at_s: does not belong",
        ),
    ] {
        let error = Record::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains(secret), "{error}");
    }
}
