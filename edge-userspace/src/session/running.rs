//! One request that runs: whom to wake, and whether its client takes what it is given.

use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

/// As the connection knows it.
pub(super) struct Running {
    /// Its number on the connection.
    pub(super) number: u64,
    /// Its client has taken nothing for too long.
    pub(super) is_unread: bool,
    waker: Option<Waker>,
    /// Pieces of its response that the connection has got.
    pieces: u32,
    /// The connection has got one, and has not asked for more since: it has no room.
    is_full: bool,
    /// So it was when it was looked at: after how many pieces, since when.
    full_since: Option<(u32, Instant)>,
}

impl Running {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            is_unread: false,
            waker: None,
            pieces: 0,
            is_full: false,
            full_since: None,
        }
    }

    /// Whom to wake at its end.
    pub(super) fn wakes(&mut self, waker: &Waker) {
        if !(self.waker.as_ref()).is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// See [`Stream::gave`](super::Stream::gave). Costs no look at a clock.
    pub(super) fn gave(&mut self, piece: bool) {
        self.pieces = self.pieces.wrapping_add(u32::from(piece));
        self.is_full = piece;
    }

    /// Looks at it now; whether it is found out now that nothing was taken for `limit`.
    pub(super) fn look(&mut self, limit: Duration) -> bool {
        if !self.is_full {
            self.full_since = None;
            return false;
        }
        match self.full_since {
            Some((pieces, since)) if pieces == self.pieces => {
                if self.is_unread || since.elapsed() < limit {
                    return false;
                }
                self.is_unread = true;
                self.wake();
                true
            }
            _ => {
                self.full_since = Some((self.pieces, Instant::now()));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_who_takes_nothing_for_the_whole_time_is_found() {
        let limit = Duration::from_secs(3);
        let mut running = Running::new(0);
        let seconds = async |running: &mut Running, count: u32, gives: bool| {
            let mut found = 0;
            for _ in 0..count {
                if gives {
                    running.gave(true);
                }
                found += u32::from(running.look(limit));
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            found
        };
        assert_eq!(seconds(&mut running, 10, false).await, 0, "nothing to take");
        assert_eq!(seconds(&mut running, 10, true).await, 0, "a piece a second");
        running.gave(false);
        assert_eq!(
            seconds(&mut running, 10, false).await,
            0,
            "the upstream is silent"
        );
        running.gave(true);
        assert_eq!(seconds(&mut running, 3, false).await, 0);
        running.gave(true);
        assert_eq!(
            seconds(&mut running, 3, false).await,
            0,
            "it took one in time"
        );
        assert_eq!(
            seconds(&mut running, 10, false).await,
            1,
            "it is found once"
        );
        assert!(running.is_unread);
    }
}
