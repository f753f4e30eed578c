//! What `--tokenizer` names: a built-in vocabulary, a file, or a model that has one of them.

use crate::cli::output::Failure;
use crate::config::{self, Models};
use crate::tokens::{Pattern, Vocabulary, VocabularyError};
use std::path::{Path, PathBuf};

/// What is counted with unless another is named.
pub(super) const DEFAULT: &str = "o200k_base";

/// What `--tokenizer` names.
#[derive(Clone, Debug)]
pub(super) enum Tokenizer {
    Embedded(&'static str),
    /// A model's, by its name.
    Model {
        model: String,
        /// The vocabulary, or the one for which an estimate of it is weighted.
        like: &'static str,
        is_published: bool,
    },
    File(PathBuf),
}

/// What was written after `--tokenizer`.
pub(super) fn tokenizer(said: &str) -> Result<Tokenizer, String> {
    if let Some(name) = embedded(said) {
        return Ok(Tokenizer::Embedded(name));
    }
    let path = Path::new(said);
    if path.exists() {
        return Ok(Tokenizer::File(path.into()));
    }
    if let Some(model) = model(said) {
        return Ok(model);
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    if matches!(extension, Some("tiktoken" | "json")) || path.components().count() > 1 {
        // When it is opened the system says what is the matter with it.
        return Ok(Tokenizer::File(path.into()));
    }
    let similar = |name: &&str| strsim::jaro_winkler(name, said) > 0.8;
    let meant = Vocabulary::EMBEDDED.into_iter().find(similar);
    let meant = meant.map_or(String::new(), |name| format!(" (did you mean {name}?)"));
    Err(format!(
        "is no built-in vocabulary{meant}, no model whose vocabulary is known, and no file; built in are {}, `edge count --list` shows the models",
        Vocabulary::EMBEDDED.join(", ")
    ))
}

/// What was written after `--pattern`.
pub(super) fn pattern(said: &str) -> Result<Pattern, String> {
    let names = || Pattern::ALL.map(Pattern::name).join(", ");
    Pattern::named(said).ok_or_else(|| format!("no such pattern; there are {}", names()))
}

fn embedded(said: &str) -> Option<&'static str> {
    Vocabulary::EMBEDDED.into_iter().find(|name| *name == said)
}

fn model(said: &str) -> Option<Tokenizer> {
    let (like, is_published) = match Models::built_in(said)?.tokenizer {
        config::Tokenizer::Vocabulary(vocabulary) => (embedded(vocabulary.name())?, true),
        config::Tokenizer::Estimate(like) => (like, false),
    };
    Some(Tokenizer::Model {
        model: said.to_owned(),
        like,
        is_published,
    })
}

impl Tokenizer {
    /// The vocabulary; for an estimate also one that is only like the model's.
    pub(super) fn vocabulary(
        &self,
        pattern: Option<Pattern>,
        for_estimate: bool,
    ) -> Result<Vocabulary, Failure> {
        match self {
            Self::Embedded(name) | Self::Model { like: name, .. } if pattern.is_some() => {
                Err(Failure::Usage(format!(
                    "--pattern: {name} has its own; the option is for .tiktoken files"
                )))
            }
            Self::Model {
                model,
                like,
                is_published: false,
            } if !for_estimate => Err(Failure::Usage(format!(
                "--tokenizer {model}: its tokenizer is not published, so it cannot be counted exactly; --estimate estimates it, with the weights of {like}"
            ))),
            Self::Embedded(name) | Self::Model { like: name, .. } => {
                Vocabulary::embedded(name).ok_or_else(|| Failure::because("it is built in"))
            }
            Self::File(path) => Vocabulary::load(path, pattern).map_err(|error| {
                let (told, path) = (error.to_string(), path.display().to_string());
                let told = match told.contains(&path) {
                    true => told,
                    false => format!("{path}: {told}"),
                };
                match error {
                    VocabularyError::NoPattern { .. } => {
                        Failure::Usage(format!("{told}, with --pattern"))
                    }
                    VocabularyError::OtherPattern { .. } => {
                        Failure::Usage(format!("--pattern: {told}"))
                    }
                    _ => Failure::Because(told),
                }
            }),
        }
    }
}
