//! What keeps the kernel half alive: a thread that beats the heart, so that the program
//! knows the time and that the daemon lives, and another that logs the sampled events, for
//! a log that is slow to take a line must not stop the heart.

use super::flows::addresses;
use super::program::{ClockMap, ProgramError};
use super::worker::{Worker, stopped};
use aya::maps::{MapData, RingBuf};
use edge_common::flow::{Event, FlowKey};
use edge_common::policy::{Clock, Reason, Verdict};
use edge_common::token::KeyId;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time between two beats. The clock's offset is as old as this at most, so a step of
/// the wall clock reaches the kernel within it.
const BEAT: Duration = Duration::from_millis(250);

/// Heart and ears. Dropping it stops both threads; the last beat then goes stale by itself.
pub(super) struct Pulse {
    _heart: Worker,
    _events: Worker,
}

/// The clock as it is now.
#[must_use]
pub fn clock_now() -> Clock {
    let monotonic = monotonic_ns();
    Clock {
        unix_offset_ns: nanoseconds(ClockId::Realtime).wrapping_sub(monotonic),
        // Never 0, which says that there was no beat.
        heartbeat_ns: monotonic.max(1),
    }
}

/// CLOCK_MONOTONIC, nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Wall-clock time as the kernel half was told it last, and before the last step of the clock.
#[derive(Debug, Default)]
pub(super) struct Offsets([AtomicU64; 2]);

/// A clock that is slewed moves less between two beats.
const STEP_NS: u64 = 5_000_000;

impl Offsets {
    /// Unix time less CLOCK_MONOTONIC, nanoseconds: now, and before the last step.
    pub(super) fn get(&self) -> [u64; 2] {
        [&self.0[0], &self.0[1]].map(|offset| offset.load(Ordering::Relaxed))
    }

    pub(super) fn beaten(&self, offset_ns: u64) {
        let [last, before] = &self.0;
        let was = last.swap(offset_ns, Ordering::Relaxed);
        if was.abs_diff(offset_ns) > STEP_NS {
            let first = was == 0;
            before.store(if first { offset_ns } else { was }, Ordering::Relaxed);
        }
    }
}

impl Pulse {
    /// Beats once, so that the caller may attach, then goes on in threads.
    pub(super) fn start(
        mut clock: ClockMap,
        mut events: RingBuf<MapData>,
        offsets: Arc<Offsets>,
    ) -> Result<Self, PulseError> {
        let mut beat = move || {
            let now = clock_now();
            clock.set(&now)?;
            offsets.beaten(now.unix_offset_ns);
            Ok(())
        };
        beat().map_err(PulseError::Clock)?;
        let heart = Worker::start("edge-heart", move |wake| {
            let mut failing = false;
            while !stopped(wake, None, BEAT) {
                match beat() {
                    Ok(()) => failing = false,
                    Err(error) if !failing => {
                        failing = true;
                        tracing::error!(%error, "no heartbeat: the kernel passes everything");
                    }
                    Err(_) => {}
                }
            }
        })
        .map_err(PulseError::Thread)?;
        let events = Worker::start("edge-events", move |wake| {
            while !stopped(wake, Some(events.as_fd()), BEAT) {
                log(&mut events);
            }
        })
        .map_err(PulseError::Thread)?;
        Ok(Self {
            _heart: heart,
            _events: events,
        })
    }
}

/// Why there is no pulse.
#[derive(Debug, thiserror::Error)]
pub enum PulseError {
    /// The first beat failed.
    #[error(transparent)]
    Clock(ProgramError),
    /// No thread could be started.
    #[error("the heartbeat thread cannot be started: {0}")]
    Thread(std::io::Error),
}

/// Logs what is there, and no more at a time than the ring holds, so that a stop is noticed.
/// Their number a second is bounded where they are made.
fn log(events: &mut RingBuf<MapData>) {
    for _ in 0..4096 {
        let Some(item) = events.next() else { return };
        let Some(event) = decode(&item) else { continue };
        let reason = usize::try_from(event.reason)
            .ok()
            .and_then(|number| Reason::ALL.get(number));
        let Some(reason) = reason else { continue };
        let (client, _) = addresses(&event.flow);
        let key_id = (event.key_id != KeyId(0)).then_some(event.key_id);
        if reason.verdict() == Verdict::Reject {
            tracing::info!(%client, ?key_id, reason = reason.name(), "refused in the kernel");
        } else {
            tracing::debug!(%client, ?key_id, reason = reason.name(), "seen in the kernel");
        }
    }
}

/// An event from the bytes of a ring entry; nothing when their number is wrong.
fn decode(bytes: &[u8]) -> Option<Event> {
    let bytes: &[u8; size_of::<Event>()] = bytes.try_into().ok()?;
    let u64_at = |at: usize| bytes[at..].first_chunk().map(|b| u64::from_ne_bytes(*b));
    let u32_at = |at: usize| bytes[at..].first_chunk().map(|b| u32::from_ne_bytes(*b));
    let u16_at = |at: usize| bytes[at..].first_chunk().map(|b| u16::from_ne_bytes(*b));
    let address = |at: usize| {
        Some([
            u32_at(at)?,
            u32_at(at + 4)?,
            u32_at(at + 8)?,
            u32_at(at + 12)?,
        ])
    };
    Some(Event {
        monotonic_ns: u64_at(0)?,
        key_id: KeyId(u64_at(8)?),
        flow: FlowKey {
            client: address(16)?,
            server: address(32)?,
            client_port_be: u16_at(48)?,
            server_port_be: u16_at(50)?,
            padding: u32_at(52)?,
        },
        reason: u32_at(56)?,
        payload_bytes: u32_at(60)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_clock_is_remembered_and_slewing_is_not() {
        let offsets = Offsets::default();
        let at = 1 << 60;
        offsets.beaten(at);
        assert_eq!(offsets.get(), [at, at]);
        offsets.beaten(at + STEP_NS);
        assert_eq!(offsets.get(), [at + STEP_NS, at]);
        offsets.beaten(at - 60_000_000_000);
        assert_eq!(offsets.get(), [at - 60_000_000_000, at + STEP_NS]);
    }
}
