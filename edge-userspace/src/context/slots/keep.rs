//! Which slot goes when a set is full.
//!
//! What LRU holds most of is of no more use: a turn of a conversation is hit by the next turn
//! and then never again, for that one is looked for first. So a slot that was hit once goes
//! first, the longest unused before others; then those that were not hit yet, the oldest
//! first. What was hit again and again is a system prompt or where agents branch off, and
//! stays sixteen times as long as its age says.

use super::WAYS;
use super::life::{LONG_S, Life};
use super::slot::Contents;

/// What has to go.
pub(super) struct Victim {
    pub(super) way: usize,
    /// Only a tenant's with more than its share was looked at.
    pub(super) for_share: bool,
}

/// Chooses among the live ones at `among`, of which there is one at least, for one of `new` to come.
pub(super) fn victim(
    held: &[Contents; WAYS],
    among: &[usize],
    new: u32,
    now_s: u32,
    share: usize,
) -> Victim {
    let whose = || among.iter().map(|way| held[*way].whose());
    let of = |tenant: u32| {
        let theirs = whose().filter(|other| *other == tenant).count();
        theirs + usize::from(tenant == new)
    };
    let most = whose().map(|tenant| (of(tenant), tenant)).max();
    let over = most.filter(|(places, _)| *places > share && share < WAYS);
    let candidates = among
        .iter()
        .copied()
        .filter(|way| over.is_none_or(|(_, tenant)| held[*way].whose() == tenant));
    let way = candidates.max_by_key(|way| weariness(held[*way].life, now_s));
    Victim {
        way: way.unwrap_or(among[0]),
        for_share: over.is_some(),
    }
}

/// Seconds that count more than any age of a slot not hit yet.
const SUPERSEDED_S: u32 = LONG_S + 400;

/// The higher, the sooner it goes.
fn weariness(life: Life, now_s: u32) -> u32 {
    let age_s = life.age_s(now_s);
    match life.uses() {
        1 => age_s + SUPERSEDED_S,
        0 | 2 => age_s,
        _ => age_s / 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamId;

    fn held(lives: &[(u32, Life)]) -> [Contents; WAYS] {
        let mut held = [Contents::NOTHING; WAYS];
        for (held, (whose, life)) in held.iter_mut().zip(lives) {
            held.numbers = u64::from(*whose) << 32;
            held.life = *life;
        }
        held
    }

    fn life(tenant: u32, written_s: u32, uses: u32) -> (u32, Life) {
        let mut life = Life::new(written_s, true, UpstreamId(0));
        for _ in 0..uses {
            life = life.after_use(written_s).unwrap();
        }
        (tenant, life)
    }

    #[test]
    fn a_turn_that_the_next_one_hit_goes_first_then_the_oldest() {
        let lives = [
            life(1, 500, 0),
            life(1, 10, 0),
            life(1, 600, 1),
            life(1, 0, 3),
        ];
        let held = held(&lives);
        let victim = |among: &[usize]| victim(&held, among, 1, 700, WAYS);
        assert_eq!(victim(&[0, 1, 2, 3]).way, 2);
        assert_eq!(victim(&[0, 1, 3]).way, 1);
        assert_eq!(victim(&[0, 3]).way, 0);
        assert_eq!(victim(&[3]).way, 3);
        assert!(!victim(&[0, 1, 2, 3]).for_share);
    }

    #[test]
    fn who_has_more_than_its_share_gives_first() {
        let lives = [
            life(1, 0, 1),
            life(2, 50, 0),
            life(2, 60, 0),
            life(2, 70, 0),
        ];
        let held = held(&lives);
        let victim = |new, share| victim(&held, &[0, 1, 2, 3], new, 90, share);
        // The newcomer is counted with its own.
        assert_eq!((victim(2, 3).way, victim(2, 3).for_share), (1, true));
        assert_eq!((victim(3, 2).way, victim(3, 2).for_share), (1, true));
        assert_eq!((victim(3, 3).way, victim(3, 3).for_share), (0, false));
    }
}
