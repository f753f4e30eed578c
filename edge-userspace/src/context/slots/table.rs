//! The table: how a prefix is found without a lock, and put in under that of its set.
//!
//! Not here: counters, sizes, and where the memory comes from.

use super::life::Life;
use super::memory::Memory;
use super::place::{owner, tag, whose};
use super::set::{Set, Stored};
use super::slot::{Contents, Slot};
use super::sync::{AtomicU32, Mutex, Ordering, PoisonError, spin_loop};
use super::{LOOKS, WAYS};
use crate::context::Key;
use crate::context::slots::Entry;
use crate::upstream::UpstreamId;

/// Sets share locks; writers of different sets seldom meet.
const LOCKS: usize = 64;
/// The slots of all sets.
pub(super) struct Table {
    slots: Memory,
    locks: Box<[Mutex<()>]>,
    /// How often each upstream was forgotten.
    generations: Box<[AtomicU32]>,
    /// Places of a set that a tenant may keep when it is full.
    share: usize,
}

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// It is not there.
    Absent,
    /// It is there, of another tenant or context.
    Foreign,
    /// Its time is over.
    Expired,
    /// Its upstream was forgotten since.
    Forgotten,
    /// Writers were at work all the time.
    Busy,
}

impl Table {
    /// Over slots that are all empty; their number is a power of two.
    pub(super) fn new(slots: Memory, upstreams: u16, share: usize) -> Self {
        assert!(slots.len().is_power_of_two() && slots.len() >= WAYS);
        Self {
            slots,
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
            generations: (0..upstreams).map(|_| AtomicU32::new(0)).collect(),
            share,
        }
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The line that a look-up begins with.
    #[inline]
    pub(super) fn home(&self, key: &Key) -> &Slot {
        &self.slots[self.place(key.fingerprint.words())]
    }

    /// What is known of a prefix, straight on and all in registers. Err(None): something is
    /// to be noted, to be told apart, or to be waited for, and [`Self::find_with_care`] does.
    #[inline(always)]
    pub(super) fn find(&self, key: &Key, now_s: u32) -> Result<Contents, Option<Missed>> {
        let (fingerprint, owner) = (key.fingerprint.words(), owner(key));
        let place = self.place(fingerprint);
        let home = &self.slots[place];
        let contents = match home.contents_if(fingerprint, owner) {
            Some(contents) => contents,
            None => {
                let Some(version) = home.version() else {
                    return Err(None);
                };
                let (here, elsewhere) = (home.has(fingerprint), home.elsewhere());
                if here || !home.is_still(version) {
                    return Err(None);
                }
                let Some(distance) = elsewhere.find(tag(fingerprint)) else {
                    return Err(Some(Missed::Absent));
                };
                let slot = &self.slots[place ^ distance];
                slot.contents_if(fingerprint, owner).ok_or(None)?
            }
        };
        let live = contents.life.is_quiet(now_s) && self.is_of_now(&contents);
        if live { Ok(contents) } else { Err(None) }
    }

    /// What is known of a prefix, wherever it is. The use is noted.
    #[inline(never)]
    pub(super) fn find_with_care(&self, key: &Key, now_s: u32) -> Result<Contents, Missed> {
        let (slot, contents) = self.look_at(key, now_s)?;
        slot.used(contents.life, now_s);
        Ok(contents)
    }

    /// The same, and no use is noted.
    pub(super) fn peek(&self, key: &Key, now_s: u32) -> Result<Contents, Missed> {
        self.look_at(key, now_s).map(|(_, contents)| contents)
    }

    #[inline]
    fn look_at(&self, key: &Key, now_s: u32) -> Result<(&Slot, Contents), Missed> {
        let (slot, contents) = self.look_up(key.fingerprint.words())?;
        if contents.owner != owner(key) {
            return Err(Missed::Foreign);
        }
        if now_s >= contents.life.expires_s() {
            return Err(Missed::Expired);
        }
        if !self.is_of_now(&contents) {
            return Err(Missed::Forgotten);
        }
        Ok((slot, contents))
    }

    /// Keeps what is known of a prefix. None: there is no such upstream.
    pub(super) fn commit(&self, key: &Key, entry: &Entry, now_s: u32) -> Option<Stored> {
        let generation = self.generations.get(usize::from(entry.upstream.0))?;
        let fingerprint = key.fingerprint.words();
        let new = Contents {
            fingerprint,
            owner: owner(key),
            exact: entry.exact,
            numbers: u64::from(whose(key.tenant)) << 32 | u64::from(entry.tokens),
            generation: generation.load(Ordering::Acquire),
            life: Life::new(now_s, entry.long, entry.upstream),
        };
        let first = self.place(fingerprint) & !(WAYS - 1);
        let lock = &self.locks[first / WAYS % LOCKS];
        // Whoever panicked amid a write would have left an odd count, and none can.
        let locked = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let set = Set(&self.slots[first..first + WAYS]);
        let alive =
            |contents: &Contents| now_s < contents.life.expires_s() && self.is_of_now(contents);
        let stored = set.commit(&new, now_s, self.share, alive);
        drop(locked);
        Some(stored)
    }

    /// Nothing that was committed of this upstream before is found any more.
    pub(super) fn forget_upstream(&self, upstream: UpstreamId) {
        if let Some(generation) = self.generations.get(usize::from(upstream.0)) {
            generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The slot with this fingerprint, and what it says.
    #[inline]
    fn look_up(&self, fingerprint: [u64; 2]) -> Result<(&Slot, Contents), Missed> {
        let place = self.place(fingerprint);
        let home = &self.slots[place];
        for _ in 0..LOOKS {
            let Some(version) = home.version() else {
                spin_loop();
                continue;
            };
            if home.has(fingerprint) {
                let contents = home.contents(fingerprint, version);
                if home.is_still(version) {
                    return Ok((home, contents));
                }
                continue;
            }
            let elsewhere = home.elsewhere();
            if !home.is_still(version) {
                continue;
            }
            let Some(distance) = elsewhere.find(tag(fingerprint)) else {
                return Err(Missed::Absent);
            };
            let slot = &self.slots[place ^ distance];
            let Some(of_slot) = slot.version() else {
                spin_loop();
                continue;
            };
            let same = slot.has(fingerprint);
            let contents = slot.contents(fingerprint, of_slot);
            if !slot.is_still(of_slot) {
                continue;
            }
            if same {
                return Ok((slot, contents));
            }
            // Another's, with the same tag, unless it has moved.
            if home.is_still(version) {
                return Err(Missed::Absent);
            }
        }
        Err(Missed::Busy)
    }

    #[inline]
    fn place(&self, fingerprint: [u64; 2]) -> usize {
        fingerprint[0] as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn is_of_now(&self, contents: &Contents) -> bool {
        let generation = self
            .generations
            .get(usize::from(contents.life.upstream().0));
        generation.is_some_and(|now| now.load(Ordering::Acquire) == contents.generation)
    }
}
