//! One slot: 64 bytes, a line of the processor's cache, read without a lock.
//!
//! Every word is an atomic of its own, so no read is a data race. A count of writes, odd
//! while one goes on, tells a reader whether the words that it saw belong together (a
//! sequence lock; the fences are those of Boehm, Can Seqlocks Get Along With Programming
//! Language Memory Models?, 2012). Whoever writes holds the lock of the set.
//!
//! Not here: where a prefix is ([`super::set`]).

use super::elsewhere::Elsewhere;
use super::life::Life;
use super::sync::Ordering::{Acquire, Relaxed, Release};
use super::sync::{AtomicU64, fence};

/// One place of the table. The default is empty.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    /// How often it was written (32 bits, odd while it is), and the generation that the
    /// upstream had then (32).
    version: AtomicU64,
    /// All zero: nothing is here.
    fingerprint: [AtomicU64; 2],
    owner: AtomicU64,
    exact: AtomicU64,
    numbers: AtomicU64,
    life: AtomicU64,
    /// Of what has its home here.
    elsewhere: AtomicU64,
}

/// What a slot says, but for what is elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) fingerprint: [u64; 2],
    /// Tenant and context, see [`super::place::owner`].
    pub(super) owner: u64,
    pub(super) exact: u64,
    /// Whose it is (32 bits, see [`super::place::whose`]), by which a tenant's slots of a set are
    /// counted, and tokens (32).
    pub(super) numbers: u64,
    pub(super) generation: u32,
    pub(super) life: Life,
}

/// What a slot was between two writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64);

impl Contents {
    pub(super) const NOTHING: Self = Self {
        fingerprint: [0, 0],
        owner: 0,
        exact: 0,
        numbers: 0,
        generation: 0,
        life: Life(0),
    };

    /// What an entry is made of.
    #[inline]
    pub(super) fn words(&self) -> [u64; 3] {
        [self.exact, self.numbers, self.life.0]
    }

    pub(super) fn whose(&self) -> u32 {
        (self.numbers >> 32) as u32
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.fingerprint == [0, 0]
    }
}

impl Slot {
    /// Where a read begins. None: it is being written.
    #[inline]
    pub(super) fn version(&self) -> Option<Version> {
        let version = self.version.load(Acquire);
        (version & 1 == 0).then_some(Version(version))
    }

    /// Whether everything read since `version` belongs together.
    #[inline]
    pub(super) fn is_still(&self, version: Version) -> bool {
        fence(Acquire);
        self.version.load(Relaxed) == version.0
    }

    #[inline]
    pub(super) fn has(&self, fingerprint: [u64; 2]) -> bool {
        let [first, second] = &self.fingerprint;
        (first.load(Relaxed) ^ fingerprint[0]) | (second.load(Relaxed) ^ fingerprint[1]) == 0
    }

    /// What it says besides the fingerprint, which is known.
    #[inline]
    pub(super) fn contents(&self, fingerprint: [u64; 2], version: Version) -> Contents {
        Contents {
            fingerprint,
            owner: self.owner.load(Relaxed),
            exact: self.exact.load(Relaxed),
            numbers: self.numbers.load(Relaxed),
            generation: (version.0 >> 32) as u32,
            life: Life(self.life.load(Relaxed)),
        }
    }

    /// What it says, if it is about this fingerprint and owner and nobody writes. One branch:
    /// the processor guesses it right for what is at home, and goes on with the words that it
    /// reads meanwhile.
    #[inline]
    pub(super) fn contents_if(&self, fingerprint: [u64; 2], owner: u64) -> Option<Contents> {
        let version = self.version.load(Acquire);
        let [first, second] = &self.fingerprint;
        let contents = self.contents(fingerprint, Version(version));
        let differ = (first.load(Relaxed) ^ fingerprint[0])
            | (second.load(Relaxed) ^ fingerprint[1])
            | (contents.owner ^ owner);
        fence(Acquire);
        // An odd one never comes back as the even one before it.
        let written = self.version.load(Relaxed) ^ (version & !1);
        (differ | written == 0).then_some(contents)
    }

    #[inline]
    pub(super) fn elsewhere(&self) -> Elsewhere {
        Elsewhere(self.elsewhere.load(Relaxed))
    }

    /// Notes a use, unless the slot has changed meanwhile.
    #[inline]
    pub(super) fn used(&self, life: Life, now_s: u32) {
        if let Some(after) = life.after_use(now_s) {
            // Lost to another reader's or a writer's: then that is what is known.
            let _ = (self.life).compare_exchange(life.0, after.0, Relaxed, Relaxed);
        }
    }

    /// What it says, for whoever holds the lock.
    pub(super) fn peek(&self) -> Contents {
        let version = Version(self.version.load(Relaxed));
        let [first, second] = &self.fingerprint;
        self.contents([first.load(Relaxed), second.load(Relaxed)], version)
    }

    /// Replaces everything. For whoever holds the lock.
    pub(super) fn write(&self, contents: &Contents, elsewhere: Elsewhere) {
        let count = self.begin();
        for (word, new) in self.fingerprint.iter().zip(contents.fingerprint) {
            word.store(new, Relaxed);
        }
        self.owner.store(contents.owner, Relaxed);
        self.exact.store(contents.exact, Relaxed);
        self.numbers.store(contents.numbers, Relaxed);
        // Readers exchange this one too. A store would have its place among theirs as well,
        // but in loom's models, which do not order the two.
        self.life.swap(contents.life.0, Relaxed);
        self.elsewhere.store(elsewhere.0, Relaxed);
        self.end(count, contents.generation);
    }

    /// Replaces what is elsewhere. For whoever holds the lock.
    pub(super) fn write_elsewhere(&self, elsewhere: Elsewhere) {
        let generation = (self.version.load(Relaxed) >> 32) as u32;
        let count = self.begin();
        self.elsewhere.store(elsewhere.0, Relaxed);
        self.end(count, generation);
    }

    fn begin(&self) -> u32 {
        let version = self.version.load(Relaxed);
        self.version.store(version | 1, Relaxed);
        // No word is seen before the odd count is.
        fence(Release);
        version as u32
    }

    fn end(&self, count: u32, generation: u32) {
        let version = u64::from(generation) << 32 | u64::from(count.wrapping_add(2));
        self.version.store(version, Release);
    }
}
