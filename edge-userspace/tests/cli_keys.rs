//! The commands that need no daemon, as a person would type them.

use serde_json::Value;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edge"));
        command
            .args(arguments.split_whitespace())
            .current_dir(self.path())
            .env_remove("EDGE_STORE")
            .env_remove("EDGE_CONFIG")
            .env_remove("EDGE_ADMIN");
        command
    }

    fn edge(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Standard output of a command that must do well.
    fn good(&self, arguments: &str) -> String {
        let output = self.edge(arguments);
        assert!(
            output.status.success(),
            "edge {arguments}: {}",
            errors(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of a command that must fail with 1 and print nothing else.
    fn bad(&self, arguments: &str) -> String {
        let output = self.edge(arguments);
        assert_eq!(output.status.code(), Some(1), "edge {arguments}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
        errors(&output)
    }

    fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.good(arguments)).unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn mode(&self, name: &str) -> u32 {
        let metadata = std::fs::metadata(self.path().join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

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
        "keys revoke --store s 123",
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
        (format!("{limit} {alice}"), "nothing to change"),
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

#[test]
fn check_explains_and_fails_with_places() {
    let place = Place::new();
    let ours = rcgen::generate_simple_self_signed(["edge.test".to_owned()]).unwrap();
    std::fs::write(place.path().join("cert.pem"), ours.cert.pem()).unwrap();
    std::fs::write(
        place.path().join("key.pem"),
        ours.signing_key.serialize_pem(),
    )
    .unwrap();
    place.good("keys new --store keys.journal --name a --audience demo");
    let good = include_str!("configs/good.toml");
    std::fs::write(place.path().join("edge.toml"), good).unwrap();
    let text = place.good("check --config edge.toml");
    for part in [
        "127.0.0.1:8443",
        "\"demo\"",
        "no XDP",
        "http://127.0.0.1:9000",
        "ends",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(
        text.contains("1 keys, 1 of them for audience \"demo\", capacity 100000"),
        "{text}"
    );
    assert_eq!(place.json("check --config edge.toml --json")["good"], true);
    check_reads_the_key_store(&place, good);
    check_explains_who_is_believed_and_who_is_denied(&place, good);
    std::fs::write(place.path().join("edge.toml"), good).unwrap();

    std::fs::write(place.path().join("edge.toml"), format!("{good}\nx = 1\n")).unwrap();
    let error = place.bad("check --config edge.toml");
    assert!(error.starts_with("edge.toml:18:1: upstream.x: "), "{error}");
    let error = place.bad("run --config edge.toml");
    assert!(
        error.starts_with("edge: edge.toml:18:1: upstream.x: "),
        "{error}"
    );
    let output = place.edge("check --config edge.toml --json");
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["faults"][0]["line"], &json["faults"][0]["field"]),
        (&18.into(), &"upstream.x".into())
    );
    let error = place.bad("check --config none.toml");
    assert!(error.starts_with("none.toml: cannot read"), "{error}");
}

fn check_explains_who_is_believed_and_who_is_denied(place: &Place, good: &str) {
    let more = r#"
[listen.proxy_protocol]
addresses = ["127.0.0.1:8443"]
trusted = ["10.0.0.0/24", "0.0.0.0/0"]

[[clients.rules]]
ja4 = "t13d1516h2_8daaf6152771_*"
action = "allow"

[[clients.rules]]
ja4 = "t13*_*_*"
action = "legacy"

[[clients.rules]]
ja4 = "*"
action = "deny"
"#;
    std::fs::write(place.path().join("edge.toml"), format!("{good}{more}")).unwrap();
    let output = place.edge("check --config edge.toml");
    let text = String::from_utf8_lossy(&output.stdout);
    for line in [
        "on 127.0.0.1:8443 a connection must begin with a PROXY header, and come from 10.0.0.0/24, 0.0.0.0/0",
        "clients by their JA4 fingerprint, the first rule that matches:",
        "  t13d1516h2_8daaf6152771_* is allowed as its token says",
        "  t13*_*_* gets the legacy lane, whatever its token",
        "  * is refused in its hello",
        "  any other is allowed as its token says",
    ] {
        assert!(
            text.contains(&format!("\n  {line}\n")),
            "no {line} in {text}"
        );
    }
    let warning = errors(&output);
    assert!(
        warning.contains("0.0.0.0/0 lets anyone say whose connection it is"),
        "{warning}"
    );
}

/// As the daemon does, so that a store that it would refuse fails the check.
fn check_reads_the_key_store(place: &Place, good: &str) {
    let store = place.path().join("keys.journal");
    let kept = place.read("keys.journal");
    place.good("keys new --store keys.journal --name b --audience demo");
    let warned = |configuration: String, expected: &str| {
        std::fs::write(place.path().join("edge.toml"), configuration).unwrap();
        let output = place.edge("check --config edge.toml");
        assert!(output.status.success(), "{}", errors(&output));
        let text = errors(&output);
        assert!(
            text.starts_with("warning: ") && text.contains(expected),
            "{text}"
        );
        let json = place.json("check --config edge.toml --json");
        assert!(
            json["warnings"][0].as_str().unwrap().contains(expected),
            "{json}"
        );
    };
    let demo = "audience = \"demo\"";
    assert!(good.contains(demo));
    warned(
        good.replace(demo, "audience = \"other\""),
        "so nobody can connect",
    );
    warned(
        good.replace(demo, "audience = \"demo\"\ncapacity = 1"),
        "has 2 keys and the capacity is 1",
    );
    // 1000 a second by default, within 35 s.
    warned(
        good.replace(demo, "audience = \"demo\"\nreplay_capacity = 100000"),
        "one key at its hard rate of 1000 a second has 35000 live tokens within 35 s, more than a quarter of 100000; raise it to 140000",
    );
    warned(
        good.replace(demo, "audience = \"demo\"\nconnections_per_second_hard = 0"),
        "a key has no limit",
    );
    let list = place.json("keys list --store keys.journal --json");
    let id = list[1]["key_id"].as_str().unwrap();
    let limit = format!("keys limit --store keys.journal {id} --connections-per-second-hard 8000");
    place.good(&limit);
    warned(good.to_owned(), "at its hard rate of 8000 a second");
    std::fs::write(place.path().join("edge.toml"), good).unwrap();
    for (text, expected) in [
        (String::new(), "keys.journal:1: is no key store"),
        (
            kept.clone() + "nonsense\n",
            "keys.journal:3: the line is no JSON object",
        ),
    ] {
        std::fs::write(&store, text).unwrap();
        let error = place.bad("check --config edge.toml");
        assert!(
            error.contains("edge.toml: keys.store: ") && error.contains(expected),
            "{error}"
        );
        let output = place.edge("check --config edge.toml --json");
        assert_eq!(output.status.code(), Some(1));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["faults"][0]["field"], "keys.store");
    }
    std::fs::write(&store, kept).unwrap();
}

#[test]
fn status_of_no_daemon_says_so() {
    let place = Place::new();
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = place.bad(&format!("status --admin {free}"));
    assert!(error.contains("is the daemon running"), "{error}");
}
