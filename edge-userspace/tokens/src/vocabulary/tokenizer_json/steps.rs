//! The steps before the model: the normalizer and the pre-tokenizer.

use serde_json::Value;

use super::{Problem, Result, regex};
use crate::normal_form::NormalForm;
use crate::pattern::Pattern;

const NORMALIZER: &str = "the normalizer";
const PRE_TOKENIZER: &str = "the pre-tokenizer";

/// None, NFC or NFKC, perhaps in a sequence of one.
pub(super) fn normal_form(normalizer: &Value) -> Result<NormalForm> {
    match (kind(normalizer), sequence(normalizer, "normalizers")) {
        (None, _) if normalizer.is_null() => Ok(NormalForm::None),
        (Some("NFC"), _) => Ok(NormalForm::Nfc),
        (Some("NFKC"), _) => Ok(NormalForm::Nfkc),
        (Some("Sequence"), Some([])) => Ok(NormalForm::None),
        (Some("Sequence"), Some([one])) => normal_form(one),
        _ => Err(unsupported(NORMALIZER, normalizer)),
    }
}

/// GPT-2's byte-level step alone, or a split by a known pattern and the byte-level step.
pub(super) fn pattern(pre_tokenizer: &Value) -> Result<Pattern> {
    match (
        kind(pre_tokenizer),
        sequence(pre_tokenizer, "pretokenizers"),
    ) {
        (Some("ByteLevel"), _) => {
            check_byte_level(pre_tokenizer, true)?;
            Ok(Pattern::Gpt2)
        }
        (Some("Sequence"), Some([one])) => pattern(one),
        (Some("Sequence"), Some([split, byte_level])) if kind(byte_level) == Some("ByteLevel") => {
            check_byte_level(byte_level, false)?;
            split_pattern(split)
        }
        _ => Err(unsupported(PRE_TOKENIZER, pre_tokenizer)),
    }
}

fn check_byte_level(step: &Value, use_regex: bool) -> Result<()> {
    // What is left out is true, as in the library.
    let says = |field: &str| {
        step.get(field)
            .is_none_or(|value| *value == Value::Bool(true))
    };
    if says("add_prefix_space") {
        let found = "ByteLevel with add_prefix_space".to_owned();
        return Err(Problem::Unsupported(PRE_TOKENIZER, found));
    }
    if says("use_regex") != use_regex {
        let found = match use_regex {
            true => "ByteLevel without its pattern and without another",
            false => "ByteLevel with its own pattern behind another",
        };
        return Err(Problem::Unsupported(PRE_TOKENIZER, found.to_owned()));
    }
    Ok(())
}

fn split_pattern(split: &Value) -> Result<Pattern> {
    if kind(split) != Some("Split") {
        return Err(unsupported(PRE_TOKENIZER, split));
    }
    let Some(text) = split.pointer("/pattern/Regex").and_then(Value::as_str) else {
        return Err(unsupported(PRE_TOKENIZER, split));
    };
    // The patterns match every character, so what is between matches is nothing.
    let behavior = split.get("behavior").and_then(Value::as_str);
    let invert = split.get("invert").and_then(Value::as_bool);
    if !matches!(
        (behavior, invert),
        (Some("Isolated"), Some(false) | None) | (Some("Removed"), Some(true))
    ) {
        return Err(unsupported(PRE_TOKENIZER, split));
    }
    regex::pattern(text)
        .ok_or_else(|| Problem::Unsupported("the pattern of the pre-tokenizer", text.to_owned()))
}

fn kind(step: &Value) -> Option<&str> {
    step.get("type").and_then(Value::as_str)
}

fn sequence<'a>(step: &'a Value, field: &str) -> Option<&'a [Value]> {
    step.get(field).and_then(Value::as_array).map(Vec::as_slice)
}

/// Names the kind of a step; of a sequence, those in it; of another split, what it says.
fn unsupported(what: &'static str, step: &Value) -> Problem {
    let steps = sequence(step, "normalizers").or_else(|| sequence(step, "pretokenizers"));
    let name = |step: &Value| kind(step).unwrap_or("no type").to_owned();
    let found = match (kind(step), steps) {
        (None, _) if step.is_null() => "none".to_owned(),
        (_, Some(steps)) => {
            let names: Vec<String> = steps.iter().map(name).collect();
            format!("a sequence of {}", names.join(", "))
        }
        (Some("Split"), _) => step.to_string(),
        _ => name(step),
    };
    Problem::Unsupported(what, found)
}
