//! The working memory of the packet at hand, and what the programs hand to each other.

use edge_common::client_hello::Scanned;
use edge_common::flow::FlowSlot;
use edge_common::policy::{COUNTER_SLOTS, CPU_WORDS};

use crate::events::Budget;
use crate::packet::opaque;

/// What is loaded of a packet at a time, bytes.
pub(crate) const CHUNK_BYTES: u32 = 2048;
/// Offsets into the buffer are bounded by this mask.
pub(crate) const BUFFER_MASK: u32 = 0xfff;
/// Where in the buffer a checksum's bytes go, behind what a scan uses, and how many at a
/// time: the most that the kernel sums up in one call before Linux 6.13.
pub(crate) const SUM_AT: u32 = 2560;
pub(crate) const SUM_BYTES: u32 = 512;
/// No place in the set.
pub(crate) const NO_WAY: u32 = 4;

/// A CPU's memory: what it has counted, what it may still do, and the packet at hand.
///
/// All in one value, since each look into a map costs some two nanoseconds, and it is
/// looked at a dozen times a packet.
#[repr(C)]
pub(crate) struct Scratch {
    /// By reason and counter. Userspace reads them: they stay first.
    counters: [u64; COUNTER_SLOTS as usize],
    /// What may still be done in the second at hand: events, answers, and answers to more of
    /// the same.
    pub(crate) budgets: [Budget; 3],
    /// The connection, and what is known of it: its entry in the flow table, or what will
    /// become that. The scan under way is in here.
    pub(crate) record: FlowSlot,
    /// The time at which a hello is judged.
    pub(crate) monotonic_ns: u64,
    /// Offsets from the frame's start.
    pub(crate) network_at: u32,
    pub(crate) transport_at: u32,
    pub(crate) payload_at: u32,
    /// By the IP header's word, so without Ethernet padding.
    pub(crate) payload_bytes: u32,
    pub(crate) is_ipv6: u32,
    /// Host byte order.
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) tcp_flags: u32,
    /// The TCP options' length, bytes.
    pub(crate) options_bytes: u32,
    /// Number of the connection's set, its tag, and its place there or [`NO_WAY`].
    pub(crate) set: u32,
    pub(crate) tag: u32,
    pub(crate) way: u32,
    /// A socket's address, and a number of it.
    pub(crate) socket: u64,
    pub(crate) number: u32,
    /// What the entry said when it was taken: whether it is still as it was.
    pub(crate) taken_segments: u32,
    pub(crate) taken_judged_ns: u64,
    /// How much of the payload has been loaded or is known already, bytes.
    pub(crate) loaded: u32,
    /// How much of the buffer is filled, bytes.
    pub(crate) filled: u32,
    /// An [`Outcome`], for the judge.
    pub(crate) outcome: u32,
    /// An [`Errand`], for the answer.
    pub(crate) errand: u32,
    /// A [`RateBy`], and the prefix that was told.
    pub(crate) rate_by: u32,
    pub(crate) prefix: u64,
    /// Whether the packet carried TCP timestamps, and which, as they lie in memory.
    pub(crate) has_stamps: u32,
    pub(crate) stamp_value: u32,
    pub(crate) stamp_echo: u32,
    /// How far the TCP options have been read, bytes.
    pub(crate) option_at: u32,
    /// The checksum so far, and of how many bytes of the segment.
    pub(crate) sum: u32,
    pub(crate) summed_bytes: u32,
    /// The last address and port that were ours, and the addresses' version then. It stays
    /// from packet to packet.
    pub(crate) ours: [u32; 5],
    pub(crate) ours_version: u32,
    /// The kernel's tick, and what the clock said in it. It stays too.
    pub(crate) tick: u64,
    pub(crate) tick_ns: u64,
    /// Bytes kept from the segment before, then bytes of this one. Longer than the mask
    /// by as much as is read at one offset.
    pub(crate) buffer: [u64; (BUFFER_MASK as usize + 1) / 8 + 16],
}

const _: () = assert!(size_of::<Scratch>() == 8 * CPU_WORDS);

impl Scratch {
    /// Adds one to a counter of this CPU.
    #[inline(always)]
    pub(crate) fn count(&mut self, slot: u32) {
        let slot = slot as usize & (COUNTER_SLOTS as usize - 1);
        let counters = (&raw mut self.counters).cast::<u64>();
        // SAFETY: within the array, by the mask.
        unsafe { *counters.add(slot) += 1 };
    }

    /// The same for a number that comes from memory: the verifier wants to see the mask.
    #[inline(always)]
    pub(crate) fn count_any(&mut self, slot: u32) {
        let slot = opaque(u64::from(slot)) & u64::from(COUNTER_SLOTS - 1);
        let counters = (&raw mut self.counters).cast::<u64>();
        // SAFETY: as above.
        unsafe { *counters.add(slot as usize) += 1 };
    }
}

/// By whose prefix the rate of a hello without a token goes.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum RateBy {
    /// The sender's.
    Sender = 0,
    /// The one that a PROXY protocol header tells.
    Told = 1,
    /// Nobody's here: a balancer sends for others.
    Nobody = 2,
}

/// What `edge_answer` is to do.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Errand {
    /// Answer a refused hello.
    Refuse = 0,
    /// Answer more of a refused connection.
    RefuseAgain = 1,
    /// Turn the packet into a reset for the server: its first word on a refused hello.
    ResetServer = 2,
    /// Turn the packet into a reset for the server: the client is done.
    Close = 3,
}

/// What the judge is handed: what a scan came to, or why there will be none.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Outcome {
    Found = 0,
    Absent = 1,
    RecordFragmented = 2,
    Malformed = 3,
    TooLong = 4,
    Oversize = 5,
    OutOfOrder = 6,
    NotLinear = 7,
    /// The hello's beginning has no place in the flow table.
    NotKept = 8,
    /// A PROXY protocol header that goes on in another segment.
    ProxyHeader = 9,
    /// A connection's first bytes, and they begin neither TLS nor HTTP.
    NotTls = 10,
}

impl Outcome {
    /// What a scan that ended came to.
    #[inline(always)]
    pub(crate) fn of(scanned: Scanned) -> Self {
        match scanned {
            Scanned::Found => Self::Found,
            Scanned::Absent => Self::Absent,
            Scanned::RecordFragmented => Self::RecordFragmented,
            Scanned::Malformed => Self::Malformed,
            // The others go on, or are no hello.
            Scanned::TooLong | Scanned::Paused | Scanned::Incomplete | Scanned::NotTls => {
                Self::TooLong
            }
        }
    }
}
