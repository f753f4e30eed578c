//! `edge keys revoke`, `remove` and `compact`.

use super::super::output::{Failure, Outcome, many, print_json, print_line};
use super::{Shown, Store, moment};
use crate::keys::store::line::{Record, StoredKey};
use crate::keys::store::writer::{self, Search, Writer};
use edge_common::token::KeyId;
use serde_json::json;
use std::path::Path;

/// Revoke keys, for good.
///
/// Within a second the kernel and the daemon refuse them, and their connections end. The
/// entries stay, so that a refusal can say why; `edge keys remove` forgets them.
#[derive(clap::Args)]
#[command(after_help = "Example:
  edge keys revoke --store keys.journal 16c90ee8f37ea61f
  edge keys revoke --store keys.journal alice")]
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
    /// Key ids, 16 hex digits each, or names that one key alone has.
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Revoke {
    pub(super) fn run(self) -> Outcome {
        let at_s = moment::now_s();
        let revoke = |search: &Search, id| {
            let key = search.keys.get(&id)?;
            (key.revoked_at_s.is_none()).then_some(Record::Revoke { id, at_s })
        };
        self.many.change("revoked", revoke, None)
    }
}

impl Remove {
    pub(super) fn run(self) -> Outcome {
        let remove = |_: &Search, id| Some(Record::Remove(id));
        self.many.change("removed", remove, None)
    }
}

impl Many {
    /// All keys are looked for before anything is written: a wrong one changes nothing. `tell`
    /// says of a key what it is then.
    pub(super) fn change(
        &self,
        what: &str,
        record: impl Fn(&Search, KeyId) -> Option<Record>,
        tell: Option<fn(&Shown) -> String>,
    ) -> Outcome {
        let path = &self.store.store;
        let mut store = Writer::open(path)?;
        let ids = self.ids()?;
        let mut search = store.find(&ids)?;
        if let Some(id) = ids.iter().find(|id| !search.keys.contains_key(id)) {
            return Err(self.unknown(id));
        }
        let records: Vec<_> = (ids.iter()).filter_map(|id| record(&search, *id)).collect();
        store.append(&records)?;
        let blocked = search.bad.as_ref();
        if Writer::worth_compacting(&search) && blocked.is_none() {
            store.compact()?;
        }
        if let Some(bad) = blocked {
            return Err(not_in_effect(path, what, &ids, bad));
        }
        for record in &records {
            if let Record::Put(key) = record {
                search.keys.insert(key.id, key.clone());
            }
        }
        let now_s = moment::now_s();
        let keys = ids.iter().filter_map(|id| search.keys.get(id));
        let keys: Vec<_> = keys.map(|key| Shown::new(key, now_s)).collect();
        if self.json {
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            let mut told = json!({ what: ids, "records_written": records.len() });
            if tell.is_some() {
                told["keys"] = json!(keys);
            }
            return print_json(&told);
        }
        for key in &keys {
            let told = tell.map(|tell| format!(": {}", tell(key)));
            let told = told.unwrap_or_default();
            eprintln!("key {} ({}) is {what}{told}", key.key_id, key.name);
        }
        Ok(())
    }

    /// The keys as they are, for who changes nothing.
    pub(super) fn show(&self, tell: fn(&Shown) -> String) -> Outcome {
        let keys = writer::list(&self.store.store)?;
        let now_s = moment::now_s();
        let mut shown = Vec::new();
        for name in &self.keys {
            let id = self.id_among(&keys, name)?;
            let key = keys.iter().find(|key| key.id == id);
            shown.push(Shown::new(key.ok_or_else(|| self.unknown(&id))?, now_s));
        }
        if self.json {
            return print_json(&json!({ "keys": shown }));
        }
        for key in &shown {
            print_line(format_args!(
                "key {} ({}): {}",
                key.key_id,
                key.name,
                tell(key)
            ))?;
        }
        Ok(())
    }

    /// The ids that are meant, each once.
    fn ids(&self) -> Result<Vec<KeyId>, Failure> {
        // The whole store is read for names alone.
        let is_id = |text: &String| KeyId::from_hex(text).is_some();
        let keys = match self.keys.iter().all(is_id) {
            true => Vec::new(),
            false => writer::list(&self.store.store)?,
        };
        let mut ids = Vec::new();
        for name in &self.keys {
            let id = self.id_among(&keys, name)?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// What looks like an id is one.
    fn id_among(&self, keys: &[StoredKey], name: &str) -> Result<KeyId, Failure> {
        if let Some(id) = KeyId::from_hex(name) {
            return Ok(id);
        }
        let named: Vec<_> = keys.iter().filter(|key| &*key.name == name).collect();
        match &*named {
            [] => Err(self.unknown(&format_args!("named {name:?}"))),
            [key] => Ok(key.id),
            several => {
                let now_s = moment::now_s();
                let ids: Vec<_> = (several.iter())
                    .map(|key| format!("{} ({})", key.id, Shown::new(key, now_s).state))
                    .collect();
                Err(Failure::because(format!(
                    "{}: has {} keys named {name:?}: {}; say by its id which is meant; nothing was changed",
                    self.store.store.display(),
                    several.len(),
                    ids.join(", "),
                )))
            }
        }
    }

    fn unknown(&self, which: &impl std::fmt::Display) -> Failure {
        Failure::because(format!(
            "{}: has no key {which}; `edge keys list` shows those it has; nothing was changed",
            self.store.store.display(),
        ))
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
            "{}: {} before, {}",
            self.store.store.display(),
            many(compacted.records, "record"),
            many(compacted.keys, "key"),
        );
        Ok(())
    }
}
