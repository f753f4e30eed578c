//! Where candidates are: sets of eight, each behind a lock that is held for nanoseconds.
//!
//! A tenant's entries lie in a window of the table, a sixteenth of it, and take half of a set
//! at most while others want the other half. So a tenant with many contexts pushes out its
//! own entries first.

use super::super::Tenant;
use super::candidate::{Candidate, Text};
use std::sync::{Mutex, MutexGuard, PoisonError};

const WAYS: usize = 8;
/// So many of a set's places one tenant may take from others.
const MOST_OF_A_SET: usize = WAYS / 2;
/// A tenant reaches this part of the table.
const WINDOW: usize = 16;

/// Sets of candidates.
pub(super) struct Table {
    sets: Box<[Mutex<Set>]>,
}

/// Where an entry is or would be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    set: usize,
    key: u64,
}

#[derive(Default)]
struct Set {
    entries: [Option<Entry>; WAYS],
    /// Counts looks, so that the one that was used longest ago is known.
    clock: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    tenant: Tenant,
    used: u32,
    candidate: Candidate,
}

impl Table {
    pub(super) fn new(entries: usize) -> Self {
        let sets = entries.div_ceil(WAYS).max(WINDOW);
        Self {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// The place of a key of a tenant; both numbers are keyed hashes.
    pub(super) fn place(&self, key: u64, tenant_hash: u64) -> Place {
        let sets = self.sets.len();
        let window = (sets / WINDOW).max(1);
        let begin = (tenant_hash % sets as u64) as usize;
        let set = (begin + (key % window as u64) as usize) % sets;
        Place { set, key }
    }

    fn set(&self, place: Place) -> MutexGuard<'_, Set> {
        // What is behind the lock is always whole.
        (self.sets[place.set].lock()).unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn predict(&self, tenant: Tenant, place: Place) -> Option<Option<Text>> {
        let mut set = self.set(place);
        let entry = set.find(tenant, place.key)?;
        entry.candidate.predict()
    }

    pub(super) fn learn(&self, tenant: Tenant, place: Place, opening: &[u8]) {
        let mut set = self.set(place);
        if let Some(entry) = set.find(tenant, place.key) {
            entry.candidate.note(opening);
            return;
        }
        let at = set.place_for(tenant);
        let used = set.clock;
        set.entries[at] = Some(Entry {
            key: place.key,
            tenant,
            used,
            candidate: Candidate::new(opening),
        });
    }
}

impl Set {
    fn find(&mut self, tenant: Tenant, key: u64) -> Option<&mut Entry> {
        self.clock = self.clock.wrapping_add(1);
        let clock = self.clock;
        let entry = (self.entries.iter_mut().flatten())
            .find(|entry| entry.key == key && entry.tenant == tenant)?;
        entry.used = clock;
        Some(entry)
    }

    /// A free place; else that of the tenant's own entry that was used longest ago, when it has
    /// its share; else of anybody's.
    fn place_for(&self, tenant: Tenant) -> usize {
        let is_own = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.tenant == tenant);
        let own = self.entries.iter().filter(|entry| is_own(entry)).count();
        let age = |entry: &Option<Entry>| match entry {
            None => u32::MAX,
            Some(entry) if own < MOST_OF_A_SET || entry.tenant == tenant => {
                self.clock.wrapping_sub(entry.used).saturating_add(1)
            }
            Some(_) => 0,
        };
        (0..WAYS)
            .max_by_key(|at| age(&self.entries[*at]))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(table: &Table, tenant: u64, key: u64) {
        let place = table.place(key, tenant);
        for _ in 0..8 {
            table.learn(Tenant(tenant), place, b"{\"a\":1}");
        }
    }

    fn knows(table: &Table, tenant: u64, key: u64) -> bool {
        let place = table.place(key, tenant);
        table.predict(Tenant(tenant), place).is_some()
    }

    #[test]
    fn a_tenant_with_many_contexts_leaves_the_others_theirs() {
        // One set, so that everybody meets everybody.
        let table = Table::new(WAYS);
        for tenant in 1..=4 {
            learn(&table, tenant * WINDOW as u64, 0);
        }
        for key in 0..10_000 {
            learn(&table, 99 * WINDOW as u64, key);
        }
        for tenant in 1..=4 {
            assert!(knows(&table, tenant * WINDOW as u64, 0));
        }
        assert!(knows(&table, 99 * WINDOW as u64, 9_999));
        assert!(!knows(&table, 99 * WINDOW as u64, 0));
    }

    #[test]
    fn entries_belong_to_their_tenant() {
        let table = Table::new(1 << 10);
        learn(&table, 1, 5);
        let place = table.place(5, 1);
        assert!(table.predict(Tenant(2), place).is_none());
        assert!(table.predict(Tenant(1), place).is_some());
    }
}
