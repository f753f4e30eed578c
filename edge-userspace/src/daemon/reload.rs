//! Follows the configuration's file while the daemon runs: limits and models change, everything else that
//! changed is said to need a restart. A file that is no good changes nothing, and that is said.
//!
//! The file is read when it has changed and then been the same for one look, and at once on a
//! SIGHUP.

use super::Kernel;
use crate::charges::{Charges, Limits};
use crate::config::{self, LIVE, Said};
use crate::keys::Keyring;
use crate::prompt::Prompts;
use crate::usage::Ledger;
use serde::Serialize;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the file is looked at: one stat(2), which sees through the symbolic links that
/// Kubernetes swaps.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The following thread; it ends when this is dropped.
pub(super) struct Reload {
    wake: Option<SyncSender<()>>,
    status: Arc<Mutex<Status>>,
    thread: Option<JoinHandle<()>>,
}

/// What `/status` and `/metrics` show of the configuration's file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Times that it was read again and taken.
    pub taken: u64,
    /// When the one in use was read, Unix time.
    pub taken_at_s: u64,
    /// Times that it was read again and refused.
    pub refused: u64,
    /// Why it was refused last; none when it was taken last.
    pub error: Option<String>,
    /// Fields that differ from what the daemon runs by, and wait for a restart.
    pub needs_restart: Vec<&'static str>,
    /// When the token window will be as wide as the file says, Unix time; none when it is.
    pub window_widens_at_s: Option<u64>,
}

/// What the thread works with.
pub(super) struct Followed {
    /// The configuration's file.
    pub(super) file: PathBuf,
    /// What it said at the start.
    pub(super) said: Said,
    pub(super) charges: Arc<Charges>,
    pub(super) kernel: Arc<Kernel>,
    pub(super) keyring: Arc<Keyring>,
    pub(super) prompts: Arc<Prompts>,
    pub(super) ledger: Arc<Ledger>,
}

impl Reload {
    /// Follows the file from now on. It was read before `since`.
    pub(super) fn start(followed: Followed, since: Stamp) -> io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let status = Arc::new(Mutex::new(Status {
            taken_at_s: super::unix_s(),
            ..Status::default()
        }));
        let mut follower = Follower {
            taken: followed.said.clone(),
            followed,
            status: Arc::clone(&status),
            widens: None,
        };
        let thread = std::thread::Builder::new()
            .name("configuration".to_owned())
            .spawn(move || follower.run(&woken, since))?;
        Ok(Self {
            wake: Some(wake),
            status,
            thread: Some(thread),
        })
    }

    /// Reads the file now, changed or not.
    pub(super) fn now(&self) {
        if let Some(wake) = &self.wake {
            // One that waits already is enough.
            let _ = wake.try_send(());
        }
    }

    /// For those who look.
    pub(super) fn status(&self) -> Arc<Mutex<Status>> {
        Arc::clone(&self.status)
    }
}

impl Drop for Reload {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What stat(2) tells of the file; differs when it was changed or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<(u64, u64, i64, i64, u64)>);

impl Stamp {
    pub(super) fn of(path: &Path) -> Self {
        Self(std::fs::metadata(path).ok().map(|file| {
            let (modified_s, modified_ns) = (file.mtime(), file.mtime_nsec());
            (file.dev(), file.ino(), modified_s, modified_ns, file.len())
        }))
    }
}

struct Follower {
    followed: Followed,
    /// What the file said when it was last taken.
    taken: Said,
    status: Arc<Mutex<Status>>,
    /// The limits with the wide window, and when they may hold.
    widens: Option<(Limits, Instant)>,
}

impl Follower {
    fn run(&mut self, woken: &Receiver<()>, mut read: Stamp) {
        let mut seen = read;
        loop {
            let asked = match woken.recv_timeout(LOOK_EVERY) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let now = Stamp::of(&self.followed.file);
            if asked || (now == seen && now != read) {
                read = now;
                self.read(asked);
            }
            seen = now;
            if let Some((limits, _)) = self.widens.take_if(|(_, at)| *at <= Instant::now()) {
                self.apply(limits);
                self.status().window_widens_at_s = None;
                tracing::info!(
                    seconds = limits.window_back_s,
                    "the token window is wider now"
                );
            }
        }
    }

    fn read(&mut self, asked: bool) {
        match config::load_said(&self.followed.file) {
            Ok((config, said)) => {
                let changed = said.changed(&self.taken);
                self.taken = said;
                self.followed.prompts.follow(&config.prompt);
                self.followed.ledger.follow(&config.quotas);
                self.take(Limits::of(&config), &changed, asked);
            }
            Err(error) => {
                tracing::error!(%error, "the configuration is no good; what it said before stays in effect");
                let mut status = self.status();
                status.refused += 1;
                status.error = Some(error.to_string());
            }
        }
    }

    fn take(&mut self, wanted: Limits, changed: &[&'static str], asked: bool) {
        let (limits, after_s) = self.followed.charges.limits().towards(wanted);
        let at = after_s.map(|after_s| Instant::now() + Duration::from_secs(after_s));
        // A widening that is under way goes on when the window is not what has changed.
        let at = match (&self.widens, at) {
            (Some((before, under_way)), Some(_)) if before.window() == wanted.window() => {
                Some(*under_way)
            }
            (_, at) => at,
        };
        self.widens = at.map(|at| (wanted, at));
        self.apply(limits);
        let needs_restart = self.needs_restart();
        let widens_in = at.map(|at| at.saturating_duration_since(Instant::now()).as_secs());
        {
            let mut status = self.status();
            status.taken += 1;
            status.taken_at_s = super::unix_s();
            status.error = None;
            status.needs_restart.clone_from(&needs_restart);
            status.window_widens_at_s = widens_in.map(|s| super::unix_s() + s);
        }
        if asked || !changed.is_empty() {
            let live: Vec<_> = changed.iter().filter(|name| LIVE.contains(*name)).collect();
            tracing::info!(changed = ?live, "the configuration was read again");
        }
        if !needs_restart.is_empty() {
            tracing::warn!(
                fields = ?needs_restart,
                "changed in the configuration, and in effect after a restart only"
            );
        }
        if let Some(seconds) = widens_in {
            tracing::info!(
                seconds,
                "the wider token window comes when all used tokens in it are remembered"
            );
        }
    }

    fn apply(&self, limits: Limits) {
        let followed = &self.followed;
        let before = followed.charges.limits();
        if before == limits {
            return;
        }
        followed.charges.set_limits(limits);
        if let Err(error) = followed
            .kernel
            .follow_limits(&before, &limits, &followed.keyring)
        {
            tracing::error!(%error, "the kernel half could not follow a change of limits");
        }
    }

    fn needs_restart(&self) -> Vec<&'static str> {
        let changed = self.taken.changed(&self.followed.said);
        (changed.into_iter())
            .filter(|name| !LIVE.contains(name))
            .collect()
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
