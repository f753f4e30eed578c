//! Ctrl-C and its kin, as something that every wait asks about: the demo ends by returning,
//! so that each guard takes down what it made.

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a wait goes without looking.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Whether somebody has asked the demo to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

/// The demo was asked to end before it was done.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted;

impl Interrupt {
    /// Takes SIGINT, SIGTERM and SIGHUP over, for good.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).context("signal handler")?;
        }
        Ok(Self(flag))
    }

    /// Whether the demo is to end.
    pub(super) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`Interrupted`] when the demo is to end.
    pub(super) fn check(&self) -> Result<(), Interrupted> {
        if self.is_raised() {
            Err(Interrupted)
        } else {
            Ok(())
        }
    }

    /// Asks `ready` again and again until it gives something, for at most `limit`.
    ///
    /// # Errors
    /// [`Interrupted`], what `ready` fails with, or that `what` did not come in time.
    pub(super) fn wait_for<T>(
        &self,
        what: &str,
        limit: Duration,
        mut ready: impl FnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            self.check()?;
            if let Some(value) = ready()? {
                return Ok(value);
            }
            if Instant::now() > deadline {
                anyhow::bail!("{what}: not within {limit:?}");
            }
            std::thread::sleep(GRANULARITY);
        }
    }

    /// Sleeps, unless the demo is to end.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub(super) fn sleep(&self, duration: Duration) -> Result<(), Interrupted> {
        let deadline = Instant::now() + duration;
        while Instant::now() < deadline {
            self.check()?;
            std::thread::sleep(GRANULARITY.min(duration));
        }
        self.check()
    }
}
