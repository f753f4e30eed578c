//! The table of contexts.

use super::Families;
use crate::context::Contexts;
use std::fmt;

pub(super) fn contexts(contexts: &Contexts, families: &mut Families<'_>) -> fmt::Result {
    let slots = contexts.slots().counters();
    families.gauge(
        "context_slots",
        "Slots that hold a prefix, be its time over or not.",
        slots.occupied,
    )?;
    families.gauge(
        "context_slots_capacity",
        "Slots that there are.",
        slots.capacity,
    )?;
    let looks = [
        ("hit", slots.hits),
        (
            "absent",
            (slots.misses)
                .saturating_sub(slots.expired + slots.forgotten + slots.mismatched + slots.busy),
        ),
        ("expired", slots.expired),
        ("forgotten", slots.forgotten),
        ("mismatched", slots.mismatched),
        ("busy", slots.busy),
    ];
    families.counters(
        "context_looks",
        "Looks into the table, several for a request.",
        looks.map(|(outcome, count)| ([("outcome", outcome)], count)),
    )?;
    families.counter(
        "context_commits",
        "Prefixes that were stored, anew or again.",
        slots.commits,
    )?;
    families.counters(
        "context_evicted",
        "Of these: those for which something still good had to go.",
        [
            ("use", slots.evicted.saturating_sub(slots.share_capped)),
            ("share", slots.share_capped),
        ]
        .map(|(reason, count)| ([("reason", reason)], count)),
    )?;
    families.gauge(
        "hint_entries_capacity",
        "Beginnings of answers that are remembered at most.",
        contexts.hints_capacity(),
    )
}
