//! What keys have reserved, and the file that keeps what they used.

use super::{Families, View};
use std::fmt;

pub(super) fn usage(view: &View, families: &mut Families<'_>) -> fmt::Result {
    let status = view.ledger.status();
    families.gauge(
        "usage_accounts",
        "Keys with an account; keys_capacity bounds them.",
        status.accounts,
    )?;
    families.gauge(
        "usage_running",
        "Requests that run and are to be settled.",
        status.running,
    )?;
    let reserved = [
        ("input", status.reserved_input),
        ("output", status.reserved_output),
    ];
    families.gauges(
        "reserved_tokens",
        "Tokens that those have reserved.",
        reserved.map(|(kind, tokens)| ([("kind", kind)], tokens)),
    )?;
    let Some(kept) = view.usage_file.as_ref().map(|file| file.status()) else {
        return Ok(());
    };
    families.gauge(
        "usage_file_written_seconds",
        "When the usage of keys was written last, Unix time; 0 before that.",
        kept.written_at_s,
    )?;
    families.counter(
        "usage_file_errors",
        "Times that it could not be written.",
        kept.errors,
    )?;
    families.gauge(
        "usage_file_damaged",
        "1 when the file was of no use at the start, and usage began at zero.",
        u64::from(kept.damaged.is_some()),
    )
}
