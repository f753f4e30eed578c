//! What the prefixes of a prompt count: after each message, what comes before it included.

use super::tally::Texts;
use super::walk::{Marks, Seen, Walk};
use crate::config::Framing;

/// The tokens of one prompt's prefixes.
#[derive(Debug)]
pub struct Prefixes {
    marks: Marks,
    framing: Framing,
    seen: Seen,
    /// Tokens of all texts.
    texts: u64,
    /// Their bytes, where each one's part of the tokens is not known.
    bytes: Option<u64>,
    /// The first one that is told.
    from: u64,
}

impl Prefixes {
    pub(super) fn new(
        framing: Framing,
        texts: &Texts,
        walk: &mut Walk,
        known: Option<(u64, u64)>,
    ) -> Self {
        let bytes = (!walk.tally.is_exact()).then(|| walk.tally.all_bytes());
        Self {
            marks: std::mem::take(&mut walk.marks),
            framing,
            seen: walk.seen,
            texts: texts.tokens,
            bytes,
            from: known.map_or(0, |(messages, _)| messages),
        }
    }

    /// Tokens of so many messages, with all that is no message: system, tools, and their
    /// framing, but not the request's own. With it the last prefix is the whole prompt.
    ///
    /// Of a model whose tokens are estimated it is the whole estimate's part by bytes. None
    /// beyond the last message, and before the messages that were known already.
    #[must_use]
    pub fn tokens(&self, messages: u64) -> Option<u64> {
        if messages < self.from || messages > self.seen.messages {
            return None;
        }
        let (mark, last) = (self.marks.after(messages)?, self.marks.last());
        let texts = match self.bytes {
            None => self.texts - last.texts + mark.texts,
            Some(0) => 0,
            Some(all) => {
                let bytes = all - last.bytes + mark.bytes;
                (u128::from(self.texts) * u128::from(bytes) / u128::from(all)) as u64
            }
        };
        let pictures = self.seen.pictures[1] - last.pictures + mark.pictures;
        Some(texts + pictures + framing(&self.framing, &self.seen, messages, mark.names))
    }
}

/// What is around so many messages with so many names, but for the request's own.
pub(super) fn framing(framing: &Framing, seen: &Seen, messages: u64, names: u64) -> u64 {
    if !seen.has_messages {
        return 0;
    }
    let tools = if seen.tools > 0 { framing.tools } else { 0 };
    framing.per_message * messages + framing.per_name * names + tools
}
