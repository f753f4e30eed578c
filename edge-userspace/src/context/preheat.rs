//! Warm-ups: how many a tenant has left, and for what a client's own name of a context stands.
//!
//! A client that will soon ask (an editor that is opened, a user who logs in) sends
//! `HEAD /v1/health` with `x-anthropic-context-hint`, a name of its own that it also puts on its
//! requests. The edge remembers which prefix was last asked for under that name, and on the
//! warm-up brings its slot near and sees to it that a connection to its upstream is open. That
//! is all that it does: nothing is sent upstream, nothing lives longer for it, and the answer
//! is the same whether the name is known or not.

use super::{Key, Tenant};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Longest name that is remembered, bytes.
pub const MOST_NAME_BYTES: usize = 256;
/// Names that are remembered in a set, the least recently used goes.
const WAYS: usize = 8;
const SETS: usize = 512;
/// So many sets one tenant's names lie in, so that it can push out few of the others'.
const WINDOW: usize = 32;
/// Tenants whose warm-ups are counted apart; two that meet, which few do, share a budget, and
/// nothing else.
const BUDGETS: usize = 16_384;
/// So many of a set's names one tenant may take from others.
const MOST_OF_A_SET: usize = WAYS / 2;

/// What warm-ups go by. Shared by all threads; all of it has a fixed size.
pub struct Preheats {
    per_minute: u32,
    budgets: Box<[Mutex<Budget>]>,
    names: Box<[Mutex<Set>]>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Default)]
struct Budget {
    /// Of what is left it is so late, seconds of the caller's clock.
    at_s: u32,
    /// Sixtieths of a warm-up.
    left: u64,
}

/// Names, the one that was used last first.
#[derive(Default)]
struct Set([Option<Name>; WAYS]);

#[derive(Clone, Copy)]
struct Name {
    tenant: Tenant,
    hash: u64,
    key: Key,
}

impl Preheats {
    /// With so many warm-ups a minute for each tenant, and as many at once.
    #[must_use]
    pub fn new(per_minute: u32) -> Self {
        let full = Budget {
            at_s: 0,
            left: u64::from(per_minute) * 60,
        };
        Self {
            per_minute,
            budgets: (0..BUDGETS).map(|_| Mutex::new(full)).collect(),
            names: (0..SETS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Whether the tenant may warm something up now; takes one of its warm-ups if so.
    #[must_use]
    pub fn take(&self, tenant: Tenant, now_s: u32) -> bool {
        let place = self.hasher.hash_one(tenant) as usize % BUDGETS;
        let mut budget = lock(&self.budgets[place]);
        let most = u64::from(self.per_minute) * 60;
        let since_s = u64::from(now_s.saturating_sub(budget.at_s));
        let grown = since_s.saturating_mul(u64::from(self.per_minute));
        budget.left = budget.left.saturating_add(grown).min(most);
        budget.at_s = budget.at_s.max(now_s);
        let has_one = budget.left >= 60;
        if has_one {
            budget.left -= 60;
        }
        has_one
    }

    /// Notes that the prefix was asked for under that name. Longer names are not remembered.
    pub fn remember(&self, name: &[u8], key: Key) {
        let Some((set, hash)) = self.place(key.tenant, name) else {
            return;
        };
        let mut set = lock(set);
        let tenant = key.tenant;
        let known = set.find(tenant, hash).unwrap_or_else(|| set.victim(tenant));
        set.0[..=known].rotate_right(1);
        set.0[0] = Some(Name { tenant, hash, key });
    }

    /// What was last asked for under that name by that tenant.
    #[must_use]
    pub fn meant(&self, tenant: Tenant, name: &[u8]) -> Option<Key> {
        let (set, hash) = self.place(tenant, name)?;
        let mut set = lock(set);
        let known = set.find(tenant, hash)?;
        set.0[..=known].rotate_right(1);
        set.0[0].map(|name| name.key)
    }

    fn place(&self, tenant: Tenant, name: &[u8]) -> Option<(&Mutex<Set>, u64)> {
        if name.is_empty() || name.len() > MOST_NAME_BYTES {
            return None;
        }
        let hash = self.hasher.hash_one((tenant, name));
        let window = self.hasher.hash_one(tenant) as usize % SETS;
        let set = (window + hash as usize % WINDOW) % SETS;
        Some((&self.names[set], hash))
    }
}

impl Set {
    /// Whose place a new name takes: a free one's, else that of the tenant's own that was used
    /// longest ago when it has its share, else of anybody's.
    fn victim(&self, tenant: Tenant) -> usize {
        let is_own = |name: &&Option<Name>| name.is_some_and(|name| name.tenant == tenant);
        let last_own = self.0.iter().rposition(|name| is_own(&name));
        let own = self.0.iter().filter(is_own).count();
        let free = self.0.iter().position(Option::is_none);
        free.or(last_own.filter(|_| own >= MOST_OF_A_SET))
            .unwrap_or(WAYS - 1)
    }

    fn find(&self, tenant: Tenant, hash: u64) -> Option<usize> {
        let is_it = |name: &Name| name.tenant == tenant && name.hash == hash;
        self.0
            .iter()
            .position(|name| name.as_ref().is_some_and(is_it))
    }
}

/// What is behind these locks is always whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::{ContextId, Fingerprint};
    use super::*;

    fn key(tenant: u64, number: u64) -> Key {
        Key {
            tenant: Tenant(tenant),
            context: ContextId::NONE,
            fingerprint: Fingerprint::new([number, 1]),
        }
    }

    #[test]
    fn a_tenant_has_so_many_a_minute() {
        let preheats = Preheats::new(3);
        let take = |now_s| preheats.take(Tenant(1), now_s);
        assert_eq!([1000; 5].map(take), [true, true, true, false, false]);
        assert!(!take(1019), "a third of a minute has not passed");
        assert!(take(1020));
        assert!(!take(1020));
        assert!(!take(900), "a clock that goes back gives nothing");
        assert_eq!([9000; 5].map(take), [true, true, true, false, false]);
        assert!(preheats.take(Tenant(2), 9000));
        assert!(!Preheats::new(0).take(Tenant(1), 1));
    }

    #[test]
    fn a_name_stands_for_what_its_tenant_last_asked_for() {
        let preheats = Preheats::new(1);
        preheats.remember(b"project", key(1, 1));
        preheats.remember(b"project", key(1, 2));
        preheats.remember(b"project", key(2, 3));
        assert_eq!(preheats.meant(Tenant(1), b"project"), Some(key(1, 2)));
        assert_eq!(preheats.meant(Tenant(2), b"project"), Some(key(2, 3)));
        assert_eq!(preheats.meant(Tenant(3), b"project"), None);
        assert_eq!(preheats.meant(Tenant(1), b"other"), None);
        let long = [b'x'; MOST_NAME_BYTES + 1];
        preheats.remember(&long, key(1, 4));
        assert_eq!(preheats.meant(Tenant(1), &long), None);
        preheats.remember(b"", key(1, 4));
        assert_eq!(preheats.meant(Tenant(1), b""), None);
    }

    #[test]
    fn names_are_bounded_and_the_latest_stay() {
        let preheats = Preheats::new(1);
        for number in 0..100_000_u64 {
            preheats.remember(&number.to_le_bytes(), key(1, number));
            assert_eq!(
                preheats.meant(Tenant(1), &number.to_le_bytes()),
                Some(key(1, number))
            );
        }
        let known = (0..100_000_u64)
            .filter(|number| preheats.meant(Tenant(1), &number.to_le_bytes()).is_some())
            .count();
        assert!(known <= WINDOW * WAYS, "{known}");
    }
}
