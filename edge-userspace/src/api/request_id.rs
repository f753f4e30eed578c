//! Request ids: made at the edge, from the nanosecond clock.

use http::HeaderValue;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Lower-case base32 in the order of ASCII (Crockford's), so that ids sort by time.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const PREFIX: &[u8; 4] = b"req_";
/// 112 bits in base32.
const ID_DIGITS: usize = 23;

/// Makes the ids of one thread.
///
/// An id is 64 bits of Unix time in nanoseconds, 16 bits of thread, 32 bits drawn at the
/// process's start. Within a thread the time is raised by one when the clock has not moved
/// on, so ids of a thread rise and differ; those of two threads, or of two processes that
/// saw the same nanosecond after a clock was set back, differ in the rest.
#[derive(Debug)]
pub struct RequestIds {
    last_ns: Cell<u64>,
    thread: u16,
    process: u32,
}

/// A request's id, when the request came, and how long others have been waited for since.
///
/// The times of the first two may differ: the time in the id never goes back, so after a clock that ran ahead
/// was set right it stays ahead for a while. Nothing is to be judged by it.
#[derive(Clone, Debug)]
pub struct RequestId {
    text: IdText,
    at_s: u64,
    begun: Instant,
    waited: Cell<Duration>,
}

/// An id as it is written: `req_` and its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdText([u8; PREFIX.len() + ID_DIGITS]);

impl IdText {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Letters, digits and the line of the prefix.
        std::str::from_utf8(&self.0).unwrap_or("req_")
    }

    /// As it stands in the `request-id` header.
    #[must_use]
    pub fn value(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.0).unwrap_or(HeaderValue::from_static("req_"))
    }
}

impl RequestId {
    /// The client or the upstream was waited for so long.
    pub(super) fn wait(&self, waited: Duration) {
        self.waited.set(self.waited.get() + waited);
    }

    /// What the edge itself has taken since the request came.
    pub(super) fn took(&self) -> Duration {
        self.begun.elapsed().saturating_sub(self.waited.get())
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> &IdText {
        &self.text
    }

    /// When the request came by the wall clock, Unix time in seconds.
    #[must_use]
    pub fn at_s(&self) -> u64 {
        self.at_s
    }
}

impl Default for RequestIds {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestIds {
    /// For a thread that has none yet.
    #[must_use]
    pub fn new() -> Self {
        static THREADS: AtomicU16 = AtomicU16::new(0);
        static PROCESS: OnceLock<u32> = OnceLock::new();
        Self {
            last_ns: Cell::new(0),
            thread: THREADS.fetch_add(1, Ordering::Relaxed),
            process: *PROCESS.get_or_init(|| {
                // Without random bytes the process id still tells processes apart.
                getrandom::u32().unwrap_or_else(|_| std::process::id())
            }),
        }
    }

    /// The next id.
    pub fn next(&self) -> RequestId {
        let now = (SystemTime::now().duration_since(UNIX_EPOCH)).unwrap_or(Duration::ZERO);
        self.next_at(now)
    }

    /// `now` is Unix time.
    fn next_at(&self, now: Duration) -> RequestId {
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let id_ns = now_ns.max(self.last_ns.get().saturating_add(1));
        self.last_ns.set(id_ns);
        RequestId {
            text: self.text(id_ns),
            at_s: now.as_secs(),
            begun: Instant::now(),
            waited: Cell::default(),
        }
    }

    fn text(&self, id_ns: u64) -> IdText {
        // Left-aligned to 115 bits, a whole number of digits: 60 in the first twelve, 55 behind.
        let high = id_ns >> 4;
        let low = id_ns << 60 >> 9 | u64::from(self.thread) << 35 | u64::from(self.process) << 3;
        let mut text = [0; PREFIX.len() + ID_DIGITS];
        text[..PREFIX.len()].copy_from_slice(PREFIX);
        let (first, rest) = text[PREFIX.len()..].split_at_mut(60 / 5);
        write(high, first);
        write(low, rest);
        IdText(text)
    }
}

/// The number's last digits, as many as there is room for.
fn write(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[number as usize & 31];
        number >>= 5;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_rise_within_a_thread_and_differ_between_threads() {
        let makers = [RequestIds::new(), RequestIds::new()];
        let mut seen = HashSet::new();
        for ids in &makers {
            let made: Vec<_> = (0..10_000).map(|_| ids.next().text).collect();
            assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
            seen.extend(made);
        }
        assert_eq!(seen.len(), 20_000);
    }

    #[test]
    fn after_the_clock_was_set_back_ids_rise_and_the_time_is_the_clocks() {
        let ids = RequestIds::new();
        let ahead = ids.next_at(Duration::from_secs(1_900_000_000));
        let right = ids.next_at(Duration::from_secs(1_800_000_000));
        assert!(ahead.text < right.text);
        assert_eq!(ahead.at_s(), 1_900_000_000);
        assert_eq!(right.at_s(), 1_800_000_000);
    }

    #[test]
    fn every_part_is_in_the_id() {
        let ids = RequestIds {
            last_ns: Cell::new(0),
            thread: 0,
            process: 0,
        };
        let zero = ids.text(0);
        assert_eq!(zero.as_str(), "req_00000000000000000000000");
        assert_eq!(zero.value(), zero.as_str());
        assert_ne!(ids.text(1), zero);
        assert_ne!(RequestIds { thread: 1, ..ids }.text(0), zero);
        let ids = RequestIds {
            last_ns: Cell::new(0),
            thread: u16::MAX,
            process: u32::MAX,
        };
        let all = ids.text(u64::MAX);
        assert_eq!(all.as_str(), "req_zzzzzzzzzzzzzzzzzzzzzzr");
        let ids = RequestIds {
            last_ns: Cell::new(0),
            thread: 0x0123,
            process: 0x4567_89ab,
        };
        // 0xfedcba98765432100123456789ab << 3, in base32.
        let some = ids.text(0xfedc_ba98_7654_3210);
        assert_eq!(some.as_str(), "req_zvebn63pags100938nkrkar");
    }
}
