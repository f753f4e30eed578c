//! Keys: derivation, the store on disk, and the table that the hot path reads.

use edge_common::policy::KeyPolicy;
use edge_common::token::KeyId;
use std::sync::Arc;

/// One key as this edge knows it. Holds no API key, only what checks one.
#[derive(Clone)]
pub struct KeyRecord {
    /// Public name.
    pub id: KeyId,
    /// Label given by its maker; shown in `edge keys list`.
    pub name: String,
    /// SHA-256 of the API key.
    pub key_hash: [u8; 32],
    /// Policy at this edge's audience; `None` when the key has no MAC key for it, so that
    /// it works in the legacy lane only.
    pub policy: Option<KeyPolicy>,
    /// First good second, Unix time.
    pub not_before_s: u64,
    /// Last good second, Unix time; `u64::MAX`: no end.
    pub not_after_s: u64,
    /// The token alone is enough; no header key is asked for.
    pub alpn_only: bool,
    /// Revoked keys stay, so that refusals can say why.
    pub revoked: bool,
}

/// What changed, for those who must act on it.
#[derive(Clone)]
pub enum Change {
    /// A key is new or differs.
    Put(Arc<KeyRecord>),
    /// A key is revoked: end what it runs.
    Revoked(Arc<KeyRecord>),
    /// A key is no longer in the store.
    Removed(KeyId),
}

/// Told of every applied batch of changes, in order, from the watcher's thread.
pub trait Observer: Send + Sync {
    /// `complete` is false while the table may lack keys (an overflow of its capacity).
    fn changed(&self, changes: &[Change], complete: bool);
}
