//! What is known of a prefix, found by its key in some nanoseconds.
//!
//! A table of 64-byte slots in sets of sixteen. A prefix has a home in its set, where the
//! newest of those with the same home is; a home knows where its others are. So a hit reads
//! one line of memory, or two, and a miss hardly ever more than one. Reading takes no lock
//! and never waits; writers lock a set ([`table`](self), `set`, `slot`, from the top down).
//! The whole is bounded: a full set gives up a slot (`keep` says which).
//!
//! Not here: what a fingerprint is made of ([`super`]), and what is done with what is found.

mod counters;
mod elsewhere;
mod keep;
mod life;
mod memory;
mod place;
mod set;
mod slot;
mod sync;
mod table;
#[cfg(test)]
mod tests;

pub use counters::Counters;

use super::Key;
use crate::upstream::UpstreamId;
use counters::PerThread;
use life::Life;
use memory::Memory;
use std::io;
use table::Table;

/// Slots of a set. A set is what is looked at when one has to go.
const WAYS: usize = 16;
/// So often a reader looks again when a writer is at work, then it is a miss: it never waits
/// for a writer that was put aside by the scheduler.
const LOOKS: usize = 64;

/// What is known of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it went last, so whose cache has it.
    pub upstream: UpstreamId,
    /// Tokens of the prefix.
    pub tokens: u32,
    /// The byte-exact hash of the prefix that `tokens` counts: for other bytes with the same
    /// fingerprint the number is an estimate.
    pub exact: u64,
    /// Kept for an hour after its last use, else for five minutes (`cache_control`'s `ttl`).
    pub long: bool,
}

/// How large the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Most bytes of the slots; the next lower power of two is taken, [`Sizes::LEAST_BYTES`]
    /// at least. All of it is in use from the start.
    pub bytes: usize,
    /// Ask for huge pages. Where there are none the table is only slower.
    pub huge_pages: bool,
    /// How much of a set one tenant may keep when others want it, thousandths; in steps of a
    /// sixteenth, one at least. Where nobody else wants it, a tenant may have it all.
    pub tenant_share_per_mille: u16,
}

impl Sizes {
    /// One set.
    pub const LEAST_BYTES: usize = WAYS * SLOT_BYTES;
    /// 2^40, beyond which it is surely a mistake.
    pub const MOST_BYTES: usize = 1 << 40;
}

impl Default for Sizes {
    /// 524,288 slots: five minutes of 1,700 new prefixes a second.
    fn default() -> Self {
        Self {
            bytes: 32 << 20,
            huge_pages: true,
            tenant_share_per_mille: 250,
        }
    }
}

const SLOT_BYTES: usize = 64;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum SlotsError {
    /// Too small or too large.
    #[error(
        "a table of context slots of {0} bytes: give {least} to {most}",
        least = Sizes::LEAST_BYTES, most = Sizes::MOST_BYTES
    )]
    Size(usize),
    /// The system does not give the memory.
    #[error("no memory for {bytes} bytes of context slots: {source}; make the table smaller")]
    Memory {
        /// How many were asked for.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
}

/// The table of slots. All threads share one.
pub struct Slots {
    table: Table,
    counters: PerThread,
}

impl Slots {
    /// An empty table. There will never be more upstreams than `upstreams`; what is committed
    /// of others is not kept.
    ///
    /// # Errors
    /// A size out of bounds, or no memory.
    pub fn new(sizes: &Sizes, upstreams: u16) -> Result<Self, SlotsError> {
        if !(Sizes::LEAST_BYTES..=Sizes::MOST_BYTES).contains(&sizes.bytes) {
            return Err(SlotsError::Size(sizes.bytes));
        }
        let slots = 1 << (sizes.bytes / SLOT_BYTES).ilog2();
        let bytes = slots * SLOT_BYTES;
        let memory = Memory::new(slots, sizes.huge_pages)
            .map_err(|source| SlotsError::Memory { bytes, source })?;
        let share = usize::from(sizes.tenant_share_per_mille) * WAYS / 1000;
        Ok(Self {
            table: Table::new(memory, upstreams, share.max(1)),
            counters: PerThread::new(),
        })
    }

    /// Has what a look-up begins with fetched from memory, for one that follows a little later.
    #[inline]
    pub fn prefetch(&self, key: &Key) {
        memory::prefetch(self.table.home(key));
    }

    /// What is known of a prefix at `now_s`, seconds of a clock that does not go back. Takes no
    /// lock, allocates nothing, never waits. A hit keeps the slot for its time anew.
    #[inline(always)]
    pub fn find(&self, key: &Key, now_s: u32) -> Option<Entry> {
        // What is found straight on stays in registers.
        let [exact, numbers, life] = match self.table.find(key, now_s) {
            Ok(contents) => contents.words(),
            Err(why) => {
                let care = || self.table.find_with_care(key, now_s);
                match why.map_or_else(care, Err) {
                    Ok(contents) => contents.words(),
                    Err(why) => {
                        self.counters.missed(why);
                        return None;
                    }
                }
            }
        };
        self.counters.hit();
        Some(entry(exact, numbers, Life(life)))
    }

    /// The same as [`Slots::find`], but nothing is counted and nothing kept longer.
    #[must_use]
    pub fn peek(&self, key: &Key, now_s: u32) -> Option<Entry> {
        let contents = self.table.peek(key, now_s).ok()?;
        let [exact, numbers, life] = contents.words();
        Some(entry(exact, numbers, Life(life)))
    }

    /// Keeps what is known of a prefix, in place of what was, and for its time from `now_s` on.
    /// A full set gives up another.
    pub fn commit(&self, key: &Key, entry: Entry, now_s: u32) {
        if let Some(stored) = self.table.commit(key, &entry, now_s) {
            self.counters.stored(stored);
        }
    }

    /// After this has returned, nothing that was committed of this upstream before is found.
    /// Takes the same short time however much that is.
    pub fn forget_upstream(&self, upstream: UpstreamId) {
        self.table.forget_upstream(upstream);
    }

    /// What happened since the start, and what there is. Threads count each for itself, so
    /// numbers that belong together may differ by what goes on just now.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.sum(self.table.slots().len())
    }
}

#[inline]
fn entry(exact: u64, numbers: u64, life: Life) -> Entry {
    Entry {
        upstream: life.upstream(),
        tokens: numbers as u32,
        exact,
        long: life.long(),
    }
}
