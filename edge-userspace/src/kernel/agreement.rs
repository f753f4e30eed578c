//! Whether the kernel half and the daemon say the same of one hello.
//!
//! Both have the same scanner and the same judge, but one sees packets and the other a
//! stream. When the kernel half has judged a connection whose whole hello the daemon has read,
//! what does not depend on other connections is compared, at the instant at which the kernel
//! judged: the token found or not, its key, its tag, its days, its window. Not here: what a
//! difference leads to; the daemon's verdict holds.

use super::flows::{FlowTable, Look};
use super::pulse::{Offsets, monotonic_ns};
use edge_common::flow::FlowKey;
use edge_common::policy::{Reason, Verdict};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The kernel's coarse clock lags behind by one tick at most (CONFIG_HZ=100), and its idea of
/// wall-clock time by what the clock is slewed between two beats.
const TICK_NS: u64 = 20_000_000;
/// A verdict that is older when the hello has been read is another connection's that had the
/// same addresses, and whose entry a SYN should have emptied.
const OLDEST_NS: u64 = 60_000_000_000;

/// Compares, and counts what it finds.
pub struct Agreement {
    flows: Arc<FlowTable>,
    offsets: Arc<Offsets>,
    followed: Arc<Followed>,
    outcomes: [AtomicU64; Outcome::ALL.len()],
    /// Differences: the kernel's reason by row, ours by column.
    differences: Box<[AtomicU64]>,
}

/// What a comparison gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// The same.
    Agreed,
    /// Not the same, and nothing explains it: a fault of one of the two.
    Differed,
    /// Not the same, and keys or settings changed between the two.
    Changed,
    /// The kernel had not decided: it passed the hello on to us.
    Undecided,
    /// The kernel has no entry for the connection, or not for long enough to be read.
    Unknown,
}

/// A difference, to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What the kernel half said.
    pub kernel: Reason,
    /// What we say, at the same instant.
    pub userspace: Reason,
}

/// Comparisons so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparisons {
    /// `[outcome, count]`, every outcome.
    pub outcomes: Vec<(&'static str, u64)>,
    /// `[kernel, userspace, count]` of each pair of reasons that differed.
    pub differences: Vec<(&'static str, &'static str, u64)>,
}

/// When the kernel half's keys and settings changed last.
#[derive(Debug, Default)]
pub(super) struct Followed {
    at_ns: AtomicU64,
    is_following: AtomicBool,
}

impl Followed {
    /// A change begins to reach the kernel half.
    pub(super) fn begin(&self) {
        self.is_following.store(true, Ordering::Release);
    }

    /// It has reached it.
    pub(super) fn end(&self) {
        self.at_ns.store(monotonic_ns(), Ordering::Release);
        self.is_following.store(false, Ordering::Release);
    }

    /// Whether the kernel half may have judged at `judged_ns` by other keys than those that
    /// were published here at `published_ns`.
    fn explains(&self, judged_ns: u64, published_ns: u64) -> bool {
        // Read in this order: an end between the two shows in the time.
        let is_following = self.is_following.load(Ordering::Acquire);
        let at_ns = self.at_ns.load(Ordering::Acquire);
        is_following || at_ns < published_ns || judged_ns <= at_ns.saturating_add(TICK_NS)
    }
}

impl Outcome {
    /// Every outcome, in order of place.
    pub const ALL: &[Self] = &[
        Self::Agreed,
        Self::Differed,
        Self::Changed,
        Self::Undecided,
        Self::Unknown,
    ];

    /// The outcome's name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Agreed => "agreed",
            Self::Differed => "differed",
            Self::Changed => "changed",
            Self::Undecided => "undecided",
            Self::Unknown => "unknown",
        }
    }
}

impl Agreement {
    pub(super) fn new(
        flows: Arc<FlowTable>,
        offsets: Arc<Offsets>,
        followed: Arc<Followed>,
    ) -> Self {
        let reasons = Reason::ALL.len();
        Self {
            flows,
            offsets,
            followed,
            outcomes: Default::default(),
            differences: (0..reasons * reasons).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Compares the kernel's verdict on `flow` with `judge`, which judges the whole hello at a
    /// second of Unix time by the keys that were published at `published_ns`
    /// (CLOCK_MONOTONIC). A difference is counted and returned.
    pub fn compare(
        &self,
        flow: &FlowKey,
        published_ns: u64,
        judge: impl Fn(u64) -> Reason,
    ) -> Option<Difference> {
        let (outcome, difference) = self.look(flow, published_ns, judge);
        self.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(difference) = difference {
            let place =
                difference.kernel as usize * Reason::ALL.len() + difference.userspace as usize;
            self.differences[place].fetch_add(1, Ordering::Relaxed);
        }
        difference
    }

    fn look(
        &self,
        flow: &FlowKey,
        published_ns: u64,
        judge: impl Fn(u64) -> Reason,
    ) -> (Outcome, Option<Difference>) {
        let Look::Found(found) = self.flows.find(flow) else {
            return (Outcome::Unknown, None);
        };
        let Some(kernel) = found.reason else {
            return (Outcome::Undecided, None);
        };
        if monotonic_ns().saturating_sub(found.judged_ns) > OLDEST_NS {
            return (Outcome::Unknown, None);
        }
        if says(kernel).is_none() {
            return (Outcome::Undecided, None);
        }
        let mut userspace = None;
        for offset_ns in self.offsets.get() {
            let at_ns = found.judged_ns.wrapping_add(offset_ns);
            for at_ns in [
                at_ns,
                at_ns.wrapping_sub(TICK_NS),
                at_ns.wrapping_add(TICK_NS),
            ] {
                let reason = judge(at_ns / 1_000_000_000);
                if !differ(kernel, reason) {
                    return (Outcome::Agreed, None);
                }
                userspace.get_or_insert(reason);
            }
        }
        if self.followed.explains(found.judged_ns, published_ns) {
            return (Outcome::Changed, None);
        }
        let userspace = userspace.unwrap_or(kernel);
        (Outcome::Differed, Some(Difference { kernel, userspace }))
    }

    /// The comparisons so far.
    #[must_use]
    pub fn get(&self) -> Comparisons {
        let outcomes = Outcome::ALL.iter().map(|outcome| {
            let count = self.outcomes[*outcome as usize].load(Ordering::Relaxed);
            (outcome.name(), count)
        });
        let reasons = Reason::ALL.len();
        let differences = (self.differences.iter().enumerate()).filter_map(|(place, count)| {
            let count = count.load(Ordering::Relaxed);
            let [kernel, userspace] =
                [place / reasons, place % reasons].map(|i| Reason::ALL[i].name());
            (count > 0).then_some((kernel, userspace, count))
        });
        Comparisons {
            outcomes: outcomes.collect(),
            differences: differences.collect(),
        }
    }
}

/// What a verdict says of the hello alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// It offers no token.
    NoToken,
    /// Its token is good.
    Good,
    /// This, and nothing else has it.
    This(Reason),
}

/// What a reason says of the hello alone; nothing when it says nothing of its content.
fn says(reason: Reason) -> Option<Says> {
    match reason {
        Reason::Accepted | Reason::Replayed | Reason::KeyRateExceeded => Some(Says::Good),
        Reason::LegacyDenied | Reason::LegacyRateExceeded | Reason::LegacyTotalExceeded => {
            Some(Says::NoToken)
        }
        // A rule about the client, whatever its token; and what is no hello at all.
        Reason::ClientDenied | Reason::NotTls => None,
        Reason::NoToken | Reason::AcmeChallenge => Some(Says::This(reason)),
        _ if reason.verdict() == Verdict::Reject => Some(Says::This(reason)),
        _ => None,
    }
}

/// Whether the kernel's reason contradicts ours, which is on the whole hello: one that cannot
/// be judged contradicts every verdict.
fn differ(kernel: Reason, userspace: Reason) -> bool {
    let Some(said) = says(kernel) else {
        return false;
    };
    match says(userspace) {
        Some(say) => !(said == say || either_way(said, say) || either_way(say, said)),
        // Passed over for another cause than what it says.
        None => !matches!(userspace, Reason::ClientDenied | Reason::ReplayTableFull),
    }
}

/// A refusal for want of a token is not told apart from a challenge that has none.
fn either_way(refused: Says, other: Says) -> bool {
    refused == Says::NoToken && matches!(other, Says::This(Reason::NoToken | Reason::AcmeChallenge))
}

#[cfg(test)]
mod tests;
