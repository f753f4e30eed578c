//! What the canonical form leaves out, and why.

use super::tree::Fault;

/// Why something is no part of the canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// `cache_control`
    CacheMark,
    /// A block of thinking, whole.
    Thinking,
    /// A block's `signature`.
    Signature,
    /// A line of the first system block that begins with `x-anthropic-billing-header`.
    BillingLine,
    /// A key whose value is `null`.
    Null,
    /// `is_error: false`
    NoError,
    /// What only an answer has: reasoning, annotations.
    AnswersOnly,
}

impl LeftOut {
    /// As `edge fingerprint --json` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CacheMark => "cache_control",
            Self::Thinking => "thinking",
            Self::Signature => "signature",
            Self::BillingLine => "billing_line",
            Self::Null => "null",
            Self::NoError => "is_error_false",
            Self::AnswersOnly => "answers_only",
        }
    }

    /// Why, in words.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::CacheMark => "clients move the mark from turn to turn",
            Self::Thinking => "clients drop it in later turns, and so does the model's API",
            Self::Signature => "it signs thinking, and is no part of the conversation",
            Self::BillingLine => "it is another one in every request",
            Self::Null => "a key with null is as good as none",
            Self::NoError => "false is what holds without it",
            Self::AnswersOnly => "answers have it, and later requests may leave it away",
        }
    }
}

/// Which part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// The system prompt.
    System,
    /// The definitions of tools.
    Tools,
    /// The message of that number, from 0.
    Message(u32),
}

/// Something that is not in the canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where it stands.
    pub part: Where,
    /// In which block, or which tool, from 0.
    pub block: Option<u32>,
    /// What it is.
    pub what: LeftOut,
}

/// Notes of one request, when they are asked for.
#[derive(Debug, Default)]
pub struct Notes {
    /// The first of them, [`Notes::MOST`] at most.
    pub notes: Vec<Note>,
    /// How many more there are.
    pub more: u64,
    /// Why the beginning (model, tools, system) has no canonical form.
    pub head_fault: Option<Fault>,
    /// Which message has none, from 0, and why.
    pub message_fault: Option<(u32, Fault)>,
}

impl Notes {
    /// As many are kept.
    pub const MOST: usize = 1000;

    pub(super) fn push(&mut self, note: Note) {
        if self.notes.len() < Self::MOST {
            self.notes.push(note);
        } else {
            self.more += 1;
        }
    }
}
