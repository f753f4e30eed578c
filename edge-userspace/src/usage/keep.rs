//! Keeps a ledger in its file, over a restart.

use super::Ledger;
use super::snapshot::{self, Error};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A ledger and its file.
pub struct Keep {
    ledger: Arc<Ledger>,
    file: PathBuf,
    state: Mutex<State>,
    _lock: snapshot::Lock,
}

struct State {
    /// The ledger's changes when it was written last.
    written: u64,
    status: KeepStatus,
}

/// How a ledger is kept.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KeepStatus {
    /// Where.
    pub file: PathBuf,
    /// Keys whose usage was there at the start.
    pub resumed: u64,
    /// Where a file of no use was put at the start, if there was one.
    pub damaged: Option<PathBuf>,
    /// When it was written last, Unix time; 0: not since the start.
    pub written_at_s: u64,
    /// Times that it could not be written.
    pub errors: u64,
    /// Why it could not the last time; none when it could.
    pub error: Option<String>,
}

impl Keep {
    /// Begins `ledger` with what the file holds. One that is damaged is kept aside, and the
    /// ledger begins at zero; so it does when the file cannot be put aside, and then nothing is
    /// written over it.
    ///
    /// # Errors
    /// When the file can be neither read nor put aside, or another daemon keeps it.
    pub fn resume(ledger: Arc<Ledger>, file: &Path) -> Result<Self, Error> {
        let mut status = KeepStatus {
            file: file.to_owned(),
            ..KeepStatus::default()
        };
        let lock = snapshot::lock(file)?;
        match snapshot::read(file) {
            Ok((saved, age)) => {
                ledger.resume(&saved, u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
                status.resumed = saved.len() as u64;
                if !saved.is_empty() {
                    tracing::info!(
                        keys = saved.len(),
                        age_s = age.as_secs(),
                        "usage of keys taken up again"
                    );
                }
            }
            Err(error @ Error::Content { .. }) => {
                let aside = snapshot::keep_aside(file)?;
                tracing::error!(
                    %error,
                    kept_as = %aside.display(),
                    "the usage of keys is lost, and what they use is counted from zero: their limits a day begin anew"
                );
                status.damaged = Some(aside);
            }
            Err(error) => return Err(error),
        }
        Ok(Self {
            state: Mutex::new(State {
                written: ledger.changes(),
                status,
            }),
            ledger,
            file: file.to_owned(),
            _lock: lock,
        })
    }

    /// Writes the file when something has changed since it was written.
    ///
    /// # Errors
    /// When the system refuses; it is tried again with the next call.
    pub fn save(&self) -> Result<(), Error> {
        let changes = self.ledger.changes();
        if changes == self.state().written {
            return Ok(());
        }
        let outcome = snapshot::write(&self.file, self.ledger.saved());
        let mut state = self.state();
        match &outcome {
            Ok(()) => {
                state.written = changes;
                state.status.error = None;
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                state.status.written_at_s = now.as_ref().map_or(0, Duration::as_secs);
            }
            Err(error) => {
                state.status.errors += 1;
                state.status.error = Some(error.to_string());
            }
        }
        outcome
    }

    /// How it is kept.
    #[must_use]
    pub fn status(&self) -> KeepStatus {
        self.state().status.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
