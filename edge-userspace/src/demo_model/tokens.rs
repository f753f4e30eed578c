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

/// Numbers that stand for the tokens of the messages, one for every four bytes of each one's
/// role and content: where prompts begin alike, so do these.
pub(super) fn ids(body: &[u8]) -> Vec<u32> {
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let messages = asked["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let texts = messages
        .iter()
        .map(|message| format!("{}{}", message["role"], message["content"]));
    let id = |bytes: &[u8]| {
        let number = bytes
            .iter()
            .fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        // As large as vocabularies are.
        number.wrapping_mul(0x9e37_79b1) >> 15
    };
    texts
        .flat_map(|text| text.as_bytes().chunks(4).map(id).collect::<Vec<_>>())
        .collect()
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
    fn a_longer_conversations_ids_begin_with_those_of_a_shorter_one() {
        let of = |messages: &str| ids(format!(r#"{{"messages":[{messages}]}}"#).as_bytes());
        let first = r#"{"role":"user","content":"what of it?"}"#;
        let short = of(first);
        let long = of(&format!(
            r#"{first},{{"role":"assistant","content":"much"}}"#
        ));
        assert_eq!(short.len(), (6 + 13_usize).div_ceil(4));
        assert!(long.len() > short.len() && long.starts_with(&short));
        assert_ne!(short, of(r#"{"role":"user","content":"what of them?"}"#));
        assert_eq!(ids(b"no JSON"), [0; 0]);
    }

    #[test]
    fn counts_texts_or_bytes() {
        let body = br#"{"system":"hello","messages":[{"role":"user","content":"hello hello"},{"role":"user","content":[{"type":"text","text":"hello"}]}]}"#;
        assert_eq!(count(body, None), body.len().div_ceil(4) as u64);
        let vocabulary = Vocabulary::embedded("cl100k_base");
        assert_eq!(count(body, vocabulary.as_ref()), 1 + 2 + 1 + 2 * 4 + 3);
    }
}
