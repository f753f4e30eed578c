//! `edge check` and `edge status`.

use crate::place::{Place, errors};
use serde_json::Value;

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
    let good = include_str!("../configs/good.toml");
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
        text.contains("1 key, 1 of them for audience \"demo\", capacity 100000"),
        "{text}"
    );
    assert_eq!(place.json("check --config edge.toml --json")["good"], true);
    check_reads_the_key_store(&place, good);
    check_explains_who_is_believed_and_who_is_denied(&place, good);
    check_explains_several_upstreams(&place, good);
    secrets_of_the_environment_lose_their_trailing_newline(&place, good);
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

fn secrets_of_the_environment_lose_their_trailing_newline(place: &Place, good: &str) {
    let text = format!("{good}\n[api.layer_secret]\nenvironment = \"LAYER_SECRET\"\n");
    std::fs::write(place.path().join("edge.toml"), text).unwrap();
    for (secret, is_one) in [("0123456789abcdef\r\n", true), ("\n", false)] {
        let mut check = place.command("check --config edge.toml");
        let checked = check.env("LAYER_SECRET", secret).output().unwrap();
        let told = errors(&checked);
        assert_eq!(checked.status.success(), is_one, "{secret:?}: {told}");
        assert_eq!(told.contains("LAYER_SECRET is not set"), !is_one, "{told}");
    }
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

fn check_explains_several_upstreams(place: &Place, good: &str) {
    let url = "url = \"http://127.0.0.1:9000\"";
    assert!(good.contains(url));
    let list = r#"
eject_for = "2s"
[upstream.credential]
header = "x-api-key"
environment = "PATH"
[[upstreams]]
name = "west"
url = "https://west.example"
[[upstreams]]
name = "east"
url = "https://east.example:8443"
models = ["claude-*"]
prefill_tokens_per_second = 7
"#;
    let write = |text: String| std::fs::write(place.path().join("edge.toml"), text).unwrap();
    let several = good.replace(url, "") + list;
    write(several.clone());
    let output = place.edge("check --config edge.toml");
    let text = String::from_utf8_lossy(&output.stdout);
    for line in [
        "  west https://west.example:443: every model; 10000 tokens a second; x-api-key is set from $PATH",
        "  east https://east.example:8443: claude-*; 7 tokens a second; x-api-key is set from $PATH",
    ] {
        assert!(
            text.contains(&format!("\n  {line}\n")),
            "no {line} in {text}"
        );
    }
    assert!(text.contains("gets none for 2s to 1m:"), "{text}");
    let shared = "west and east are different hosts and both get the same credential";
    let warning = errors(&output);
    assert!(warning.contains(shared), "{warning}");
    write(several + "[upstreams.credential]\nheader = \"authorization\"\nenvironment = \"HOME\"\n");
    let output = place.edge("check --config edge.toml");
    assert!(output.status.success() && !errors(&output).contains(shared));
    assert!(String::from_utf8_lossy(&output.stdout).contains("authorization is set from $HOME"));
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
