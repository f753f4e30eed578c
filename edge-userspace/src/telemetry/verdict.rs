//! What is counted of verdicts: by reason, and by the action of a rule.

use super::series::Series;
use crate::config::Action;
use edge_common::policy::{self, Reason};

/// A verdict that userspace can give, by its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    reason: Reason,
    /// A good token, and a rule that gives its client the legacy lane all the same.
    legacy_by_rule: bool,
}

impl Verdict {
    /// Userspace sees whole hellos, so what the kernel leaves undecided is decided here.
    const ALL: [Reason; 23] = [
        Reason::Accepted,
        Reason::NoToken,
        Reason::AcmeChallenge,
        Reason::TokenMalformed,
        Reason::TokenDuplicate,
        Reason::KeyUnknown,
        Reason::TagWrong,
        Reason::KeyRevoked,
        Reason::KeyNotYetValid,
        Reason::KeyExpired,
        Reason::TokenExpired,
        Reason::TokenFromFuture,
        Reason::LegacyDenied,
        Reason::ClientDenied,
        Reason::Replayed,
        Reason::KeyRateExceeded,
        Reason::LegacyRateExceeded,
        Reason::LegacyTotalExceeded,
        Reason::Incomplete,
        Reason::HelloMalformed,
        Reason::HelloTooLong,
        Reason::PolicyIncomplete,
        Reason::ReplayTableFull,
    ];

    /// A hello with a good token that a rule sends to the legacy lane.
    pub const LEGACY_BY_RULE: Self = Self {
        reason: Reason::Accepted,
        legacy_by_rule: true,
    };

    /// The verdict of that reason. What userspace never says counts as not a hello.
    #[must_use]
    pub const fn of(reason: Reason) -> Self {
        Self {
            reason,
            legacy_by_rule: false,
        }
    }

    /// The reason's name.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        if self.legacy_by_rule {
            "client_rule"
        } else {
            self.reason.name()
        }
    }
}

impl Series for Verdict {
    fn all() -> impl Iterator<Item = Self> {
        let reasons = Self::ALL.into_iter().chain([Reason::NotHello]);
        reasons.map(Self::of).chain([Self::LEGACY_BY_RULE])
    }

    fn index(self) -> usize {
        if self.legacy_by_rule {
            return Self::ALL.len() + 1;
        }
        let known = Self::ALL.iter().position(|reason| *reason == self.reason);
        known.unwrap_or(Self::ALL.len())
    }

    fn labels(self) -> Vec<(&'static str, &'static str)> {
        let verdict = match self.reason {
            _ if self.legacy_by_rule => "legacy",
            // Without a provable token the header decides.
            Reason::HelloTooLong | Reason::PolicyIncomplete | Reason::ReplayTableFull => "legacy",
            Reason::HelloMalformed | Reason::NotHello => "reject",
            reason => match reason.verdict() {
                policy::Verdict::Accept => "accept",
                policy::Verdict::Reject => "reject",
                policy::Verdict::Legacy => "legacy",
                // The client left, or was too slow, before the hello was whole.
                policy::Verdict::Undecided
                | policy::Verdict::Pass
                | policy::Verdict::Unconnected => "undecided",
            },
        };
        vec![
            ("decided_by", "userspace"),
            ("verdict", verdict),
            ("reason", self.reason()),
        ]
    }
}

impl Series for Action {
    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    fn index(self) -> usize {
        self as usize
    }

    fn labels(self) -> Vec<(&'static str, &'static str)> {
        vec![("action", self.name())]
    }
}
