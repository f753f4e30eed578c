//! The table as its users see it, and what must hold in its sets.

use super::place::{home, owner, tag};
use super::set::{Set, Stored};
use super::*;
use crate::context::{ContextId, Fingerprint, Tenant};
use std::collections::HashMap;

/// A small generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let number = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }
}

fn slots(number: usize, share: u16) -> Slots {
    let sizes = Sizes {
        bytes: number * 64,
        huge_pages: false,
        tenant_share_per_mille: share,
    };
    Slots::new(&sizes, 4).unwrap()
}

fn key(tenant: u64, words: [u64; 2]) -> Key {
    Key {
        tenant: Tenant(tenant),
        context: ContextId::NONE,
        fingerprint: Fingerprint::new(words),
    }
}

fn entry(number: u32) -> Entry {
    Entry {
        upstream: UpstreamId((number % 4) as u16),
        tokens: number,
        exact: u64::from(number) << 20,
        long: number.is_multiple_of(2),
    }
}

/// What the head of `set.rs` promises.
fn check(slots: &Slots) {
    for set in slots.table.slots().chunks(WAYS) {
        let held: Vec<_> = set.iter().map(slot::Slot::peek).collect();
        for (way, contents) in held.iter().enumerate() {
            let elsewhere: Vec<_> = set[way].elsewhere().distances().collect();
            let mut tags: Vec<_> = (elsewhere.iter())
                .map(|distance| tag(held[way ^ distance].fingerprint))
                .collect();
            for (distance, tag) in elsewhere.iter().zip(&tags) {
                assert_eq!(home(held[way ^ distance].fingerprint), way);
                assert_eq!(set[way].elsewhere().find(*tag), Some(*distance));
            }
            tags.sort_unstable();
            tags.dedup();
            assert_eq!(tags.len(), elsewhere.len());
            if contents.is_nothing() {
                assert!(elsewhere.is_empty());
                continue;
            }
            let of = home(contents.fingerprint);
            if of != way {
                assert!(elsewhere.is_empty());
                assert_eq!(home(held[of].fingerprint), of);
                let known = set[of].elsewhere().find(tag(contents.fingerprint));
                assert_eq!(known, Some(of ^ way));
            }
        }
    }
    let occupied = slots
        .table
        .slots()
        .iter()
        .filter(|slot| !slot.peek().is_nothing());
    assert_eq!(occupied.count() as u64, slots.counters().occupied);
}

#[test]
fn what_is_committed_is_found_and_nothing_else() {
    let slots = slots(1 << 12, 1000);
    let mut random = Random(1);
    let keys: Vec<_> = (0..1000)
        .map(|_| key(7, [random.next(), random.next()]))
        .collect();
    for (number, key) in (0..).zip(&keys) {
        assert_eq!(slots.find(key, 1), None);
        slots.commit(key, entry(number), 1);
        assert_eq!(slots.find(key, 1), Some(entry(number)));
    }
    check(&slots);
    for (number, key) in (0..).zip(&keys) {
        assert_eq!(slots.find(key, 2), Some(entry(number)));
        slots.commit(key, entry(number + 1), 2);
        assert_eq!(slots.find(key, 2), Some(entry(number + 1)));
    }
    check(&slots);
    let counters = slots.counters();
    assert_eq!((counters.hits, counters.misses), (3000, 1000));
    assert_eq!((counters.commits, counters.evicted), (2000, 0));
    assert_eq!((counters.occupied, counters.capacity), (1000, 4096));
}

/// Every few steps of any kind, with few homes and tags so that they collide, the sets are as
/// they must be, and what a plain map says was committed last is found, if anything is.
#[test]
fn sets_stay_as_they_must_be() {
    for seed in 0..40 {
        let slots = slots(64, 1000);
        let mut random = Random(seed);
        let mut last = HashMap::new();
        let mut now_s = 10;
        let tags = 1 + random.next() % 64;
        for step in 0..2000 {
            let word = (random.next() % 64) | ((random.next() % 4) << 6);
            let key = key(
                random.next() % 3,
                [word, ((random.next() % tags) << 52) | word],
            );
            match random.next() % 8 {
                0 => now_s += (random.next() % 40) as u32,
                1 if random.next().is_multiple_of(32) => {
                    let upstream = UpstreamId((random.next() % 4) as u16);
                    slots.forget_upstream(upstream);
                    last.retain(|_, entry: &mut Entry| entry.upstream != upstream);
                }
                2..5 => {
                    let found = slots.find(&key, now_s);
                    assert!(found.is_none() || found == last.get(&key).copied());
                }
                _ => {
                    let before = slots.counters();
                    slots.commit(&key, entry(step), now_s);
                    if slots.counters().mismatched == before.mismatched {
                        last.insert(key, entry(step));
                        assert_eq!(slots.find(&key, now_s), Some(entry(step)));
                    }
                    check(&slots);
                }
            }
        }
        assert!(slots.counters().evicted > 0);
    }
}

#[test]
fn nothing_that_is_live_goes_while_there_is_room() {
    let slots = slots(16, 1000);
    // Four with one home, and four with the next: what has its home where others were moved to
    // moves them on.
    let keys: Vec<_> = (0..8).map(|of| key(1, [of / 4, (of + 1) << 52])).collect();
    for (number, key) in (0..).zip(&keys) {
        slots.commit(key, entry(number), 0);
        for (number, key) in (0..=number).zip(&keys) {
            assert_eq!(slots.find(key, 0), Some(entry(number)));
        }
    }
    check(&slots);
    assert_eq!(slots.counters().evicted, 0);
}

#[test]
fn time_runs_out_and_a_hit_winds_it_up() {
    let slots = slots(16, 1000);
    let [short, long] = [key(1, [1, 1]), key(1, [2, 2])];
    slots.commit(&short, entry(1), 1000);
    slots.commit(&long, entry(2), 1000);
    assert_eq!(slots.find(&short, 1299), Some(entry(1)));
    assert_eq!(slots.find(&short, 1598), Some(entry(1)));
    assert_eq!(slots.find(&short, 1898), None);
    assert_eq!(slots.find(&long, 4599), Some(entry(2)));
    assert_eq!(slots.find(&long, 8199), None);
    assert_eq!(slots.counters().expired, 2);
    // However many uses were noted before, a hit in each quarter is enough.
    for now_s in (1000..10_000).step_by(224) {
        slots.commit(&short, entry(1), 900);
        slots.commit(&long, entry(1), now_s);
        assert_eq!(slots.find(&long, now_s), Some(entry(1)));
    }
    slots.commit(&short, entry(1), 10_000);
    for now_s in (10_000..20_000).step_by(10) {
        assert_eq!(slots.find(&short, now_s), Some(entry(1)));
    }
    assert_eq!(slots.find(&short, 19_990 + 224), Some(entry(1)));
}

#[test]
fn peeking_changes_nothing() {
    let slots = slots(16, 1000);
    let key = key(1, [1, 1]);
    assert_eq!(slots.peek(&key, 0), None);
    slots.commit(&key, entry(1), 0);
    let before = slots.counters();
    for now_s in 0..300 {
        assert_eq!(slots.peek(&key, now_s), Some(entry(1)));
    }
    assert_eq!(slots.peek(&key, 300), None);
    assert_eq!(slots.counters(), before);
}

#[test]
fn a_forgotten_upstream_is_found_nowhere() {
    let slots = slots(256, 1000);
    let keys: Vec<_> = (0..64).map(|of| key(1, [of * 4, of << 52])).collect();
    for (number, key) in (0..).zip(&keys) {
        slots.commit(key, entry(number), 0);
    }
    slots.forget_upstream(UpstreamId(2));
    for (number, key) in (0..).zip(&keys) {
        let found = slots.find(key, 1);
        assert_eq!(found.is_some(), number % 4 != 2, "{number}");
    }
    assert_eq!(slots.counters().forgotten, 16);
    // It comes back and says anew what it has.
    slots.commit(&keys[2], entry(2), 2);
    assert_eq!(slots.find(&keys[2], 2), Some(entry(2)));
    // One that was never there.
    slots.forget_upstream(UpstreamId(4));
    slots.commit(
        &keys[3],
        Entry {
            upstream: UpstreamId(4),
            ..entry(3)
        },
        2,
    );
    assert_eq!(slots.find(&keys[3], 2), Some(entry(3)));
}

#[test]
fn another_tenant_or_context_with_the_same_fingerprint_is_a_miss_and_spoils_nothing() {
    let slots = slots(16, 1000);
    let one = key(1, [1, 1]);
    let other = key(2, [1, 1]);
    let context = Key {
        context: ContextId(9),
        ..one
    };
    slots.commit(&one, entry(1), 0);
    for forged in [&other, &context] {
        assert_eq!(slots.find(forged, 0), None);
        slots.commit(forged, entry(2), 0);
        assert_eq!(slots.find(forged, 0), None);
        assert_eq!(slots.find(&one, 0), Some(entry(1)));
    }
    let counters = slots.counters();
    assert_eq!((counters.mismatched, counters.commits), (6, 1));
    // When its time is over the place is anybody's.
    slots.commit(&other, entry(2), 5000);
    assert_eq!(slots.find(&other, 5000), Some(entry(2)));
    assert_eq!(slots.find(&one, 5000), None);
}

#[test]
fn owners_differ_when_tenant_or_context_does() {
    let mut random = Random(3);
    for _ in 0..1000 {
        let of = |tenant, context| {
            owner(&Key {
                context: ContextId(context),
                ..key(tenant, [1, 1])
            })
        };
        let [a, b, c] = [random.next(), random.next(), random.next()];
        assert_ne!(of(a, c), of(b, c));
        assert_ne!(of(c, a), of(c, b));
        assert_ne!(of(a, b), of(b, a));
        assert_ne!(of(a, a), of(b, b));
        assert_ne!(of(a, 0), of(0, a));
    }
}

/// A tenant that commits without end takes no more from the others than its share.
#[test]
fn one_tenant_cannot_flush_the_others() {
    let slots = slots(1 << 12, 250);
    let mut random = Random(5);
    let mut fresh = |tenant| key(tenant, [random.next(), random.next()]);
    // Four tenants fill less than a half.
    let kept: Vec<_> = (0..1600).map(|number| fresh(1 + number % 4)).collect();
    for key in &kept {
        slots.commit(key, entry(1), 0);
    }
    let before = kept
        .iter()
        .filter(|key| slots.find(key, 1).is_some())
        .count();
    for _ in 0..100_000 {
        slots.commit(&fresh(9), entry(2), 2);
    }
    check(&slots);
    let after = kept
        .iter()
        .filter(|key| slots.find(key, 3).is_some())
        .count();
    assert!(before >= 1590, "{before}");
    assert!(after * 100 >= before * 97, "{after} of {before}");
    assert!(slots.counters().share_capped > 90_000);
    // What a newcomer brings finds room among the flood.
    let new: Vec<_> = (0..400).map(|_| fresh(10)).collect();
    for key in &new {
        slots.commit(key, entry(3), 4);
    }
    let found = new
        .iter()
        .filter(|key| slots.find(key, 4).is_some())
        .count();
    assert!(found >= 390, "{found}");
    let others = kept
        .iter()
        .filter(|key| slots.find(key, 5).is_some())
        .count();
    assert!(others * 100 >= after * 97, "{others} of {after}");
}

#[test]
fn sizes_out_of_bounds_are_told() {
    for bytes in [0, 1023, Sizes::MOST_BYTES + 1] {
        let sizes = Sizes {
            bytes,
            ..Sizes::default()
        };
        let Err(error) = Slots::new(&sizes, 1) else {
            panic!("{bytes}")
        };
        assert!(error.to_string().contains(&bytes.to_string()), "{error}");
    }
    let sizes = Sizes {
        bytes: 100_000,
        ..Sizes::default()
    };
    assert_eq!(Slots::new(&sizes, 1).unwrap().counters().capacity, 1024);
}

#[test]
fn a_commit_says_what_it_did() {
    let memory = Memory::new(16, false).unwrap();
    let set = Set(&memory);
    let contents = |word: u64, now_s| slot::Contents {
        fingerprint: [word, word << 52 | 1],
        life: Life::new(now_s, false, UpstreamId(0)),
        ..slot::Contents::NOTHING
    };
    let commit = |word, now_s: u32| {
        let alive = |old: &slot::Contents| now_s < old.life.expires_s();
        set.commit(&contents(word, now_s), now_s, 16, alive)
    };
    for word in 1..=16 {
        assert_eq!(commit(word, 0), Stored::New);
        assert_eq!(commit(word, 1), Stored::Again);
    }
    assert_eq!(commit(17, 2), Stored::Evicted);
    assert_eq!(commit(18, 302), Stored::Reused);
}
