//! Where the texts of a body lie that are counted when all of it has come: so they are found
//! again without reading the rest once more.
//!
//! Not here: who goes through them ([`crate::prompt::reading`]).

use crate::prompt::place::Part;

/// So many are noted. Of a body with more all is read once more.
const MOST: usize = 8192;

/// A text of a body: a value of its JSON, its quotes or brackets included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::prompt) struct Span {
    /// Where it begins, bytes from the body's beginning.
    pub(in crate::prompt) from: u64,
    /// Behind its last byte.
    pub(in crate::prompt) to: u64,
    pub(in crate::prompt) part: Part,
    /// Messages that had begun when it did.
    pub(in crate::prompt) messages: u64,
    /// None: a string. Else it is an object or array, which is counted as JSON of so many
    /// bytes.
    pub(in crate::prompt) json_bytes: Option<u64>,
}

/// Those of one body, in order.
#[derive(Debug, Default)]
pub(in crate::prompt) struct Spans {
    spans: Vec<Span>,
    is_lost: bool,
}

impl Spans {
    pub(super) fn push(&mut self, span: Span) {
        if self.spans.len() == MOST {
            self.lose();
        }
        if !self.is_lost {
            self.spans.push(span);
        }
    }

    /// There is something in the body that they do not say.
    pub(in crate::prompt) fn lose(&mut self) {
        self.is_lost = true;
        self.spans = Vec::new();
    }

    /// Goes to the beginning of a body.
    pub(super) fn begin(&mut self) {
        self.spans.clear();
        self.is_lost = false;
    }

    /// All of them; none when they do not say everything.
    pub(in crate::prompt) fn all(&self) -> Option<&[Span]> {
        (!self.is_lost).then_some(&self.spans)
    }

    pub(in crate::prompt) fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }
}

impl Span {
    /// Whether it belongs to the first messages, or to no message.
    pub(in crate::prompt) fn is_within(&self, messages: u64) -> bool {
        self.part != Part::Messages || self.messages <= messages
    }
}
