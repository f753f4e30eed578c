//! The chain of a request's prefixes: which of them have a name, and which to look for.
//!
//! `F0 = H(tenant, context id, model, tools, system)`, `Fi = H(F(i-1), message i)`: a prefix's
//! fingerprint says what came before it too, and a longer conversation has those of a shorter
//! one it grew from. Beside each is a hash of what the prefix counts: only where that is equal
//! too, a count of its tokens that is remembered is the prefix's own.

use super::canonical::Canonical;
use super::hash::digest;
use super::{ContextId, Fingerprint, Secret, Tenant};
use edge_common::siphash::{self, siphash24_20};
use highway::Key;
use std::fmt;

/// Most prefixes that one request looks for, besides that of its beginning.
pub const MAX_PROBES: usize = 32;

/// A prefix of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Its name.
    pub fingerprint: Fingerprint,
    /// A keyed hash of all that decides what the prefix counts: texts as they are, model and
    /// tokenizer included.
    pub exact: u64,
    /// Messages in it; none in the one of model, tools and system alone.
    pub messages: u32,
}

/// The prefixes of one request.
#[derive(Clone, PartialEq, Eq)]
pub struct Chain {
    head: Boundary,
    has_head: bool,
    /// How many messages at the front are a system prompt and are followed by others.
    system_messages: u32,
    boundaries: Box<[Boundary]>,
    /// Which messages are the model's, one bit each up to the last of them.
    assistants: Vec<u64>,
    is_whole: bool,
    is_long: bool,
    opening: Box<[u8]>,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The key.
    pub tenant: Tenant,
    /// What the client calls the context.
    pub context: ContextId,
}

impl Chain {
    /// Of a request that has been read. `rules` stands for the rules by which its model's
    /// tokens are counted: other rules, another number.
    ///
    /// None when model, tools and system have no canonical form.
    pub fn of(read: &Canonical, secret: &Secret, owner: Owner, rules: u64) -> Option<Self> {
        let (key, counts) = (secret.chain(), secret.counts());
        let digests = read.head()?;
        let shape = read.shape() as u64;
        let [a, b] = digests.canonical;
        let Owner { tenant, context } = owner;
        // Longer than what a message adds, so that it is never the same.
        let mut name = hash(&key, &[tenant.0, context.0, shape, a, b, 0, 0, 0]);
        let mut exact = siphash24_20(counts, [rules << 1 | shape, 0], 0);
        exact = count(counts, exact, digests.exact);
        let head = Boundary {
            fingerprint: Fingerprint::new(name),
            exact,
            messages: 0,
        };
        let messages = read.messages();
        let mut boundaries = Vec::with_capacity(messages.len());
        let mut assistants = Vec::new();
        for (message, at) in messages.iter().zip(0_u32..) {
            if message.fault.is_some() {
                break;
            }
            let [a, b] = name;
            let [c, d] = message.digests.canonical;
            name = hash(&key, &[a, b, c, d]);
            exact = count(counts, exact, message.digests.exact);
            boundaries.push(Boundary {
                fingerprint: Fingerprint::new(name),
                exact,
                messages: at + 1,
            });
            if message.is_assistant {
                let word = at as usize / 64;
                assistants.resize(word + 1, 0);
                assistants[word] |= 1_u64 << (at % 64);
            }
        }
        let system_messages = messages.iter().take_while(|message| message.is_system);
        let system_messages = system_messages.count().min(boundaries.len());
        let is_followed = system_messages < boundaries.len();
        Some(Self {
            head,
            has_head: read.has_head(),
            system_messages: if is_followed {
                system_messages as u32
            } else {
                0
            },
            is_whole: boundaries.len() as u64 == read.message_count(),
            boundaries: boundaries.into(),
            assistants,
            is_long: read.is_long(),
            opening: read.user_opening().into(),
        })
    }

    /// The beginning: model, tools and system, without a message.
    #[must_use]
    pub fn head(&self) -> Boundary {
        self.head
    }

    /// After each message, in order. They end before a message that has no canonical form.
    #[must_use]
    pub fn boundaries(&self) -> &[Boundary] {
        &self.boundaries
    }

    /// The prefixes to look for, longest first: the whole request, unless it ends in a turn of
    /// the model, then what stands before each turn of the model, at most [`MAX_PROBES`]; last
    /// the [beginnings](Self::beginnings).
    pub fn probe(&self) -> impl Iterator<Item = &Boundary> {
        let whole = self.whole().filter(|_| !self.ends_in_assistant());
        let before = (1..self.boundaries.len()).rev();
        let before = before.filter(|at| self.is_assistant(*at));
        let before = before.map(|at| &self.boundaries[at - 1]);
        (whole.into_iter().chain(before).take(MAX_PROBES)).chain(self.beginnings())
    }

    /// The prefixes under which this request is remembered, longest first: all of it, when all
    /// of it has a canonical form; what stands before the model's turn that it ends in; last
    /// the [beginnings](Self::beginnings).
    pub fn stores(&self) -> impl Iterator<Item = &Boundary> {
        let whole = self.whole();
        let before = whole.filter(|_| self.ends_in_assistant());
        let before = before.and_then(|whole| {
            let at = whole.messages as usize;
            self.boundaries.get(at.checked_sub(2)?)
        });
        whole.into_iter().chain(before).chain(self.beginnings())
    }

    /// What it shares with all who begin alike, longest first: the system prompt, where that is
    /// messages at the front as in Chat Completions; then [`Self::beginning`].
    pub fn beginnings(&self) -> impl Iterator<Item = &Boundary> {
        let last = (self.system_messages as usize).checked_sub(1);
        let system = last.and_then(|last| self.boundaries.get(last));
        system.into_iter().chain(self.beginning())
    }

    /// Messages of the longest beginning; 0 where it has none, or is model, tools and system.
    #[must_use]
    pub fn system_messages(&self) -> u32 {
        self.system_messages
    }

    /// Whether the client asks a cache to keep it for an hour: some `cache_control` has the `ttl`
    /// `1h`.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.is_long
    }

    /// The text of the last message that a user wrote, at most
    /// [`OPENING_BYTES`](super::canonical::OPENING_BYTES) of it.
    #[must_use]
    pub fn last_user_opening(&self) -> &[u8] {
        &self.opening
    }

    /// [The same](Self::last_user_opening), to be kept.
    pub(super) fn into_last_user_opening(self) -> Box<[u8]> {
        self.opening
    }

    /// After the last message.
    #[must_use]
    pub fn whole(&self) -> Option<&Boundary> {
        self.boundaries.last().filter(|_| self.is_whole)
    }

    /// The beginning, when it has tools or a system prompt and something follows.
    #[must_use]
    pub fn beginning(&self) -> Option<&Boundary> {
        // What is around tools is counted only where there are messages.
        let is_used = self.has_head && !self.boundaries.is_empty();
        is_used.then_some(&self.head)
    }

    fn is_assistant(&self, at: usize) -> bool {
        let word = self.assistants.get(at / 64);
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn ends_in_assistant(&self) -> bool {
        let last = self.boundaries.len().checked_sub(1);
        last.is_some_and(|last| self.is_assistant(last))
    }
}

impl fmt::Debug for Chain {
    /// Without the text that it holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("head", &self.head)
            .field("boundaries", &self.boundaries)
            .finish_non_exhaustive()
    }
}

fn hash(key: &Key, words: &[u64]) -> [u64; 2] {
    digest(key, bytemuck::cast_slice(words))
}

/// Goes on to what a prefix counts with one thing more.
fn count(key: siphash::Key, before: u64, [a, b]: [u64; 2]) -> u64 {
    siphash24_20(key, [before, a], b as u32)
}
