//! `edge count`, as a person would type it.

use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A folder with texts.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write("hello.txt", b"hello world");
        place.write("empty.txt", b"");
        place.write("trap.txt", "I'll <|endoftext|>\n\n  日本語".as_bytes());
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &[u8]) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edge"));
        command
            .arg("count")
            .args(arguments.split_whitespace())
            .current_dir(self.path());
        command
    }

    fn count(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// With a text on standard input.
    fn piped(&self, arguments: &str, text: &[u8]) -> Output {
        let mut child = (self.command(arguments))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text).unwrap();
        child.wait_with_output().unwrap()
    }

    fn good(&self, arguments: &str) -> String {
        good(&self.count(arguments))
    }

    /// Standard error of what must end with `code`.
    fn bad(&self, arguments: &str, code: i32) -> String {
        let output = self.count(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {errors}");
        errors
    }
}

fn good(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn one_text_is_a_number_and_how_fast_is_told_apart() {
    let place = Place::new();
    let output = place.count("hello.txt");
    assert_eq!(good(&output), "2\n");
    let told = String::from_utf8(output.stderr).unwrap();
    for part in ["exact by o200k_base", "bytes a token", "11 B in ", "B/s"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(place.good("empty.txt"), "0\n");
    // Special tokens by name are text, and the vocabularies differ.
    assert_eq!(place.good("trap.txt --tokenizer cl100k_base"), "13\n");
    assert_eq!(place.good("trap.txt -t o200k_base"), "11\n");
    assert_eq!(place.good("trap.txt -t claude-2"), "15\n");
}

#[test]
fn standard_input_is_counted_as_a_file_is() {
    let place = Place::new();
    for arguments in ["", "-"] {
        assert_eq!(good(&place.piped(arguments, b"hello world")), "2\n");
    }
    // Larger than what is read at a time, and cut anywhere.
    let text = "Größe: 12345, 日本語 I'll\r\n\r\n".repeat(40_000);
    place.write("large.txt", text.as_bytes());
    let of_file = place.good("large.txt -t cl100k_base");
    assert_eq!(
        good(&place.piped("-t cl100k_base", text.as_bytes())),
        of_file
    );
    let one: u64 = 17;
    assert!(of_file.trim().parse::<u64>().unwrap() > one * 40_000 / 2);
    // What is no UTF-8 counts as the replacement character.
    let broken = good(&place.piped("", b"a\xffb"));
    assert_eq!(broken, good(&place.piped("", "a\u{fffd}b".as_bytes())));
}

#[test]
fn what_is_no_utf8_is_counted_and_said() {
    let place = Place::new();
    place.write("broken.txt", b"caf\xe9 au lait");
    let output = place.count("broken.txt hello.txt");
    assert!(good(&output).contains("broken.txt"));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("broken.txt: is no UTF-8 from byte 3 on") && !told.contains("hello.txt:"),
        "{told}"
    );
    let json: Value = serde_json::from_str(&place.good("--json broken.txt hello.txt")).unwrap();
    assert_eq!(json["files"][0]["not_utf8_at"], 3);
    assert_eq!(json["files"][1]["not_utf8_at"], Value::Null);
}

#[test]
fn a_models_name_stands_for_its_vocabulary() {
    let place = Place::new();
    for (model, vocabulary) in [("gpt-4.1", "o200k_base"), ("gpt-4", "cl100k_base")] {
        let output = place.count(&format!("-t {model} trap.txt"));
        let by_name = place.good(&format!("-t {vocabulary} trap.txt"));
        assert_eq!(good(&output), by_name, "{model}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(vocabulary), "{told}");
    }
    // One that is not published can only be estimated.
    let errors = place.bad("-t claude-sonnet-4-5 trap.txt", 2);
    assert!(errors.contains("--estimate"), "{errors}");
    let output = place.count("-t claude-sonnet-4-5 --estimate trap.txt");
    assert!(!good(&output).is_empty());
    // A file of that name is that file.
    place.write("gpt-4o", b"no vocabulary");
    let errors = place.bad("-t gpt-4o trap.txt", 1);
    assert!(errors.contains("ends with .tiktoken or .json"), "{errors}");
}

#[test]
fn several_texts_have_a_total() {
    let place = Place::new();
    let said = place.good("hello.txt empty.txt trap.txt");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            " 2  hello.txt",
            " 0  empty.txt",
            "11  trap.txt",
            "13  total"
        ]
    );
}

#[test]
fn json_has_every_text_and_the_sum() {
    let place = Place::new();
    let json: Value = serde_json::from_str(&place.good("--json hello.txt trap.txt")).unwrap();
    assert_eq!(json["tokenizer"], "o200k_base");
    assert_eq!(json["kind"], "exact");
    assert_eq!((&json["tokens"], &json["failed"]), (&13.into(), &0.into()));
    assert_eq!(json["files"][0]["file"], "hello.txt");
    assert_eq!(json["files"][1]["tokens"], 11);
    assert_eq!(json["files"][0]["bytes"], 11);
    assert!(json["bytes_per_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_estimate_says_that_it_is_one_and_how_far_off_it_may_be() {
    let place = Place::new();
    place.write("prose.txt", include_bytes!("../../docs/operations.md"));
    let exact: f64 = place.good("prose.txt").trim().parse().unwrap();
    let output = place.count("--estimate prose.txt");
    let said = good(&output);
    let numbers: Vec<f64> = said
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    let [tokens, low, high] = numbers[..] else {
        panic!("{said}")
    };
    assert!(low <= tokens && tokens <= high, "{said}");
    assert!(
        (tokens / exact - 1.0).abs() < 0.5,
        "{said}, exactly {exact}"
    );
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("estimate by o200k_base"), "{told}");
    let json: Value = serde_json::from_str(&place.good("--estimate --json prose.txt")).unwrap();
    assert_eq!(json["kind"], "estimate");
    assert_eq!(json["files"][0]["low"].as_f64(), Some(low));
    assert_eq!(json["low"].as_f64(), Some(low));
    assert_eq!(json["weights"], "o200k_base");
}

#[test]
fn a_vocabulary_may_come_from_a_file() {
    let place = Place::new();
    // The bytes alone: every byte is a token.
    let ranks: Vec<String> = (0..=255_u8)
        .map(|byte| {
            use base64::Engine as _;
            let token = base64::engine::general_purpose::STANDARD.encode([byte]);
            format!("{token} {byte}\n")
        })
        .collect();
    place.write("bytes.tiktoken", ranks.concat().as_bytes());
    let errors = place.bad("-t bytes.tiktoken hello.txt", 2);
    assert!(errors.contains("--pattern"), "{errors}");
    assert_eq!(
        place.good("-t bytes.tiktoken --pattern gpt2 hello.txt"),
        "11\n"
    );
    let errors = place.bad("-t cl100k_base --pattern gpt2 hello.txt", 2);
    assert!(errors.contains("has its own"), "{errors}");
    // An estimate says whose weights stand in.
    let output = place.count("-t bytes.tiktoken --pattern gpt2 --estimate hello.txt trap.txt");
    let said = good(&output);
    let total = said.lines().last().unwrap();
    assert!(
        total.contains(" to ") && total.ends_with(")  total"),
        "{said}"
    );
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("estimate by bytes with the weights of claude-2"),
        "{told}"
    );
    place.write("damaged.tiktoken", b"not base64 at all!\n");
    let errors = place.bad("-t damaged.tiktoken --pattern gpt2 hello.txt", 1);
    assert!(errors.contains("damaged.tiktoken"), "{errors}");
    let errors = place.bad("-t nowhere/tokenizer.json hello.txt", 1);
    assert!(errors.contains("nowhere/tokenizer.json"), "{errors}");
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_counted() {
    let place = Place::new();
    let output = place.count("hello.txt absent.txt .");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "2  hello.txt\n2  total\n");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("absent.txt: no such file"), "{errors}");
    assert!(errors.contains(".: is a directory"), "{errors}");
    let output = place.count("absent.txt");
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]));
    let output = place.count("--json hello.txt absent.txt");
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["failed"], &json["tokens"]), (&1.into(), &2.into()));
    assert_eq!(json["failures"][0]["file"], "absent.txt");
    assert_eq!(json["failures"][0]["error"], "no such file");
}

#[test]
fn wrong_usage_is_told_with_what_there_is() {
    let place = Place::new();
    let errors = place.bad("-t cl100k hello.txt", 2);
    assert!(errors.contains("did you mean cl100k_base?"), "{errors}");
    for name in ["gpt-9", "llama-3.1", "mistral"] {
        let errors = place.bad(&format!("-t {name} hello.txt"), 2);
        assert!(
            errors.contains("claude-2") && errors.contains("no file"),
            "{errors}"
        );
    }
    let errors = place.bad("-t x.tiktoken --pattern nonsense hello.txt", 2);
    assert!(errors.contains("gpt2"), "{errors}");
    let list = place.good("--list");
    for name in [
        "cl100k_base",
        "o200k_base",
        "claude-2",
        ".tiktoken",
        "patterns: ",
        "gpt-4.1*: o200k_base",
        "claude-*: not published",
    ] {
        assert!(list.contains(name), "{list}");
    }
    let list: Value = serde_json::from_str(&place.good("--list --json")).unwrap();
    assert_eq!(list["default"], "o200k_base");
    assert_eq!(list["vocabularies"].as_array().unwrap().len(), 3);
    assert_eq!(list["models"][0]["model"], "gpt-4o*");
    place.bad("--list hello.txt", 2);
    let help = place.good("--help");
    assert!(
        help.contains("Examples:") && help.contains("Exit codes"),
        "{help}"
    );
}
