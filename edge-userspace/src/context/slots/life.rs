//! The word of a slot that changes while it is read: until when, where, how often used.
//!
//! A reader that hits may replace it by compare-and-exchange; if the slot was given to another
//! prefix meanwhile, the word is another and nothing happens.

use crate::upstream::UpstreamId;

/// Kept so long after the last use, seconds: as long as upstreams keep a prefix by default.
pub(super) const SHORT_S: u32 = 300;
/// With `"cache_control": {"ttl": "1h"}`, seconds.
pub(super) const LONG_S: u32 = 3600;
/// Uses are counted up to here.
pub(super) const MOST_USES: u32 = 3;

const LONG: u32 = 13;
const UPSTREAM: u32 = LONG + 1;
const SECOND: u32 = UPSTREAM + 16;
const USES: u32 = SECOND + 32;

/// From the top: uses (2 bits), a second (32), upstream (16), whether long (1); 13 bits are
/// free. The second is the one of
/// expiry; when as many uses as are counted were noted, it is the one from which a use is
/// noted again, three quarters of its time before expiry: so the ordinary hit compares once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life(pub(super) u64);

impl Life {
    /// Of a slot that is written now.
    pub(super) fn new(now_s: u32, long: bool, upstream: UpstreamId) -> Self {
        let life = Self((u64::from(upstream.0) << UPSTREAM) | (u64::from(long) << LONG));
        life.with(0, now_s.saturating_add(life.ttl_s()))
    }

    /// The first second at which it is nothing any more.
    pub(super) fn expires_s(self) -> u32 {
        if self.uses() == MOST_USES {
            self.second().saturating_add(self.ttl_s() / 4 * 3)
        } else {
            self.second()
        }
    }

    #[inline]
    pub(super) fn upstream(self) -> UpstreamId {
        UpstreamId((self.0 >> UPSTREAM) as u16)
    }

    #[inline]
    pub(super) fn uses(self) -> u32 {
        (self.0 >> USES) as u32
    }

    #[inline]
    pub(super) fn long(self) -> bool {
        (self.0 >> LONG) & 1 != 0
    }

    pub(super) fn ttl_s(self) -> u32 {
        if self.long() { LONG_S } else { SHORT_S }
    }

    /// Seconds since it was last written or used, as far as was noted.
    pub(super) fn age_s(self, now_s: u32) -> u32 {
        (now_s.saturating_add(self.ttl_s())).saturating_sub(self.expires_s())
    }

    /// The same with as many uses as `other`.
    pub(super) fn used_as(self, other: Self) -> Self {
        self.with(other.uses(), self.expires_s())
    }

    /// Whether its time is not over and a use is not to be noted.
    #[inline]
    pub(super) fn is_quiet(self, now_s: u32) -> bool {
        let last = (u64::from(now_s) << SECOND) | ((1 << SECOND) - 1);
        self.0 > last | (u64::from(MOST_USES) << USES)
    }

    /// What it is after a use. None: nothing that is worth a write. So the line of a slot that
    /// all threads hit stays shared, but for a write every quarter of its time.
    pub(super) fn after_use(self, now_s: u32) -> Option<Self> {
        if self.is_quiet(now_s) {
            return None;
        }
        let expires_s = self.expires_s().max(now_s.saturating_add(self.ttl_s()));
        Some(self.with(MOST_USES.min(self.uses() + 1), expires_s))
    }

    fn second(self) -> u32 {
        (self.0 >> SECOND) as u32
    }

    fn with(self, uses: u32, expires_s: u32) -> Self {
        let later_s = if uses == MOST_USES {
            self.ttl_s() / 4 * 3
        } else {
            0
        };
        let second = expires_s.saturating_sub(later_s);
        let rest = self.0 & ((1 << SECOND) - 1);
        Self(rest | (u64::from(second) << SECOND) | (u64::from(uses) << USES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        let life = Life::new(1_000, true, UpstreamId(65_535));
        assert_eq!((life.expires_s(), life.ttl_s()), (4_600, 3_600));
        assert_eq!(life.upstream(), UpstreamId(65_535));
        assert_eq!((life.uses(), life.long()), (0, true));
        let life = Life::new(u32::MAX, false, UpstreamId(0));
        assert_eq!((life.expires_s(), life.long()), (u32::MAX, false));
        let used = (0..3).fold(life, |life, _| life.after_use(u32::MAX).unwrap());
        assert!(used.is_quiet(u32::MAX - 226));
        assert!(!used.is_quiet(u32::MAX - 225) && !used.is_quiet(u32::MAX));
    }

    #[test]
    fn a_use_is_noted_three_times_and_then_once_a_quarter() {
        let mut life = Life::new(0, false, UpstreamId(7));
        for uses in 1..=3 {
            life = life.after_use(uses).unwrap();
            assert_eq!((life.uses(), life.expires_s()), (uses, 300 + uses));
        }
        assert_eq!(life.after_use(4), None);
        assert_eq!(life.after_use(3 + 74), None);
        let later = life.after_use(3 + 75).unwrap();
        assert_eq!((later.uses(), later.expires_s()), (3, 378));
        assert_eq!(later.upstream(), life.upstream());
        assert_eq!(later.age_s(378), 300);
        // A clock that another thread read earlier takes nothing away.
        assert_eq!(later.after_use(10), None);
        assert_eq!(
            Life::new(100, false, UpstreamId(7))
                .after_use(50)
                .unwrap()
                .expires_s(),
            400
        );
    }
}
