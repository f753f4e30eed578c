//! `edge keys derive` and `edge keys import`: entries from a holder's API key.

use super::super::output::{Failure, Outcome, print_json, written};
use super::{Shown, Store, Terms, moment, read_api_key};
use crate::keys::Allowance;
use crate::keys::store::is_header;
use crate::keys::store::line::{BadLine, Record, StoredKey};
use crate::keys::store::writer::Writer;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Make an entry from an API key that its holder has, for further audiences.
///
/// An edge cannot do this: it does not have the key. The entry is printed for
/// `edge keys import` at the edge, or goes into a store with --store. An entry that the
/// store has of this key keeps its audiences, and its dates, limits and --alpn-only where the
/// command line says nothing of them; a revoked one stays revoked.
///
/// An entry holds the key's MAC keys at these audiences: whoever reads it can make tokens
/// there.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge keys derive --api-key-file alice.key --name alice --audience eu > alice.entry
  edge keys derive --api-key-file alice.key --name alice --audience us --store keys.journal")]
pub(super) struct Derive {
    /// File that holds the API key and nothing else.
    #[arg(long, value_name = "FILE")]
    api_key_file: PathBuf,
    /// A label for people.
    #[arg(long)]
    name: String,
    #[command(flatten)]
    terms: Terms,
    /// Put the entry into this store instead of printing it.
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// With --store: JSON instead of text. An entry is JSON anyway.
    #[arg(long)]
    json: bool,
}

impl Derive {
    pub(super) fn run(self) -> Outcome {
        let key = read_api_key(&self.api_key_file)?;
        let mut entry = self.terms.entry(&key, &self.name)?;
        let Some(path) = &self.store else {
            if std::io::stdout().is_terminal() {
                eprintln!("this holds MAC keys: whoever reads it can make tokens");
            }
            let mut line = Zeroizing::default();
            Record::Put(entry).write(&mut line);
            return written(std::io::stdout().lock().write_all(&line));
        };
        let mut store = Writer::open_or_create(path)?;
        if let Some(present) = store.find(&[entry.id])?.keys.remove(&entry.id) {
            merge(&mut entry, present);
            check_dates(&entry).map_err(Failure::because)?;
        }
        let shown = Shown::new(&entry, moment::now_s());
        store.append(&[Record::Put(entry)])?;
        if self.json {
            return print_json(&shown);
        }
        eprintln!(
            "key {} ({}) for {}, in {}",
            shown.key_id,
            shown.name,
            shown.audiences.join(", "),
            path.display(),
        );
        Ok(())
    }
}

/// What `entry` states, and from what the store has of the same key all that it does not:
/// audiences, dates, --alpn-only, limits, and a revocation.
fn merge(entry: &mut StoredKey, present: StoredKey) {
    for (audience, mac_key) in present.mac_keys {
        if !entry.mac_keys.iter().any(|(name, _)| *name == audience) {
            entry.mac_keys.push((audience, mac_key));
        }
    }
    if entry.not_before_s == 0 {
        entry.not_before_s = present.not_before_s;
    }
    if entry.not_after_s == u64::MAX {
        entry.not_after_s = present.not_after_s;
    }
    entry.alpn_only |= present.alpn_only;
    entry.rates = entry.rates.or(present.rates);
    entry.max_prompt_tokens = entry.max_prompt_tokens.or(present.max_prompt_tokens);
    let (mut own, present_own) = (
        Allowance::of(&entry.allowance),
        Allowance::of(&present.allowance),
    );
    own.quotas = own.quotas.or(present_own.quotas);
    if own.models.is_empty() {
        own.models = present_own.models;
    }
    entry.allowance = own.boxed();
    entry.created_at_s = present.created_at_s;
    entry.revoked_at_s = present.revoked_at_s.or(entry.revoked_at_s);
}

/// One date may come from the store, the other from its holder.
fn check_dates(entry: &StoredKey) -> Result<(), String> {
    if entry.not_before_s <= entry.not_after_s {
        return Ok(());
    }
    Err(format!(
        "key {} would be good from {} until {}, which is before; give both --not-before and --not-after",
        entry.id,
        moment::show(entry.not_before_s),
        moment::show(entry.not_after_s),
    ))
}

/// Take entries over that `edge keys derive` printed.
///
/// All of them or, when one is bad, none. Where the store has an entry of the same key, the
/// two are merged: audiences of both; dates, limits and alpn_only as they are in the store, unless
/// the imported line states others; the imported name. A revoked key stays revoked. To take
/// dates away, remove the key first.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge keys import --store keys.journal alice.entry
  ssh alice@laptop edge keys derive --api-key-file k --name alice --audience eu | edge keys import --store keys.journal")]
pub(super) struct Import {
    #[command(flatten)]
    store: Store,
    /// The entries, one a line; standard input when it is left out.
    #[arg(value_name = "FILE")]
    entries: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(super) fn run(self) -> Outcome {
        let name = (self.entries.as_deref())
            .map_or("standard input".into(), |path| path.display().to_string());
        let unreadable =
            |error: std::io::Error| Failure::because(format!("{name}: cannot read it: {error}"));
        let mut text = Zeroizing::new(Vec::new());
        match &self.entries {
            Some(path) => {
                std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut text))
            }
            None => std::io::stdin().lock().read_to_end(&mut text),
        }
        .map_err(unreadable)?;
        let mut entries: Vec<(usize, StoredKey)> = Vec::new();
        for (i, line) in text.split(|byte| *byte == b'\n').enumerate() {
            // A whole store may be imported too.
            if line.is_empty() || is_header(line) {
                continue;
            }
            let wrong = |what: BadLine| Failure::because(format!("{name}:{}: {what}", i + 1));
            match Record::parse(line).map_err(wrong)? {
                Record::Put(entry) => entries.push((i + 1, entry)),
                _ => {
                    let what = BadLine::Field("is no entry: only put lines are imported".into());
                    return Err(wrong(what));
                }
            }
        }
        if entries.is_empty() {
            return Err(Failure::because(format!("{name}: holds no entry")));
        }
        let mut store = Writer::open_or_create(&self.store.store)?;
        let ids: Vec<_> = entries.iter().map(|(_, entry)| entry.id).collect();
        let mut present = store.find(&ids)?.keys;
        let mut records = Vec::with_capacity(entries.len());
        for (line, mut entry) in entries {
            // The same id of another key is another key.
            if let Some(same) =
                (present.remove(&entry.id)).filter(|present| present.key_hash == entry.key_hash)
            {
                merge(&mut entry, same);
                check_dates(&entry)
                    .map_err(|what| Failure::because(format!("{name}:{line}: {what}")))?;
            }
            present.insert(entry.id, entry.clone());
            records.push(Record::Put(entry));
        }
        store.append(&records)?;
        if self.json {
            return print_json(&serde_json::json!({ "imported": records.len() }));
        }
        eprintln!(
            "{}, in {}",
            match records.len() {
                1 => "1 entry".to_owned(),
                count => format!("{count} entries"),
            },
            self.store.store.display()
        );
        Ok(())
    }
}
