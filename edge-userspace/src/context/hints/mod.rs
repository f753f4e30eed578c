//! How a stream will probably begin: learnt from how streams did begin, told ahead when sure.
//!
//! [`Hints::ask`] looks before a request is sent on and gives a [`Question`]; [`Hints::learn`]
//! is told what the answer began with. Every prediction is marked right or wrong, also those
//! that nobody was told, so what is told can be trusted: a tenant whose predictions of late
//! were right too seldom is told nothing until they are right again.
//!
//! A prediction goes by the context (system, tools, model: [`Fingerprint`] of its head) and by
//! the [`shape`] of the last user message: its first fifteen pieces, then its first four,
//! then the context alone. The first of these that has been seen often enough decides; when it
//! is not sure, nothing coarser is believed.
//!
//! Nothing crosses from one tenant to another: the tenant is part of an entry's identity, has
//! an accuracy of its own, and can take half of a set and a sixteenth of the table at most.
//!
//! Not here: reading the opening out of a response ([`crate::prompt`]), the header
//! ([`encode`]'s text is put there by [`crate::api`]).

mod accuracy;
mod candidate;
pub mod encode;
mod shape;
mod table;

pub use candidate::{MOST_BYTES, Text};
pub use shape::LOOKED_AT_BYTES;

use super::{Fingerprint, Tenant};
use crate::telemetry::{Counters, HintOutcome};
use accuracy::Accuracies;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use table::{Place, Table};

/// What is known of openings. Shared by all threads.
pub struct Hints {
    table: Table,
    accuracies: Accuracies,
    hasher: RandomState,
    outcomes: Counters<HintOutcome>,
}

/// A request whose answer's beginning has been asked for.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    tenant: Tenant,
    tenant_hash: u64,
    places: [Place; shape::LEVELS],
    predicted: Option<Text>,
    is_told: bool,
}

impl Question {
    /// What the client is to be told: the beginning of the answer.
    #[must_use]
    pub fn told(&self) -> Option<&str> {
        self.predicted.as_ref().filter(|_| self.is_told)?.as_str()
    }
}

impl Hints {
    /// Room for that many entries (each about 120 bytes), rounded up to whole sets.
    #[must_use]
    pub fn new(entries: usize, outcomes: Counters<HintOutcome>) -> Self {
        Self {
            table: Table::new(entries),
            accuracies: Accuracies::new(entries),
            hasher: RandomState::new(),
            outcomes,
        }
    }

    /// How many entries there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Asks how the answer will begin, given the context's head and how the last user message
    /// begins (its first [`LOOKED_AT_BYTES`] matter). `wants`: the client asked to be told.
    #[must_use]
    pub fn ask(&self, tenant: Tenant, head: Fingerprint, message: &[u8], wants: bool) -> Question {
        let tenant_hash = self.hasher.hash_one(tenant.0);
        // The head is a keyed digest already.
        let [head, _] = head.words();
        let places = shape::levels(message).map(|(level, part)| {
            let mut hasher = self.hasher.build_hasher();
            hasher.write(part);
            let key = hasher.finish() ^ head ^ (u64::from(level) << 62);
            self.table.place(mixed(key), tenant_hash)
        });
        let predicted = (places.iter())
            .find_map(|place| self.table.predict(tenant, *place))
            .flatten();
        let is_told = match predicted {
            None => {
                if wants {
                    self.outcomes.one(HintOutcome::Unsure);
                }
                false
            }
            Some(_) => {
                let is_trusted = self.accuracies.is_trusted(tenant_hash);
                if wants {
                    self.outcomes.one(if is_trusted {
                        HintOutcome::Told
                    } else {
                        HintOutcome::Withheld
                    });
                }
                wants && is_trusted
            }
        };
        Question {
            tenant,
            tenant_hash,
            places,
            predicted,
            is_told,
        }
    }

    /// The answer broke off before it could be compared with what was told of it.
    pub fn unseen(&self, question: &Question) {
        if question.is_told {
            self.outcomes.one(HintOutcome::Unseen);
        }
    }

    /// Learns how the answer did begin: its first bytes, [`MOST_BYTES`] of them unless the
    /// answer is shorter. One that began with no text makes a prediction wrong, and is nothing
    /// to learn from.
    pub fn learn(&self, question: &Question, opening: &[u8]) {
        if let Some(predicted) = &question.predicted {
            let is_right = opening.starts_with(predicted.as_bytes());
            self.accuracies.note(question.tenant_hash, is_right);
            self.outcomes.one(match (question.is_told, is_right) {
                (true, true) => HintOutcome::Right,
                (true, false) => HintOutcome::Wrong,
                (false, true) => HintOutcome::QuietlyRight,
                (false, false) => HintOutcome::QuietlyWrong,
            });
        }
        if opening.is_empty() {
            return;
        }
        for place in question.places {
            self.table.learn(question.tenant, place, opening);
        }
    }
}

/// Each bit of a number in each bit of another (Steele, Lea, Flood: SplitMix64).
fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests;
