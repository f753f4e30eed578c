//! Which limit a request met.

use crate::telemetry::QuotaLimit;

/// A request is over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which.
    pub limit: QuotaLimit,
    /// How much it allows.
    pub allowed: u64,
}
