//! Where in a request a value stands, and what a value there is.

/// Which part of a prompt a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The system prompt.
    System,
    /// The definitions of tools.
    Tools,
    /// The conversation.
    Messages,
}

impl Part {
    /// Every part, in order of its number.
    pub const ALL: [Self; 3] = [Self::System, Self::Tools, Self::Messages];
}

/// An object or array of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The request itself.
    Root,
    /// Its messages.
    Messages,
    /// One of them.
    Message,
    /// A list of content blocks.
    Blocks(Part),
    /// One of them.
    Block(Part),
    /// What a picture or document is made from (Messages).
    Source(Part),
    /// An `image_url` (Chat Completions).
    Picture,
    /// The definitions of tools.
    Tools,
    /// One of them.
    Tool,
    /// Calls of tools (Chat Completions).
    Calls,
    /// One of them.
    Call,
    /// A function: its definition or its call (Chat Completions).
    Function(Part),
    /// Any JSON that the model reads as JSON.
    Json(Part),
    /// A sound or file, whose tokens nobody publishes.
    Opaque,
    /// What no model reads.
    Nothing,
}

/// What a string is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The model reads it.
    Text(Part),
    /// It does, and a name costs something of its own.
    Name(Part),
    /// The model's name.
    Model,
    /// The `type` of a block.
    BlockType,
    /// The `type` of a source.
    SourceType,
    /// What a source holds: base64 or text.
    Data(Part),
    /// A text that only the upstream can read.
    Encrypted,
    /// Something that the upstream fetches.
    Elsewhere,
    /// A picture's URL, which may hold the picture itself (RFC 2397).
    PictureUrl,
    /// A picture's `detail`.
    Detail,
    /// A number of the request itself, in quotes.
    Number,
    /// What no model reads.
    Nothing,
}

/// What a value at some place is, by what kind of value it turns out to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    pub(super) string: Use,
    pub(super) object: Place,
    pub(super) array: Place,
}

impl Meaning {
    pub(super) const NOTHING: Self = Self {
        string: Use::Nothing,
        object: Place::Nothing,
        array: Place::Nothing,
    };

    pub(super) const fn string(string: Use) -> Self {
        Self {
            string,
            ..Self::NOTHING
        }
    }

    pub(super) const fn text(part: Part) -> Self {
        Self::string(Use::Text(part))
    }

    pub(super) const fn object(object: Place) -> Self {
        Self {
            object,
            ..Self::NOTHING
        }
    }

    pub(super) const fn array(array: Place) -> Self {
        Self {
            array,
            ..Self::NOTHING
        }
    }

    /// JSON that the model reads as JSON.
    pub(super) const fn json(part: Part) -> Self {
        Self {
            string: Use::Text(part),
            object: Place::Json(part),
            array: Place::Json(part),
        }
    }

    /// A content: a string, or blocks.
    pub(super) const fn content(part: Part) -> Self {
        Self {
            string: Use::Text(part),
            object: Place::Block(part),
            array: Place::Blocks(part),
        }
    }
}
