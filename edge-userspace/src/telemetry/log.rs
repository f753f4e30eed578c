//! A bound on log lines that a stranger can cause.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Lets a few lines a second through and counts the rest. One a thread: not shared.
#[derive(Debug)]
pub struct Bounded {
    lines_per_second: u32,
    second: Cell<Instant>,
    written: Cell<u32>,
    left_out: Cell<u64>,
}

/// Leave to write one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Lines left out since the last one.
    pub left_out: u64,
}

impl Bounded {
    /// At most `lines_per_second`.
    #[must_use]
    pub fn new(lines_per_second: u32) -> Self {
        Self {
            lines_per_second,
            second: Cell::new(Instant::now()),
            written: Cell::new(0),
            left_out: Cell::new(0),
        }
    }

    /// Asks for leave to write a line.
    pub fn permit(&self) -> Option<Permit> {
        let now = Instant::now();
        if now.duration_since(self.second.get()) >= Duration::from_secs(1) {
            self.second.set(now);
            self.written.set(0);
        }
        if self.written.get() >= self.lines_per_second {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.written.set(self.written.get() + 1);
        Some(Permit {
            left_out: self.left_out.replace(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_what_was_left_out_is_told() {
        let log = Bounded::new(3);
        let written = (0..10).filter(|_| log.permit().is_some()).count();
        assert_eq!(written, 3);
        // A second later, without waiting for it.
        log.second
            .set(log.second.get() - Duration::from_millis(1_500));
        assert_eq!(log.permit(), Some(Permit { left_out: 7 }));
        assert_eq!(log.permit(), Some(Permit { left_out: 0 }));
    }
}
