//! A thread that takes out of the tables what is no longer in use, a part of them a second.

use super::{Charges, Now};
use std::sync::{Arc, Weak};
use std::thread::{Builder, sleep};
use std::time::Duration;

/// A round takes this many steps of a second each.
const STEPS: u32 = 16;

/// Starts the thread; it ends when the tables are gone.
pub(super) fn start(charges: &Arc<Charges>) -> std::io::Result<()> {
    let charges = Arc::downgrade(charges);
    let thread = Builder::new().name("charges".to_owned());
    thread.spawn(move || sweep(&charges)).map(drop)
}

fn sweep(charges: &Weak<Charges>) {
    for step in (0..STEPS).cycle() {
        sleep(Duration::from_secs(1));
        let Some(charges) = charges.upgrade() else {
            return;
        };
        let now = Now::read();
        let (from, count) = part(charges.replay.sets_mask(), step);
        charges.replay.sweep(from, count, now.unix_s);
        let (from, count) = part(charges.prefixes.sets_mask(), step);
        charges.prefixes.sweep(from, count, now.monotonic_ns);
    }
}

/// The first set of a step's part, and how many it has.
fn part(sets_mask: u32, step: u32) -> (u32, u32) {
    let count = sets_mask / STEPS + 1;
    (step.saturating_mul(count), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_comes_by_every_set() {
        for bits in 0..20 {
            let mask = (1 << bits) - 1;
            let mut next = 0;
            for step in 0..STEPS {
                let (from, count) = part(mask, step);
                assert_eq!(from, next);
                next = from + count;
            }
            assert!(next > mask, "{mask}");
        }
    }
}
