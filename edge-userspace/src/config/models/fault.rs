//! What is wrong with a tokenizer that a rule names: in which field, what, and the cure.

use super::Models;
use super::Tokenizer;
use crate::tokens::{Pattern, Vocabulary, VocabularyError};
use std::io;
use std::path::Path;

/// A fault of a rule whose file was looked at.
#[derive(Debug)]
pub(in crate::config) struct Fault {
    /// The rule's field.
    pub(in crate::config) field: &'static str,
    pub(in crate::config) what: String,
    pub(in crate::config) cure: String,
}

/// What a tokenizer may be.
pub(super) fn tokenizers() -> String {
    format!(
        "one of {}, the path of a .tiktoken file or of a tokenizer.json, or \"estimate\"",
        Vocabulary::EMBEDDED.join(", ")
    )
}

/// The patterns that there are.
pub(super) fn patterns() -> String {
    Pattern::ALL.map(Pattern::name).join(", ")
}

impl Fault {
    /// `written` was taken for a file, which is no good.
    pub(super) fn of(written: &str, error: VocabularyError) -> Self {
        let of_tokenizer = |what: String, cure: String| Self {
            field: "tokenizer",
            what,
            cure,
        };
        let another = || "get the file again, or name another".to_owned();
        match error {
            VocabularyError::Read { source, .. }
                if source.kind() == io::ErrorKind::NotFound && is_like_a_name(written) =>
            {
                of_tokenizer(
                    format!("{written:?} is neither a built-in vocabulary nor a file"),
                    meant(written),
                )
            }
            VocabularyError::Read { .. } => of_tokenizer(
                error.to_string(),
                "name a .tiktoken file or a tokenizer.json that the daemon may read".to_owned(),
            ),
            VocabularyError::Extension { .. } => of_tokenizer(
                format!("{written:?} ends neither with .tiktoken nor with .json"),
                format!("write {}", tokenizers()),
            ),
            VocabularyError::NoPattern { .. } => Self {
                field: "pattern",
                what: format!(
                    "is missing: {written} does not say how its vocabulary cuts text into pieces"
                ),
                cure: format!("write pattern = … beside tokenizer, one of {}", patterns()),
            },
            VocabularyError::OtherPattern { found, given, .. } => Self {
                field: "pattern",
                what: format!("is {given}, and {written} says itself that it is {found}"),
                cure: "take it out".to_owned(),
            },
            VocabularyError::Line { line, reason, .. } => {
                of_tokenizer(format!("{written}, line {line}: {reason}"), another())
            }
            VocabularyError::Damaged { reason, .. } => {
                of_tokenizer(format!("{written}: {reason}"), another())
            }
            VocabularyError::Ranks { source, .. } => {
                of_tokenizer(format!("{written}: {source}"), another())
            }
            VocabularyError::Unsupported { what, found, .. } => of_tokenizer(
                format!("{written}: {what} is not supported: {found}"),
                "name a file of a kind that docs/tokens.md lists, or write \"estimate\"".to_owned(),
            ),
            error => of_tokenizer(error.to_string(), another()),
        }
    }
}

/// Whether it could be meant as a name: it has neither a directory nor a file's ending.
fn is_like_a_name(written: &str) -> bool {
    let path = Path::new(written);
    let is_file = |extension: &std::ffi::OsStr| extension == "tiktoken" || extension == "json";
    path.components().count() == 1 && !path.extension().is_some_and(is_file)
}

/// What to write in place of a name that is none.
fn meant(written: &str) -> String {
    let near = |name: &&&str| strsim::jaro_winkler(name, written) > 0.8;
    match Models::built_in(written).map(|rule| rule.tokenizer) {
        Some(Tokenizer::Vocabulary(vocabulary)) => format!(
            "write {:?}, the vocabulary of the model of that name",
            vocabulary.name()
        ),
        Some(Tokenizer::Estimate(like)) => format!(
            "write \"estimate\" and like = {like:?}: the tokenizer of the model of that name is not published"
        ),
        None => match Vocabulary::EMBEDDED.iter().find(near) {
            Some(name) => format!("write {name:?} if that is meant, else {}", tokenizers()),
            None => format!("write {}", tokenizers()),
        },
    }
}
