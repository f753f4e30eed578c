//! One request as a turn of a conversation: what is known of its beginning, and what is
//! remembered of it afterwards.
//!
//! [`Contexts`] is what all threads share. A request's [`Turn`] is begun when its body has been
//! read ([`Contexts::begin`]), says where the conversation is and what of it is counted, and is
//! kept when the upstream has begun to answer ([`Turn::keep`]).

use super::hints::{Hints, Question};
use super::preheat::Preheats;
use super::slots::{Sizes, Slots, SlotsError};
use super::{Boundary, Chain, Entry, Fingerprint, Key, Owner, Secret, Tenant};
use crate::clock;
use crate::config;
use crate::telemetry::{ContextOutcome, Metrics, Preheat};
use crate::upstream::{GIVEN_UP, UpstreamId};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is remembered of conversations. Shared by all threads.
pub struct Contexts {
    secret: Secret,
    slots: Slots,
    /// The number of no upstream.
    nowhere: UpstreamId,
    hints: Option<Hints>,
    preheats: Preheats,
    metrics: Arc<Metrics>,
    /// Its clock's zero, by [`clock::monotonic`].
    started: Duration,
}

/// Why nothing can be remembered. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ContextsError {
    /// The table.
    #[error("context.table_bytes: {0}")]
    Slots(#[from] SlotsError),
    /// The system has no random numbers to give.
    #[error("no random numbers for the contexts' secret: {0}")]
    Random(getrandom::Error),
}

/// A request whose beginning has been looked up. Small, however long its conversation.
pub struct Turn {
    contexts: Arc<Contexts>,
    owner: Owner,
    found: Option<(Boundary, Entry)>,
    /// Under which prefixes it is remembered, four at most, and what each counts.
    stores: Vec<(Boundary, Option<u32>)>,
    /// Prefixes of no more messages are beginnings that others share.
    system_messages: u32,
    is_long: bool,
    head: Fingerprint,
    /// How the last user message begins.
    message: Box<[u8]>,
    /// Where a beginning that was nowhere is expected.
    expected: Cell<Option<UpstreamId>>,
    /// Since when its upstream owes an answer, by [`clock::monotonic`].
    sent: Cell<Option<Duration>>,
}

/// Compares how an answer begins with what was predicted, and learns from it.
pub struct Listening {
    contexts: Arc<Contexts>,
    question: Option<Question>,
}

impl Contexts {
    /// Empty. There are `upstreams` upstreams. None when nothing is to be remembered.
    ///
    /// # Errors
    /// When there is no memory, or no secret to be had.
    pub fn new(
        config: &config::Context,
        upstreams: u16,
        metrics: &Arc<Metrics>,
    ) -> Result<Option<Arc<Self>>, ContextsError> {
        if !config.enabled {
            return Ok(None);
        }
        let sizes = Sizes {
            bytes: config.table_bytes,
            huge_pages: config.huge_pages,
            tenant_share_per_mille: config.tenant_share_per_mille,
        };
        let hints = (config.hints).then(|| Hints::new(config.hint_entries, metrics.hints.clone()));
        Ok(Some(Arc::new(Self {
            secret: Secret::random().map_err(ContextsError::Random)?,
            slots: Slots::new(&sizes, upstreams.saturating_add(1))?,
            nowhere: UpstreamId(upstreams),
            hints,
            preheats: Preheats::new(config.preheats_per_minute),
            metrics: Arc::clone(metrics),
            started: clock::monotonic(),
        })))
    }

    /// By which prefixes are named.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The table of prefixes.
    #[must_use]
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Beginnings of answers that are remembered at most.
    #[must_use]
    pub fn hints_capacity(&self) -> u64 {
        self.hints
            .as_ref()
            .map_or(0, |hints| hints.capacity() as u64)
    }

    /// Whose a request is: of that key, in the context that its header names, if it has one.
    #[must_use]
    pub fn owner(&self, tenant: Tenant, context: Option<&[u8]>) -> Owner {
        Owner {
            tenant,
            context: context.map_or_else(Default::default, |name| self.secret.context_id(name)),
        }
    }

    /// Looks for the longest beginning of a request that is known. `chain` is none when the
    /// request has no name; then nothing is known of it, and nothing is kept.
    #[must_use]
    pub fn begin(self: &Arc<Self>, owner: Owner, chain: Option<Chain>) -> Option<Turn> {
        let Some(chain) = chain else {
            self.metrics.contexts.one(ContextOutcome::Unnamed);
            return None;
        };
        let now_s = self.now_s();
        let begun = Instant::now();
        let found = chain.probe().find_map(|boundary| {
            let entry = self.slots.find(&key(owner, boundary), now_s)?;
            Some((*boundary, entry))
        });
        self.metrics.context_look_up.observe(begun.elapsed());
        let turn = Turn {
            contexts: Arc::clone(self),
            owner,
            found,
            stores: chain.stores().map(|boundary| (*boundary, None)).collect(),
            system_messages: chain.system_messages(),
            is_long: chain.is_long(),
            head: chain.head().fingerprint,
            message: chain.into_last_user_opening(),
            expected: Cell::new(None),
            sent: Cell::new(None),
        };
        self.metrics.contexts.one(match &turn.found {
            Some(_) if turn.is_hit() => ContextOutcome::Hit,
            Some(_) => ContextOutcome::Beginning,
            None => ContextOutcome::Miss,
        });
        Some(turn)
    }

    /// So many tokens of a prompt are not counted again.
    pub fn know(&self, tokens: u64) {
        self.metrics.context_known_tokens.add((), tokens);
    }

    /// Forgets where conversations are that are at that upstream: it is gone, and its cache
    /// with it.
    pub fn forget(&self, upstream: UpstreamId) {
        self.slots.forget_upstream(upstream);
    }

    /// Where a connection is to be opened for a client that announces itself under `name`; none
    /// when the name means nothing to this key, or its warm-ups are used up.
    #[must_use]
    pub fn preheat(&self, tenant: Tenant, name: &[u8]) -> Option<UpstreamId> {
        let now_s = self.now_s();
        let (outcome, upstream) = if !self.preheats.take(tenant, now_s) {
            (Preheat::UsedUp, None)
        } else {
            let known = self.preheats.meant(tenant, name);
            match known.and_then(|key| self.slots.peek(&key, now_s)) {
                Some(entry) => (Preheat::Warmed, Some(entry.upstream)),
                None => (Preheat::Unknown, None),
            }
        };
        self.metrics.preheats.one(outcome);
        upstream
    }

    fn now_s(&self) -> u32 {
        self.seconds(clock::monotonic())
    }

    fn seconds(&self, now: Duration) -> u32 {
        // 136 years.
        u32::try_from(now.saturating_sub(self.started).as_secs()).unwrap_or(u32::MAX)
    }
}

impl Turn {
    /// Whether it goes on with a conversation that is known.
    #[must_use]
    pub fn is_hit(&self) -> bool {
        (self.found.as_ref()).is_some_and(|(boundary, _)| boundary.messages > self.system_messages)
    }

    /// Where the conversation is, and how many of its tokens are there.
    #[must_use]
    pub fn affinity(&self) -> Option<(UpstreamId, u32)> {
        let (_, entry) = self.found.as_ref()?;
        Some((entry.upstream, entry.tokens))
    }

    /// So many messages with all that is no message, and their tokens: when what was counted
    /// then is byte for byte what it would be now.
    #[must_use]
    pub fn counted(&self) -> Option<(u64, u64)> {
        let (boundary, entry) = self.found.as_ref()?;
        (entry.exact == boundary.exact && entry.tokens > 0)
            .then(|| (boundary.messages.into(), entry.tokens.into()))
    }

    /// Notes what it counts: `tokens` says it of so many of its messages, where that is known.
    pub fn count(&mut self, tokens: impl Fn(u64) -> Option<u64>) {
        for (boundary, counted) in &mut self.stores {
            *counted = tokens(boundary.messages.into()).and_then(|tokens| tokens.try_into().ok());
        }
    }

    /// Notes the name under which the client may announce its next turn.
    pub fn announce(&self, name: &[u8]) {
        if let Some((boundary, _)) = self.stores.first() {
            let key = key(self.owner, boundary);
            self.contexts.preheats.remember(name, key);
        }
    }

    /// It is sent to `upstream`. Those who begin alike and come before there is an answer are to
    /// find that place, not to have the same read in each other one.
    pub fn sent(&self, upstream: UpstreamId) {
        let now = clock::monotonic();
        self.sent.set(Some(now));
        let now_s = self.contexts.seconds(now);
        for (boundary, counted) in self.beginnings() {
            let key = key(self.owner, boundary);
            let known = self.contexts.slots.peek(&key, now_s);
            let is_somewhere = known.is_some_and(|entry| entry.upstream != self.contexts.nowhere);
            let Some(tokens) = counted.filter(|_| !is_somewhere) else {
                continue;
            };
            let entry = Entry {
                upstream,
                tokens,
                exact: boundary.exact,
                long: self.is_long,
            };
            self.contexts.slots.commit(&key, entry, now_s);
            self.expected.set(Some(upstream));
        }
    }

    /// There is an answer, of whatever kind.
    pub fn answered(&self) {
        self.sent.set(None);
    }

    /// Its upstream has failed it: the conversation is nowhere, and its next try goes to any.
    /// What it counts stays known.
    pub fn leave(&self) {
        self.answered();
        let now_s = self.contexts.now_s();
        let leave = |boundary, entry| {
            let entry = Entry {
                upstream: self.contexts.nowhere,
                ..entry
            };
            let key = key(self.owner, boundary);
            self.contexts.slots.commit(&key, entry, now_s);
        };
        if let Some(expected) = self.expected.take() {
            for (boundary, _) in self.beginnings() {
                let key = key(self.owner, boundary);
                let known = self.contexts.slots.peek(&key, now_s);
                if let Some(entry) = known.filter(|entry| entry.upstream == expected) {
                    leave(boundary, entry);
                }
            }
        }
        if let Some((boundary, entry)) = &self.found {
            leave(boundary, *entry);
        }
    }

    /// Of what it is remembered under, what it shares with others.
    fn beginnings(&self) -> impl Iterator<Item = &(Boundary, Option<u32>)> {
        let is_shared = |boundary: &Boundary| boundary.messages <= self.system_messages;
        (self.stores.iter()).filter(move |(boundary, _)| is_shared(boundary))
    }

    /// Remembers that the request went to `upstream`.
    pub fn keep(&self, upstream: UpstreamId) {
        let now_s = self.contexts.now_s();
        for (boundary, counted) in &self.stores {
            let key = key(self.owner, boundary);
            let known = self.contexts.slots.peek(&key, now_s);
            let known = known.filter(|entry| entry.exact == boundary.exact);
            // What is known already is not counted again; the number stays.
            let tokens = counted.or_else(|| known.map(|entry| entry.tokens));
            if boundary.messages <= self.system_messages {
                // A beginning is shared by many conversations: it is written when something of
                // it is new, and not without its number, which the next new one will have.
                let long = known.is_some_and(|entry| entry.long);
                let is_there = known.is_some_and(|entry| {
                    entry.upstream == upstream && Some(entry.tokens) == tokens
                });
                if tokens.is_none() || is_there && (long || !self.is_long) {
                    continue;
                }
            }
            let entry = Entry {
                upstream,
                tokens: tokens.unwrap_or(0),
                exact: boundary.exact,
                long: self.is_long,
            };
            self.contexts.slots.commit(&key, entry, now_s);
        }
    }

    /// Asks how the answer will begin; `wants`: the client wants to be told.
    #[must_use]
    pub fn ask(&self, wants: bool) -> Listening {
        let hints = self.contexts.hints.as_ref();
        Listening {
            question: hints
                .map(|hints| hints.ask(self.owner.tenant, self.head, &self.message, wants)),
            contexts: Arc::clone(&self.contexts),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if (self.sent.get()).is_some_and(|sent| clock::monotonic().saturating_sub(sent) >= GIVEN_UP)
        {
            self.leave();
        }
    }
}

impl Listening {
    /// What the client is to be told of how the answer will begin.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.question.as_ref()?.told()
    }

    /// How the answer began; nothing: with no text.
    pub fn learn(mut self, opening: &[u8]) {
        if let (Some(hints), Some(question)) = (&self.contexts.hints, self.question.take()) {
            hints.learn(&question, opening);
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let (Some(hints), Some(question)) = (&self.contexts.hints, &self.question) {
            hints.unseen(question);
        }
    }
}

fn key(owner: Owner, boundary: &Boundary) -> Key {
    Key {
        tenant: owner.tenant,
        context: owner.context,
        fingerprint: boundary.fingerprint,
    }
}
