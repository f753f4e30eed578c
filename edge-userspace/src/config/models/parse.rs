//! Reads `[[prompt.models]]`, and then the vocabularies that it names.

use super::{Framing, MAX_RULES, MAX_TOKENS, MODELS, Model, Name, Tokenizer};
use crate::config::problem::Problems;
use crate::config::read::{Span, kind_of};
use crate::tokens::{Pattern, Vocabulary};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// What a rule may say, and what of it must be a text.
const TEXTS: [&str; 4] = ["name", "tokenizer", "pattern", "like"];
const NUMBERS: [&str; 5] = [
    "per_request",
    "per_message",
    "per_name",
    "tools",
    "context_tokens",
];

/// A rule as it is written: the file that it names has not been opened.
#[derive(Clone, Debug)]
pub(in crate::config) struct Written {
    name: Name,
    tokenizer: Named,
    framing: Framing,
    context_tokens: Option<u64>,
}

#[derive(Clone, Debug)]
enum Named {
    Ready(Tokenizer),
    File(String, Option<Pattern>),
}

impl Written {
    /// The rule; a relative path begins at `directory`. Else what is wrong, and the cure.
    pub(in crate::config) fn load(self, directory: &Path) -> Result<Model, (String, String)> {
        let tokenizer = match self.tokenizer {
            Named::Ready(tokenizer) => tokenizer,
            Named::File(path, pattern) => match Vocabulary::load(&directory.join(path), pattern) {
                Ok(vocabulary) => Tokenizer::Vocabulary(vocabulary),
                Err(error) => {
                    return Err((error.to_string(), format!("write {}", tokenizers())));
                }
            },
        };
        Ok(Model {
            name: self.name,
            tokenizer,
            framing: self.framing,
            context_tokens: self.context_tokens,
        })
    }
}

/// What a tokenizer may be.
fn tokenizers() -> String {
    format!(
        "one of {}, the path of a .tiktoken file or of a tokenizer.json, or \"estimate\"",
        Vocabulary::EMBEDDED.join(", ")
    )
}

/// Each table is a rule.
pub(in crate::config) fn parse(
    items: &DeArray<'_>,
    problems: &mut Problems<'_>,
) -> Vec<(Written, Span)> {
    if let Some(item) = items.get(MAX_RULES) {
        problems.add(
            Some(item.span()),
            MODELS,
            format!("{} rules are too many", items.len()),
            format!("keep {MAX_RULES}; a * can take the place of several"),
        );
    }
    let mut rules: Vec<(Written, Span)> = Vec::new();
    for item in items.iter().take(MAX_RULES) {
        let Some(rule) = rule(item, problems) else {
            continue;
        };
        let mut before = rules.iter();
        if let Some((earlier, _)) = before.find(|(earlier, _)| earlier.name.covers(&rule.name)) {
            problems.add(
                Some(item.span()),
                MODELS,
                format!(
                    "the rule for {} is never asked: the one for {} before it takes all of it",
                    rule.name, earlier.name
                ),
                "take it out, or move it before that one",
            );
        }
        rules.push((rule, item.span()));
    }
    rules
}

fn rule(item: &Spanned<DeValue<'_>>, problems: &mut Problems<'_>) -> Option<Written> {
    let DeValue::Table(table) = item.get_ref() else {
        problems.add(
            Some(item.span()),
            MODELS,
            format!("{} stands in the list", kind_of(item)),
            format!("write each rule as [[{MODELS}]] with name and tokenizer below"),
        );
        return None;
    };
    let mut good = true;
    for (key, value) in table {
        let name = &**key.get_ref();
        let cure = match value.get_ref() {
            DeValue::String(_) if TEXTS.contains(&name) => continue,
            DeValue::Integer(_) if NUMBERS.contains(&name) => continue,
            _ if TEXTS.contains(&name) => "write a text".to_owned(),
            _ if NUMBERS.contains(&name) => format!("write a whole number up to {MAX_TOKENS}"),
            _ => {
                let fields = [&TEXTS[..], &NUMBERS[..]].concat().join(", ");
                problems.add(
                    Some(key.span()),
                    &format!("{MODELS}.{name}"),
                    "a rule has no such field",
                    format!("take it out; a rule has {fields}"),
                );
                good = false;
                continue;
            }
        };
        let what = format!("{} stands there", kind_of(value));
        problems.add(Some(value.span()), &format!("{MODELS}.{name}"), what, cure);
        good = false;
    }
    let mut fields = Fields {
        table,
        at: item.span(),
        problems,
        good,
    };
    let name = fields.name();
    let tokenizer = fields.tokenizer();
    let framing = Framing {
        per_request: fields.number("per_request").unwrap_or(0),
        per_message: fields.number("per_message").unwrap_or(0),
        per_name: fields.number("per_name").unwrap_or(0),
        tools: fields.number("tools").unwrap_or(0),
        // Whoever writes both says that this is how it is.
        is_published: ["per_request", "per_message"]
            .iter()
            .all(|name| table.contains_key(*name)),
    };
    let context_tokens = fields.number("context_tokens").filter(|tokens| *tokens > 0);
    let good = fields.good;
    Some(Written {
        name: name?,
        tokenizer: tokenizer?,
        framing,
        context_tokens,
    })
    .filter(|_| good)
}

struct Fields<'t, 'p, 'a, 'i> {
    table: &'t DeTable<'i>,
    at: Span,
    problems: &'p mut Problems<'a>,
    good: bool,
}

impl Fields<'_, '_, '_, '_> {
    fn wrong(&mut self, name: &str, what: impl Into<String>, cure: impl Into<String>) {
        let at = self.table.get(name).map_or(self.at.clone(), Spanned::span);
        (self.problems).add(Some(at), &format!("{MODELS}.{name}"), what, cure);
        self.good = false;
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.table.get(name)?.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            _ => None,
        }
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        let DeValue::Integer(number) = self.table.get(name)?.get_ref() else {
            return None;
        };
        let parsed = u64::from_str_radix(&number.as_str().replace('_', ""), number.radix());
        let parsed = parsed.ok().filter(|number| *number <= MAX_TOKENS);
        if parsed.is_none() {
            let what = format!("{number} is out of range");
            self.wrong(
                name,
                what,
                format!("write a whole number up to {MAX_TOKENS}"),
            );
        }
        parsed
    }

    fn name(&mut self) -> Option<Name> {
        let Some(text) = self.text("name") else {
            if !self.table.contains_key("name") {
                self.wrong(
                    "name",
                    "is missing",
                    format!("write name = … in [[{MODELS}]]"),
                );
            }
            return None;
        };
        let name = Name::parse(&text);
        if name.is_none() {
            self.wrong(
                "name",
                format!("{text:?} is no name of models"),
                "write a model's name, or its beginning and *",
            );
        }
        name
    }

    fn tokenizer(&mut self) -> Option<Named> {
        let Some(text) = self.text("tokenizer") else {
            if !self.table.contains_key("tokenizer") {
                self.wrong("tokenizer", "is missing", format!("write {}", tokenizers()));
            }
            return None;
        };
        if text == "estimate" {
            return self.estimate();
        }
        if self.table.contains_key("like") {
            self.wrong(
                "like",
                "says how to estimate, and the tokenizer is no estimate",
                "take it out",
            );
        }
        let pattern = self.pattern()?;
        Some(match Vocabulary::embedded(&text) {
            Some(vocabulary) => Named::Ready(Tokenizer::Vocabulary(vocabulary)),
            None => Named::File(text, pattern),
        })
    }

    fn estimate(&mut self) -> Option<Named> {
        let like = self.text("like").unwrap_or_else(|| "o200k_base".to_owned());
        let known = Vocabulary::EMBEDDED.into_iter().find(|name| *name == like);
        if known.is_none() {
            self.wrong(
                "like",
                format!("{like:?} is no vocabulary that an estimate has weights for"),
                format!("write one of {}", Vocabulary::EMBEDDED.join(", ")),
            );
        }
        known.map(|like| Named::Ready(Tokenizer::Estimate(like)))
    }

    /// The pattern of a `.tiktoken` file, which does not say it itself.
    fn pattern(&mut self) -> Option<Option<Pattern>> {
        let Some(text) = self.text("pattern") else {
            return Some(None);
        };
        let pattern = Pattern::named(&text);
        if pattern.is_none() {
            let names: Vec<_> = Pattern::ALL.iter().map(|pattern| pattern.name()).collect();
            self.wrong(
                "pattern",
                format!("{text:?} is no pattern"),
                format!("write one of {}", names.join(", ")),
            );
        }
        pattern.map(Some)
    }
}
