//! `[[prompt.models]]`: by which tokenizer each model's prompts are counted.

mod fault;
mod parse;

pub(super) use parse::{Places, Written, parse};

use crate::tokens::Vocabulary;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// By which tokenizer each model's prompts are counted: the configuration's rules, then those
/// that are built in.
#[derive(Clone, Debug)]
pub struct Models {
    rules: Vec<Model>,
    /// Another one for each list that was made.
    generation: u64,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Model {
    /// Whom it means.
    pub name: Name,
    /// How texts are counted.
    pub tokenizer: Tokenizer,
    /// What is around them.
    pub framing: Framing,
    /// The longest prompt that the model takes, tokens.
    pub context_tokens: Option<u64>,
}

/// A model's name, or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    text: Box<str>,
    is_beginning: bool,
}

/// How texts are counted.
#[derive(Clone)]
pub enum Tokenizer {
    /// By the model's vocabulary.
    Vocabulary(Vocabulary),
    /// By features of the text, weighted as for this vocabulary, one of
    /// [`Vocabulary::EMBEDDED`], then calibrated by what the upstream says.
    Estimate(&'static str),
}

/// What a model's rule adds to the texts, tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Framing {
    /// For each request.
    pub per_request: u64,
    /// For each message.
    pub per_message: u64,
    /// For each name of a message's author.
    pub per_name: u64,
    /// Once when there are tools.
    pub tools: u64,
    /// Whether this is the published rule, so that a count with it is exact.
    pub is_published: bool,
}

/// OpenAI's rule (cookbook, "How to count tokens with tiktoken", for gpt-3.5-turbo, gpt-4 and
/// gpt-4o): 3 a message, 1 a name, 3 for the answer's beginning.
const OPENAI: Framing = Framing {
    per_request: 3,
    per_message: 3,
    per_name: 1,
    tools: 0,
    is_published: true,
};

/// The same for models for which it is not published.
const LIKE_OPENAI: Framing = Framing {
    is_published: false,
    ..OPENAI
};

/// An assumption that meets Anthropic's documented example of token counting (14 for "You are a
/// scientist" and "Hello, Claude"); what tools add is published (346 for most models).
const CLAUDE: Framing = Framing {
    per_request: 3,
    per_message: 4,
    per_name: 0,
    tools: 346,
    is_published: false,
};

/// What holds where the configuration has no rule of its own.
const BUILT_IN: [(&str, &str, bool, Framing); 14] = [
    ("gpt-4o*", "o200k_base", true, OPENAI),
    ("chatgpt-4o-*", "o200k_base", true, OPENAI),
    ("gpt-4.1*", "o200k_base", true, LIKE_OPENAI),
    ("gpt-4.5*", "o200k_base", true, LIKE_OPENAI),
    ("gpt-5*", "o200k_base", true, LIKE_OPENAI),
    ("o1*", "o200k_base", true, LIKE_OPENAI),
    ("o3*", "o200k_base", true, LIKE_OPENAI),
    ("o4-mini*", "o200k_base", true, LIKE_OPENAI),
    ("gpt-4", "cl100k_base", true, OPENAI),
    ("gpt-4-*", "cl100k_base", true, OPENAI),
    ("gpt-3.5-turbo*", "cl100k_base", true, OPENAI),
    ("gpt-35-turbo*", "cl100k_base", true, OPENAI),
    ("claude-*", "claude-2", false, CLAUDE),
    ("*", "o200k_base", false, LIKE_OPENAI),
];

/// Each new model name walks through all of them at worst.
const MAX_RULES: usize = 256;
/// The field's name.
pub(super) const MODELS: &str = "prompt.models";
/// Longest context that can be said.
const MAX_TOKENS: u64 = 1_000_000_000;

static GENERATION: AtomicU64 = AtomicU64::new(0);

impl Default for Models {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Models {
    /// These rules first, then those that are built in.
    #[must_use]
    pub fn new(mut rules: Vec<Model>) -> Self {
        rules.extend(BUILT_IN.iter().map(|&(name, vocabulary, exact, framing)| {
            let tokenizer = match Vocabulary::embedded(vocabulary).filter(|_| exact) {
                Some(vocabulary) => Tokenizer::Vocabulary(vocabulary),
                None => Tokenizer::Estimate(vocabulary),
            };
            Model {
                name: Name::parse(name).unwrap_or_else(Name::any),
                tokenizer,
                framing,
                context_tokens: None,
            }
        }));
        Self {
            rules,
            generation: GENERATION.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A number that no other list has in this process: what was counted by one list's rules is
    /// told apart from what another's would count.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The built-in rule that means a model by its name; none when only the last one does, which
    /// means any.
    #[must_use]
    pub fn built_in(model: &str) -> Option<Model> {
        let Self { rules, .. } = Self::default();
        let mut rules = rules.into_iter();
        rules.find(|rule| rule.name != Name::any() && rule.name.matches(model.as_bytes()))
    }

    /// The rules that are built in as a Markdown table, as it stands in `docs/operations.md`.
    #[must_use]
    pub fn reference() -> String {
        let mut out = "| models | counted | around texts: a request, a message, a name, tools | so counts are |\n|---|---|---|---|\n".to_owned();
        for Model {
            name,
            tokenizer,
            framing,
            ..
        } in Self::default().iter()
        {
            let (counted, is_exact) = match tokenizer {
                Tokenizer::Vocabulary(vocabulary) => {
                    (format!("by {}", vocabulary.name()), framing.is_published)
                }
                Tokenizer::Estimate(like) => (format!("estimated like {like}"), false),
            };
            let published = if framing.is_published {
                "published"
            } else {
                "assumed"
            };
            let kind = if is_exact { "exact" } else { "estimates" };
            out += &format!(
                "| `{name}` | {counted} | {}, {}, {}, {} ({published}) | {kind} |\n",
                framing.per_request, framing.per_message, framing.per_name, framing.tools
            );
        }
        out
    }

    /// The number of the first rule that means a model.
    #[must_use]
    pub fn number_of(&self, model: &[u8]) -> usize {
        let first = self.rules.iter().position(|rule| rule.name.matches(model));
        // The last one means all.
        first.unwrap_or(self.rules.len() - 1)
    }

    /// The rule of that number.
    #[must_use]
    pub fn rule(&self, number: usize) -> &Model {
        &self.rules[number.min(self.rules.len() - 1)]
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = &Model> {
        self.rules.iter()
    }
}

impl Name {
    /// Any model.
    fn any() -> Self {
        Self {
            text: "".into(),
            is_beginning: true,
        }
    }

    /// A name, or its beginning and `*`; none when it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (text, is_beginning) = match text.strip_suffix('*') {
            Some(beginning) => (beginning, true),
            None => (text, false),
        };
        let is_good = !text.contains('*') && (is_beginning || !text.is_empty());
        is_good.then(|| Self {
            text: text.into(),
            is_beginning,
        })
    }

    /// Whether it means that model.
    #[must_use]
    pub fn matches(&self, model: &[u8]) -> bool {
        if self.is_beginning {
            model.starts_with(self.text.as_bytes())
        } else {
            model == self.text.as_bytes()
        }
    }

    /// Whether it means every model that `other` means.
    fn covers(&self, other: &Self) -> bool {
        self.matches(other.text.as_bytes()) && (self.is_beginning || !other.is_beginning)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        f.write_str(if self.is_beginning { "*" } else { "" })
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vocabulary(vocabulary) => write!(f, "by the vocabulary {}", vocabulary.name()),
            Self::Estimate(like) => write!(f, "estimated, with the weights of {like}"),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let framing = &self.framing;
        write!(f, "{}: {}", self.name, self.tokenizer)?;
        if matches!(self.tokenizer, Tokenizer::Estimate(_)) {
            f.write_str(" and calibrated by the upstream's usage")?;
        }
        write!(
            f,
            "; and {} a request, {} a message",
            framing.per_request, framing.per_message
        )?;
        if framing.is_published && matches!(self.tokenizer, Tokenizer::Vocabulary(_)) {
            f.write_str(" (exact)")?;
        }
        match self.context_tokens {
            Some(tokens) => write!(f, "; at most {tokens}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_means_a_model_holds() {
        let models = Models::default();
        for (model, name) in [
            ("gpt-4o-mini", "gpt-4o*"),
            ("gpt-4", "gpt-4"),
            ("gpt-4-0613", "gpt-4-*"),
            ("gpt-4.1-nano", "gpt-4.1*"),
            ("gpt-3.5-turbo-0125", "gpt-3.5-turbo*"),
            ("o3-mini", "o3*"),
            ("claude-sonnet-4-5", "claude-*"),
            ("", "*"),
            ("mistral", "*"),
        ] {
            let rule = models.rule(models.number_of(model.as_bytes()));
            assert_eq!(rule.name.to_string(), name, "{model}");
        }
    }

    #[test]
    fn built_in_rules_are_whole_and_none_hides_another() {
        let models = Models::default();
        assert_eq!(models.iter().count(), BUILT_IN.len());
        let rules: Vec<_> = models.iter().collect();
        for (i, rule) in rules.iter().enumerate() {
            assert!(
                !rules[..i]
                    .iter()
                    .any(|earlier| earlier.name.covers(&rule.name)),
                "{rule}"
            );
            let (name, vocabulary, exact, _) = BUILT_IN[i];
            assert_eq!(rule.name.to_string(), name);
            match &rule.tokenizer {
                Tokenizer::Vocabulary(loaded) => assert!(exact && loaded.name() == vocabulary),
                Tokenizer::Estimate(like) => assert!(!exact && *like == vocabulary),
            }
        }
    }

    #[test]
    fn a_model_is_known_by_its_name_or_not_at_all() {
        let known = |model: &str| Models::built_in(model).map(|rule| rule.tokenizer.to_string());
        let vocabulary = |name: &str| Some(format!("by the vocabulary {name}"));
        assert_eq!(known("gpt-4.1"), vocabulary("o200k_base"));
        assert_eq!(known("gpt-4"), vocabulary("cl100k_base"));
        assert!(known("claude-sonnet-4-5").is_some_and(|way| way.starts_with("estimated")));
        assert_eq!(known("llama-3"), None);
    }

    #[test]
    fn names_cover_what_they_mean() {
        let covers = |a: &str, b: &str| Name::parse(a).unwrap().covers(&Name::parse(b).unwrap());
        assert!(covers("*", "a") && covers("*", "*") && covers("a*", "ab*") && covers("a", "a"));
        assert!(!covers("a", "a*") && !covers("ab*", "a*") && !covers("a", "b"));
        assert!(
            Name::parse("").is_none()
                && Name::parse("a*b").is_none()
                && Name::parse("*a").is_none()
        );
    }
}
