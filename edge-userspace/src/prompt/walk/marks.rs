//! What a prompt has come to after each of its messages.

use super::Seen;
use crate::context::canonical::MAX_MESSAGES;
use crate::prompt::place::Part;
use crate::prompt::tally::Tally;

/// What the messages so far come to. What stands beside them (system, tools) is not in it,
/// wherever in the request it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::prompt) struct Mark {
    /// Tokens of texts, where they are counted exactly.
    pub(in crate::prompt) texts: u64,
    /// Bytes of texts.
    pub(in crate::prompt) bytes: u64,
    /// Tokens of pictures, about.
    pub(in crate::prompt) pictures: u64,
    /// Names of authors.
    pub(in crate::prompt) names: u64,
}

/// A mark after each message, but for those beyond [`MAX_MESSAGES`].
#[derive(Debug, Default)]
pub(in crate::prompt) struct Marks {
    marks: Vec<Mark>,
    last: Mark,
    /// Pictures and names before the message that is open.
    before: (u64, u64),
    /// While texts are counted afterwards: how many marks say what they come to.
    counted: usize,
}

impl Marks {
    /// Goes to the beginning of a body.
    pub(super) fn reset(&mut self) {
        self.marks.clear();
        (self.last, self.before, self.counted) = (Mark::default(), (0, 0), 0);
    }

    pub(super) fn begin(&mut self, seen: &Seen) {
        self.before = (seen.pictures[1], seen.names);
    }

    pub(super) fn end(&mut self, seen: &Seen, tally: &Tally) {
        let (pictures, names) = self.before;
        self.last = Mark {
            texts: tally.tokens(Part::Messages),
            bytes: tally.bytes(Part::Messages),
            pictures: self.last.pictures + (seen.pictures[1] - pictures),
            names: self.last.names + (seen.names - names),
        };
        if self.marks.len() < MAX_MESSAGES {
            self.marks.push(self.last);
        }
    }

    /// The texts will be counted now, all marks being there.
    pub(in crate::prompt) fn begin_again(&mut self) {
        self.counted = 0;
    }

    /// So many messages have been counted, the last of them just now.
    pub(in crate::prompt) fn counted_to(&mut self, messages: u64, tally: &Tally) {
        let to = usize::try_from(messages)
            .unwrap_or(usize::MAX)
            .min(self.marks.len());
        let (texts, bytes) = (tally.tokens(Part::Messages), tally.bytes(Part::Messages));
        for mark in self.marks.get_mut(self.counted..to).unwrap_or_default() {
            (mark.texts, mark.bytes) = (texts, bytes);
        }
        self.counted = self.counted.max(to);
        (self.last.texts, self.last.bytes) = (texts, bytes);
    }

    /// After so many messages.
    pub(in crate::prompt) fn after(&self, messages: u64) -> Option<Mark> {
        match messages.checked_sub(1) {
            None => Some(Mark::default()),
            Some(at) => self.marks.get(usize::try_from(at).ok()?).copied(),
        }
    }

    pub(in crate::prompt) fn memory_bytes(&self) -> usize {
        self.marks.capacity() * size_of::<Mark>()
    }

    /// After all of them.
    pub(in crate::prompt) fn last(&self) -> Mark {
        self.last
    }
}
