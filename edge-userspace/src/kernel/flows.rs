//! Reads the kernel half's flow table: what it has decided about a connection, and how full
//! the table is. The kernel writes it, and nobody here ever does.

use super::memory::Memory;
use super::program::{ProgramError, Tables};
use aya::maps::MapData;
use edge_common::flow::{FlowKey, FlowSet, FlowSlot, WAYS, state};
use edge_common::policy::Reason;
use edge_common::siphash;
use edge_common::token::KeyId;
use serde::Serialize;
use std::mem::{offset_of, size_of};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering, fence};

const SET_WORDS: usize = size_of::<FlowSet>() / 8;
const SLOT_WORDS: usize = size_of::<FlowSlot>() / 8;
/// What is read of a slot: all but the scan under way and its bytes.
const RECORD_WORDS: usize = offset_of!(FlowSlot, hello) / 8;

/// A CPU holds a set for some hundred nanoseconds at a time.
const TRIES: u32 = 1000;
/// Sets that [`FlowTable::usage`] looks at; of a larger table it looks at every second one,
/// or every fourth and so on.
const SAMPLED_SETS: usize = 8192;
/// Hellos that began or were judged longer ago are nothing to wait for any more.
const RECENT_NS: u64 = 60_000_000_000;

/// The kernel's flow table, read only.
pub struct FlowTable {
    sets: Memory,
    slots: Memory,
    secret: siphash::Key,
    sets_mask: u32,
}

/// What the kernel knows of one connection: [`FlowSlot`] at one moment, without its scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// One of [`state`].
    pub state: u32,
    /// The verdict's reason, when there is a verdict.
    pub reason: Option<Reason>,
    /// When the entry was made, CLOCK_MONOTONIC, nanoseconds.
    pub began_ns: u64,
    /// When the verdict was given, CLOCK_MONOTONIC, nanoseconds.
    pub judged_ns: u64,
    /// The key id that the token claimed; 0 when there was no readable token.
    pub key_id: KeyId,
    /// Segments that carried the hello so far.
    pub segments: u32,
    /// Bytes of the hello that were followed so far.
    pub hello_bytes: u32,
}

/// What a look into the table gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The connection is there.
    Found(Flow),
    /// It is not.
    Absent,
    /// The kernel wrote there all the time.
    Contended,
}

/// How full the table is. Of one with more than 32,768 places, an estimate by a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Places that there are.
    pub capacity: u64,
    /// Places taken, also by connections that ended long ago: they are the first to go.
    pub used: u64,
    /// Places of hellos that began or were judged within the last minute.
    pub recent: u64,
    /// Of these, hellos that have begun and not ended.
    pub unfinished: u64,
}

/// The sets for at least `flows` connections: a power of two.
#[must_use]
pub fn sets_for(flows: u32) -> u32 {
    (flows.clamp(1, 1 << 30)).div_ceil(WAYS).next_power_of_two()
}

/// The words of the two tables with so many sets.
#[must_use]
pub fn words_for(sets: u32) -> (usize, usize) {
    let sets = sets as usize;
    (sets * SET_WORDS, sets * WAYS as usize * SLOT_WORDS)
}

/// The client's and the server's address and port, IPv4 as such: what
/// [`crate::charges::flow_key`] is made of.
#[must_use]
pub fn addresses(flow: &FlowKey) -> (SocketAddr, SocketAddr) {
    let address = |words: [u32; 4], port_be| {
        let mut octets = [0; 16];
        for (bytes, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
        let address = Ipv6Addr::from(octets).to_canonical();
        SocketAddr::new(address, u16::from_be(port_be))
    };
    (
        address(flow.client, flow.client_port_be),
        address(flow.server, flow.server_port_be),
    )
}

impl FlowTable {
    /// The kernel half's table of so many sets, placed by what `Settings::secret` says.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn map(tables: &Tables, sets: u32, secret: siphash::Key) -> Result<Self, ProgramError> {
        let map = |map, data: &MapData, words| {
            Memory::map(data.fd(), words).map_err(|source| ProgramError::Memory { map, source })
        };
        let (set_words, slot_words) = words_for(sets);
        let set_words = map("FLOW_SETS", &tables.flow_sets, set_words)?;
        let slot_words = map("FLOW_SLOTS", &tables.flow_slots, slot_words)?;
        Self::new(set_words, slot_words, secret).ok_or(ProgramError::Missing("flow table"))
    }

    /// The table in these words, placed by this secret. `None` when they are not as many as
    /// a power of two of sets has.
    #[must_use]
    pub fn new(sets: Memory, slots: Memory, secret: siphash::Key) -> Option<Self> {
        let number = u32::try_from(sets.len() / SET_WORDS).ok()?;
        let good = number.is_power_of_two() && words_for(number) == (sets.len(), slots.len());
        good.then_some(Self {
            sets,
            slots,
            secret,
            sets_mask: number - 1,
        })
    }

    /// What the kernel knows of a connection.
    #[must_use]
    pub fn find(&self, flow: &FlowKey) -> Look {
        let (set, tag) = flow.place(self.secret, self.sets_mask);
        let set = set as usize;
        for _ in 0..TRIES {
            let Some(before) = self.begin(set) else {
                std::hint::spin_loop();
                continue;
            };
            let found = (0..WAYS as usize)
                .filter(|way| self.tag(set, *way) == tag)
                .find_map(|way| self.read(set, way, flow));
            // What was read before this counts only if the sequence read after is the same.
            fence(Ordering::Acquire);
            if self.sequence(set, Ordering::Relaxed) == before {
                return found.map_or(Look::Absent, Look::Found);
            }
        }
        Look::Contended
    }

    /// How full the table is at `now_ns` (CLOCK_MONOTONIC). One pass over a bounded part of
    /// it, without consistency: entries come and go meanwhile.
    #[must_use]
    pub fn usage(&self, now_ns: u64) -> Usage {
        let sets = self.sets_mask as usize + 1;
        let step = (sets / SAMPLED_SETS).max(1);
        let (mut used, mut recent, mut unfinished) = (0, 0, 0);
        for set in (0..sets).step_by(step) {
            for way in 0..WAYS as usize {
                if self.tag(set, way) == 0 {
                    continue;
                }
                used += 1;
                let slot = &self.slots[(set * WAYS as usize + way) * SLOT_WORDS..];
                let is_begun = half(slot, offset_of!(FlowSlot, state)) == state::BEGUN;
                let at = if is_begun {
                    offset_of!(FlowSlot, began_ns)
                } else {
                    offset_of!(FlowSlot, judged_ns)
                };
                if now_ns.saturating_sub(slot[at / 8].load(Ordering::Relaxed)) > RECENT_NS {
                    continue;
                }
                recent += 1;
                unfinished += u64::from(is_begun);
            }
        }
        let step = step as u64;
        Usage {
            capacity: sets as u64 * u64::from(WAYS),
            used: used * step,
            recent: recent * step,
            unfinished: unfinished * step,
        }
    }

    /// The set's sequence number when no CPU writes there.
    fn begin(&self, set: usize) -> Option<u32> {
        let sequence = self.sequence(set, Ordering::Acquire);
        (sequence & 1 == 0).then_some(sequence)
    }

    fn sequence(&self, set: usize, ordering: Ordering) -> u32 {
        let bytes = self.sets[set * SET_WORDS].load(ordering).to_ne_bytes();
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn tag(&self, set: usize, way: usize) -> u32 {
        half(
            &self.sets[set * SET_WORDS..],
            offset_of!(FlowSet, tags) + way * 4,
        )
    }

    /// The entry, if it is this connection's.
    fn read(&self, set: usize, way: usize, flow: &FlowKey) -> Option<Flow> {
        let slot = (set * WAYS as usize + way) * SLOT_WORDS;
        let slot = &self.slots[slot..][..RECORD_WORDS];
        let half = |at| half(slot, at);
        let whole = |at: usize| slot[at / 8].load(Ordering::Relaxed);
        let [client, server] = [offset_of!(FlowKey, client), offset_of!(FlowKey, server)]
            .map(|at| [half(at), half(at + 4), half(at + 8), half(at + 12)]);
        let ports = half(offset_of!(FlowKey, client_port_be)).to_ne_bytes();
        let same = client == flow.client
            && server == flow.server
            && ports[..2] == flow.client_port_be.to_ne_bytes()
            && ports[2..] == flow.server_port_be.to_ne_bytes();
        let state = half(offset_of!(FlowSlot, state));
        let judged = matches!(state, state::JUDGED | state::REJECTED | state::CLOSED);
        let reason = Reason::ALL.get(half(offset_of!(FlowSlot, reason)) as usize);
        (same && state != state::FREE).then(|| Flow {
            state,
            reason: reason.copied().filter(|_| judged),
            began_ns: whole(offset_of!(FlowSlot, began_ns)),
            judged_ns: whole(offset_of!(FlowSlot, judged_ns)),
            key_id: KeyId(whole(offset_of!(FlowSlot, key_id))),
            segments: half(offset_of!(FlowSlot, segments)),
            hello_bytes: half(offset_of!(FlowSlot, hello_bytes)),
        })
    }
}

/// Four bytes of words that others write.
fn half(words: &[AtomicU64], at: usize) -> u32 {
    let bytes = words[at / 8].load(Ordering::Relaxed).to_ne_bytes();
    let (halves, _) = bytes.as_chunks::<4>();
    u32::from_ne_bytes(halves[at % 8 / 4])
}

#[cfg(test)]
pub(super) mod tests;
