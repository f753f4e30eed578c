//! Stores that change: revocations, removals, imports, and what makes them be refused.

use crate::place::Place;
use serde_json::Value;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

#[test]
fn revoked_removed_compacted() {
    let place = Place::new();
    let new = |name| {
        place.json(&format!(
            "keys new --store s --name {name} --audience x --json"
        ))
    };
    let [a, b] = ["a", "b"].map(|name| new(name)["key_id"].as_str().unwrap().to_owned());
    place.good(&format!("keys revoke --store s {a}"));
    place.good(&format!("keys revoke --store s {a}"));
    let json = place.json("keys list --store s --json");
    assert_eq!(
        (&json[0]["state"], &json[1]["state"]),
        (&"revoked".into(), &"good".into())
    );
    let before = place.read("s");
    let error = place.bad(&format!("keys revoke --store s {b} 0011223344556677"));
    assert!(error.contains("no key 0011223344556677"), "{error}");
    assert_eq!(place.read("s"), before, "all or none");
    place.good(&format!("keys remove --store s {b}"));
    let json = place.json("keys compact --store s --json");
    assert_eq!(
        (&json["records_before"], &json["keys"]),
        (&4.into(), &1.into())
    );
    assert_eq!(
        place.json("keys list --store s --json")[0]["state"],
        "revoked"
    );
    let json = place.json(&format!("keys remove --store s {a} --json"));
    assert_eq!(json["removed"][0], a.as_str());
    assert_eq!(place.good("keys list --store s --json").trim(), "[]");
}

#[test]
fn a_store_whose_dead_are_the_most_is_compacted_by_itself() {
    let place = Place::new();
    let mut entries = String::new();
    for i in 0..600 {
        let hash = format!("{i:064x}");
        entries += &format!("{{\"put\":\"{i:016x}\",\"name\":\"k\",\"key_hash\":\"{hash}\"}}\n");
    }
    std::fs::write(place.path().join("entries"), &entries).unwrap();
    place.good("keys import --store s entries");
    let ids: Vec<_> = (0..599).map(|i| format!("{i:016x}")).collect();
    place.good(&format!("keys remove --store s {}", ids.join(" ")));
    assert_eq!(place.read("s").lines().count(), 1 + 600 + 599);
    place.good("keys revoke --store s 0000000000000257");
    assert_eq!(place.read("s").lines().count(), 2);
    assert_eq!(place.mode("s"), 0o600);
}

#[test]
fn an_entry_for_a_further_audience_comes_from_the_holder() {
    let place = Place::new();
    std::fs::write(place.path().join("k"), "sk-edge-test\n").unwrap();
    let entry = place.good("keys derive --api-key-file k --name alice --audience demo");
    let json: Value = serde_json::from_str(&entry).unwrap();
    assert_eq!(json["put"], "16c90ee8f37ea61f");
    assert_eq!(json["mac_keys"]["demo"], "dd0a70cd36ab09f377bda082827a7738");

    let mut import = (place.command("keys import --store s"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    import
        .stdin
        .take()
        .unwrap()
        .write_all(entry.as_bytes())
        .unwrap();
    assert!(import.wait().unwrap().success());
    place.good("keys revoke --store s 16c90ee8f37ea61f");
    place.good("keys derive --api-key-file k --name alice2 --audience eu --store s");
    let json = place.json("keys list --store s --json");
    assert_eq!(json[0]["audiences"], serde_json::json!(["eu", "demo"]));
    assert_eq!(json[0]["name"], "alice2");
    assert_eq!(json[0]["state"], "revoked", "once revoked, it stays so");
}

#[test]
fn deriving_and_importing_keep_what_they_do_not_state() {
    let place = Place::new();
    std::fs::write(place.path().join("k"), "sk-edge-test\n").unwrap();
    let derive = "keys derive --api-key-file k";
    place.good(&format!(
        "{derive} --name a --audience x --not-before 100 --not-after 4000000000 --alpn-only --store s"
    ));
    let list = || place.json("keys list --store s --json")[0].clone();
    let same = |audiences: &[&str]| {
        let key = list();
        assert_eq!(key["audiences"], serde_json::json!(audiences));
        assert_eq!(
            (&key["not_before_s"], &key["not_after_s"]),
            (&100.into(), &4_000_000_000_u64.into())
        );
        assert_eq!(key["alpn_only"], true);
    };
    place.good(&format!("{derive} --name a --audience y --store s"));
    same(&["y", "x"]);
    let entry = place.good(&format!("{derive} --name a --audience z"));
    std::fs::write(place.path().join("entry"), entry).unwrap();
    place.good("keys import --store s entry");
    same(&["z", "y", "x"]);
    // What is stated wins, in either way.
    let stated = "--name a --audience x --not-after 3000000000";
    let entry = place.good(&format!("{derive} {stated}"));
    std::fs::write(place.path().join("entry"), entry).unwrap();
    place.good("keys import --store s entry");
    assert_eq!(list()["not_after_s"], 3_000_000_000_u64);
    place.good(&format!(
        "{derive} --name a --audience x --not-after 3500000000 --store s"
    ));
    assert_eq!(list()["not_after_s"], 3_500_000_000_u64);
    assert_eq!(list()["not_before_s"], 100);
    let error = place.bad(&format!(
        "{derive} --name a --audience x --not-before 3600000000 --store s"
    ));
    assert!(
        error.contains("both --not-before and --not-after"),
        "{error}"
    );
    // A removed key is as if it had never been.
    place.good("keys remove --store s 16c90ee8f37ea61f");
    place.good("keys import --store s entry");
    assert_eq!(list()["audiences"], serde_json::json!(["x"]));
    assert_eq!(list()["alpn_only"], false);
}

#[test]
fn an_import_of_another_key_with_the_same_id_replaces() {
    let place = Place::new();
    let entry = |digit: char, rest: &str| {
        let hash = digit.to_string().repeat(64);
        format!(r#"{{"put":"16c90ee8f37ea61f","name":"a","key_hash":"{hash}"{rest}}}"#) + "\n"
    };
    for text in [entry('0', r#","not_after_s":4000000000"#), entry('1', "")] {
        std::fs::write(place.path().join("entry"), text).unwrap();
        place.good("keys import --store s entry");
    }
    let json = place.json("keys list --store s --json");
    assert!(json[0].get("not_after_s").is_none(), "{json}");
}

#[test]
fn an_import_with_a_bad_line_changes_nothing_and_quotes_nothing() {
    let place = Place::new();
    let good = r#"{"put":"16c90ee8f37ea61f","name":"a","key_hash":"0000000000000000000000000000000000000000000000000000000000000000"}"#;
    std::fs::write(
        place.path().join("entries"),
        format!("{good}\n{{\"put\":\"dd0a70cd36ab09f3\",\"name\":77777}}\n"),
    )
    .unwrap();
    let error = place.bad("keys import --store s entries");
    assert!(
        error.contains("entries:2: name: should be a text"),
        "{error}"
    );
    assert!(!error.contains("77777"));
    assert!(!place.path().join("s").exists());
}

#[test]
fn a_change_behind_a_bad_line_is_said_not_to_be_in_effect() {
    let place = Place::new();
    let json = place.json("keys new --store s --name a --audience x --json");
    let id = json["key_id"].as_str().unwrap();
    let store = place.read("s") + "nonsense\n";
    std::fs::write(place.path().join("s"), store).unwrap();
    let error = place.bad(&format!("keys revoke --store s {id}"));
    assert!(
        error.contains("s:3: ") && error.contains("NOT IN EFFECT"),
        "{error}"
    );
    assert!(
        error.lines().count() == 1 && !error.contains("is revoked"),
        "{error}"
    );
    let error = place.bad("keys list --store s");
    assert!(error.contains("s:3: the line is no JSON object"), "{error}");
}

#[test]
fn a_store_that_others_may_read_is_refused_with_the_cure() {
    let place = Place::new();
    place.good("keys new --store s --name a --audience x");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path().join("s"), open).unwrap();
    for command in [
        "keys list --store s",
        "keys new --store s --name b --audience x",
        "keys compact --store s",
    ] {
        let error = place.bad(command);
        assert!(error.contains("chmod 600 s"), "{command}: {error}");
    }
    let error = place.bad("keys list --store none");
    assert!(error.contains("none: there is no key store"), "{error}");
}

#[test]
fn the_store_may_come_from_the_environment() {
    let place = Place::new();
    place.good("keys new --store s --name a --audience x");
    let output = (place.command("keys list"))
        .env("EDGE_STORE", "s")
        .output()
        .unwrap();
    assert!(output.status.success());
}
