//! What is known of a prefix, found by its key.

use crate::upstream::UpstreamId;

/// What is known of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it went last, so whose cache has it.
    pub upstream: UpstreamId,
    /// Tokens of the prefix.
    pub tokens: u32,
    /// The byte-exact hash of the prefix that `tokens` counts: for other bytes with the same
    /// fingerprint the number is an estimate.
    pub exact: u64,
    /// The hint that was learnt for it; 0: none.
    pub hint: u32,
    /// Kept for an hour after its last use, else for five minutes (`cache_control`'s `ttl`).
    pub long: bool,
}
