//! How often of late a tenant's predictions were right.

use std::sync::atomic::{AtomicU64, Ordering};

/// Predictions are stopped below that many of a thousand …
const STOP_PER_MILLE: u32 = 920;
/// … and go on from so many.
const GO_ON_PER_MILLE: u32 = 950;
/// Nothing is concluded from fewer predictions.
const ENOUGH: u32 = 32;
/// Counts are halved here: about the last hundred predictions decide.
const MOST: u32 = 128;

/// The records of tenants, each at a place that a keyed hash of the tenant chooses; there are as
/// many as entries in the table. Two that meet at one, which few do, begin anew each time.
pub(super) struct Accuracies {
    /// The upper half of the tenant's hash, then a [`Record`].
    records: Box<[AtomicU64]>,
}

#[derive(Clone, Copy)]
struct Record {
    made: u32,
    right: u32,
    is_stopped: bool,
}

impl Record {
    /// An empty one unless `bits` are this tenant's.
    fn of(bits: u64, tenant: u64) -> Self {
        let is_its = bits >> 32 == tenant >> 32;
        let bits = if is_its { bits as u32 } else { 0 };
        Self {
            made: bits & 0xffff,
            right: bits >> 16 & 0x7fff,
            is_stopped: bits >> 31 == 1,
        }
    }

    fn bits(self, tenant: u64) -> u64 {
        let record = self.made | self.right << 16 | u32::from(self.is_stopped) << 31;
        tenant >> 32 << 32 | u64::from(record)
    }

    fn and(mut self, is_right: bool) -> Self {
        if self.made == MOST {
            self.made /= 2;
            self.right /= 2;
        }
        self.made += 1;
        self.right += u32::from(is_right);
        let floor = if self.is_stopped {
            GO_ON_PER_MILLE
        } else {
            STOP_PER_MILLE
        };
        if self.made >= ENOUGH {
            self.is_stopped = self.right * 1000 < self.made * floor;
        }
        self
    }
}

impl Accuracies {
    pub(super) fn new(tenants: usize) -> Self {
        let records = (0..tenants.clamp(64, 1 << 20)).map(|_| AtomicU64::new(0));
        Self {
            records: records.collect(),
        }
    }

    fn record(&self, tenant: u64) -> &AtomicU64 {
        &self.records[(tenant % self.records.len() as u64) as usize]
    }

    /// Whether what is predicted may be told.
    pub(super) fn is_trusted(&self, tenant: u64) -> bool {
        !Record::of(self.record(tenant).load(Ordering::Relaxed), tenant).is_stopped
    }

    /// One prediction more came to its end.
    pub(super) fn note(&self, tenant: u64, is_right: bool) {
        let next = |bits| Some(Record::of(bits, tenant).and(is_right).bits(tenant));
        let _ = self
            .record(tenant)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_stop_below_92_percent_and_go_on_from_95() {
        let accuracies = Accuracies::new(64);
        let note = |right: u32, of: u32| {
            (0..of).for_each(|n| accuracies.note(7, n % of < right));
            accuracies.is_trusted(7)
        };
        assert!(note(0, 31), "nothing is concluded from so few");
        assert!(!note(0, 1));
        assert!(!note(93, 100));
        assert!(note(200, 200));
        assert!(note(95, 100));
        assert!(!note(20, 40));
        assert!(accuracies.is_trusted(8));
        // Another tenant at the same place begins with a clean record, and so does the first after it.
        let other = 7 + (64 << 32);
        assert!(accuracies.is_trusted(other));
        accuracies.note(other, true);
        assert!(accuracies.is_trusted(7));
    }
}
