//! Where in a request a value stands, as far as its canonical form depends on it.

use super::cell::Cell;
use crate::prompt::Shape;

/// An object or array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The request itself.
    Root,
    Messages,
    Message,
    /// A list of content blocks.
    Blocks(Whose),
    Block(Whose),
    /// What a picture, document or search result is made from.
    Source(Whose),
    Tools,
    Tool,
    /// Calls of tools (Chat Completions).
    Calls,
    Call,
    /// A function: its definition or its call (Chat Completions).
    Function,
    /// Where every value counts.
    Json,
}

/// Whose content blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    System,
    Message,
}

/// What a value of the request itself is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Model,
    System,
    Messages,
    Tools,
    /// It is counted, but names no prefix.
    Counted,
    Nothing,
}

pub(super) mod key {
    use super::Cell;

    pub(in super::super) const CONTENT: Cell = Cell::short("content");
    pub(in super::super) const ROLE: Cell = Cell::short("role");
    pub(in super::super) const SOURCE: Cell = Cell::short("source");
    pub(in super::super) const TEXT: Cell = Cell::short("text");
    pub(in super::super) const TYPE: Cell = Cell::short("type");
    pub(in super::super) const ARGUMENTS: Cell = Cell::short("arguments");
    pub(in super::super) const CACHE_CONTROL: Cell = Cell::short("cache_control");
    pub(in super::super) const SIGNATURE: Cell = Cell::short("signature");
    pub(in super::super) const IS_ERROR: Cell = Cell::short("is_error");
    pub(super) const TOOL_CALLS: Cell = Cell::short("tool_calls");
    pub(super) const FUNCTION_CALL: Cell = Cell::short("function_call");
    pub(super) const FUNCTION: Cell = Cell::short("function");
    pub(super) const CUSTOM: Cell = Cell::short("custom");
}

/// Of a message of Chat Completions: what an answer has and a request may leave away.
const ANSWERS_ONLY: [Cell; 4] = [
    Cell::short("reasoning_content"),
    Cell::short("reasoning"),
    Cell::short("reasoning_details"),
    Cell::short("annotations"),
];

/// Types of blocks that hold what the model thought.
pub(super) const THINKING: [Cell; 3] = [
    Cell::short("thinking"),
    Cell::short("redacted_thinking"),
    Cell::short("reasoning"),
];

pub(super) fn head(shape: Shape, key: Cell) -> Head {
    const MODEL: Cell = Cell::short("model");
    const MESSAGES: Cell = Cell::short("messages");
    const SYSTEM: Cell = Cell::short("system");
    const TOOLS: Cell = Cell::short("tools");
    const FUNCTIONS: Cell = Cell::short("functions");
    const OUTPUT_FORMAT: Cell = Cell::short("output_format");
    const OUTPUT_CONFIG: Cell = Cell::short("output_config");
    const RESPONSE_FORMAT: Cell = Cell::short("response_format");
    match (shape, key) {
        (_, MODEL) => Head::Model,
        (_, MESSAGES) => Head::Messages,
        (_, TOOLS) | (Shape::Chat, FUNCTIONS) => Head::Tools,
        (Shape::Messages, SYSTEM) => Head::System,
        (Shape::Messages, OUTPUT_FORMAT | OUTPUT_CONFIG) => Head::Counted,
        (Shape::Chat, RESPONSE_FORMAT) => Head::Counted,
        _ => Head::Nothing,
    }
}

/// What a message of Chat Completions holds that its next request may leave away.
#[inline]
pub(super) fn is_answers_only(shape: Shape, place: Place, key: Cell) -> bool {
    shape == Shape::Chat && place == Place::Message && ANSWERS_ONLY.contains(&key)
}

impl Place {
    /// The place of an object or array that is a value here. None: it is passed over.
    pub(super) fn inner(self, shape: Shape, key: Cell, is_object: bool) -> Option<Self> {
        let is_chat = shape == Shape::Chat;
        let content = |whose| match is_object {
            true => Self::Block(whose),
            false => Self::Blocks(whose),
        };
        Some(match (self, is_object) {
            (Self::Root, _) => match (head(shape, key), is_object) {
                (Head::Messages, false) => Self::Messages,
                (Head::System, _) => content(Whose::System),
                (Head::Tools, false) => Self::Tools,
                (Head::Tools | Head::Counted | Head::Model, _) => Self::Json,
                (Head::Messages | Head::Nothing, _) => return None,
            },
            (Self::Messages, true) => Self::Message,
            (Self::Messages, false) => return None,
            (Self::Message, _) if key == key::CONTENT => content(Whose::Message),
            (Self::Message, false) if is_chat && key == key::TOOL_CALLS => Self::Calls,
            (Self::Message, true) if is_chat && key == key::FUNCTION_CALL => Self::Function,
            (Self::Blocks(whose), true) => Self::Block(whose),
            (Self::Block(whose) | Self::Source(whose), _) if key == key::CONTENT => content(whose),
            (Self::Block(whose), true) if key == key::SOURCE => Self::Source(whose),
            (Self::Tools, true) => Self::Tool,
            (Self::Calls, true) => Self::Call,
            (Self::Tool | Self::Call, true)
                if is_chat && (key == key::FUNCTION || key == key::CUSTOM) =>
            {
                Self::Function
            }
            _ => Self::Json,
        })
    }

    /// Whether the order of keys changes no count: each value is counted by itself.
    pub(super) fn is_free(self) -> bool {
        !matches!(self, Self::Json | Self::Source(_))
    }

    /// Whether a value that is `null` is as good as none here.
    pub(super) fn drops_null(self) -> bool {
        !matches!(
            self,
            Self::Json | Self::Messages | Self::Blocks(_) | Self::Tools | Self::Calls
        )
    }

    /// Whether a mark for caches may stand here.
    pub(super) fn has_cache_marks(self) -> bool {
        matches!(
            self,
            Self::Message | Self::Block(_) | Self::Tool | Self::Function
        )
    }
}
