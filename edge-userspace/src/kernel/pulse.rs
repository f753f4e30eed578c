//! What keeps the kernel half alive: a thread that beats the heart, so that the program
//! knows the time and that the daemon lives, and another that logs the sampled events, for
//! a log that is slow to take a line must not stop the heart.

use super::program::{ClockMap, ProgramError};
use aya::maps::{MapData, RingBuf};
use edge_common::flow::{Event, FlowKey};
use edge_common::policy::{Clock, Reason, Verdict};
use edge_common::token::KeyId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two beats. The clock's offset is as old as this at most, so a step of
/// the wall clock reaches the kernel within it.
const BEAT: Duration = Duration::from_millis(250);

/// Heart and ears. Dropping it stops both threads; the last beat then goes stale by itself.
pub(super) struct Pulse {
    _heart: Worker,
    _events: Worker,
}

/// A thread that goes round until it is told to stop.
struct Worker {
    /// Closed to wake the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// The clock as it is now.
#[must_use]
pub fn clock_now() -> Clock {
    let nanoseconds = |id| {
        let time = clock_gettime(id);
        (time.tv_sec as u64)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(time.tv_nsec as u64)
    };
    let monotonic = nanoseconds(ClockId::Monotonic);
    Clock {
        unix_offset_ns: nanoseconds(ClockId::Realtime).wrapping_sub(monotonic),
        // Never 0, which says that there was no beat.
        heartbeat_ns: monotonic.max(1),
    }
}

impl Pulse {
    /// Beats once, so that the caller may attach, then goes on in threads.
    pub(super) fn start(
        mut clock: ClockMap,
        mut events: RingBuf<MapData>,
    ) -> Result<Self, PulseError> {
        clock.set(&clock_now()).map_err(PulseError::Clock)?;
        let heart = Worker::start("edge-heart", move |wake| {
            let mut failing = false;
            while !stopped(wake, None) {
                match clock.set(&clock_now()) {
                    Ok(()) => failing = false,
                    Err(error) if !failing => {
                        failing = true;
                        tracing::error!(%error, "no heartbeat: the kernel passes everything");
                    }
                    Err(_) => {}
                }
            }
        })?;
        let events = Worker::start("edge-events", move |wake| {
            while !stopped(wake, Some(events.as_fd())) {
                log(&mut events);
            }
        })?;
        Ok(Self {
            _heart: heart,
            _events: events,
        })
    }
}

impl Worker {
    fn start(name: &str, run: impl FnOnce(&OwnedFd) + Send + 'static) -> Result<Self, PulseError> {
        let (wake, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| PulseError::Thread(errno.into()))?;
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(&wake))
            .map_err(PulseError::Thread)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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

/// Waits for a beat's time, or until `other` can be read; whether it is time to stop.
fn stopped(wake: &OwnedFd, other: Option<BorrowedFd<'_>>) -> bool {
    let mut ready = vec![PollFd::new(wake, PollFlags::IN)];
    ready.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
    let beat = Timespec {
        tv_sec: 0,
        tv_nsec: BEAT.subsec_nanos().into(),
    };
    // An interruption is as good as a beat. The writing end is closed at the end.
    poll(&mut ready, Some(&beat)).is_ok() && !ready[0].revents().is_empty()
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
        let client = client(&event.flow);
        let key_id = (event.key_id != KeyId(0)).then_some(event.key_id);
        if reason.verdict() == Verdict::Reject {
            tracing::info!(%client, ?key_id, reason = reason.name(), "refused in the kernel");
        } else {
            tracing::debug!(%client, ?key_id, reason = reason.name(), "seen in the kernel");
        }
    }
}

/// The client's address, IPv4 as such.
fn client(flow: &FlowKey) -> SocketAddr {
    let mut octets = [0; 16];
    for (bytes, word) in octets.chunks_exact_mut(4).zip(flow.client) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    let address = Ipv6Addr::from(octets).to_canonical();
    SocketAddr::new(address, u16::from_be(flow.client_port_be))
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
