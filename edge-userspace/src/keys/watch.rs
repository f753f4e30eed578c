//! Carries changes of the key store into the table, from a thread of its own.
//!
//! The directory is watched by inotify; besides, the file is looked at every
//! [`POLL`], so that changes take effect where inotify is missing (network file systems,
//! exhausted watches) and no event can be lost for good. A look without news is one stat.

use super::store::Error;
use super::store::follow::{Follower, Found};
use super::{Change, Keyring, Observer, Snapshot};
use edge_common::token::KeyId;
use notify::Watcher as _;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// How often the file is looked at when nobody says that it changed.
pub const POLL: Duration = Duration::from_millis(250);

/// The watching thread; it ends when this is dropped.
pub struct Watch {
    shared: Arc<Shared>,
    wake: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

/// What `/status` and `/metrics` show of the key store.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The store.
    pub path: PathBuf,
    /// Records in the file, dead ones too.
    pub records: u64,
    /// Batches of changes that were applied.
    pub batches: u64,
    /// When the last one was, Unix time.
    pub applied_at_s: u64,
    /// Batches that were refused, and times that the file could not be read.
    pub errors: u64,
    /// Why the last look failed; none when it did not. The table is then an older one.
    pub error: Option<String>,
    /// What is strange about the file as it was last read whole, though it was taken.
    pub warning: Option<String>,
    /// Whether inotify wakes us; else polling alone does.
    pub notified: bool,
}

struct Shared {
    stop: AtomicBool,
    status: Mutex<Status>,
}

impl Watch {
    /// Starts to carry changes from where `follower` is, which has read the store once.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn start(follower: Follower, keyring: Arc<Keyring>) -> std::io::Result<Self> {
        Self::start_with(follower, keyring, watch_directory)
    }

    fn start_with(
        follower: Follower,
        keyring: Arc<Keyring>,
        notice: impl FnOnce(&Path, SyncSender<()>) -> Option<notify::RecommendedWatcher>,
    ) -> std::io::Result<Self> {
        // One place: a wake-up that is already due need not be asked for again.
        let (wake, woken) = sync_channel(1);
        let watcher = notice(follower.path(), wake.clone());
        keyring.observe(Arc::new(Names));
        let warning = follower.unfinished().then(unfinished);
        if let Some(warning) = &warning {
            tracing::warn!("key store: {warning}");
        }
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            status: Mutex::new(Status {
                path: follower.path().to_owned(),
                records: follower.records(),
                batches: 0,
                applied_at_s: now_s(),
                errors: 0,
                error: None,
                warning,
                notified: watcher.is_some(),
            }),
        });
        let thread = std::thread::Builder::new().name("keys".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                run(follower, &keyring, &woken, &shared);
                drop(watcher);
            }
        })?;
        Ok(Self {
            shared,
            wake,
            thread: Some(thread),
        })
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status().clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Full is fine: the thread is about to wake.
        let _ = self.wake.try_send(());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Shared {
    fn status(&self) -> std::sync::MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(mut follower: Follower, keyring: &Keyring, woken: &Receiver<()>, shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        let before = keyring.snapshot().len();
        let outcome = follower.follow(keyring);
        note(&follower, keyring, before, outcome, shared);
        let _ = woken.recv_timeout(POLL);
    }
}

fn note(
    follower: &Follower,
    keyring: &Keyring,
    keys_before: usize,
    outcome: Result<Found, Error>,
    shared: &Shared,
) {
    let mut status = shared.status();
    match outcome {
        // Nothing was looked at, so an error stays until the file changes.
        Ok(Found::Nothing) => {}
        Ok(
            found @ (Found::Appended(records)
            | Found::Compacted(records)
            | Found::Replaced(records)),
        ) => {
            status.records = follower.records();
            status.batches += 1;
            status.applied_at_s = now_s();
            let mended = status.error.take().is_some();
            let snapshot = keyring.snapshot();
            let how = match found {
                Found::Compacted(_) => "compacted",
                Found::Replaced(_) => "whole",
                _ => "appended",
            };
            let (keys, generation) = (snapshot.len(), snapshot.generation());
            status.warning = match found {
                Found::Replaced(_) => strange(follower, &snapshot, keys_before),
                // Still without keys, or a line that has its end now.
                _ => status.warning.take().filter(|_| snapshot.is_empty()),
            };
            match &status.warning {
                Some(warning) => tracing::warn!(
                    records,
                    how,
                    keys,
                    keys_before,
                    generation,
                    mended,
                    "key store applied, but {warning}"
                ),
                None => {
                    tracing::info!(records, how, keys, generation, mended, "key store applied");
                }
            }
            if !snapshot.complete() {
                tracing::warn!(
                    capacity = snapshot.capacity(),
                    refused = snapshot.refused_for_capacity(),
                    "the key store has more keys than keys.capacity; the rest is refused"
                );
            }
        }
        Err(error) => {
            let text = error.to_string();
            // Said once, not with every poll.
            if status.error.as_deref() != Some(&text) {
                tracing::error!("key store refused, the last good keys stay: {text}");
                status.errors += 1;
            }
            status.error = Some(text);
        }
    }
}

/// What a whole reading leaves that nobody may have meant.
fn strange(follower: &Follower, snapshot: &Snapshot, keys_before: usize) -> Option<String> {
    if keys_before > 0 && snapshot.is_empty() {
        return Some(format!(
            "it has no keys any more and had {keys_before}: nobody can connect; put the file back if that was not meant"
        ));
    }
    follower.unfinished().then(unfinished)
}

fn unfinished() -> String {
    "it ends in an unfinished line, which is left out: the file may have been cut short; the next edge keys command that writes mends it".to_owned()
}

/// Says whose connections end.
struct Names;

impl Observer for Names {
    fn changed(&self, changes: &[Change], _: bool) {
        let revoked = (changes.iter()).filter_map(|change| match change {
            Change::Revoked(record) => Some(record.id),
            _ => None,
        });
        if let Some(ids) = names(revoked) {
            tracing::info!("keys revoked: {ids}");
        }
        let removed = (changes.iter()).filter_map(|change| match change {
            Change::Removed(id) => Some(*id),
            _ => None,
        });
        if let Some(ids) = names(removed) {
            tracing::info!("keys removed: {ids}");
        }
    }
}

/// The first key ids, and how many more there are; nothing when there are none.
fn names(mut ids: impl Iterator<Item = KeyId>) -> Option<String> {
    const SHOWN: usize = 10;
    let shown: Vec<_> = (ids.by_ref().take(SHOWN))
        .map(|id| id.to_string())
        .collect();
    let text = shown.join(", ");
    match ids.count() {
        _ if shown.is_empty() => None,
        0 => Some(text),
        more => Some(format!("{text} and {more} more")),
    }
}

/// Wakes the thread on events in the store's directory: a rename there replaces the file.
fn watch_directory(path: &Path, wake: SyncSender<()>) -> Option<notify::RecommendedWatcher> {
    let directory = match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    };
    let name = path.file_name()?.to_owned();
    let start = || -> notify::Result<_> {
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                let ours = event.is_ok_and(|event| {
                    !event.kind.is_access()
                        && (event.need_rescan()
                            || event
                                .paths
                                .iter()
                                .any(|path| path.file_name() == Some(&*name)))
                });
                if ours {
                    let _ = wake.try_send(());
                }
            })?;
        watcher.watch(directory, notify::RecursiveMode::NonRecursive)?;
        Ok(watcher)
    };
    match start() {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(
                "no notice of changes in {}: {error}; the key store is looked at every {POLL:?}",
                directory.display()
            );
            None
        }
    }
}

fn now_s() -> u64 {
    (SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::derive;
    use crate::keys::store::line::{Record, StoredKey};
    use crate::keys::store::writer::Writer;
    use crate::secret::ApiKey;
    use std::io::Write as _;
    use std::sync::mpsc::SyncSender;

    /// A hang guard, not a promise.
    const PATIENCE: Duration = Duration::from_secs(60);

    struct Tells(Mutex<SyncSender<String>>);

    impl Observer for Tells {
        fn changed(&self, changes: &[Change], _: bool) {
            for change in changes {
                let text = match change {
                    Change::Put(record) => format!("put {}", record.name),
                    Change::Revoked(record) => format!("revoked {}", record.name),
                    Change::Removed(_) => "removed".to_owned(),
                };
                self.0.lock().unwrap().send(text).unwrap();
            }
        }
    }

    fn stored(name: &str) -> StoredKey {
        let key = ApiKey::new(name.as_bytes().to_vec());
        StoredKey {
            id: derive::key_id(&key),
            name: name.into(),
            key_hash: derive::key_hash(&key),
            mac_keys: vec![],
            not_before_s: 0,
            not_after_s: u64::MAX,
            alpn_only: false,
            rates: Default::default(),
            max_prompt_tokens: None,
            allowance: None,
            created_at_s: 0,
            revoked_at_s: None,
        }
    }

    fn changes_arrive(
        notice: impl FnOnce(&Path, SyncSender<()>) -> Option<notify::RecommendedWatcher>,
        notified: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.journal");
        let append = |record| Writer::open(&path).unwrap().append(&[record]).unwrap();
        drop(Writer::open_or_create(&path).unwrap());
        append(Record::Put(stored("a")));
        let keyring = Arc::new(Keyring::new(10));
        let mut follower = Follower::new(&path, "demo");
        follower.follow(&keyring).unwrap();
        let (tell, told) = sync_channel(16);
        keyring.observe(Arc::new(Tells(Mutex::new(tell))));
        let watch = Watch::start_with(follower, Arc::clone(&keyring), notice).unwrap();
        assert_eq!(watch.status().notified, notified);

        let id = stored("a").id;
        append(Record::Revoke { id, at_s: 1 });
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "revoked a");
        assert!(keyring.find(id).unwrap().revoked, "the table knew first");

        // A bad line is said in the status, and the line after its mending is taken.
        // No rewriting: between the truncation and the write the file would be another bad one.
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        let good_bytes = file.metadata().unwrap().len();
        file.write_all(b"nonsense\n").unwrap();
        let waited = std::time::Instant::now();
        while watch.status().error.is_none() {
            assert!(waited.elapsed() < PATIENCE, "the bad line is not seen");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(watch.status().errors, 1);
        file.set_len(good_bytes).unwrap();
        append(Record::Put(stored("b")));
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "put b");
        while watch.status().error.is_some() {
            assert!(waited.elapsed() < PATIENCE, "the error stays");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(watch.status().records, 3);
        drop(watch);
        assert_eq!(Arc::strong_count(&keyring), 1, "the thread has ended");
    }

    #[test]
    fn a_store_that_lost_its_keys_or_its_end_is_warned_of() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.journal");
        let mut writer = Writer::open_or_create(&path).unwrap();
        let empty = std::fs::read(&path).unwrap();
        writer.append(&[Record::Put(stored("a"))]).unwrap();
        drop(writer);
        let full = std::fs::read(&path).unwrap();
        let keyring = Arc::new(Keyring::new(10));
        let mut follower = Follower::new(&path, "demo");
        follower.follow(&keyring).unwrap();
        let watch = Watch::start(follower, keyring).unwrap();
        assert_eq!(watch.status().warning, None);
        let becomes = |text: &[u8], expected: Option<&str>| {
            std::fs::write(&path, text).unwrap();
            let waited = std::time::Instant::now();
            while match (watch.status().warning, expected) {
                (Some(warning), Some(expected)) => !warning.contains(expected),
                (warning, expected) => warning.is_some() != expected.is_some(),
            } {
                assert!(waited.elapsed() < PATIENCE, "{expected:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        becomes(&empty, Some("had 1: nobody can connect"));
        becomes(&full, None);
        becomes(&full[..full.len() - 5], Some("nobody can connect"));
        becomes(&full, None);
        // Rewritten, and so read whole.
        let other = String::from_utf8(full.clone()).unwrap();
        let other = other.replace(r#""name":"a""#, r#""name":"z""#);
        assert_ne!(other.as_bytes(), full);
        becomes(
            (other + "{\"revoke\":\"").as_bytes(),
            Some("unfinished line"),
        );
        becomes(&full, None);
    }

    #[test]
    fn ten_keys_are_named_and_the_others_counted() {
        let ids = |count: u64| (1..=count).map(KeyId);
        assert_eq!(names(ids(0)), None);
        assert_eq!(names(ids(1)), Some(KeyId(1).to_string()));
        let ten = names(ids(10)).unwrap();
        assert!(ten.ends_with(&KeyId(10).to_string()));
        assert_eq!(names(ids(13)), Some(format!("{ten} and 3 more")));
    }

    #[test]
    fn changes_arrive_by_notice() {
        changes_arrive(watch_directory, true);
    }

    #[test]
    fn changes_arrive_by_polling_alone() {
        changes_arrive(|_, _| None, false);
    }
}
