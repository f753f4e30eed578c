//! How long the upstream has been waited for, and what that leads to.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The timer is set once and looks again when it fires, so a chunk costs one reading of the
/// clock.
pub(super) struct Silence {
    limit: Duration,
    /// None: nothing is said in between.
    ping_every: Option<Duration>,
    /// Since when; `None` while the client is waited for.
    since: Option<Instant>,
    /// When something was last said in between.
    pinged: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The client is to hear something.
    Ping,
    /// The upstream has been waited for too long.
    End,
}

impl Silence {
    pub(super) fn new(limit: Duration, ping_every: Option<Duration>) -> Self {
        Self {
            limit,
            ping_every,
            since: None,
            pinged: None,
            timer: None,
        }
    }

    /// The upstream said something.
    pub(super) fn broken(&mut self) {
        self.since = None;
        self.pinged = None;
    }

    /// The upstream says nothing. `may_ping`: there is a place for something to be said.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, may_ping: bool) -> Poll<Due> {
        let is_set = self.since.is_none() && self.timer.is_some();
        let since = *self.since.get_or_insert_with(Instant::now);
        let end = since + self.limit;
        let ping = (self.ping_every.filter(|_| may_ping))
            .map(|every| self.pinged.unwrap_or(since) + every);
        let due = ping.map_or(end, |ping| ping.min(end));
        let timer = (self.timer).get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        } else if is_set && since < timer.deadline() {
            // It is set, and has this task's waker.
            return Poll::Pending;
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= due {
                break;
            }
            timer.as_mut().reset(due);
        }
        if due == end {
            return Poll::Ready(Due::End);
        }
        self.pinged = Some(due);
        Poll::Ready(Due::Ping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    const S: Duration = Duration::from_secs(1);

    /// What comes due while nothing is said, and after how many seconds.
    async fn silent(silence: &mut Silence, may_ping: bool) -> (Due, u64) {
        let begun = Instant::now();
        let due = poll_fn(|cx| silence.poll(cx, may_ping)).await;
        (due, begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn pings_come_until_the_end() {
        let mut silence = Silence::new(40 * S, Some(15 * S));
        assert_eq!(silent(&mut silence, true).await, (Due::Ping, 15));
        assert_eq!(silent(&mut silence, true).await, (Due::Ping, 15));
        assert_eq!(silent(&mut silence, true).await, (Due::End, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_begins_it_anew() {
        let mut silence = Silence::new(40 * S, Some(15 * S));
        for _ in 0..5 {
            let wait = tokio::time::timeout(14 * S, silent(&mut silence, true)).await;
            assert!(wait.is_err());
            silence.broken();
        }
        assert_eq!(silent(&mut silence, true).await, (Due::Ping, 15));
        silence.broken();
        assert_eq!(silent(&mut silence, true).await, (Due::Ping, 15));
    }

    #[tokio::test(start_paused = true)]
    async fn within_an_event_nothing_is_said() {
        let mut silence = Silence::new(40 * S, Some(15 * S));
        assert_eq!(silent(&mut silence, false).await, (Due::End, 40));
        // The timer that was set for later is set again.
        silence.broken();
        assert!(
            tokio::time::timeout(S, silent(&mut silence, false))
                .await
                .is_err()
        );
        silence.broken();
        assert_eq!(silent(&mut silence, true).await, (Due::Ping, 15));
        let mut silence = Silence::new(40 * S, None);
        assert_eq!(silent(&mut silence, true).await, (Due::End, 40));
    }
}
