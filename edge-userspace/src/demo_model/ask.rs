//! What a request asks for: its headers and its body.

use super::script::{Kind, Said, Script, Shape, Tool};
use super::{Fault, MAX_TOKENS, Options};
use crate::prompt::decode::{Decoder, Encoding};
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::{Value, json};
use std::str::FromStr;
use std::time::Duration;

/// Largest body, decoded.
const MAX_BODY_BYTES: u64 = 1 << 26;

/// A header's value.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A header's number.
pub(super) fn number<T: FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    text(headers, name)?.parse().ok()
}

/// A body without its content encoding; none: it is not encoded so, or by one that is not read.
pub(super) fn plain(headers: &HeaderMap, body: &Bytes) -> Option<Bytes> {
    let named = text(headers, header::CONTENT_ENCODING.as_str()).unwrap_or("identity");
    let encoding =
        (Encoding::ALL.into_iter()).find(|one| one.name().eq_ignore_ascii_case(named))?;
    let Some(mut decoder) = Decoder::new(encoding, MAX_BODY_BYTES) else {
        return Some(body.clone());
    };
    let (mut encoded, mut decoded) = (&body[..], Vec::new());
    while !encoded.is_empty() {
        decoded.extend_from_slice(decoder.step(&mut encoded).ok()?);
    }
    loop {
        let last = decoder.finish().ok()?;
        if last.is_empty() {
            return Some(decoded.into());
        }
        decoded.extend_from_slice(last);
    }
}

/// The script of an answer, without what is known of its prompt.
pub(super) fn script(
    headers: &HeaderMap,
    asked: &Value,
    shape: Shape,
    fault: Option<Fault>,
    options: &Options,
) -> Script {
    let max_tokens = (asked["max_tokens"].as_u64()).or(asked["max_completion_tokens"].as_u64());
    let tokens = (number(headers, "x-demo-tokens").or(max_tokens))
        .unwrap_or(options.tokens)
        .min(MAX_TOKENS);
    let mut parts = match text(headers, "x-demo-blocks") {
        Some(parts) => (parts.split(','))
            .filter_map(|name| part(name.trim(), asked))
            .collect(),
        None => usual_parts(asked),
    };
    if shape == Shape::ChatCompletions {
        parts.drain(..parts.len().saturating_sub(1));
    }
    if parts.is_empty() {
        parts.push(Kind::Text);
    }
    let calls = parts.iter().any(|part| matches!(part, Kind::Tool(_)));
    let stop_reason = match max_tokens {
        _ if calls => "tool_use",
        Some(max) if max <= tokens => "max_tokens",
        _ => "end_turn",
    };
    let said = text(headers, "x-demo-usage").and_then(Said::parse);
    Script {
        shape,
        model: asked["model"].as_str().unwrap_or("claude-demo").to_owned(),
        input_tokens: 0,
        cached: None,
        tokens,
        beginning: text(headers, "x-demo-begin").map(str::to_owned),
        parts,
        choices: asked["n"].as_u64().unwrap_or(1).clamp(1, 128),
        tells_usage: asked["stream_options"]["include_usage"] == true,
        said: said.unwrap_or_default(),
        stop_reason,
        inter_token: number(headers, "x-demo-inter-token-ms")
            .map_or(options.inter_token, Duration::from_millis),
        chunk_bytes: number(headers, "x-demo-chunk-bytes").map(|bytes: usize| bytes.max(1)),
        fault,
        fault_at: number(headers, "x-demo-fault-at"),
        vocabulary: options.vocabulary.clone(),
    }
}

/// A part by its name in `x-demo-blocks`.
fn part(name: &str, asked: &Value) -> Option<Kind> {
    Some(match name {
        "thinking" => Kind::Thinking,
        "text" => Kind::Text,
        "tool" => Kind::Tool(tool(asked).unwrap_or_else(|| Tool {
            name: "demo".to_owned(),
            input: json!({ "word": "água 🦀" }),
        })),
        _ => return None,
    })
}

/// A thought where thinking is enabled; a call where one is demanded and none was answered
/// yet, else a text.
fn usual_parts(asked: &Value) -> Vec<Kind> {
    let mut parts = Vec::new();
    if let Some("enabled" | "adaptive") = asked["thinking"]["type"].as_str() {
        parts.push(Kind::Thinking);
    }
    let choice = &asked["tool_choice"];
    let demands = |value: &Value| {
        matches!(
            value.as_str(),
            Some("any" | "tool" | "required" | "function")
        )
    };
    let demanded = demands(choice) || demands(&choice["type"]);
    match tool(asked).filter(|_| demanded && !is_answered(asked)) {
        Some(tool) => parts.extend([Kind::Text, Kind::Tool(tool)]),
        None => parts.push(Kind::Text),
    }
    parts
}

/// Whether the last message is a tool's answer.
fn is_answered(asked: &Value) -> bool {
    let last = (asked["messages"].as_array()).and_then(|messages| messages.last());
    last.is_some_and(|last| {
        let blocks = last["content"].as_array();
        last["role"] == "tool"
            || blocks
                .is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
    })
}

/// A call of the tool that is named, or of the first, with an input that its schema allows.
fn tool(asked: &Value) -> Option<Tool> {
    let choice = &asked["tool_choice"];
    let wanted = (choice["name"].as_str()).or(choice["function"]["name"].as_str());
    let tools = asked["tools"].as_array()?;
    let of = |tool: &'_ Value| {
        let of_chat = &tool["function"];
        let tool = if of_chat.is_object() { of_chat } else { tool };
        let name = tool["name"].as_str()?.to_owned();
        let schema = match &tool["input_schema"] {
            Value::Null => &tool["parameters"],
            schema => schema,
        };
        Some(Tool {
            name,
            input: fitting(schema),
        })
    };
    tools
        .iter()
        .filter_map(of)
        .find(|tool| wanted.is_none_or(|wanted| tool.name == wanted))
}

/// Something that a JSON schema allows.
fn fitting(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("string") => "água 🦀".into(),
        Some("integer" | "number") => 7.into(),
        Some("boolean") => true.into(),
        Some("array") => json!([fitting(&schema["items"])]),
        Some("null") => Value::Null,
        _ => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties
                .map(|(name, schema)| (name.clone(), fitting(schema)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demanded_call_fits_the_schema_and_comes_once() {
        let mut asked = json!({
            "messages": [{ "role": "user", "content": "?" }],
            "tools": [
                { "name": "a", "input_schema": { "type": "object" } },
                { "name": "b", "input_schema": { "type": "object", "properties": {
                    "city": { "type": "string" },
                    "days": { "type": "integer" },
                    "unit": { "enum": ["celsius"] },
                } } },
            ],
            "tool_choice": { "type": "tool", "name": "b" },
        });
        let input = json!({ "city": "água 🦀", "days": 7, "unit": "celsius" });
        let tool = Tool {
            name: "b".to_owned(),
            input,
        };
        assert_eq!(usual_parts(&asked), [Kind::Text, Kind::Tool(tool)]);
        let answer = json!([{ "type": "tool_result", "tool_use_id": "x", "content": "9" }]);
        asked["messages"] = json!([{ "role": "user", "content": answer }]);
        assert_eq!(usual_parts(&asked), [Kind::Text]);
    }
}
