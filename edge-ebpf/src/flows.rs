//! The flow table: finding a connection's entry, taking a copy, putting it back.
//!
//! The tags are read without the lock, which is enough to know that there is no entry;
//! everything else happens under the set's lock, for another CPU may give the place to
//! another connection meanwhile. Nothing is called while the lock is held.

use core::arch::asm;
use edge_common::flow::{CLOSED_AGE, FlowSet, FlowSlot, WAYS, state};
use edge_common::policy::{Counter, Settings};

use crate::maps::{FLOW_SETS, FLOW_SLOTS};
use crate::packet::opaque;
use crate::scratch::{NO_WAY, Scratch};

/// A holder is done within some fifty nanoseconds.
const LOCK_TURNS: u32 = 24;
/// An entry of this age, nanoseconds, is missed by nobody.
const FORGOTTEN_NS: i64 = 60_000_000_000;
/// In this time, nanoseconds, the daemon has looked after a refused connection.
const SETTLED_NS: i64 = 1_000_000_000;
/// Words of a slot, and of the part before the scan.
const SLOT_WORDS: usize = size_of::<FlowSlot>() / 8;
const HEAD_WORDS: usize = core::mem::offset_of!(FlowSlot, hello) / 8;
const FLOW_WORDS: usize = 5;

/// Another CPU holds the set.
pub(crate) struct Contended;

/// Why a record has no place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// Another CPU holds the set, or what is there must stay.
    NoRoom,
    /// Another CPU had the same segment, or one behind it, in the meantime.
    Overtaken,
}

/// Finds the connection's set and, by the tags alone, its place.
#[inline(always)]
pub(crate) fn look(scratch: &mut Scratch, settings: &Settings) -> bool {
    let (set, tag) = (scratch.record.flow).place(settings.secret, settings.flow_sets_mask);
    scratch.set = set;
    scratch.tag = tag;
    scratch.way = NO_WAY;
    let Some(tags) = FLOW_SETS.get_ptr(set) else {
        return false;
    };
    let mut way = 0;
    while way < WAYS {
        if tag_at(tags, way) == tag {
            scratch.way = way;
            return true;
        }
        way += 1;
    }
    false
}

/// Copies the entry into the scratch memory. `Ok(false)`: it is another connection's.
#[inline(always)]
pub(crate) fn take(scratch: &mut Scratch) -> Result<bool, Contended> {
    let (Some(set), Some(slot)) = (set(scratch.set), slot(scratch.set, scratch.way)) else {
        return Ok(false);
    };
    let held = lock(set)?;
    let record = (&raw mut scratch.record).cast::<u64>();
    let ours = same_flow(slot, record);
    if ours {
        copy::<SLOT_WORDS>(slot, record);
    }
    unlock(set, held);
    scratch.taken_judged_ns = scratch.record.judged_ns;
    scratch.taken_segments = scratch.record.segments;
    Ok(ours)
}

/// Puts the scratch memory's record into the table: into the connection's place, or into
/// one that is free or was touched longest ago. `WITH_SCAN`: the scan under way too.
/// A refused connection is not pushed out while the daemon still has to look whether a
/// socket is left of it; so many are never answered that they could fill the table.
#[inline(always)]
pub(crate) fn put<const WITH_SCAN: bool>(scratch: &mut Scratch) -> Result<(), Unplaced> {
    let Some(set) = set(scratch.set) else {
        return Err(Unplaced::NoRoom);
    };
    let record = (&raw mut scratch.record).cast::<u64>();
    let Ok(held) = lock(set) else {
        return Err(Unplaced::NoRoom);
    };
    let was_known = scratch.way != NO_WAY;
    if !was_known {
        // Perhaps it is there by now.
        let mut other = 0;
        while other < WAYS {
            if tag_at(set, other) == scratch.tag {
                scratch.way = other;
            }
            other += 1;
        }
    }
    let known = slot(scratch.set, scratch.way);
    let mut touched = held as u32;
    if scratch.record.state == state::CLOSED {
        touched = touched.wrapping_sub(CLOSED_AGE);
    }
    let mut evicts = false;
    let mut is_settled = true;
    let mut evicted = state::FREE;
    let mut way = NO_WAY;
    if let Some(slot) = known
        && tag_at(set, scratch.way) == scratch.tag
        && same_flow(slot, record)
    {
        way = scratch.way;
        let there = slot.cast::<FlowSlot>();
        // SAFETY: the slot is a map's value.
        let judged_ns = unsafe { (&raw const (*there).judged_ns).read_volatile() };
        // SAFETY: as above.
        let segments = unsafe { (&raw const (*there).segments).read_volatile() };
        let as_taken =
            was_known && judged_ns == scratch.taken_judged_ns && segments == scratch.taken_segments;
        if !as_taken {
            unlock(set, held);
            return Err(Unplaced::Overtaken);
        }
    }
    if way == NO_WAY {
        way = oldest(set, held as u32);
        evicts = tag_at(set, way) != 0;
    }
    if let Some(slot) = slot(scratch.set, way) {
        if evicts {
            let old = slot.cast::<FlowSlot>();
            // SAFETY: the slot is a map's value.
            let began_ns = unsafe { (&raw const (*old).began_ns).read_volatile() };
            if age(scratch.monotonic_ns, began_ns) < FORGOTTEN_NS {
                // SAFETY: as above.
                evicted = unsafe { (&raw const (*old).state).read_volatile() };
            }
            // SAFETY: as above.
            let judged_ns = unsafe { (&raw const (*old).judged_ns).read_volatile() };
            is_settled = age(scratch.monotonic_ns, judged_ns) >= SETTLED_NS;
        }
        if evicted == state::REJECTED && !is_settled {
            unlock(set, held);
            return Err(Unplaced::NoRoom);
        }
        if WITH_SCAN {
            copy::<SLOT_WORDS>(record, slot);
        } else {
            copy::<HEAD_WORDS>(record, slot);
        }
        set_place(set, way, scratch.tag, touched);
    }
    unlock(set, held);
    scratch.way = way;
    if evicted != state::FREE {
        scratch.count(Counter::FlowsEvicted as u32);
        if evicted == state::BEGUN {
            scratch.count(Counter::HellosEvicted as u32);
        }
    }
    Ok(())
}

/// Marks the connection's entry as closed, if it still has one.
#[inline(always)]
pub(crate) fn close(scratch: &mut Scratch) {
    let (Some(set), Some(slot)) = (set(scratch.set), slot(scratch.set, scratch.way)) else {
        return;
    };
    let record = (&raw mut scratch.record).cast::<u64>();
    let Ok(held) = lock(set) else { return };
    if same_flow(slot, record) {
        // SAFETY: the slot is a map's value; `state` is a word of it.
        unsafe { (&raw mut (*slot.cast::<FlowSlot>()).state).write_volatile(state::CLOSED) };
        set_place(
            set,
            scratch.way,
            scratch.tag,
            (held as u32).wrapping_sub(CLOSED_AGE),
        );
    }
    unlock(set, held);
}

/// Frees the connection's place.
#[inline(always)]
pub(crate) fn forget(scratch: &mut Scratch) {
    let (Some(set), Some(slot)) = (set(scratch.set), slot(scratch.set, scratch.way)) else {
        return;
    };
    let record = (&raw mut scratch.record).cast::<u64>();
    let Ok(held) = lock(set) else { return };
    if same_flow(slot, record) {
        set_place(set, scratch.way, 0, 0);
    }
    unlock(set, held);
}

#[inline(always)]
fn set(number: u32) -> Option<*mut FlowSet> {
    FLOW_SETS.get_ptr_mut(number)
}

#[inline(always)]
fn slot(set: u32, way: u32) -> Option<*mut u64> {
    if way >= WAYS {
        return None;
    }
    Some(FLOW_SLOTS.get_ptr_mut(set * WAYS + way)?.cast())
}

/// Below 0 when another CPU's clock was a tick ahead.
#[inline(always)]
fn age(now_ns: u64, then_ns: u64) -> i64 {
    now_ns.wrapping_sub(then_ns) as i64
}

/// The place that is free, or was touched longest ago.
///
/// Without a branch: which it is cannot be foreseen, and each branch that is foreseen wrongly
/// costs as much as all of this.
#[inline(always)]
fn oldest(set: *const FlowSet, now: u32) -> u32 {
    let first = later(age_at(set, 0, now), age_at(set, 1, now));
    let second = later(age_at(set, 2, now), age_at(set, 3, now));
    WAYS - 1 - (later(first, second) as u32 & (WAYS - 1))
}

/// The place's age, or more than any has when it is free, above its number from the last: of
/// two of one age the first is taken.
#[inline(always)]
fn age_at(set: *const FlowSet, way: u32, now: u32) -> u64 {
    let is_free = opaque(u64::from(tag_at(set, way)).wrapping_sub(1)) >> 63;
    let age = u64::from(now.wrapping_sub(touched_at(set, way)));
    (is_free << 32 | age) << 2 | u64::from(WAYS - 1 - way)
}

/// The greater of two that are less than 2^63.
#[inline(always)]
fn later(a: u64, b: u64) -> u64 {
    let more = b.wrapping_sub(a);
    let is_less = opaque((more as i64 >> 63) as u64);
    a.wrapping_add(more & !is_less)
}

const _: () = assert!(WAYS == 4);

// A set's words by place: the mask is real, for the verifier knows a place as any number.

#[inline(always)]
fn place(way: u32) -> usize {
    (opaque(u64::from(way)) & u64::from(WAYS - 1)) as usize
}

#[inline(always)]
fn tag_at(set: *const FlowSet, way: u32) -> u32 {
    // SAFETY: the set is a map's value, the place is within its array. Volatile, as other
    // CPUs write it.
    unsafe {
        (&raw const (*set).tags)
            .cast::<u32>()
            .add(place(way))
            .read_volatile()
    }
}

#[inline(always)]
fn touched_at(set: *const FlowSet, way: u32) -> u32 {
    // SAFETY: as above.
    unsafe {
        (&raw const (*set).touched)
            .cast::<u32>()
            .add(place(way))
            .read_volatile()
    }
}

#[inline(always)]
fn set_place(set: *mut FlowSet, way: u32, tag: u32, touched: u32) {
    let way = place(way);
    // SAFETY: as above, and the lock is held.
    unsafe {
        (&raw mut (*set).tags)
            .cast::<u32>()
            .add(way)
            .write_volatile(tag)
    };
    // SAFETY: as above.
    unsafe {
        (&raw mut (*set).touched)
            .cast::<u32>()
            .add(way)
            .write_volatile(touched)
    };
}

#[inline(always)]
fn same_flow(slot: *const u64, record: *const u64) -> bool {
    let mut differ = 0;
    let mut word = 0;
    while word < FLOW_WORDS {
        // SAFETY: both begin with a flow key of that many words.
        differ |= unsafe { slot.add(word).read_volatile() ^ record.add(word).read_volatile() };
        word += 1;
    }
    differ == 0
}

/// Word by word: a longer copy would become a call of `memcpy`, byte by byte.
#[inline(always)]
fn copy<const WORDS: usize>(from: *const u64, to: *mut u64) {
    let mut word = 0;
    while word < WORDS {
        // SAFETY: both are flow slots, in maps.
        unsafe { to.add(word).write_volatile(from.add(word).read_volatile()) };
        word += 1;
    }
}

/// Makes the set's sequence odd. Returns what it was.
#[inline(always)]
fn lock(set: *mut FlowSet) -> Result<u64, Contended> {
    let word = set.cast::<u64>();
    let mut turn = 0;
    while turn < LOCK_TURNS {
        turn += 1;
        // SAFETY: the set is a map's value, 8-byte aligned; sequence and padding are a word.
        let seen = unsafe { word.read_volatile() };
        if seen & 1 == 0 && compare_exchange(word, seen, seen + 1) == seen {
            return Ok(seen);
        }
    }
    Err(Contended)
}

#[inline(always)]
fn unlock(set: *mut FlowSet, held: u64) {
    let word = set.cast::<u64>();
    // The sequence is 32 bits; the padding above it stays 0.
    let next = (held + 2) & 0xffff_ffff;
    // SAFETY: a static that is written before the program is loaded, so that the verifier
    // takes the other way out. Volatile, or the compiler would take what stands here.
    if unsafe { (&raw const STORES_IN_ORDER).read_volatile() } != 0 {
        // SAFETY: as in `lock`.
        unsafe { word.write_volatile(next) };
    } else {
        exchange(word, next);
    }
}

/// 1: other processors see this one's stores in the order in which it makes them, as x86's do
/// (AMD64 Architecture Programmer's Manual, volume 2, section 7.2): who sees the set's new
/// sequence sees all that was written before, without an atomic instruction. Userspace writes
/// it before it loads the program.
#[unsafe(no_mangle)]
static STORES_IN_ORDER: u64 = 0;

/// Atomically replaces `expected` by `new`; returns what was there. A full barrier
/// (Linux 5.12).
#[inline(always)]
pub(crate) fn compare_exchange(word: *mut u64, expected: u64, new: u64) -> u64 {
    let mut seen = expected;
    // SAFETY: the word is in a map's value and aligned. Rust has no atomics for this target.
    unsafe {
        asm!(
            "r0 = cmpxchg_64({word} + 0, r0, {new})",
            word = in(reg) word,
            new = in(reg) new,
            inout("r0") seen,
            options(nostack),
        );
    }
    seen
}

/// Atomically writes a word; returns what was there. A full barrier (Linux 5.12).
#[inline(always)]
fn exchange(word: *mut u64, mut new: u64) -> u64 {
    // SAFETY: as above.
    unsafe {
        asm!(
            "{new} = xchg_64({word} + 0, {new})",
            word = in(reg) word,
            new = inout(reg) new,
            options(nostack),
        );
    }
    new
}
