//! `edge keys list`.

use super::super::output::{Outcome, written};
use super::{Shown, Store, moment};
use crate::keys::store::writer;
use std::io::{self, BufWriter};

/// List the keys; nothing secret is shown.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge keys list --store keys.journal
  edge keys list --store keys.journal --json | jq '.[] | select(.state == \"expired\").key_id'")]
pub(super) struct List {
    #[command(flatten)]
    store: Store,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(self) -> Outcome {
        let now_s = moment::now_s();
        let keys = writer::list(&self.store.store)?;
        let shown = keys.iter().map(|key| Shown::new(key, now_s));
        let out = BufWriter::new(io::stdout().lock());
        written(if self.json {
            json(shown, out)
        } else {
            text(shown, out)
        })
    }
}

fn json(keys: impl Iterator<Item = Shown>, mut out: impl io::Write) -> io::Result<()> {
    let mut before = "[\n ";
    for key in keys {
        out.write_all(before.as_bytes())?;
        serde_json::to_writer(&mut out, &key)?;
        before = ",\n ";
    }
    writeln!(out, "{}", if before == "[\n " { "[]" } else { "\n]" })?;
    out.flush()
}

fn text(keys: impl Iterator<Item = Shown>, mut out: impl io::Write) -> io::Result<()> {
    writeln!(
        out,
        "{:16}  {:13}  {:20}  {:20}  {:24}  NAME",
        "KEY ID", "STATE", "FROM", "UNTIL", "AUDIENCES"
    )?;
    for key in keys {
        writeln!(
            out,
            "{:16}  {:13}  {:20}  {:20}  {:24}  {}{}{}",
            key.key_id,
            key.state,
            moment::show(key.not_before_s.unwrap_or(0)),
            moment::show(key.not_after_s.unwrap_or(u64::MAX)),
            key.audiences.join(","),
            key.name,
            if key.alpn_only { "  (alpn only)" } else { "" },
            match &*limits(&key) {
                [] => String::new(),
                own => format!("  ({})", own.join(", ")),
            },
        )?;
    }
    out.flush()
}

/// Its own rates and limits, where it has any.
pub(super) fn limits(key: &Shown) -> Vec<String> {
    let rate = |per_second| match per_second {
        0 => "any number/s".to_owned(),
        some => format!("{some}/s"),
    };
    let soft = key.connections_per_second.map(rate);
    let hard = (key.connections_per_second_hard).map(|hard| format!("refused from {}", rate(hard)));
    let prompt = (key.max_prompt_tokens.filter(|tokens| *tokens > 0))
        .map(|tokens| format!("prompts up to {tokens} tokens"));
    let quotas = key.quotas.0;
    let quotas = [
        (quotas.requests_per_minute, "requests/min"),
        (quotas.input_tokens_per_minute, "input tokens/min"),
        (quotas.output_tokens_per_minute, "output tokens/min"),
        (quotas.concurrent_requests, "requests at a time"),
        (quotas.tokens_per_day, "tokens/day"),
    ];
    let quotas = quotas.into_iter().filter_map(|(quota, what)| match quota? {
        0 => Some(format!("any {what}")),
        1 => Some(format!(
            "1 {}",
            what.replacen("requests at", "request at", 1)
        )),
        some => Some(format!("{some} {what}")),
    });
    let models = (!key.models.is_empty()).then(|| format!("models {}", key.models.join(" ")));
    let own = soft.into_iter().chain(hard).chain(prompt);
    own.chain(quotas).chain(models).collect()
}
