//! Finds out that an HTTP/2 client is gone though its connection stands: it does not answer
//! pings (RFC 9113 section 6.7).
//!
//! The clock is not read for what comes: a timer that goes off asks whether anything has come
//! since it was set. So a client is asked after it was silent for [`PING_EVERY`] at least, and
//! for less than twice that.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// A client that is silent for so long is asked whether it is there.
pub(super) const PING_EVERY: Duration = Duration::from_secs(30);
/// How long it may take to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Looks after one connection.
pub(super) struct KeepAlive {
    /// Something has come since the timer was set.
    has_heard: bool,
    timer: Pin<Box<Sleep>>,
    is_asked: bool,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The client is to be asked.
    Ask,
    /// The client is gone.
    Gone,
}

impl KeepAlive {
    pub(super) fn new() -> Self {
        Self {
            has_heard: false,
            timer: Box::pin(sleep(PING_EVERY)),
            is_asked: false,
        }
    }

    /// Something has come.
    pub(super) fn heard(&mut self) {
        self.has_heard = true;
    }

    /// To be polled when its timer goes off, and again when what was due has been done.
    pub(super) fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.is_asked {
                return Poll::Ready(Due::Gone);
            }
            if !std::mem::take(&mut self.has_heard) {
                self.is_asked = true;
                self.timer.as_mut().reset(Instant::now() + PING_TIMEOUT);
                return Poll::Ready(Due::Ask);
            }
            self.timer.as_mut().reset(Instant::now() + PING_EVERY);
        }
        Poll::Pending
    }

    /// The client has answered. `true`: the timer is to be polled.
    pub(super) fn answered(&mut self) -> bool {
        let was_asked = std::mem::take(&mut self.is_asked);
        if was_asked {
            self.timer.as_mut().reset(Instant::now() + PING_EVERY);
        }
        was_asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// How long it takes until the client is found to be gone, at most `limit`, and how often
    /// it was asked.
    async fn gone_after(
        keep_alive: &mut KeepAlive,
        answers: bool,
        limit: Duration,
    ) -> (Option<Duration>, u32) {
        let begun = Instant::now();
        let mut asked = 0;
        let gone = poll_fn(|cx| {
            while let Poll::Ready(due) = keep_alive.poll_timer(cx) {
                if due == Due::Gone {
                    return Poll::Ready(());
                }
                asked += 1;
                if answers {
                    assert!(keep_alive.answered());
                }
            }
            Poll::Pending
        });
        let gone = tokio::time::timeout(limit, gone).await;
        (gone.is_ok().then(|| begun.elapsed()), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn who_answers_no_ping_is_gone_and_who_answers_or_speaks_is_not() {
        let hour = Duration::from_secs(3600);
        let mut silent = KeepAlive::new();
        let (gone, asked) = gone_after(&mut silent, true, hour).await;
        assert_eq!(gone, None, "it answers each ping");
        assert!((118..=120).contains(&asked), "{asked}");
        assert!(!silent.answered(), "nothing was asked");
        let mut silent = KeepAlive::new();
        let gone = gone_after(&mut silent, false, hour).await;
        assert_eq!(gone, (Some(PING_EVERY + PING_TIMEOUT), 1));
        // It spoke once, before the first look.
        let mut speaking = KeepAlive::new();
        speaking.heard();
        let gone = gone_after(&mut speaking, false, hour).await;
        assert_eq!(gone, (Some(2 * PING_EVERY + PING_TIMEOUT), 1));
    }
}
