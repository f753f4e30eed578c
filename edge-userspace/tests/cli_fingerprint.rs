//! `edge fingerprint`, as a person would type it.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

const REQUEST: &str = r#"{
  "model": "claude-x",
  "system": [
    {"type": "text", "text": "x-anthropic-billing-header: cch=1;"},
    {"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral"}}
  ],
  "messages": [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": [
      {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
      {"type": "text", "text": "Hello!", "citations": null}
    ]},
    {"role": "user", "content": [{"type": "tool_result", "content": "x", "is_error": false}]}
  ]
}"#;

fn edge(arguments: &str, input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_edge"))
        .arg("fingerprint")
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever does not read it has said why.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn good(arguments: &str, input: &str) -> String {
    let output = edge(arguments, input);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &str, input: &str) -> Value {
    serde_json::from_str(&good(&format!("--json {arguments}"), input)).unwrap()
}

fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

fn prefixes(told: &Value) -> Vec<(u64, String)> {
    let all = told["chain"]["prefixes"].as_array().unwrap().iter();
    all.map(|it| {
        let name = it["fingerprint"].as_str().unwrap();
        assert_eq!(name.len(), 32, "{told}");
        (it["messages"].as_u64().unwrap(), name.to_owned())
    })
    .collect()
}

#[test]
fn the_fingerprint_is_that_of_the_definition() {
    let told = json("", REQUEST);
    let history = sha256("Hi|Hello!|");
    let system = "x-anthropic-billing-header: cch=1;You help.";
    assert_eq!(
        told["fingerprint"],
        sha256(&format!("{system}|{history}|claude-x"))
    );
    let from = &told["from"];
    assert_eq!(from["history_sha256"], history);
    assert_eq!(from["system_bytes"], system.len());
    assert_eq!(
        (&from["messages"], &from["model"]),
        (&3.into(), &"claude-x".into())
    );
    // The order of the request's keys is nothing.
    let last = REQUEST.replacen("\"model\": \"claude-x\",", "", 1);
    let last = format!("{},\"model\":\"claude-x\"}}", last.trim_end_matches('}'));
    assert_eq!(json("", &last)["fingerprint"], told["fingerprint"]);
    // Of Chat Completions the system prompt is a message.
    let chat = r#"{"messages":[{"role":"system","content":"S"},{"role":"user","content":"a|b"}],"model":"m"}"#;
    let history = sha256("S|a|b");
    assert_eq!(
        json("--chat", chat)["fingerprint"],
        sha256(&format!("|{history}|m"))
    );
}

#[test]
fn the_chain_says_what_is_looked_for_and_what_is_left_out_and_why() {
    let told = json("", REQUEST);
    let all = prefixes(&told);
    assert_eq!(
        all.iter().map(|it| it.0).collect::<Vec<_>>(),
        [0, 1, 2, 3],
        "{told}"
    );
    let field = |name: &str| {
        let prefixes = told["chain"]["prefixes"].as_array().unwrap().iter();
        prefixes.map(|it| it[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        Value::from(field("looked_for")),
        serde_json::json!([3, 2, null, 1])
    );
    assert_eq!(
        Value::from(field("stored")),
        serde_json::json!([true, false, false, true])
    );
    let left_out = told["left_out"].as_array().unwrap();
    let left_out: Vec<_> = left_out
        .iter()
        .map(|it| {
            assert!(!it["why"].as_str().unwrap().is_empty());
            let what = it["what"].as_str().unwrap();
            (it["message"].as_u64(), it["block"].as_u64(), what)
        })
        .collect();
    assert_eq!(
        left_out,
        [
            (None, Some(0), "billing_line"),
            (None, Some(1), "cache_control"),
            (Some(1), Some(0), "signature"),
            (Some(1), Some(0), "thinking"),
            (Some(1), Some(1), "null"),
            (Some(2), Some(0), "is_error_false"),
        ]
    );
    // Without all that the chain is the same.
    let bare = r#"{"system":"You help.","model":"claude-x","messages":[
        {"role":"user","content":"Hi"},
        {"role":"assistant","content":"Hello!"},
        {"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x"}]}]}
    ]}"#;
    let bare = json("", bare);
    assert_eq!(prefixes(&bare), all);
    assert_eq!(bare["left_out"], serde_json::json!([]));
    assert_ne!(prefixes(&json("--context-id a", REQUEST)), all);
    let text = good("", REQUEST);
    for part in [
        told["fingerprint"].as_str().unwrap(),
        &all[3].1,
        "secret for demonstrations",
        "message 1, block 0: thinking: clients drop it",
        "system, block 0: billing_line",
        "looks for it (1), remembers it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_has_no_canonical_form_is_said() {
    let request = |messages: &str, tools: &str| {
        format!(r#"{{"model":"m","messages":[{messages}],"tools":[{tools}]}}"#)
    };
    let good_one = r#"{"role":"user","content":"Hi"}"#;
    let twice = request(&format!(r#"{good_one},{{"role":"user","role":"x"}}"#), "");
    let told = json("", &twice);
    assert_eq!(told["no_canonical_form"]["message"], 1);
    assert_eq!(prefixes(&told).len(), 2);
    assert!(good("", &twice).contains("Message 1 has no canonical form: a key stands twice"));
    let told = json("", &request(good_one, r#"{"name":"a","name":"b"}"#));
    assert!(told["chain"].is_null());
    assert!(
        told["no_chain"]
            .as_str()
            .unwrap()
            .contains("a key stands twice")
    );
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let bad = |arguments: &str, input: &str, code: i32| {
        let output = edge(arguments, input);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {errors}");
        assert!(output.stdout.is_empty());
        errors
    };
    for (input, told) in [
        (
            "{\n \"a\": x}",
            "standard input:2:7: expected a value (byte 8)",
        ),
        ("{", "standard input:1:2: the JSON ends too early (byte 1)"),
        ("[1]", "is no request: its JSON is no object"),
        ("", "ends too early"),
    ] {
        let errors = bad("", input, 1);
        assert!(errors.contains(told), "{errors}");
    }
    assert!(bad("nowhere.json", "", 1).contains("nowhere.json: no such file"));
    assert!(bad("/", "", 1).contains("is a directory"));
    bad("--no-such", "", 2);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), REQUEST).unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(json(path, ""), json("-", REQUEST));
}

#[test]
fn the_page_shows_a_request_with_its_fingerprint() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/context.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, from) = page.split_once("```json\n").unwrap();
    let (request, rest) = from.split_once("```").unwrap();
    let shown = rest.split('`').nth(1).unwrap();
    assert_eq!(json("", request)["fingerprint"], shown);
}
