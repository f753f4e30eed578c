//! Reads `[[prompt.models]]`, and then the vocabularies that it names.

use super::fault::{Fault, patterns, tokenizers};
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

/// Where a rule's fields stand, for faults that only show when its file is opened.
#[derive(Clone, Debug)]
pub(in crate::config) struct Places {
    tokenizer: Span,
    pattern: Option<Span>,
}

impl Places {
    /// Of that field; where there is none, of what it belongs to.
    pub(in crate::config) fn of(&self, field: &str) -> Span {
        let pattern = self.pattern.clone().filter(|_| field == "pattern");
        pattern.unwrap_or_else(|| self.tokenizer.clone())
    }
}

impl Written {
    /// The rule; a relative path begins at `directory`.
    pub(in crate::config) fn load(self, directory: &Path) -> Result<Model, Fault> {
        let tokenizer = match self.tokenizer {
            Named::Ready(tokenizer) => tokenizer,
            Named::File(path, pattern) => {
                let loaded = Vocabulary::load(&directory.join(&path), pattern);
                Tokenizer::Vocabulary(loaded.map_err(|error| Fault::of(&path, error))?)
            }
        };
        Ok(Model {
            name: self.name,
            tokenizer,
            framing: self.framing,
            context_tokens: self.context_tokens,
        })
    }
}

/// Each table is a rule.
pub(in crate::config) fn parse(
    items: &DeArray<'_>,
    problems: &mut Problems<'_>,
) -> Vec<(Written, Places)> {
    if let Some(item) = items.get(MAX_RULES) {
        problems.add(
            Some(item.span()),
            MODELS,
            format!("{} rules are too many", items.len()),
            format!("keep {MAX_RULES}; a * can take the place of several"),
        );
    }
    let mut rules: Vec<(Written, Places)> = Vec::new();
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
        rules.push((rule, places(item)));
    }
    rules
}

fn places(item: &Spanned<DeValue<'_>>) -> Places {
    let of = |field: &str| match item.get_ref() {
        DeValue::Table(table) => table.get(field).map(Spanned::span),
        _ => None,
    };
    Places {
        tokenizer: of("tokenizer").unwrap_or(item.span()),
        pattern: of("pattern"),
    }
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
            _ if name == "tokenizer" => format!("write {}", tokenizers()),
            _ if name == "pattern" => format!("write one of {}", patterns()),
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
    let context_tokens = fields.number("context_tokens");
    if context_tokens == Some(0) {
        fields.wrong(
            "context_tokens",
            "is 0, which every prompt is longer than",
            format!("write the longest prompt that the model takes, up to {MAX_TOKENS}, or take it out for no limit"),
        );
    }
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
        if text.is_empty() {
            self.wrong("tokenizer", "is empty", format!("write {}", tokenizers()));
            return None;
        }
        if text == "estimate" {
            self.no_pattern("an estimate cuts none");
            return self.estimate();
        }
        if self.table.contains_key("like") {
            self.wrong(
                "like",
                "says how to estimate, and the tokenizer is no estimate",
                "take it out",
            );
        }
        if let Some(vocabulary) = Vocabulary::embedded(&text) {
            self.no_pattern(&format!("{text}, which is built in, has its own"));
            return Some(Named::Ready(Tokenizer::Vocabulary(vocabulary)));
        }
        Some(Named::File(text, self.pattern()?))
    }

    fn no_pattern(&mut self, why: &str) {
        if self.table.contains_key("pattern") {
            let what = format!("says how the vocabulary of a .tiktoken file cuts text, and {why}");
            self.wrong("pattern", what, "take it out");
        }
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
            self.wrong(
                "pattern",
                format!("{text:?} is no pattern"),
                format!("write one of {}", patterns()),
            );
        }
        pattern.map(Some)
    }
}
