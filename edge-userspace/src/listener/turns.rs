//! Whose turn it is to shake hands without a token.
//!
//! A full handshake is the dearest thing that a stranger can ask for. A hello with a token is
//! answered as soon as it is read; those without one wait here, and one of them goes on each
//! time that the thread has come round all that was ready: so a client with a token, and every
//! request, waits for one such handshake at most and not for all of them.
//! Not here: how many may come at all ([`crate::charges`]).

use prometheus_client::metrics::gauge::Gauge;
use std::cell::RefCell;
use std::collections::VecDeque;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;

/// Those who wait on one thread, in their order.
pub(super) struct Turns {
    waiting: RefCell<VecDeque<oneshot::Sender<()>>>,
    came: Notify,
    most: usize,
    gauge: Gauge,
}

/// So many wait that there is no room for another.
#[derive(Debug)]
pub(super) struct Crowded;

impl Turns {
    /// Room for so many. `gauge` counts all threads' together.
    pub(super) fn new(most: usize, gauge: Gauge) -> Self {
        Self {
            waiting: RefCell::default(),
            came: Notify::new(),
            most,
            gauge,
        }
    }

    /// Waits until it is the caller's turn. A caller that gives up is passed over.
    pub(super) async fn wait(&self) -> Result<(), Crowded> {
        let turn = {
            let mut waiting = self.waiting.borrow_mut();
            if waiting.len() >= self.most {
                // Some may have given up: whoever looks for room clears them away.
                waiting.retain(|turn| !turn.is_closed());
                if waiting.len() >= self.most {
                    return Err(Crowded);
                }
            }
            let (give, turn) = oneshot::channel();
            waiting.push_back(give);
            turn
        };
        self.gauge.inc();
        let _counted = Counted(&self.gauge);
        self.came.notify_one();
        // Nobody gives turns any more when the thread ends, with all that wait.
        turn.await.map_err(|_| Crowded)
    }

    /// Gives one turn after the other, for ever.
    #[expect(
        clippy::disallowed_methods,
        reason = "it yields once a handshake, so it spins no faster than there is work"
    )]
    pub(super) async fn give(&self) {
        loop {
            let next = self.waiting.borrow_mut().pop_front();
            match next.map(|turn| turn.send(())) {
                // It comes back when everything else that was ready, the one whose turn it is
                // among it, has run, and the system was asked what is ready then.
                Some(Ok(())) => yield_now().await,
                // One that has given up takes none.
                Some(Err(())) => {}
                None => self.came.notified().await,
            }
        }
    }
}

/// One that waits, counted while it does.
struct Counted<'a>(&'a Gauge);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;
    use tokio::task::{LocalSet, spawn_local};

    fn turns(most: usize) -> Rc<Turns> {
        Rc::new(Turns::new(most, Gauge::default()))
    }

    /// Between two turns everything else that is ready runs, what was made ready by the
    /// system in between too.
    #[tokio::test]
    async fn others_come_between_two_turns() {
        let local = LocalSet::new();
        let run = local.run_until(async {
            let turns = turns(1000);
            let taken = Rc::new(Cell::new(0));
            for _ in 0..500 {
                let (turns, taken) = (Rc::clone(&turns), Rc::clone(&taken));
                spawn_local(async move {
                    turns.wait().await.unwrap();
                    taken.set(taken.get() + 1);
                });
            }
            let giving = {
                let turns = Rc::clone(&turns);
                spawn_local(async move { turns.give().await })
            };
            // Two ends of a connection: each word needs the system to be asked.
            let (mut here, mut there) = tokio::net::UnixStream::pair().unwrap();
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            spawn_local(async move {
                let mut word = [0];
                while there.read_exact(&mut word).await.is_ok() {
                    there.write_all(&word).await.unwrap();
                }
            });
            let mut words = 0;
            while taken.get() < 500 {
                let before = taken.get();
                here.write_all(b"x").await.unwrap();
                here.read_exact(&mut [0]).await.unwrap();
                words += 1;
                assert!(taken.get() - before <= 4, "{} turns", taken.get() - before);
            }
            assert!(words >= 100, "{words}");
            assert_eq!(turns.gauge.get(), 0);
            giving.abort();
        });
        tokio::time::timeout(Duration::from_secs(60), run)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn more_than_there_is_room_for_are_turned_away_and_who_left_leaves_room() {
        let turns = turns(2);
        let first = Box::pin(turns.wait());
        let second = Box::pin(turns.wait());
        let mut both = Box::pin(async { tokio::join!(first, second) });
        let wait = Duration::from_millis(1);
        assert!(tokio::time::timeout(wait, &mut both).await.is_err());
        assert_eq!(turns.gauge.get(), 2);
        turns.wait().await.unwrap_err();
        drop(both);
        assert_eq!(turns.gauge.get(), 0);
        let giving = turns.give();
        tokio::pin!(giving);
        tokio::select! {
            waited = turns.wait() => waited.unwrap(),
            () = &mut giving => unreachable!("for ever"),
        }
    }
}
