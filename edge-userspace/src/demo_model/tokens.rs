//! How many tokens the demo model says that a prompt has.

use crate::tokens::{Counter, Vocabulary};
use serde_json::Value;

/// With a vocabulary the tokens of the prompt's texts (system and contents of messages), 4 for
/// each message and 3 for the request; without one, one for every four bytes of the body,
/// begun ones included.
pub(super) fn count(body: &[u8], vocabulary: Option<&Vocabulary>) -> u64 {
    let by_bytes = body.len().div_ceil(4) as u64;
    let Some(vocabulary) = vocabulary else {
        return by_bytes;
    };
    let Ok(asked) = serde_json::from_slice::<Value>(body) else {
        return by_bytes;
    };
    let mut counter = Counter::new(vocabulary);
    let messages = asked["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let contents = messages.iter().map(|message| &message["content"]);
    let texts: u64 = (contents.chain([&asked["system"]]))
        .map(|content| content_tokens(content, &mut counter))
        .sum();
    texts + 4 * messages.len() as u64 + 3
}

/// The tokens of one message, as [`count`] counts them; without a vocabulary one for every
/// four bytes of its JSON.
pub(super) fn message(message: &Value, vocabulary: Option<&Vocabulary>) -> u64 {
    match vocabulary {
        Some(vocabulary) => 4 + content_tokens(&message["content"], &mut Counter::new(vocabulary)),
        None => message.to_string().len() as u64 / 4,
    }
}

fn content_tokens(content: &Value, counter: &mut Counter) -> u64 {
    match content {
        Value::String(text) => counter.count(text.as_bytes()),
        Value::Array(blocks) => (blocks.iter())
            .map(|block| content_tokens(&block["text"], counter))
            .sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_texts_or_bytes() {
        let body = br#"{"system":"hello","messages":[{"role":"user","content":"hello hello"},{"role":"user","content":[{"type":"text","text":"hello"}]}]}"#;
        assert_eq!(count(body, None), body.len().div_ceil(4) as u64);
        let vocabulary = Vocabulary::embedded("cl100k_base");
        assert_eq!(count(body, vocabulary.as_ref()), 1 + 2 + 1 + 2 * 4 + 3);
    }
}
