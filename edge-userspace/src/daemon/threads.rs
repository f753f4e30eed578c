//! The serving threads: each with its own runtime and its own listening sockets.

use crate::listener::{self, Shared};
use crate::memory::Keeping;
use crate::session::Stop;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// The threads that serve.
pub(super) struct Threads {
    /// Each thread's number when it ends.
    ends: mpsc::Receiver<usize>,
}

impl Threads {
    /// Starts a thread for each set of sockets. Each ends when `stop` says so and its
    /// connections have ended.
    pub(super) fn start(
        sockets: Vec<Vec<TcpListener>>,
        shared: &Arc<Shared>,
        stop: &Stop,
    ) -> io::Result<Self> {
        // One message a thread, so it is never full.
        let (end, ends) = mpsc::channel(sockets.len().max(1));
        for (number, sockets) in sockets.into_iter().enumerate() {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (shared, stop) = (Arc::clone(shared), stop.clone());
            // Told when the thread is gone, however it goes.
            let end = End {
                number,
                tell: end.clone(),
            };
            std::thread::Builder::new()
                .name(format!("serve-{number}"))
                .spawn(move || {
                    let _end = end;
                    let _keeping = Keeping::begin();
                    let serving = listener::serve(sockets, shared, stop);
                    LocalSet::new().block_on(&runtime, serving);
                })?;
        }
        Ok(Self { ends })
    }

    /// Waits until one of them ends.
    pub(super) async fn ended(&mut self) -> usize {
        match self.ends.recv().await {
            Some(number) => number,
            // All have been told of already.
            None => std::future::pending().await,
        }
    }

    /// Waits until all of them have ended.
    pub(super) async fn all_ended(&mut self) {
        while self.ends.recv().await.is_some() {}
    }
}

struct End {
    number: usize,
    tell: mpsc::Sender<usize>,
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.tell.try_send(self.number);
    }
}
