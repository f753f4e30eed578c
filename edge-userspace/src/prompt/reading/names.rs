//! The names of a body's prefixes, and what is known of one of them.

use super::{Canonical, Model, Reading, Texts, Tokenizer, prefixes};
use crate::context::wire::Computed;
use crate::context::{Chain, Owner, Secret};

impl Reading {
    /// Its prefixes are named, by that secret.
    #[must_use]
    pub fn chained(mut self, secret: &Secret) -> Self {
        let mut canonical = Canonical::new(self.shape, secret);
        if self.canonical.is_some() {
            canonical.add_wire();
        }
        self.canonical = Some(Box::new(canonical));
        self.is_chained = true;
        self.walk.waits = true;
        self
    }

    /// The fingerprint that a client may have sent is computed.
    #[must_use]
    pub fn with_wire_form(mut self) -> Self {
        // That form has no secret.
        let canonical = || Box::new(Canonical::new(self.shape, &Secret::demonstration()));
        self.canonical.get_or_insert_with(canonical).add_wire();
        self
    }

    /// The names of the prefixes of a body that is whole, if they were asked for and it has
    /// any.
    #[must_use]
    pub fn chain(&self, secret: &Secret, owner: Owner) -> Option<Chain> {
        let canonical = self.canonical.as_ref().filter(|_| self.is_chained)?;
        let model = self.walk.model.as_deref().unwrap_or_default();
        Chain::of(canonical, secret, owner, self.rules.number(model))
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
        let begins = self.again == Some(0) && self.walk.tally.is_exact();
        if begins {
            self.known = Some((messages, tokens));
            self.walk.known = Some(messages);
        }
        begins
    }

    /// What the names take in memory besides the body, those included that
    /// [`Reading::chain`] makes of them, bytes.
    #[must_use]
    pub fn names_bytes(&self) -> usize {
        let canonical = self.canonical.as_ref();
        self.walk.marks.memory_bytes() + canonical.map_or(0, |it| it.memory_bytes())
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
