//! The tables that are compared, behind one trait. All are called in line, as the daemon
//! would.

use crate::contexts::{BuildAsItIs, Contexts, Hashed, NOW_S, entry};
use edge_userspace::context::Entry;
use edge_userspace::context::slots::Slots;
use quick_cache::UnitWeighter;

/// Of a table as the daemon makes it.
pub(crate) const DEFAULT_SLOTS: usize = 1 << 19;

/// What can be asked of a table. Others get room for twice as many contexts as come.
pub(crate) trait Table: Sync + Sized {
    const NAME: &'static str;

    fn empty(contexts: &Contexts) -> Self;

    fn find(&self, key: &Hashed) -> Option<Entry>;

    fn put(&self, key: &Hashed, entry: Entry);

    /// With all contexts in it.
    fn full(contexts: &Contexts) -> Self {
        let table = Self::empty(contexts);
        for (number, key) in contexts.keys.iter().enumerate() {
            table.put(key, entry(number));
        }
        // As contexts are that were hit before.
        for key in contexts.keys.iter().cycle().take(4 * contexts.keys.len()) {
            let _ = table.find(key);
        }
        table
    }
}

/// What other tables keep: they know nothing of time.
#[derive(Clone, Copy)]
pub(crate) struct Value {
    entry: Entry,
    expires_s: u32,
}

impl Value {
    fn new(entry: Entry) -> Self {
        let expires_s = NOW_S + 3600;
        Self { entry, expires_s }
    }

    fn live(self) -> Option<Entry> {
        (NOW_S < self.expires_s).then_some(self.entry)
    }
}

impl Table for Slots {
    const NAME: &'static str = "slots";

    fn empty(contexts: &Contexts) -> Self {
        contexts.table()
    }

    #[inline(always)]
    fn find(&self, key: &Hashed) -> Option<Entry> {
        self.find(&key.0, NOW_S)
    }

    fn put(&self, key: &Hashed, entry: Entry) {
        self.commit(&key.0, entry, NOW_S);
    }
}

pub(crate) type Papaya = papaya::HashMap<Hashed, Value, BuildAsItIs>;

impl Table for Papaya {
    const NAME: &'static str = "papaya";

    fn empty(contexts: &Contexts) -> Self {
        Self::with_capacity_and_hasher(2 * contexts.keys.len(), BuildAsItIs::default())
    }

    #[inline(always)]
    fn find(&self, key: &Hashed) -> Option<Entry> {
        self.pin().get(key).and_then(|value| value.live())
    }

    fn put(&self, key: &Hashed, entry: Entry) {
        self.pin().insert(*key, Value::new(entry));
    }
}

pub(crate) type QuickCache = quick_cache::sync::Cache<Hashed, Value, UnitWeighter, BuildAsItIs>;

impl Table for QuickCache {
    const NAME: &'static str = "quick_cache";

    fn empty(contexts: &Contexts) -> Self {
        let room = 2 * contexts.keys.len();
        let hasher = BuildAsItIs::default();
        Self::with(room, room as u64, UnitWeighter, hasher, Default::default())
    }

    #[inline(always)]
    fn find(&self, key: &Hashed) -> Option<Entry> {
        self.get(key).and_then(Value::live)
    }

    fn put(&self, key: &Hashed, entry: Entry) {
        self.insert(*key, Value::new(entry));
    }
}

pub(crate) type DashMap = dashmap::DashMap<Hashed, Value, BuildAsItIs>;

impl Table for DashMap {
    const NAME: &'static str = "dashmap";

    fn empty(contexts: &Contexts) -> Self {
        Self::with_capacity_and_hasher(2 * contexts.keys.len(), BuildAsItIs::default())
    }

    #[inline(always)]
    fn find(&self, key: &Hashed) -> Option<Entry> {
        self.get(key).and_then(|value| value.live())
    }

    fn put(&self, key: &Hashed, entry: Entry) {
        self.insert(*key, Value::new(entry));
    }
}

pub(crate) type Moka = moka::sync::Cache<Hashed, Value, BuildAsItIs>;

impl Table for Moka {
    const NAME: &'static str = "moka";

    fn empty(contexts: &Contexts) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(2 * contexts.keys.len() as u64);
        builder.build_with_hasher(BuildAsItIs::default())
    }

    #[inline(always)]
    fn find(&self, key: &Hashed) -> Option<Entry> {
        self.get(key).and_then(Value::live)
    }

    fn put(&self, key: &Hashed, entry: Entry) {
        self.insert(*key, Value::new(entry));
    }
}

/// The trivial one: an array twice as large as it must be, where one key throws another out.
/// For one thread only.
pub(crate) struct Direct {
    places: Vec<std::cell::Cell<Option<(Hashed, Value)>>>,
}

impl Direct {
    pub(crate) fn full(contexts: &Contexts) -> Self {
        let number = (2 * contexts.keys.len()).next_power_of_two();
        let direct = Self {
            places: vec![std::cell::Cell::new(None); number],
        };
        for (number, key) in contexts.keys.iter().enumerate() {
            let value = Value::new(entry(number));
            direct.place(key).set(Some((*key, value)));
        }
        direct
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: &Hashed) -> Option<Entry> {
        let (there, value) = self.place(key).get()?;
        (there == *key).then(|| value.live()).flatten()
    }

    #[inline(always)]
    fn place(&self, key: &Hashed) -> &std::cell::Cell<Option<(Hashed, Value)>> {
        let word = key.0.fingerprint.words()[0];
        &self.places[word as usize & (self.places.len() - 1)]
    }
}
