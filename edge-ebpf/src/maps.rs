//! The maps that the daemon and the program share, and the look-ups in them.

use aya_ebpf::{
    EbpfContext as _,
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC},
    helpers::generated::{bpf_jiffies64, bpf_ktime_get_coarse_ns, bpf_tail_call},
    macros::map,
    maps::{Array, HashMap, PerCpuArray, ProgramArray, RingBuf},
    programs::XdpContext,
};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use edge_common::flow::{FlowSet, FlowSlot};
use edge_common::policy::{Clock, KeyPolicy, Keys, Settings};
use edge_common::rate::KeyBucket;
use edge_common::rehearsal::{FORGETTING_SETS, Rehearsal};
use edge_common::token::KeyId;
use edge_common::total::TotalBucket;
use edge_common::{prefix, replay};

use crate::packet::opaque;
use crate::scratch::Scratch;

/// Key policies by key id. The daemon sets the size before loading; entries take memory
/// only as they are filled.
#[map]
static KEYS: HashMap<u64, KeyPolicy> = HashMap::with_max_entries(100_000, BPF_F_NO_PREALLOC);
/// The settings. All zero before the daemon wrote them, which passes everything.
#[used]
#[unsafe(link_section = ".bss.settings")]
static SETTINGS: Told<Settings> = Told::nothing();
/// The clock, rewritten with every heartbeat; apart from the settings so that each
/// is written for its own reason.
#[used]
#[unsafe(link_section = ".bss.clock")]
static CLOCK: Told<Clock> = Told::nothing();
/// A bit for each TCP port that is ours, 64 to a word.
#[used]
#[unsafe(link_section = ".bss.ports")]
static PORTS: Told<[u64; PORT_WORDS]> = Told::nothing();
/// A bit for each of those on which a PROXY protocol header may come first.
#[used]
#[unsafe(link_section = ".bss.proxied")]
static PROXIED: Told<[u64; PORT_WORDS]> = Told::nothing();
/// Addresses and ports, in network byte order, where the edge listens.
#[map]
static ADDRESSES: HashMap<[u32; 5], u32> = HashMap::with_max_entries(4096, 0);
/// Sampled verdicts on their way to the daemon.
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);
/// Refused connections of which the server's side may still stand.
#[map]
pub(crate) static REJECTS: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);
/// Each CPU's memory. In a map, not on the stack, so that the verifier forgets its contents
/// between the scanner's turns.
#[map]
static CPU: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);
/// The flow table: tags and locks.
#[map]
pub(crate) static FLOW_SETS: Array<FlowSet> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// The flow table: what is known of each connection.
#[map]
pub(crate) static FLOW_SLOTS: Array<FlowSlot> = Array::with_max_entries(4, BPF_F_MMAPABLE);
/// The replay table, which userspace writes.
#[map]
static REPLAY: Array<replay::Set> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// The prefix table, which userspace writes, but for the words that are the kernel's.
#[map]
static PREFIXES: Array<prefix::Set> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// The keys' buckets, which userspace writes, but for the words that are the kernel's.
#[map]
static KEY_BUCKETS: Array<KeyBucket> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// The bucket of all connections without a token, which userspace writes, but for the word
/// that is the kernel's.
#[map]
static LEGACY_TOTAL: Array<TotalBucket> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// The programs after the first, by [`Next`].
#[map]
static PROGRAMS: ProgramArray = ProgramArray::with_max_entries(8, 0);

/// Interfaces by number on which rejects are left to userspace.
#[map]
static UNANSWERED: HashMap<u32, u32> = HashMap::with_max_entries(64, 0);
/// What `edge_again` runs.
#[map]
static REHEARSAL: Array<Rehearsal> = Array::with_max_entries(1, 0);

/// Ports, a bit each.
const PORT_WORDS: usize = 1024;

/// A value that userspace writes and the programs read: the only one of its section, which
/// is a map of its own. It lies at an address that the program knows, so that no look into
/// the map is needed.
#[repr(transparent)]
struct Told<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: only read here, and of types of which any bytes are valid.
unsafe impl<T> Sync for Told<T> {}

impl<T> Told<T> {
    /// All zero.
    const fn nothing() -> Self {
        Self(UnsafeCell::new(MaybeUninit::zeroed()))
    }

    #[inline(always)]
    const fn at(&self) -> *const T {
        self.0.get().cast()
    }
}

/// Where a packet goes on.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Next {
    /// `edge_scan`
    Scan = 0,
    /// `edge_judge`
    Judge = 1,
    /// `edge_answer`
    Answer = 2,
    /// `edge_proxy`
    Proxy = 3,
    /// `edge_xdp`
    Edge = 4,
}

/// Goes on in another program. Returns only when that is not there, or too many followed
/// each other.
#[inline(always)]
pub(crate) fn go_on(ctx: &XdpContext, next: Next) {
    let map = (&raw const PROGRAMS).cast_mut().cast();
    // SAFETY: the context is the program's own, the map an array of programs. Nothing here
    // has a destructor that the jump would leave out.
    unsafe { bpf_tail_call(ctx.as_ptr(), map, next as u32) };
}

/// This CPU's working memory.
#[inline(always)]
pub(crate) fn scratch() -> Option<&'static mut Scratch> {
    // SAFETY: the slot is this CPU's, XDP programs do not preempt each other on one, and
    // each program asks once.
    unsafe { CPU.get_ptr_mut(0)?.as_mut() }
}

/// Empties the first sets of the flow table.
#[inline(always)]
pub(crate) fn forget_all() {
    let mut number = 0;
    while number < FORGETTING_SETS {
        if let Some(set) = FLOW_SETS.get_ptr_mut(number) {
            // SAFETY: the set is a map's value, its four tags are two words.
            let tags = unsafe { (&raw mut (*set).tags).cast::<u64>() };
            // SAFETY: as above.
            unsafe { tags.write_volatile(0) };
            // SAFETY: as above.
            unsafe { tags.add(1).write_volatile(0) };
        }
        number += 1;
    }
}

/// What `edge_again` runs.
#[inline(always)]
pub(crate) fn rehearsal() -> Option<&'static mut Rehearsal> {
    // SAFETY: it runs on one CPU at a time, by the bench that set it.
    unsafe { REHEARSAL.get_ptr_mut(0)?.as_mut() }
}

/// Whether rejects that arrive on this interface are left to userspace.
#[inline(always)]
pub(crate) fn is_unanswered(interface: u32) -> bool {
    // SAFETY: only whether there is an entry is asked.
    unsafe { UNANSWERED.get(interface).is_some() }
}

/// The settings. All zero before the daemon wrote them, which passes everything.
#[inline(always)]
pub(crate) fn settings() -> &'static Settings {
    // SAFETY: numbers, of which any is valid; the daemon may write them at any time, so
    // nothing here relies on two of them being of one time.
    unsafe { &*SETTINGS.at() }
}

/// Whether the TCP port is ours.
#[inline(always)]
pub(crate) fn watched(port: u16) -> bool {
    has_bit(&PORTS, port)
}

/// Whether a PROXY protocol header may come first on the port.
#[inline(always)]
pub(crate) fn proxied(port: u16) -> bool {
    has_bit(&PROXIED, port)
}

/// Whether the edge listens where the packet goes to. A port alone does not tell: it may be
/// another server's, of this host or of one behind it.
///
/// The last that was ours is remembered: most packets go where the one before went, and a
/// look into a hash map costs more than all else that is asked here.
#[inline(always)]
pub(crate) fn is_listening(scratch: &mut Scratch, settings: &Settings) -> bool {
    // Before the look: what is found is of this version or a later one.
    // SAFETY: a word of the map's value, which the daemon may write at any time.
    let version = unsafe { (&raw const settings.addresses_version).read_volatile() };
    let [a, b, c, d] = scratch.record.flow.server;
    let port = u32::from(scratch.record.flow.server_port_be);
    let ours = &scratch.ours;
    let differ = (ours[0] ^ a) | (ours[1] ^ b) | (ours[2] ^ c) | (ours[3] ^ d) | (ours[4] ^ port);
    if differ | (scratch.ours_version ^ version) == 0 {
        return true;
    }
    // SAFETY: only whether there is an entry is asked.
    if unsafe { ADDRESSES.get([a, b, c, d, port]).is_none() } {
        return false;
    }
    scratch.ours = [a, b, c, d, port];
    scratch.ours_version = version;
    true
}

#[inline(always)]
fn has_bit(bits: &Told<[u64; PORT_WORDS]>, port: u16) -> bool {
    let word = (opaque(u64::from(port)) >> 6) as usize & (PORT_WORDS - 1);
    // SAFETY: within the array, by the mask.
    let word = unsafe { bits.at().cast::<u64>().add(word).read_volatile() };
    word >> (port & 63) & 1 != 0
}

// The tables that userspace writes too: their words, read as volatile.

/// A set of the replay table.
#[inline(always)]
pub(crate) fn replay_set(number: u32) -> Option<*mut u64> {
    Some(REPLAY.get_ptr_mut(number)?.cast())
}

/// A set of the prefix table.
#[inline(always)]
pub(crate) fn prefix_set(number: u32) -> Option<*mut u64> {
    Some(PREFIXES.get_ptr_mut(number)?.cast())
}

/// A key's bucket.
#[inline(always)]
pub(crate) fn key_bucket(number: u32) -> Option<*mut u64> {
    Some(KEY_BUCKETS.get_ptr_mut(number)?.cast())
}

/// The bucket of all connections without a token.
#[inline(always)]
pub(crate) fn legacy_total() -> Option<*mut u64> {
    Some(LEGACY_TOTAL.get_ptr_mut(0)?.cast())
}

/// The word of this number.
#[inline(always)]
pub(crate) fn word_of(words: *mut u64, number: usize) -> u64 {
    // SAFETY: within a map's value, or the verifier refuses the program.
    unsafe { words.add(number).read_volatile() }
}

/// The words from this number on.
#[inline(always)]
pub(crate) fn words_from(words: *mut u64, number: usize) -> *mut u64 {
    // SAFETY: as above.
    unsafe { words.add(number) }
}

/// CLOCK_MONOTONIC, coarse, nanoseconds.
///
/// That clock moves with the kernel's tick, whose number is read without a call: within a
/// tick it is asked once. Asked just as the tick comes it may lag by one more.
#[inline(always)]
pub(crate) fn monotonic_ns(scratch: &mut Scratch) -> u64 {
    // SAFETY: takes nothing, returns a number.
    let tick = unsafe { bpf_jiffies64() };
    if tick != scratch.tick {
        // SAFETY: as above.
        scratch.tick_ns = unsafe { bpf_ktime_get_coarse_ns() };
        scratch.tick = tick;
    }
    scratch.tick_ns
}

/// The clock, or nothing when the daemon's heartbeat is too old.
#[inline(always)]
pub(crate) fn clock(settings: &Settings, monotonic_ns: u64) -> Option<&'static Clock> {
    // SAFETY: two numbers, of which any are valid.
    let clock = unsafe { &*CLOCK.at() };
    // The coarse clock may lag the heartbeat by a tick: a beat from "ahead" is fresh.
    let age = monotonic_ns.wrapping_sub(clock.heartbeat_ns) as i64;
    if clock.heartbeat_ns == 0 || age > settings.heartbeat_max_age_ns as i64 {
        return None;
    }
    Some(clock)
}

/// Unix time in seconds.
#[inline(always)]
pub(crate) fn unix_s(clock: &Clock, monotonic_ns: u64) -> u64 {
    monotonic_ns.wrapping_add(clock.unix_offset_ns) / 1_000_000_000
}

/// The policy map as the shared judge sees it.
pub(crate) struct PolicyMap<'a> {
    pub(crate) settings: &'a Settings,
}

impl Keys for PolicyMap<'_> {
    #[inline(always)]
    fn policy(&self, id: KeyId) -> Option<&KeyPolicy> {
        // SAFETY: the memory stays an entry of this map until the program ends. It may
        // become another key's meanwhile: since Linux 6.1 an entry that the daemon replaces
        // goes back to an allocator that hands it out again at once. Such a look sees a
        // wrong MAC key, which is why a wrong tag is looked at twice.
        unsafe { KEYS.get(id.0) }
    }

    #[inline(always)]
    fn complete(&self) -> bool {
        self.settings.policy_complete != 0
    }
}
