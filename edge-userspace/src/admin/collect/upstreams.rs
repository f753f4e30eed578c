//! Each upstream: whether it takes requests, what is outstanding there, what it was given.
//!
//! Labels are the configuration's names, of which there are at most 64.

use super::Families;
use crate::upstream::{Status, Upstreams};
use std::fmt;

pub(super) fn upstreams(upstreams: &Upstreams, families: &mut Families<'_>) -> fmt::Result {
    let all = upstreams.status();
    let each = |value: fn(&Status) -> u64| {
        let series = (all.iter()).map(|one| ([("upstream", &*one.name)], value(one)));
        series.collect::<Vec<_>>()
    };
    families.gauges(
        "upstream_serving",
        "1 while the upstream gets requests, 0 while it is ejected.",
        each(|one| u64::from(one.ejected_for_ms.is_none())),
    )?;
    families.gauges(
        "upstream_requests",
        "Requests that are running there.",
        each(|one| one.requests),
    )?;
    families.gauges(
        "upstream_tokens",
        "Tokens of the prompts of those requests.",
        each(|one| one.tokens),
    )?;
    families.gauges(
        "upstream_waiting_tokens",
        "Those of them that are believed to be still read.",
        each(|one| one.waiting_tokens),
    )?;
    families.counters(
        "upstream_ejections",
        "Times that the upstream was ejected.",
        each(|one| one.ejections),
    )?;
    families.counters(
        "upstream_failed",
        "Requests that the upstream failed: a status from 500 on, or no answer.",
        each(|one| one.failed),
    )?;
    let connects = all.iter().flat_map(|one| {
        [("made", one.connects), ("failed", one.connect_failures)]
            .map(|(outcome, count)| ([("upstream", &*one.name), ("outcome", outcome)], count))
    });
    families.counters("upstream_connects", "Connects by outcome.", connects)?;
    let picks = all.iter().flat_map(|one| {
        let picks = one.picks.iter();
        picks.map(|(why, count)| ([("upstream", &*one.name), ("why", *why)], *count))
    });
    families.counters(
        "upstream_picks",
        "Requests that the upstream was picked for, by why.",
        picks,
    )
}
