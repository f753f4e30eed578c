//! The names of a body's prefixes, and what is known of one of them.

use super::{Canonical, Model, Reading, Texts, Tokenizer, prefixes};
use crate::context::wire::Computed;
use crate::context::{Chain, Owner, Secret};

impl Reading {
    /// Its prefixes are named, by that secret.
    #[must_use]
    pub fn chained(mut self: Box<Self>, secret: &Secret) -> Box<Self> {
        let has_wire = self.canonical.is_some();
        let canonical = self.begin_canonical(secret);
        if has_wire {
            canonical.add_wire();
        }
        self.is_chained = true;
        self.walk.waits = true;
        self
    }

    /// The fingerprint that a client may have sent is computed.
    #[must_use]
    pub fn with_wire_form(mut self: Box<Self>) -> Box<Self> {
        // That form has no secret.
        let canonical = match self.canonical.is_some() {
            true => self.canonical.as_mut(),
            false => Some(self.begin_canonical(&Secret::demonstration())),
        };
        if let Some(canonical) = canonical {
            canonical.add_wire();
        }
        self
    }

    /// Nothing of them stays, but the memory.
    pub(super) fn erase_names(&mut self) {
        if let Some(mut canonical) = self.canonical.take() {
            canonical.erase();
            self.spare = Some(canonical);
        }
    }

    fn begin_canonical(&mut self, secret: &Secret) -> &mut Box<Canonical> {
        self.erase_names();
        let used = self.spare.take();
        self.canonical.insert(match used {
            None => Box::new(Canonical::new(self.shape, secret)),
            Some(mut used) => {
                used.start_over(self.shape, secret);
                used
            }
        })
    }

    /// The names of the prefixes of a body that is whole, if they were asked for and it has
    /// any.
    #[must_use]
    pub fn chain(&self, secret: &Secret, owner: Owner) -> Option<Chain> {
        let canonical = self.canonical.as_ref().filter(|_| self.is_chained)?;
        Chain::of(
            canonical,
            secret,
            owner,
            self.rules.number(self.walk.rule()),
        )
    }

    /// The fingerprint of a body that is whole, once, if it was asked for.
    #[must_use]
    pub fn wire_form(&mut self) -> Option<Computed> {
        self.canonical.as_mut()?.wire_form()
    }

    /// So many messages, with all that is no message, come to so many tokens, the request's own
    /// framing apart, as [`Prefixes::tokens`] says it. To be told when the body is whole and
    /// before the next [`Reading::go_on`], of a prefix that counts exactly what the one did
    /// that it is known of. Whether anything is saved by it.
    pub fn know(&mut self, messages: u64, tokens: u64) -> bool {
        let begins = self.again == Some(0) || self.replay_begins();
        let begins = begins && self.walk.tally.is_exact();
        if begins {
            self.known = Some((messages, tokens));
            // Who goes through them where they lie passes them over.
            self.walk.known = self.again.map(|_| messages);
        }
        begins
    }

    /// What the names take in memory besides the body, those included that
    /// [`Reading::chain`] makes of them, bytes.
    #[must_use]
    pub fn names_bytes(&self) -> usize {
        let canonical = self.canonical.as_ref();
        self.walk.memory_bytes() + canonical.map_or(0, |it| it.memory_bytes())
    }

    /// Whether texts are not counted before all have come.
    pub(super) fn waits(&self) -> bool {
        self.is_chained && matches!(self.rule().tokenizer, Tokenizer::Vocabulary(_))
    }

    /// All texts; none when what is said to be known cannot be so.
    pub(super) fn texts(&self) -> Option<Texts> {
        let Some((messages, tokens)) = self.known else {
            return Some(self.walk.tally.texts());
        };
        let others = self.beside_texts(self.rule(), messages)?;
        let known = tokens.checked_sub(others)?;
        Some(self.walk.tally.texts_with(known))
    }

    /// What a prefix comes to but for its texts.
    fn beside_texts(&self, rule: &Model, messages: u64) -> Option<u64> {
        let (mark, seen) = (self.walk.marks.after(messages)?, &self.walk.seen);
        let outside = seen.pictures[1] - self.walk.marks.last().pictures;
        Some(outside + mark.pictures + prefixes::framing(&rule.framing, seen, messages, mark.names))
    }
}
