//! What the daemon is told: sampled verdicts, at most so many a second and CPU whatever
//! arrives, and the refused connections whose server's side may still stand.

use edge_common::flow::{Event, Rejected};
use edge_common::policy::{Counter, Settings};

use crate::maps::{self, EVENTS, REJECTS};
use crate::scratch::Scratch;

/// What one CPU has done in the second at hand.
#[repr(C)]
pub(crate) struct Budget {
    second_began_ns: u64,
    used: u64,
}

const OF_EVENTS: usize = 0;
const OF_ANSWERS: usize = 1;
const OF_ANSWERS_AGAIN: usize = 2;
/// Most answers a second and CPU to what goes on sending. Enough for the retransmissions of
/// a flood, and a bound for one who goes on for its own sake.
const AGAIN_PER_SECOND: u32 = 20_000;

impl Budget {
    #[inline(always)]
    fn take(&mut self, now_ns: u64, per_second: u32) -> bool {
        if now_ns.wrapping_sub(self.second_began_ns) >= 1_000_000_000 {
            self.second_began_ns = now_ns;
            self.used = 0;
        }
        if self.used >= u64::from(per_second) {
            return false;
        }
        self.used += 1;
        true
    }
}

/// Whether the client of a refused connection may be answered at once.
#[inline(always)]
pub(crate) fn may_answer(scratch: &mut Scratch, settings: &Settings) -> bool {
    let now_ns = scratch.monotonic_ns;
    scratch.budgets[OF_ANSWERS].take(now_ns, settings.answers_per_second)
}

/// Whether more of a refused connection may be answered.
#[inline(always)]
pub(crate) fn may_answer_again(scratch: &mut Scratch) -> bool {
    let now_ns = maps::monotonic_ns(scratch);
    scratch.budgets[OF_ANSWERS_AGAIN].take(now_ns, AGAIN_PER_SECOND)
}

/// Sends an event if the budget allows.
#[inline(always)]
pub(crate) fn sample(scratch: &mut Scratch, settings: &Settings) {
    if settings.events_per_second == 0 {
        return;
    }
    let now_ns = scratch.monotonic_ns;
    if !scratch.budgets[OF_EVENTS].take(now_ns, settings.events_per_second) {
        scratch.count(Counter::EventsSuppressed as u32);
        return;
    }
    let Some(mut entry) = EVENTS.reserve::<Event>(0) else {
        scratch.count(Counter::EventsLost as u32);
        return;
    };
    entry.write(Event {
        monotonic_ns: scratch.monotonic_ns,
        key_id: scratch.record.key_id,
        flow: scratch.record.flow,
        reason: scratch.record.reason,
        payload_bytes: scratch.payload_bytes,
    });
    entry.submit(0);
    scratch.count(Counter::EventsSent as u32);
}

/// Tells the daemon of a refused connection whose client has been answered.
#[inline(always)]
pub(crate) fn rejected(scratch: &mut Scratch) {
    let Some(mut entry) = REJECTS.reserve::<Rejected>(0) else {
        scratch.count(Counter::RejectsLost as u32);
        return;
    };
    entry.write(Rejected {
        monotonic_ns: scratch.monotonic_ns,
        flow: scratch.record.flow,
    });
    entry.submit(0);
}
