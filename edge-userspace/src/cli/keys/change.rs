//! `edge keys revoke`, `remove` and `compact`.

use super::super::output::{Failure, Outcome, print_json};
use super::{Store, moment};
use crate::keys::store::line::Record;
use crate::keys::store::writer::{Search, Writer};
use edge_common::token::KeyId;
use serde_json::json;
use std::path::Path;

/// Revoke keys, for good.
///
/// Within a second the kernel and the daemon refuse them, and their connections end. The
/// entries stay, so that a refusal can say why; `edge keys remove` forgets them.
#[derive(clap::Args)]
#[command(after_help = "Example:
  edge keys revoke --store keys.journal 16c90ee8f37ea61f")]
pub(super) struct Revoke {
    #[command(flatten)]
    many: Many,
}

/// Forget keys, revoked or not.
///
/// Their connections end. Afterwards they are unknown, as if they had never been.
#[derive(clap::Args)]
#[command(after_help = "Example:
  edge keys remove --store keys.journal 16c90ee8f37ea61f")]
pub(super) struct Remove {
    #[command(flatten)]
    many: Many,
}

/// Write the store anew without the records that later ones have overtaken.
///
/// This happens by itself when they are the most; a running daemon does not mind.
#[derive(clap::Args)]
#[command(after_help = "Example:
  edge keys compact --store keys.journal")]
pub(super) struct Compact {
    #[command(flatten)]
    store: Store,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Which keys a command is about.
#[derive(clap::Args)]
pub(super) struct Many {
    #[command(flatten)]
    store: Store,
    /// Key ids, 16 hex digits each.
    #[arg(required = true, value_name = "KEY_ID", value_parser = parse_id)]
    ids: Vec<KeyId>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Revoke {
    pub(super) fn run(self) -> Outcome {
        let at_s = moment::now_s();
        self.many.change("revoked", |search, id| {
            let key = search.keys.get(&id)?;
            (key.revoked_at_s.is_none()).then_some(Record::Revoke { id, at_s })
        })
    }
}

impl Remove {
    pub(super) fn run(self) -> Outcome {
        self.many
            .change("removed", |_, id| Some(Record::Remove(id)))
    }
}

impl Many {
    /// All keys are looked for before anything is written: a wrong id changes nothing.
    pub(super) fn change(
        &self,
        what: &str,
        record: impl Fn(&Search, KeyId) -> Option<Record>,
    ) -> Outcome {
        let path = &self.store.store;
        let mut store = Writer::open(path)?;
        let search = store.find(&self.ids)?;
        if let Some(id) = self.ids.iter().find(|id| !search.keys.contains_key(id)) {
            return Err(Failure::because(format!(
                "{}: has no key {id}; `edge keys list` shows those it has; nothing was changed",
                path.display(),
            )));
        }
        let records: Vec<_> = (self.ids.iter())
            .filter_map(|id| record(&search, *id))
            .collect();
        store.append(&records)?;
        let blocked = search.bad.as_ref();
        if Writer::worth_compacting(&search) && blocked.is_none() {
            store.compact()?;
        }
        if let Some(bad) = blocked {
            return Err(not_in_effect(path, what, &self.ids, bad));
        }
        if self.json {
            let ids: Vec<_> = self.ids.iter().map(ToString::to_string).collect();
            print_json(&json!({ what: ids, "records_written": records.len() }))?;
        } else {
            for id in &self.ids {
                eprintln!("key {id} is {what}");
            }
        }
        Ok(())
    }
}

/// The store has a bad line, so a daemon keeps its older keys.
fn not_in_effect(
    path: &Path,
    what: &str,
    ids: &[KeyId],
    (line, reason): &(u64, impl std::fmt::Display),
) -> Failure {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    Failure::because(format!(
        "{}:{line}: {reason}; a running daemon takes nothing from this store until the line is mended, so the change is written but NOT IN EFFECT: {} will be {what} then",
        path.display(),
        ids.join(", "),
    ))
}

impl Compact {
    pub(super) fn run(self) -> Outcome {
        let compacted = Writer::open(&self.store.store)?.compact()?;
        if self.json {
            return print_json(&json!({
                "records_before": compacted.records,
                "keys": compacted.keys,
            }));
        }
        eprintln!(
            "{}: {} records before, {} keys",
            self.store.store.display(),
            compacted.records,
            compacted.keys,
        );
        Ok(())
    }
}

fn parse_id(text: &str) -> Result<KeyId, String> {
    KeyId::from_hex(text).ok_or_else(|| "a key id is 16 hex digits".to_owned())
}
