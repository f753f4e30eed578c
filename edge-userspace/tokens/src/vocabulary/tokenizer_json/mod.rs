//! `tokenizer.json` files of the Hugging Face `tokenizers` library, as far as they are
//! byte-level BPE: GPT-2's, Llama 3's, Qwen 2's and their like. What is of another kind is
//! refused by its name.
//!
//! Not read: post-processors (tokens that a model's framing adds), truncation and padding (a
//! count is of the whole text), the decoder. The names of added tokens are plain text.

mod alphabet;
mod merges;
mod regex;
mod steps;

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::error::VocabularyError;
use super::ranks::Ranks;
use crate::normal_form::NormalForm;
use crate::pattern::Pattern;

/// The small parts of the file that decide a count, and the kind of the large one.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    model: Kind,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    name: Option<String>,
}

/// The large part, read once the others are known to be good.
#[derive(Deserialize)]
struct Rest {
    model: Model,
}

#[derive(Deserialize)]
struct AddedToken {
    content: String,
    #[serde(default)]
    special: bool,
}

/// The model, all its fields: an unknown one might count.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    #[serde(default, rename = "type")]
    _kind: Option<String>,
    #[serde(default)]
    dropout: Option<f64>,
    /// Never used where each byte is a token.
    #[serde(default, rename = "unk_token")]
    _unknown_token: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default, rename = "fuse_unk")]
    _fuse_unknown: bool,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
}

/// `"a b"` of old files, `["a", "b"]` of new ones.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair([String; 2]),
    Line(String),
}

/// What a `tokenizer.json` says.
#[derive(Debug)]
pub(super) struct Tokenizer {
    pub(super) ranks: Ranks,
    pub(super) pattern: Pattern,
    pub(super) normal_form: NormalForm,
}

/// What is wrong, where the name of the vocabulary is not known.
enum Problem {
    Damaged(String),
    Unsupported(&'static str, String),
}

type Result<T> = std::result::Result<T, Problem>;

/// Reads the content of a `tokenizer.json`.
pub(super) fn read(name: &str, file: &[u8]) -> std::result::Result<Tokenizer, VocabularyError> {
    read_parts(file).map_err(|problem| match problem {
        Problem::Damaged(reason) => VocabularyError::Damaged {
            name: name.to_owned(),
            reason,
        },
        Problem::Unsupported(what, found) => VocabularyError::Unsupported {
            name: name.to_owned(),
            what,
            found,
        },
    })
}

fn read_parts(bytes: &[u8]) -> Result<Tokenizer> {
    let file: File = serde_json::from_slice(bytes)
        .map_err(|error| Problem::Damaged(format!("no tokenizer.json: {error}")))?;
    // The kind first: what a file of another kind says elsewhere would only confuse.
    if let Some(other) = file.model.name.filter(|name| name != "BPE") {
        return Err(Problem::Unsupported("the model", other));
    }
    let normal_form = steps::normal_form(&file.normalizer)?;
    let pattern = steps::pattern(&file.pre_tokenizer)?;
    let Rest { model } = serde_json::from_slice(bytes)
        .map_err(|error| Problem::Damaged(format!("no byte-level BPE model: {error}")))?;
    check_model(&model)?;
    for token in &file.added_tokens {
        check_added(token)?;
    }
    let ranks = merges::ranks(&model, &file.added_tokens)?;
    Ok(Tokenizer {
        ranks,
        pattern,
        normal_form,
    })
}

fn check_model(model: &Model) -> Result<()> {
    let refuse =
        |what, found: &dyn std::fmt::Display| Err(Problem::Unsupported(what, found.to_string()));
    if let Some(dropout) = model.dropout.filter(|dropout| *dropout != 0.0) {
        return refuse("dropout in the model", &dropout);
    }
    for (what, affix) in [
        (
            "continuing_subword_prefix in the model",
            &model.continuing_subword_prefix,
        ),
        ("end_of_word_suffix in the model", &model.end_of_word_suffix),
    ] {
        if let Some(affix) = affix.as_ref().filter(|affix| !affix.is_empty()) {
            return refuse(what, affix);
        }
    }
    if model.byte_fallback {
        return refuse("byte_fallback in the model", &"true (no byte-level BPE)");
    }
    Ok(())
}

/// Special tokens and names in brackets do not stand in ordinary text; others do, and a
/// tokenizer takes them out of it before all else.
fn check_added(token: &AddedToken) -> Result<()> {
    let is_name = |open, close| token.content.starts_with(open) && token.content.ends_with(close);
    if token.special || is_name('<', '>') || is_name('[', ']') {
        return Ok(());
    }
    Err(Problem::Unsupported(
        "an added token that is neither special nor a name in brackets",
        format!("{:?}", token.content),
    ))
}
