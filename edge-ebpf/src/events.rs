//! Sampled verdicts for the daemon: at most so many a second and CPU, whatever arrives.

use edge_common::flow::Event;
use edge_common::policy::{Counter, Reason, Settings};
use edge_common::token::KeyId;

use crate::maps::{self, EVENTS, count};
use crate::packet::Scratch;

/// What one CPU has sent in the second at hand.
#[repr(C)]
pub(crate) struct Budget {
    second_began_ns: u64,
    sent: u64,
}

/// Sends an event if the budget allows.
#[inline(always)]
pub(crate) fn sample(scratch: &Scratch, settings: &Settings, reason: Reason) {
    if settings.events_per_second == 0 {
        return;
    }
    let Some(budget) = maps::budget() else { return };
    let now = scratch.monotonic_ns;
    if now.wrapping_sub(budget.second_began_ns) >= 1_000_000_000 {
        budget.second_began_ns = now;
        budget.sent = 0;
    }
    if budget.sent >= u64::from(settings.events_per_second) {
        count(Counter::EventsSuppressed as u32);
        return;
    }
    budget.sent += 1;
    let Some(mut entry) = EVENTS.reserve::<Event>(0) else {
        count(Counter::EventsLost as u32);
        return;
    };
    let key_id = match scratch.hello.token() {
        Some(token) => token.key_id,
        None => KeyId(0),
    };
    entry.write(Event {
        monotonic_ns: now,
        key_id,
        flow: scratch.flow,
        reason: reason as u32,
        payload_bytes: scratch.payload_bytes,
    });
    entry.submit(0);
    count(Counter::EventsSent as u32);
}
