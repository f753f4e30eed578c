//! Results of what the upstream itself ran: code, an editor, searches.

use super::*;

/// A request in which the assistant's turn holds one block.
fn with(block: Value) -> Value {
    json!({
        "model": "gpt-4o",
        "messages": [{ "role": "assistant", "content": [block] }],
    })
}

/// The tokens of the conversation's texts.
fn conversation(block: Value) -> u64 {
    count(MESSAGES, &with(block)).parts.texts[Part::Messages as usize]
}

#[test]
fn what_programs_said_counts_and_what_is_around_it_does_not() {
    let (said, failed) = ("total 3: one two three", "warning: nothing to do");
    for kind in ["code_execution", "bash_code_execution"] {
        let block = json!({
            "type": format!("{kind}_tool_result"),
            "tool_use_id": "srvtoolu_not_counted",
            "content": {
                "type": format!("{kind}_result"),
                "stdout": said,
                "stderr": failed,
                "return_code": 12345678,
                "content": [{ "type": format!("{kind}_output"), "file_id": "file_not_counted" }],
            },
        });
        let expected = tokens("o200k_base", &[said, failed]);
        assert_eq!(conversation(block), expected, "{kind}");
    }
}

#[test]
fn what_an_editor_showed_and_changed_counts() {
    let result = |content: Value| {
        json!({
            "type": "text_editor_code_execution_tool_result",
            "tool_use_id": "srvtoolu_not_counted",
            "content": content,
        })
    };
    let file = "fn main() {\n    println!(\"one\");\n}\n";
    let viewed = result(json!({
        "type": "text_editor_code_execution_view_result",
        "file_type": "text",
        "content": file,
        "num_lines": 3,
    }));
    assert_eq!(conversation(viewed), tokens("o200k_base", &[file]));
    let lines = ["-    one();", "+    two();", " three"];
    let replaced = result(json!({
        "type": "text_editor_code_execution_str_replace_result",
        "old_start": 1,
        "lines": lines,
        "new_lines": 2,
    }));
    assert_eq!(conversation(replaced), tokens("o200k_base", &lines));
    let why = "no such file: src/lib.rs";
    let failed = result(json!({
        "type": "text_editor_code_execution_tool_result_error",
        "error_code": "file_not_found",
        "error_message": why,
    }));
    assert_eq!(conversation(failed), tokens("o200k_base", &[why]));
    let without = result(json!({
        "type": "text_editor_code_execution_str_replace_result",
        "lines": null,
    }));
    assert_eq!(conversation(without), 0);
}

/// Only the upstream can read it: by its size, and said to be an estimate.
#[test]
fn encrypted_texts_are_estimated_by_their_size() {
    let nothing = count(MESSAGES, &with(json!({ "type": "text", "text": "" })));
    let size = 4_000;
    let encrypted = "QUJD".repeat(size / 4);
    for block in [
        json!({ "type": "code_execution_tool_result", "content": {
            "type": "encrypted_code_execution_result", "encrypted_stdout": encrypted,
            "stderr": "", "return_code": 0, "content": [],
        }}),
        json!({ "type": "web_search_tool_result", "content": [{
            "type": "web_search_result", "title": "", "url": "https://not.counted/",
            "encrypted_content": encrypted,
        }]}),
    ] {
        let counted = count(MESSAGES, &with(block));
        assert_eq!(counted.kind, Kind::Estimate);
        assert_eq!(counted.parts.texts, [0; 3]);
        assert_eq!(counted.tokens - nothing.tokens, 3_000 / 4);
        assert!(counted.low < nothing.tokens + 10);
        assert!(counted.high >= nothing.tokens + 3_000);
    }
}

/// What a compaction holds encrypted is what it also holds as text.
#[test]
fn a_compaction_counts_once() {
    let summary = "one two three";
    let block = json!({ "type": "compaction", "content": summary, "encrypted_content": "QUJD" });
    let counted = count(MESSAGES, &with(block));
    assert_eq!(counted.parts.pictures, 0);
    let expected = tokens("o200k_base", &[summary]);
    assert_eq!(counted.parts.texts[Part::Messages as usize], expected);
}
