//! A set of sixteen slots, and how one more prefix comes into it.
//!
//! Always so, also for those who read meanwhile:
//! 1. What has its home at a place is there, or that place says where it is.
//! 2. When something has its home at a place, the place holds such a one, the newest.
//! 3. Those that a place says are elsewhere have different tags.
//!
//! What moves is written at the new place first, then the home says so, then the old place is
//! written over. A reader who was sent to the old place and finds another there sees that the
//! home has changed since, and looks again.
//!
//! For whoever holds the set's lock. Not here: which slot has to go ([`super::keep`]).

use super::WAYS;
use super::elsewhere::{Elsewhere, MOST};
use super::keep;
use super::place::{home, tag};
use super::slot::{Contents, Slot};

/// The slots of a set.
pub(super) struct Set<'table>(pub(super) &'table [Slot]);

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// In a place where nothing was.
    New,
    /// In the place of what had expired, or whose upstream was forgotten.
    Reused,
    /// It was there, and says something else now.
    Again,
    /// Something still good had to go.
    Evicted,
    /// The same, and it was its own tenant's, or that of one with more than its share.
    EvictedForShare,
    /// Another owner's live slot has the same fingerprint.
    Foreign,
}

impl Set<'_> {
    /// Puts `new` in. `alive` says which of the others still tell something; `share` is how
    /// many places a tenant may keep when the set is full.
    pub(super) fn commit(
        &self,
        new: &Contents,
        now_s: u32,
        share: usize,
        alive: impl Fn(&Contents) -> bool,
    ) -> Stored {
        if let Some(way) = self.find(new.fingerprint) {
            let old = self.0[way].peek();
            if old.owner != new.owner && alive(&old) {
                return Stored::Foreign;
            }
            let life = new.life.used_as(old.life);
            self.0[way].write(&Contents { life, ..*new }, self.0[way].elsewhere());
            return Stored::Again;
        }
        let there = self.0.iter().map(Slot::peek);
        let mut held = [Contents::NOTHING; WAYS];
        held.iter_mut()
            .zip(there)
            .for_each(|(held, there)| *held = there);
        let here = home(new.fingerprint);
        let gone = |way: &usize| !alive(&held[*way]);
        let (way, stored) = self.choose(&held, here, gone, |among| {
            if let Some(way) = among.iter().copied().find(gone) {
                return (way, Stored::Reused);
            }
            let victim = keep::victim(&held, among, new.whose(), now_s, share);
            let stored = if victim.for_share {
                Stored::EvictedForShare
            } else {
                Stored::Evicted
            };
            (victim.way, stored)
        });
        self.put(new, here, way);
        stored
    }

    /// Which place is given up, and what that means. `gone` says of which the time is over,
    /// `of_these` decides among those that hold something.
    fn choose(
        &self,
        held: &[Contents; WAYS],
        here: usize,
        gone: impl Fn(&usize) -> bool,
        of_these: impl Fn(&[usize]) -> (usize, Stored),
    ) -> (usize, Stored) {
        let at_home = &held[here];
        if at_home.is_nothing() {
            return (here, Stored::New);
        }
        if gone(&here) {
            return (here, Stored::Reused);
        }
        if home(at_home.fingerprint) == here {
            let elsewhere = self.0[here].elsewhere();
            if let Some(distance) = elsewhere.find(tag(at_home.fingerprint)) {
                // What is here could not be told from that one when it is elsewhere too.
                return of_these(&[here ^ distance]);
            }
            let mut family = [here; MOST + 1];
            let mut members = 1;
            for distance in elsewhere.distances() {
                family[members] = here ^ distance;
                members += 1;
            }
            if members > MOST {
                return of_these(&family);
            }
        }
        if let Some(way) = held.iter().position(Contents::is_nothing) {
            return (way, Stored::New);
        }
        of_these(&std::array::from_fn::<_, WAYS, _>(|way| way))
    }

    /// Puts `new`, whose home is `here`, in the place of what is at `way`.
    fn put(&self, new: &Contents, here: usize, way: usize) {
        let at_home = self.0[here].peek();
        if way == here {
            let elsewhere = self.0[here].elsewhere();
            self.disown(&at_home, here);
            return self.0[here].write(new, elsewhere);
        }
        let free = self.vacate(way);
        let at_home = self.0[here].peek();
        if at_home.is_nothing() {
            return self.0[here].write(new, Elsewhere::NOTHING);
        }
        self.0[free].write(&at_home, Elsewhere::NOTHING);
        let home_of_that = home(at_home.fingerprint);
        if home_of_that == here {
            let elsewhere = (self.0[here].elsewhere())
                .with(tag(at_home.fingerprint), here ^ free)
                .unwrap_or_else(|| unreachable!("room was made"));
            return self.0[here].write(new, elsewhere);
        }
        let lanes = self.0[home_of_that].elsewhere();
        let moved = lanes.moved(home_of_that ^ here, home_of_that ^ free);
        self.0[home_of_that].write_elsewhere(moved);
        self.0[here].write(new, Elsewhere::NOTHING);
    }

    /// Empties `way`, or another when what belongs there comes home; the empty one.
    fn vacate(&self, way: usize) -> usize {
        let gone = self.0[way].peek();
        if gone.is_nothing() {
            return way;
        }
        if home(gone.fingerprint) != way {
            self.disown(&gone, way);
            self.0[way].write(&Contents::NOTHING, Elsewhere::NOTHING);
            return way;
        }
        let elsewhere = self.0[way].elsewhere();
        // The one that lives longest.
        let distances = elsewhere.distances();
        let next = distances.max_by_key(|distance| self.0[way ^ distance].peek().life.expires_s());
        let Some(distance) = next else {
            self.0[way].write(&Contents::NOTHING, Elsewhere::NOTHING);
            return way;
        };
        let comes_home = self.0[way ^ distance].peek();
        self.0[way].write(&comes_home, elsewhere.without(distance));
        self.0[way ^ distance].write(&Contents::NOTHING, Elsewhere::NOTHING);
        way ^ distance
    }

    /// The home of what is at `way`, if that is another place, no longer says so.
    fn disown(&self, gone: &Contents, way: usize) {
        let home = home(gone.fingerprint);
        if home != way {
            let elsewhere = self.0[home].elsewhere().without(home ^ way);
            self.0[home].write_elsewhere(elsewhere);
        }
    }

    fn find(&self, fingerprint: [u64; 2]) -> Option<usize> {
        let home = home(fingerprint);
        if self.0[home].has(fingerprint) {
            return Some(home);
        }
        let way = home ^ self.0[home].elsewhere().find(tag(fingerprint))?;
        self.0[way].has(fingerprint).then_some(way)
    }
}
