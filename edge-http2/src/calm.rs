//! How much a client may ask for that is of use to nobody: a bucket that fills by each thing of
//! a kind and runs out with time.

/// Of one kind. It takes `most` at once, and `per_s` more for each second that has gone by.
#[derive(Debug)]
pub(crate) struct Calm {
    used: u32,
    most: u32,
    per_s: u32,
    at_s: u64,
}

impl Calm {
    pub(crate) const fn new(most: u32, per_s: u32) -> Self {
        Self {
            used: 0,
            most,
            per_s,
            at_s: 0,
        }
    }

    /// One more of its kind. `false`: that is too much. The clock (seconds, from anywhere) is
    /// read only when the bucket is full.
    pub(crate) fn one(&mut self, clock: fn() -> u64) -> bool {
        if self.used >= self.most {
            let now_s = clock();
            let gone_s = now_s.saturating_sub(self.at_s);
            let gone = u64::from(self.per_s).saturating_mul(gone_s);
            self.at_s = now_s;
            self.used -= u32::try_from(gone).unwrap_or(u32::MAX).min(self.used);
        }
        if self.used >= self.most {
            return false;
        }
        self.used += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local!(static NOW_S: Cell<u64> = const { Cell::new(1000) });

    #[test]
    fn so_many_at_once_and_so_many_a_second() {
        let now = || NOW_S.get();
        let mut calm = Calm::new(5, 2);
        let mut count = || (0..100).take_while(|_| calm.one(now)).count();
        // What went before the first look is forgiven once.
        assert_eq!(count(), 10);
        assert_eq!(count(), 0);
        NOW_S.set(1001);
        assert_eq!(count(), 2);
        NOW_S.set(1100);
        assert_eq!(count(), 5);
        NOW_S.set(0);
        assert_eq!(count(), 0, "a clock that goes back gives nothing");
    }
}
