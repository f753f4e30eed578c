//! Keys: derivation, the store on disk, and the table that the hot path reads.
//!
//! [`derive`] is the cryptography, which clients use too, [`store`] the journal on disk, [`table`] the snapshot in
//! memory, [`watch`] carries changes from the one to the other.

pub mod store;
pub mod table;
pub mod watch;

pub use edge_client::derive;
pub use table::{Edit, Keyring, Refused, Snapshot};

use crate::config::Name;
use crate::secret::KeyHash;
use edge_common::policy::KeyPolicy;
use edge_common::token::KeyId;
use std::sync::Arc;
use zeroize::Zeroize as _;

/// One key as this edge knows it. Holds no API key, only what checks one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Public name.
    pub id: KeyId,
    /// Label given by its maker; shown in `edge keys list`.
    pub name: Box<str>,
    /// SHA-256 of the API key.
    pub key_hash: KeyHash,
    /// Policy at this edge's audience; `None` when the key has no MAC key for it: it is for
    /// other edges, and refused here, in a header too.
    pub policy: Option<KeyPolicy>,
    /// First good second, Unix time.
    pub not_before_s: u64,
    /// Last good second, Unix time; `u64::MAX`: no end.
    pub not_after_s: u64,
    /// The token alone is enough; no header key is asked for.
    pub alpn_only: bool,
    /// Its own rates, where they are not those of all keys.
    pub rates: Rates,
    /// Most tokens of one prompt. None: as the configuration says for all keys; 0: no limit of
    /// its own.
    pub max_prompt_tokens: Option<u64>,
    /// How much it may use, and of what. None: as the configuration says, and all models.
    pub allowance: Option<Box<Allowance>>,
    /// Revoked keys stay, so that refusals can say why.
    pub revoked: bool,
}

/// A key's own rates. None: as the configuration says for all keys; 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rates {
    /// Connections a second, beyond which requests get a 429.
    pub connections_per_second: Option<u32>,
    /// Connections a second, beyond which they are refused.
    pub connections_per_second_hard: Option<u32>,
}

/// How much a key may use, and of what. Most keys have none of their own, so records have it in
/// a box.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Allowance {
    /// How much.
    pub quotas: Quotas,
    /// Which models; empty: all.
    pub models: Box<[Name]>,
}

impl Allowance {
    /// In its box; none when it says nothing.
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Of a record.
    #[must_use]
    pub fn of(allowance: &Option<Box<Self>>) -> Self {
        allowance.as_deref().cloned().unwrap_or_default()
    }
}

/// How much a key may use. None: as the configuration says for all keys; 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Quotas {
    /// Requests a minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens of prompts a minute.
    pub input_tokens_per_minute: Option<u64>,
    /// Tokens of answers a minute.
    pub output_tokens_per_minute: Option<u64>,
    /// Requests that run at a time.
    pub concurrent_requests: Option<u64>,
    /// Tokens of prompts and answers a UTC day.
    pub tokens_per_day: Option<u64>,
}

impl Quotas {
    /// The largest that can be said.
    pub const MOST: u64 = 1_000_000_000_000;
    /// Their names, in the order of [`Quotas::values`].
    pub const NAMES: [&str; 5] = [
        "requests_per_minute",
        "input_tokens_per_minute",
        "output_tokens_per_minute",
        "concurrent_requests",
        "tokens_per_day",
    ];

    /// All of them.
    #[must_use]
    pub const fn values(&self) -> [Option<u64>; 5] {
        [
            self.requests_per_minute,
            self.input_tokens_per_minute,
            self.output_tokens_per_minute,
            self.concurrent_requests,
            self.tokens_per_day,
        ]
    }

    /// From all of them.
    #[must_use]
    pub const fn of(values: [Option<u64>; 5]) -> Self {
        let [
            requests_per_minute,
            input_tokens_per_minute,
            output_tokens_per_minute,
            concurrent_requests,
            tokens_per_day,
        ] = values;
        Self {
            requests_per_minute,
            input_tokens_per_minute,
            output_tokens_per_minute,
            concurrent_requests,
            tokens_per_day,
        }
    }

    /// These, and from `others` those that these leave to the configuration.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        let (own, others) = (self.values(), others.values());
        Self::of(std::array::from_fn(|at| own[at].or(others[at])))
    }
}

impl KeyRecord {
    /// How much the key may use, where that is not as for all keys.
    #[must_use]
    pub fn quotas(&self) -> Quotas {
        let allowance = self.allowance.as_deref();
        allowance.map_or_else(Quotas::default, |allowance| allowance.quotas)
    }

    /// Whether the key may use every model.
    #[must_use]
    pub fn allows_all_models(&self) -> bool {
        (self.allowance.as_ref()).is_none_or(|allowance| allowance.models.is_empty())
    }

    /// Whether the key may use that model.
    #[must_use]
    pub fn allows_model(&self, model: &[u8]) -> bool {
        let allowance = self.allowance.as_deref();
        let models = allowance.map_or(&[][..], |allowance| &allowance.models);
        models.is_empty() || models.iter().any(|name| name.matches(model))
    }
}

impl Rates {
    /// These, and from `others` those that these leave to the configuration.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            connections_per_second: (self.connections_per_second).or(others.connections_per_second),
            connections_per_second_hard: (self.connections_per_second_hard)
                .or(others.connections_per_second_hard),
        }
    }
}

impl Drop for KeyRecord {
    fn drop(&mut self) {
        if let Some(policy) = &mut self.policy {
            policy.mac_key.zeroize();
        }
    }
}

/// What changed, for those who must act on it.
#[derive(Clone, Debug)]
pub enum Change {
    /// A key is new or differs, and is not revoked.
    Put(Arc<KeyRecord>),
    /// A key is revoked: end what it runs. The record says so too.
    Revoked(Arc<KeyRecord>),
    /// A key is no longer in the store: end what it runs.
    Removed(KeyId),
}

/// Told of every applied batch of changes, in order, after the table has them.
pub trait Observer: Send + Sync {
    /// `complete` is false while the table may lack keys (an overflow of its capacity).
    fn changed(&self, changes: &[Change], complete: bool);
}
