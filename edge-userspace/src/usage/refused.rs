//! Which limit a request met, and how long that lasts.

use crate::telemetry::QuotaLimit;
use std::time::Duration;

/// A request is over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which.
    pub limit: QuotaLimit,
    /// How much it allows.
    pub allowed: u64,
    /// When it is over it no more.
    pub until: Until,
}

/// When a request that is refused will fit, if nothing else of its key comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// In so long, when the bucket has as much.
    Filled {
        /// How much it needs.
        needed: u64,
        /// How much of the limit is left.
        left: u64,
        /// How much more than the limit has been used.
        owed: u64,
        /// In how long the bucket has as much.
        after: Duration,
    },
    /// In so long, when the bucket is full: it needs `needed`, more than the bucket holds.
    Full {
        /// How much it needs.
        needed: u64,
        /// In how long the bucket is full.
        after: Duration,
    },
    /// When requests that run have ended.
    OthersEnd,
    /// When the next day begins, in so long.
    NextDay {
        /// What it needs; nothing of one that would meet the end of the day whatever it is.
        needs: OfDay,
        /// How much of the day is left.
        left: u64,
        /// In how long the next day begins.
        after: Duration,
    },
    /// Never: it needs more than a day has.
    Never(OfDay),
}

/// What a request needs of a day, tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfDay {
    /// For its prompt.
    pub prompt: u64,
    /// For the most that its answer may have; 0 of a stream.
    pub answer: u64,
}

impl OfDay {
    /// All that it needs.
    #[must_use]
    pub fn sum(self) -> u64 {
        self.prompt.saturating_add(self.answer)
    }
}

impl Refused {
    /// Whether another try may fit soon, here or at another node.
    #[must_use]
    pub fn is_soon_over(&self) -> bool {
        !matches!(self.until, Until::NextDay { .. } | Until::Never(_))
    }
}
