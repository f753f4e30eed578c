//! Which slot goes when a set is full.

use super::WAYS;
use super::life::Life;
use super::slot::Contents;

/// What has to go.
pub(super) struct Victim {
    pub(super) way: usize,
    /// Only a tenant's with more than its share was looked at.
    pub(super) for_share: bool,
}

/// Chooses among the live ones at `among`, of which there is one at least, for `new` to come.
pub(super) fn victim(
    held: &[Contents; WAYS],
    among: &[usize],
    new: Life,
    now_s: u32,
    share: usize,
) -> Victim {
    let lives = || among.iter().map(|way| held[*way].life);
    let of = |tenant: u16| {
        let theirs = lives().filter(|life| life.tenant() == tenant).count();
        theirs + usize::from(tenant == new.tenant())
    };
    let most = lives().map(|life| (of(life.tenant()), life.tenant())).max();
    let over = most.filter(|(places, _)| *places > share && share < WAYS);
    let candidates = among
        .iter()
        .copied()
        .filter(|way| over.is_none_or(|(_, tenant)| held[*way].life.tenant() == tenant));
    let way = candidates.max_by_key(|way| weariness(held[*way].life, now_s));
    Victim {
        way: way.unwrap_or(among[0]),
        for_share: over.is_some(),
    }
}

/// The higher, the sooner it goes.
fn weariness(life: Life, now_s: u32) -> u32 {
    life.age_s(now_s)
}
