//! The table of contexts with two threads that read, two that write and one that forgets
//! upstreams, on a table so small that everything moves all the time. A second;
//! `EDGE_STRESS_SECONDS=60` makes it a minute.

use edge_userspace::context::slots::{Sizes, Slots};
use edge_userspace::context::{ContextId, Entry, Fingerprint, Key, Tenant};
use edge_userspace::upstream::UpstreamId;
use std::sync::RwLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

const UPSTREAMS: u16 = 4;
/// Time does not pass: what is missed has gone or is being written.
const NOW_S: u32 = 1;

struct World {
    slots: Slots,
    /// The number of the next commit. Who commits holds it for reading from taking a number
    /// until the commit has returned; who forgets holds it for writing.
    next: RwLock<AtomicU32>,
    /// Of an upstream: every commit of it with a lower number was forgotten.
    floors: [AtomicU32; UPSTREAMS as usize],
}

/// SplitMix64.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// 120 keys in four sets of sixteen, six with each home, of two tenants with the same
/// fingerprints.
fn key(number: u64) -> Key {
    let of = number % 60;
    Key {
        tenant: Tenant(1 + number / 60),
        context: ContextId::NONE,
        fingerprint: Fingerprint::new([(of % 10) | ((of / 10 % 4) << 4), mix(of)]),
    }
}

/// All of it follows from key and number.
fn entry(key: &Key, number: u32) -> Entry {
    let exact = mix(u64::from(number) ^ (key.tenant.0 << 40) ^ key.fingerprint.words()[1]);
    Entry {
        upstream: UpstreamId((mix(number.into()) % u64::from(UPSTREAMS)) as u16),
        tokens: number,
        exact,
        long: exact & 1 != 0,
    }
}

impl World {
    fn write(&self, random: u64) {
        let next = self.next.read().expect("nobody panicked");
        let number = next.fetch_add(1, Relaxed);
        let key = key(random % 120);
        self.slots.commit(&key, entry(&key, number), NOW_S);
    }

    fn forget(&self, upstream: u16) {
        let next = self.next.write().expect("nobody panicked");
        self.slots.forget_upstream(UpstreamId(upstream));
        self.floors[usize::from(upstream)].store(next.load(Relaxed), Release);
    }

    /// Whether something was found.
    fn read(&self, random: u64) -> bool {
        let key = key(random % 120);
        let floors: Vec<_> = self
            .floors
            .iter()
            .map(|floor| floor.load(Acquire))
            .collect();
        let Some(found) = self.slots.find(&key, NOW_S) else {
            return false;
        };
        assert_eq!(found, entry(&key, found.tokens), "torn, or another's");
        let floor = floors[usize::from(found.upstream.0)];
        assert!(
            found.tokens >= floor,
            "{found:?} was forgotten before {floor}"
        );
        true
    }
}

#[test]
fn no_read_is_torn_and_nothing_forgotten_is_found() {
    let seconds = std::env::var("EDGE_STRESS_SECONDS").ok();
    let seconds = seconds.map_or(1, |seconds| seconds.parse().expect("a number of seconds"));
    let sizes = Sizes {
        bytes: 64 * 64,
        ..Sizes::default()
    };
    let world = World {
        slots: Slots::new(&sizes, UPSTREAMS).expect("memory"),
        next: RwLock::default(),
        floors: Default::default(),
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    // Each thread with random numbers of its own, until the time is over.
    let until = |seed: u64, work: &dyn Fn(u64)| {
        for round in 0..u64::MAX {
            if round % 64 == 0 && Instant::now() >= end {
                break;
            }
            work(mix((seed << 40) | round));
        }
    };
    let (reads, hits) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|threads| {
        for seed in [1, 2] {
            let (world, reads, hits, until) = (&world, &reads, &hits, &until);
            threads.spawn(move || {
                until(seed, &|random| {
                    reads.fetch_add(1, Relaxed);
                    hits.fetch_add(u32::from(world.read(random)), Relaxed);
                });
            });
            threads.spawn(move || until(seed + 2, &|random| world.write(random)));
        }
        until(5, &|random| {
            world.forget((random % u64::from(UPSTREAMS)) as u16);
            std::thread::sleep(Duration::from_micros(50));
        });
    });
    let (reads, hits) = (reads.into_inner(), hits.into_inner());
    let counters = world.slots.counters();
    println!("{reads} reads, {hits} hits, {counters:?}");
    assert!(hits > 0 && hits < reads);
    assert_eq!(counters.hits.wrapping_add(counters.misses) as u32, reads);
    assert!(counters.evicted > 0 && counters.forgotten > 0 && counters.mismatched > 0);
    assert!(counters.occupied <= counters.capacity);
}
