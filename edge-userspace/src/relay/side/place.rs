//! Where in the JSON of an answer, or of one event of it, the reader is.
//!
//! By the two APIs' tables: `message`, `delta`, `content_block` and `content` of the Messages
//! API, `choices` of Chat Completions, and `usage`, which both have.

/// So deep is what matters: `choices[].delta.tool_calls[].function`.
const DEPTH: usize = 8;
/// A field's name that matters, and a little more.
const NAME_BYTES: usize = 32;

/// What an open object or array is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    Nothing,
    Root,
    /// `message` of `message_start`: has a usage.
    Message,
    Usage,
    /// `prompt_tokens_details` of a usage of Chat Completions.
    Details,
    Error,
    /// `content` of a message: blocks.
    Blocks,
    /// A content block.
    Block,
    /// A tool's input, and all that is in it.
    Input,
    /// `choices` of Chat Completions.
    Choices,
    /// One of them: has the message, or a part of it.
    Choice,
    /// A part of a block, or of a choice's message; also that whole message.
    Delta,
    /// `tool_calls` of a choice.
    Calls,
    /// One of them.
    Call,
    /// Its `function`.
    Function,
}

impl Place {
    /// What an object is that stands here under that key.
    fn object(self, key: &[u8], is_outermost: bool) -> Self {
        match (self, key) {
            _ if is_outermost => Self::Root,
            (Self::Input, _) | (Self::Block, b"input") => Self::Input,
            (Self::Root, b"message") => Self::Message,
            (Self::Root | Self::Message, b"usage") => Self::Usage,
            (Self::Usage, b"prompt_tokens_details") => Self::Details,
            (Self::Root, b"error") => Self::Error,
            (Self::Root, b"delta") | (Self::Choice, b"delta" | b"message") => Self::Delta,
            (Self::Root, b"content_block") | (Self::Blocks, _) => Self::Block,
            (Self::Choices, _) => Self::Choice,
            (Self::Calls, _) => Self::Call,
            (Self::Call, b"function") | (Self::Delta, b"function_call") => Self::Function,
            _ => Self::Nothing,
        }
    }

    /// What an array is that stands here under that key.
    fn array(self, key: &[u8]) -> Self {
        match (self, key) {
            (Self::Input, _) => Self::Input,
            (Self::Root, b"content") => Self::Blocks,
            (Self::Root, b"choices") => Self::Choices,
            (Self::Delta, b"tool_calls") => Self::Calls,
            _ => Self::Nothing,
        }
    }

    /// Whether a string that stands here under that key is of the answer's text.
    pub(super) fn has_text(self, key: &[u8]) -> bool {
        match self {
            Self::Input => true,
            Self::Block => matches!(key, b"text" | b"thinking"),
            Self::Delta => matches!(
                key,
                b"text"
                    | b"thinking"
                    | b"partial_json"
                    | b"content"
                    | b"reasoning_content"
                    | b"reasoning"
                    | b"refusal"
            ),
            Self::Function => matches!(key, b"name" | b"arguments"),
            _ => false,
        }
    }
}

/// The places from the outermost to the one that is read, and the key that was read last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    places: [Place; DEPTH],
    depth: usize,
    key: [u8; NAME_BYTES],
    key_length: usize,
}

impl Path {
    /// The innermost place.
    #[inline]
    pub(super) fn place(&self) -> Place {
        match self.depth.checked_sub(1) {
            Some(at) => self.places.get(at).copied().unwrap_or_else(|| self.deep()),
            None => Place::Nothing,
        }
    }

    /// Deeper than what matters there is only more of a tool's input.
    fn deep(&self) -> Place {
        match self.places[DEPTH - 1] {
            Place::Input => Place::Input,
            _ => Place::Nothing,
        }
    }

    /// The key of what is read; empty when it is too long to matter.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.key.get(..self.key_length).unwrap_or_default()
    }

    /// Whether it is within a choice of Chat Completions.
    pub(super) fn is_in_choice(&self) -> bool {
        self.depth > 2 && self.places[2] == Place::Choice
    }

    pub(super) fn begin_key(&mut self) {
        self.key_length = 0;
    }

    /// A key, whole.
    pub(super) fn set_key(&mut self, key: &[u8]) {
        self.begin_key();
        self.push_key(key);
    }

    #[inline]
    pub(super) fn push_key(&mut self, piece: &[u8]) {
        let from = self.key_length.min(NAME_BYTES);
        let taken = piece.len().min(NAME_BYTES - from);
        self.key[from..from + taken].copy_from_slice(&piece[..taken]);
        self.key_length += piece.len();
    }

    /// Into an object; what it is.
    pub(super) fn open_object(&mut self) -> Place {
        self.open(self.place().object(self.key(), self.depth == 0))
    }

    /// Into an array; what it is.
    pub(super) fn open_array(&mut self) -> Place {
        self.open(self.place().array(self.key()))
    }

    fn open(&mut self, place: Place) -> Place {
        if let Some(slot) = self.places.get_mut(self.depth) {
            *slot = place;
        }
        self.depth += 1;
        self.key_length = 0;
        place
    }

    /// Out of the innermost one; what it was.
    pub(super) fn close(&mut self) -> Place {
        let place = self.place();
        self.depth -= 1;
        // What comes next in an array has no key, and in an object brings its own.
        self.key_length = 0;
        place
    }
}
