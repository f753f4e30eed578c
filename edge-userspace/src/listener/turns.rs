//! Whose turn it is to shake hands without a token.
//!
//! A full handshake is the dearest thing that a stranger can ask for. A hello with a token is
//! answered as soon as it is read; those without one wait here, and one of them goes on each
//! time that the thread has come round all that was ready: so a client with a token, and every
//! request, waits for one such handshake at most and not for all of them.
//!
//! As many as may come at once are let in at once, but they shake hands at a [`Pace`]. One after
//! the other they would leave the processor no time off, and whatever shares it with the thread,
//! what the kernel does to receive for everybody above all, would wait for its time slices.
//! Not here: how many may come at all ([`crate::charges`]).

use prometheus_client::metrics::gauge::Gauge;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

/// Over the rate at which they may come in the long run: so a queue grows shorter, also on a
/// thread that has got more than its part of them.
const OVER_RATE: u32 = 2;
/// At least so many turns a second, a tenth of a thread's time, however low the rate: nobody is
/// let in to wait in vain.
const LEAST_PER_SECOND: u32 = 500;
/// What a turn may come early, and so how many come together: the runtime's clock has
/// milliseconds, and no more precise one is needed here.
const EARLY: Duration = Duration::from_millis(2);

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

/// How long after one turn the next one comes. Nothing: as soon as the thread has come round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace(Duration);

impl Pace {
    /// Of each of so many threads, when so many connections a second are let in by all of them
    /// together; 0 for no limit, where there is no pace either.
    pub(super) fn of(per_second_total: u32, threads: usize) -> Self {
        if per_second_total == 0 {
            return Self(Duration::ZERO);
        }
        let threads = u32::try_from(threads.max(1)).unwrap_or(u32::MAX);
        let each = per_second_total.div_ceil(threads);
        let turns = each.saturating_mul(OVER_RATE).max(LEAST_PER_SECOND);
        Self(Duration::from_secs(1) / turns)
    }
}

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

    /// Gives one turn after the other, for ever, at the pace that holds when each is given.
    #[expect(
        clippy::disallowed_methods,
        reason = "it yields once a handshake, so it spins no faster than there is work"
    )]
    pub(super) async fn give(&self, pace: impl Fn() -> Pace) {
        let mut due = Instant::now();
        loop {
            let next = self.waiting.borrow_mut().pop_front();
            match next.map(|turn| turn.send(())) {
                Some(Ok(())) => {
                    // It comes back when everything else that was ready, the one whose turn it
                    // is among it, has run, and the system was asked what is ready then.
                    yield_now().await;
                    let Pace(pause) = pace();
                    let now = Instant::now();
                    due = due.max(now) + pause;
                    if due > now + EARLY {
                        sleep_until(due - EARLY).await;
                    }
                }
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
                spawn_local(async move { turns.give(Pace::default).await })
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
        let giving = turns.give(Pace::default);
        tokio::pin!(giving);
        tokio::select! {
            waited = turns.wait() => waited.unwrap(),
            () = &mut giving => unreachable!("for ever"),
        }
    }

    #[test]
    fn the_pace_is_over_the_rate_and_never_so_slow_that_some_wait_in_vain() {
        let turns = |total, threads| Pace::of(total, threads).0;
        assert_eq!(turns(0, 4), Duration::ZERO, "no limit");
        assert_eq!(turns(4000, 4), Duration::from_micros(500));
        assert_eq!(turns(4000, 1), Duration::from_micros(125));
        assert_eq!(turns(1, 4), Duration::from_millis(2));
        assert!(turns(u32::MAX, 1) < Duration::from_nanos(2));
    }

    /// However many wait, turns come evenly, and another pace holds from the next one on.
    #[tokio::test]
    async fn turns_keep_their_pace() {
        tokio::time::pause();
        let local = LocalSet::new();
        let run = local.run_until(async {
            let turns = turns(1000);
            let (taken, pace) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(Pace::of(1000, 1))));
            for _ in 0..1000 {
                let (turns, taken) = (Rc::clone(&turns), Rc::clone(&taken));
                spawn_local(async move {
                    turns.wait().await.unwrap();
                    taken.set(taken.get() + 1);
                });
            }
            let (give, at) = (Rc::clone(&turns), Rc::clone(&pace));
            let giving = spawn_local(async move { give.give(|| at.get()).await });
            let begun = Instant::now();
            for _ in 0..250 {
                // The first one ends with a millisecond of the runtime's clock, so it may be longer.
                tokio::time::sleep(Duration::from_millis(1)).await;
                let gone = begun.elapsed();
                let (taken, due) = (taken.get(), gone.as_micros() / 500);
                assert!(
                    taken + 4 >= due && taken <= due + 6,
                    "{taken} after {gone:?}"
                );
            }
            pace.set(Pace::default());
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!(taken.get(), 1000);
            giving.abort();
        });
        run.await;
    }
}
