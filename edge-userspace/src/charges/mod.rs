//! What connections are charged, in one place and once each: a token is used up, a key's
//! rate, a source prefix's rate, and that of all without a token together.
//!
//! [`Charges`] owns the tables. With the kernel half they lie in BPF arrays, which it
//! looks at to refuse what would be refused here, and never writes but for a word of its
//! own a bucket; without it, in ordinary memory. [`Limits`] is what they are charged
//! against, and changes while the daemon runs.
//! Not here: the stateless verdict ([`edge_common::policy::judge`]), and what a verdict
//! leads to ([`crate::listener`]).

mod key_buckets;
mod limits;
mod prefixes;
mod replay;
mod total;
mod upkeep;

pub use key_buckets::KeyBuckets;
pub use limits::Limits;
pub use prefixes::{Charged as LegacyCharge, Prefixes};
pub use replay::{Replay, Use};
pub use total::Total;

use crate::clock;
use crate::config::Config;
use crate::kernel::memory::Memory;
use crate::kernel::{self, ProgramError};
use crate::keys::{Change, KeyRecord, Keyring, Observer};
use arc_swap::ArcSwap;
use aya::maps::MapData;
use edge_common::flow::FlowKey;
use edge_common::token::{KeyId, Token};
use edge_common::{prefix, replay as layout, siphash, total as total_layout};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The tables, and what is charged against.
pub struct Charges {
    replay: Replay,
    prefixes: Prefixes,
    buckets: KeyBuckets,
    total: Total,
    secret: siphash::Key,
    limits: ArcSwap<Limits>,
    keyring: Arc<Keyring>,
}

/// How large the tables are: numbers of sets and of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Sets of the replay table, a power of two.
    pub replay_sets: u32,
    /// Sets of the prefix table, a power of two.
    pub prefix_sets: u32,
    /// Key buckets.
    pub keys: u32,
}

/// Where the tables lie.
pub struct Tables {
    /// The replay table's sets.
    pub replay: Memory,
    /// The prefix table's sets.
    pub prefixes: Memory,
    /// The key buckets.
    pub key_buckets: Memory,
    /// The bucket of all connections without a token.
    pub legacy_total: Memory,
}

/// The two clocks that charges go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Unix time, seconds: what tokens are issued by.
    pub unix_s: u64,
    /// CLOCK_MONOTONIC, nanoseconds: what rates go by.
    pub monotonic_ns: u64,
}

/// What came of a connection with a good token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCharge {
    /// Its first use, within the key's rates.
    Granted,
    /// Its first use, over the soft rate: requests get a 429.
    OverRate,
    /// Another connection used it.
    Replayed,
    /// It cannot be remembered, so it proves nothing; nothing is charged.
    TableFull,
    /// Over the hard rate.
    OverHardRate,
}

/// What `/status` and `/metrics` show of the tables.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// What is charged against, now.
    pub limits: Limits,
    /// Used tokens that are remembered.
    pub replay_entries: u64,
    /// Places for them.
    pub replay_capacity: u64,
    /// Good tokens that could not be remembered.
    pub replay_full: u64,
    /// Source prefixes with a bucket in use.
    pub prefix_entries: u64,
    /// Places for them.
    pub prefix_capacity: u64,
    /// Buckets in use that another prefix took.
    pub prefix_evicted: u64,
    /// Keys with a bucket.
    pub key_buckets: u64,
    /// Places for them.
    pub key_buckets_capacity: u64,
}

/// Why there are no tables.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
    /// No thread could be started.
    #[error("the thread that looks after the tables cannot be started: {0}")]
    Thread(#[source] io::Error),
}

impl Charges {
    /// Empty tables in `tables`, in memory of our own when there are none. A key of `keyring`,
    /// which is followed from now on, gets its bucket when it is first asked for. A thread
    /// keeps them tidy until they are dropped.
    ///
    /// # Errors
    /// When the system refuses something.
    pub fn new(
        config: &Config,
        keyring: &Arc<Keyring>,
        tables: Option<Tables>,
    ) -> Result<Arc<Self>, Error> {
        let tables = tables.unwrap_or_else(|| Tables::own(Sizes::of(config)));
        let secret = [random()?, random()?];
        let charges = Arc::new(Self {
            replay: Replay::new(tables.replay, secret),
            prefixes: Prefixes::new(tables.prefixes, secret),
            buckets: KeyBuckets::new(tables.key_buckets),
            total: Total::new(tables.legacy_total),
            secret,
            limits: ArcSwap::from_pointee(Limits::of(config)),
            keyring: Arc::clone(keyring),
        });
        keyring.observe(Arc::new(Places(Arc::downgrade(&charges))));
        charges.buckets.expect(keyring.snapshot().len());
        upkeep::start(&charges).map_err(Error::Thread)?;
        Ok(charges)
    }

    /// What is charged against, now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        **self.limits.load()
    }

    /// Charges against other limits from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.store(Arc::new(limits));
    }

    /// Charges a connection with a good token: first the token, then the key's rates. A
    /// token that was used before charges no rate.
    pub fn token(&self, token: &Token, key: &KeyRecord, flow: &FlowKey, now: Now) -> TokenCharge {
        let limits = self.limits();
        let last_s = u64::from(token.issued_at_s) + u64::from(limits.remember_s);
        let (id, mark) = (layout::id(token), layout::mark(flow, self.secret));
        match self.replay.use_token(id, mark, last_s, now.unix_s) {
            // The same addresses and ports again are another connection too: each is charged
            // once. (The kernel half lets them pass, for to it they may be a copy.)
            Use::Replayed | Use::Again => return TokenCharge::Replayed,
            Use::Full => return TokenCharge::TableFull,
            Use::First => {}
        }
        let Some(place) = self.bucket(key.id) else {
            // The key went this moment, or came and has no place yet because another goes.
            return TokenCharge::Granted;
        };
        let (hard, soft) = (limits.hard_rate(key), limits.soft_rate(key));
        match self.buckets.charge(place, hard, soft, now.monotonic_ns) {
            key_buckets::Charged::Granted => TokenCharge::Granted,
            key_buckets::Charged::OverSoft => TokenCharge::OverRate,
            key_buckets::Charged::OverHard => TokenCharge::OverHardRate,
        }
    }

    /// Charges a connection without a token to its source's prefix and to all of them together,
    /// if both rates allow it.
    pub fn legacy(&self, source: IpAddr, now: Now) -> LegacyCharge {
        let (prefix, limits) = (prefix::of(&words(source)), self.limits());
        let (own, total) = (limits.legacy_rate(), limits.legacy_total_rate());
        let now_ns = now.monotonic_ns;
        let and = |waited_ns| self.total.charge(total, waited_ns, now_ns);
        self.prefixes.charge(prefix, own, now_ns, and)
    }

    /// The place of a key's bucket, given to it now when it has none; none when there is no
    /// such key.
    pub fn bucket(&self, id: KeyId) -> Option<u32> {
        (self.buckets).place(id, || self.keyring.find(id).is_some())
    }

    /// What places in the tables are computed with. Secret: who knows it can fill sets.
    #[must_use]
    pub fn secret(&self) -> siphash::Key {
        self.secret
    }

    /// Sets less one of the replay table and of the prefix table.
    #[must_use]
    pub fn masks(&self) -> (u32, u32) {
        (self.replay.sets_mask(), self.prefixes.sets_mask())
    }

    /// A look at the tables.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            limits: self.limits(),
            replay_entries: self.replay.entries(),
            replay_capacity: self.replay.capacity(),
            replay_full: self.replay.full(),
            prefix_entries: self.prefixes.entries(),
            prefix_capacity: self.prefixes.capacity(),
            prefix_evicted: self.prefixes.evicted(),
            key_buckets: self.buckets.entries(),
            key_buckets_capacity: self.buckets.capacity(),
        }
    }
}

impl Sizes {
    /// As the configuration says.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            replay_sets: Replay::sets_for(config.keys.replay_capacity),
            prefix_sets: Prefixes::sets_for(config.legacy.prefix_capacity),
            keys: config.keys.capacity,
        }
    }

    /// What the tables take when all of it is used, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        8 * (Replay::words_for(self.replay_sets)
            + Prefixes::words_for(self.prefix_sets)
            + KeyBuckets::words_for(self.keys)
            + total_layout::WORDS)
    }
}

impl Tables {
    /// In memory that no kernel half reads.
    #[must_use]
    pub fn own(sizes: Sizes) -> Self {
        Self {
            replay: Memory::own(Replay::words_for(sizes.replay_sets)),
            prefixes: Memory::own(Prefixes::words_for(sizes.prefix_sets)),
            key_buckets: Memory::own(KeyBuckets::words_for(sizes.keys)),
            legacy_total: Memory::own(total_layout::WORDS),
        }
    }

    /// In the kernel half's maps, which were made with these sizes.
    ///
    /// # Errors
    /// When one cannot be mapped.
    pub fn of_maps(maps: &kernel::Tables, sizes: Sizes) -> Result<Self, ProgramError> {
        let map = |name, map: &MapData, words| {
            let memory = Memory::map(map.fd(), words);
            memory.map_err(|source| ProgramError::Memory { map: name, source })
        };
        let replay = Replay::words_for(sizes.replay_sets);
        let prefixes = Prefixes::words_for(sizes.prefix_sets);
        let key_buckets = KeyBuckets::words_for(sizes.keys);
        Ok(Self {
            replay: map("REPLAY", &maps.replay, replay)?,
            prefixes: map("PREFIXES", &maps.prefixes, prefixes)?,
            key_buckets: map("KEY_BUCKETS", &maps.key_buckets, key_buckets)?,
            legacy_total: map("LEGACY_TOTAL", &maps.legacy_total, total_layout::WORDS)?,
        })
    }
}

impl Now {
    /// The clocks as they stand.
    #[must_use]
    pub fn read() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let monotonic = clock_gettime(ClockId::Monotonic);
        Self {
            unix_s: unix.map_or(0, |since| since.as_secs()),
            monotonic_ns: (monotonic.tv_sec as u64) * 1_000_000_000 + monotonic.tv_nsec as u64,
        }
    }

    /// The clocks as of the kernel's last tick: for who counts by the minute.
    #[must_use]
    pub fn of_last_tick() -> Self {
        Self {
            unix_s: clock::unix_s(),
            monotonic_ns: clock::monotonic().as_nanos() as u64,
        }
    }
}

/// A connection by the socket's own addresses, as the kernel half names it.
#[must_use]
pub fn flow_key(client: SocketAddr, server: SocketAddr) -> FlowKey {
    FlowKey {
        client: words(client.ip()),
        server: words(server.ip()),
        client_port_be: client.port().to_be(),
        server_port_be: server.port().to_be(),
        padding: 0,
    }
}

/// An address as it lies in a packet, IPv4 as IPv4-mapped.
fn words(address: IpAddr) -> [u32; 4] {
    let octets = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let (words, _) = octets.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_ne_bytes(words[i]))
}

fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(Error::Random)
}

/// Gives keys that come a bucket, and takes it from those that go.
struct Places(std::sync::Weak<Charges>);

impl Observer for Places {
    fn changed(&self, changes: &[Change], _complete: bool) {
        let Some(charges) = self.0.upgrade() else {
            return;
        };
        for change in changes {
            match change {
                Change::Put(key) | Change::Revoked(key) => {
                    charges.bucket(key.id);
                }
                Change::Removed(id) => charges.buckets.free(*id),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_named_as_the_kernel_half_names_them() {
        let flow = flow_key(
            "192.0.2.7:51000".parse().unwrap(),
            "[2001:db8::1]:443".parse().unwrap(),
        );
        let bytes = |words: [u32; 4]| words.map(u32::to_ne_bytes).concat();
        assert_eq!(
            bytes(flow.client),
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7]
        );
        assert_eq!(flow.client[2], FlowKey::MAPPED);
        assert_eq!(bytes(flow.server)[..4], [0x20, 1, 0x0d, 0xb8]);
        assert_eq!(flow.client_port_be.to_ne_bytes(), 51_000u16.to_be_bytes());
        assert_eq!(flow.server_port_be.to_ne_bytes(), [1, 187]);
        let mapped = flow_key(
            "[::ffff:192.0.2.7]:51000".parse().unwrap(),
            "[2001:db8::1]:443".parse().unwrap(),
        );
        assert_eq!(mapped, flow);
    }

    #[test]
    fn sizes_hold_what_is_promised() {
        for tokens in [1, 1024, 1_048_576, 1_048_577] {
            let sets = Replay::sets_for(tokens);
            assert!(sets.is_power_of_two() && sets >= tokens / 4, "{tokens}");
        }
        let sizes = Sizes {
            replay_sets: Replay::sets_for(1_048_576),
            prefix_sets: Prefixes::sets_for(65_536),
            keys: 100_000,
        };
        assert_eq!(sizes.bytes(), (262_144 + 32_768) * 128 + 3_200_000 + 16);
    }
}
