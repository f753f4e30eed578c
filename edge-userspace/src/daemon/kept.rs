//! Keeps what keys have used in its file: every few seconds, and when the daemon stops.

use crate::usage::Keep;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A daemon that is killed has lost at most what was used in this time, or in
/// [`REST`] times as long as writing takes.
const EVERY: Duration = Duration::from_secs(5);
/// Writing takes at most one part of so many of the time.
const REST: u32 = 20;

/// The thread that writes; when this is dropped it writes a last time.
pub(super) struct Kept {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Kept {
    pub(super) fn start(keep: Arc<Keep>) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        let thread = std::thread::Builder::new()
            .name("usage".to_owned())
            .spawn(move || run(&keep, &stopped))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

fn run(keep: &Keep, stopped: &Receiver<()>) {
    let mut failing = false;
    let mut wait = EVERY;
    loop {
        let is_last = !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
        let begun = Instant::now();
        let saved = keep.save();
        wait = EVERY.max(begun.elapsed() * REST);
        if let Err(error) = &saved
            && !failing
        {
            tracing::error!(%error, "what keys have used is not kept; it is tried again");
        }
        failing = saved.is_err();
        if is_last {
            return;
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
