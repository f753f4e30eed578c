//! Keeps what is learnt of models in its file: now and then, and when the daemon stops.

use crate::prompt::calibration::Calibration;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A daemon that is killed has lost at most what it learnt in this time.
const EVERY: Duration = Duration::from_secs(30);

/// The thread that writes; when this is dropped it writes a last time.
pub(super) struct Learnt {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Learnt {
    pub(super) fn start(calibration: Arc<Calibration>) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        let thread = std::thread::Builder::new()
            .name("calibration".to_owned())
            .spawn(move || run(&calibration, &stopped))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

fn run(calibration: &Calibration, stopped: &Receiver<()>) {
    let mut failing = false;
    loop {
        let is_last = !matches!(stopped.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout));
        let saved = calibration.save();
        if let Err(error) = &saved
            && !failing
        {
            tracing::error!(%error, "what is learnt of models is not kept; it is tried again");
        }
        failing = saved.is_err();
        if is_last {
            return;
        }
    }
}

impl Drop for Learnt {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
