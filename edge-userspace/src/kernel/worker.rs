//! Threads beside the kernel half, which go round until they are told to stop.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that goes round until this is dropped, which waits for its end.
pub(super) struct Worker {
    /// Closed to wake the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Runs `run`, which must ask [`stopped`] often, in a thread of that name.
    pub(super) fn start(
        name: &str,
        run: impl FnOnce(&OwnedFd) + Send + 'static,
    ) -> io::Result<Self> {
        let (wake, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(&wake))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for so long, or until `other` can be read; whether it is time to stop.
pub(super) fn stopped(wake: &OwnedFd, other: Option<BorrowedFd<'_>>, at_most: Duration) -> bool {
    let mut ready = vec![PollFd::new(wake, PollFlags::IN)];
    ready.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
    let at_most = Timespec {
        tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    // An interruption is as good as the time's end. The writing end is closed at the end.
    poll(&mut ready, Some(&at_most)).is_ok() && !ready[0].revents().is_empty()
}
