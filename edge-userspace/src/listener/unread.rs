//! Connections whose hello has not come whole: so many at a time, and of more the one that has
//! waited longest goes.
//!
//! Who begins a hello and never ends it holds a socket and a task until the handshake's
//! timeout. An honest client's hello is whole after a round trip, so that among the oldest of
//! thousands there is hardly one of theirs. Not here: reading it ([`super::hello`]).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// Those of one thread, in the order in which they came.
pub(super) struct UnreadHellos {
    /// Some have been read meanwhile: their receivers are gone.
    entries: RefCell<VecDeque<oneshot::Sender<()>>>,
    count: Cell<usize>,
    most: usize,
}

/// One of them, while it lives.
pub(super) struct Unread<'a> {
    hellos: &'a UnreadHellos,
    pushed_out: oneshot::Receiver<()>,
}

impl UnreadHellos {
    /// Room for so many, at least one.
    pub(super) fn new(most: usize) -> Self {
        Self {
            entries: RefCell::default(),
            count: Cell::new(0),
            most,
        }
    }

    /// One more; the oldest is pushed out when there is no room.
    pub(super) fn enter(&self) -> Unread<'_> {
        let (push_out, pushed_out) = oneshot::channel();
        let mut entries = self.entries.borrow_mut();
        if self.count.get() >= self.most {
            // Those that were read are passed over.
            while let Some(oldest) = entries.pop_front() {
                if oldest.send(()).is_ok() {
                    break;
                }
            }
        } else if entries.len() >= 2 * self.most {
            entries.retain(|entry| !entry.is_closed());
        }
        entries.push_back(push_out);
        self.count.set(self.count.get() + 1);
        Unread {
            hellos: self,
            pushed_out,
        }
    }
}

impl Unread<'_> {
    /// What `read` comes to; nothing when this one is pushed out before.
    pub(super) async fn or_pushed_out<R>(mut self, read: impl Future<Output = R>) -> Option<R> {
        tokio::select! {
            biased;
            read = read => Some(read),
            _ = &mut self.pushed_out => None,
        }
    }
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        self.hellos.count.set(self.hellos.count.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::task::Poll;

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        std::pin::Pin::new(future)
            .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn of_too_many_the_oldest_that_is_unread_goes() {
        let hellos = UnreadHellos::new(3);
        let wait = || Box::pin(hellos.enter().or_pushed_out(pending::<()>()));
        let [mut first, mut second, third] = [(); 3].map(|()| wait());
        assert!(poll(&mut first).is_pending());
        drop(first);
        let mut fourth = wait();
        assert!(
            poll(&mut second).is_pending(),
            "one was read: there is room"
        );
        let mut fifth = wait();
        assert_eq!(poll(&mut second), Poll::Ready(None));
        assert!(poll(&mut fourth).is_pending());
        assert!(poll(&mut fifth).is_pending());
        drop((second, third, fourth, fifth));
        assert_eq!(hellos.count.get(), 0);
    }

    #[test]
    fn what_was_read_takes_no_room_for_long() {
        let hellos = UnreadHellos::new(10);
        let slow = Box::pin(hellos.enter().or_pushed_out(pending::<()>()));
        for _ in 0..1000 {
            let mut quick = Box::pin(hellos.enter().or_pushed_out(ready(7)));
            assert_eq!(poll(&mut quick), Poll::Ready(Some(7)));
            assert!(hellos.entries.borrow().len() <= 20);
        }
        assert_eq!(hellos.count.get(), 1);
        drop(slow);
    }
}
