//! `edge keys new`.

use super::super::output::{Failure, Outcome, print_json, written};
use super::{Shown, Store, Terms, moment};
use crate::keys::store::line::Record;
use crate::keys::store::writer::Writer;
use crate::secret::ApiKey;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Make an API key and its entry; the key is shown once, on standard output.
///
/// The store is made, with mode 0600, when it is not there. Nobody can show the key again.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge keys new --store keys.journal --name alice --audience demo
  edge keys new --store keys.journal --name ci --audience demo --valid-for 30d --api-key-out ci.key
  edge keys new --store keys.journal --name alice --audience eu --audience us --json")]
pub(super) struct New {
    #[command(flatten)]
    store: Store,
    /// A label for people.
    #[arg(long)]
    name: String,
    #[command(flatten)]
    terms: Terms,
    /// Write the API key into a new file of mode 0600 instead of showing it.
    #[arg(long, value_name = "FILE")]
    api_key_out: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl New {
    pub(super) fn run(self) -> Outcome {
        let key = ApiKey::generate()?;
        let entry = self.terms.entry(&key, &self.name)?;
        let mut store = Writer::open_or_create(&self.store.store)?;
        // The key first: an entry whose key nobody has is of no use to anyone.
        if let Some(path) = &self.api_key_out {
            write_key(path, &key)?;
        }
        let shown = Shown::new(&entry, moment::now_s());
        if let Err(error) = store.append(&[Record::Put(entry)]) {
            if let Some(path) = &self.api_key_out {
                drop(std::fs::remove_file(path));
            }
            return Err(error.into());
        }
        drop(store);
        self.show(&shown, &key)
    }

    fn show(&self, shown: &Shown, key: &ApiKey) -> Outcome {
        if self.json {
            let mut json = serde_json::to_value(shown)?;
            match &self.api_key_out {
                Some(path) => json["api_key_file"] = json!(path),
                None => json["api_key"] = json!(String::from_utf8_lossy(key.expose())),
            }
            return print_json(&json);
        }
        eprintln!(
            "key {} ({}) for {}, in {}",
            shown.key_id,
            shown.name,
            shown.audiences.join(", "),
            self.store.store.display(),
        );
        if let Some(path) = &self.api_key_out {
            eprintln!("the API key is in {}", path.display());
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        if out.is_terminal() {
            eprintln!("the API key, which is shown this once:");
        }
        written(
            out.write_all(key.expose())
                .and_then(|()| out.write_all(b"\n")),
        )
    }
}

/// A new file that only its owner can read.
fn write_key(path: &Path, key: &ApiKey) -> Outcome {
    let write = || {
        let mut file = (OpenOptions::new().write(true).create_new(true).mode(0o600)).open(path)?;
        file.write_all(key.expose())?;
        file.write_all(b"\n")?;
        file.sync_all()
    };
    write().map_err(|error: std::io::Error| {
        let cure = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "; it is not overwritten, name another file",
            _ => "",
        };
        Failure::because(format!("--api-key-out {}: {error}{cure}", path.display()))
    })
}
