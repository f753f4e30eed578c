//! How a request's body comes on, seen from the side by those who wait for the response.

use std::cell::Cell;
use std::time::Duration;
use tokio::time::Instant;

/// How long a client may keep silent within its request's body.
pub const CLIENT_SILENCE: Duration = Duration::from_secs(60);

/// The progress of one body: written by the body, read by the one who sends it.
#[derive(Debug)]
pub struct Upload {
    stage: Cell<Stage>,
    /// None: since the request began to be sent.
    since: Cell<Option<Instant>>,
    has_begun: Cell<bool>,
    fault: Cell<Option<Fault>>,
    has_passed: Cell<bool>,
}

/// Why a body failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is larger than the configured limit.
    TooLarge,
    /// The client left or reset the stream within it.
    ClientLeft,
    /// The client kept silent within it for too long.
    ClientSilent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The upstream is to take a piece.
    UpstreamTakes,
    /// The client is to send a piece.
    ClientSends,
}

impl Default for Upload {
    fn default() -> Self {
        Self {
            stage: Cell::new(Stage::UpstreamTakes),
            since: Cell::new(None),
            has_begun: Cell::new(false),
            fault: Cell::new(None),
            has_passed: Cell::new(false),
        }
    }
}

impl Upload {
    /// A piece, or the end, was handed to the upstream's connection.
    pub fn passed(&self) {
        let waited = self.stage.replace(Stage::UpstreamTakes) == Stage::ClientSends;
        // A first piece that is there goes with the request's head: no clock is read for it.
        if self.has_begun.replace(true) || waited {
            self.since.set(Some(Instant::now()));
        }
    }

    /// There is nothing to hand over until the client sends more.
    pub fn waits_for_client(&self) {
        if self.stage.replace(Stage::ClientSends) == Stage::UpstreamTakes {
            self.since.set(Some(Instant::now()));
        }
    }

    /// Its last piece was handed to the upstream's connection.
    pub fn all_passed(&self) {
        self.has_passed.set(true);
    }

    /// What was handed over was not written: it lay put aside when its request was given up.
    pub(super) fn nothing_passed(&self) {
        self.has_passed.set(false);
    }

    /// Whether all of it was handed to an upstream's connection. Before that no upstream can
    /// work for it.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.has_passed.get()
    }

    /// The body failed.
    pub fn fail(&self, fault: Fault) {
        self.fault.set(Some(fault));
    }

    /// Why the body failed, if it did.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault.get()
    }

    /// Since when someone is waited for, how long that may last, and whose fault it is
    /// then; `limit` is how long the upstream may take, to which it began to be sent at `begun`.
    pub(super) fn waiting(
        &self,
        begun: Instant,
        limit: Duration,
    ) -> (Instant, Duration, Option<Fault>) {
        let since = self.since.get().map_or(begun, |since| since.max(begun));
        match self.stage.get() {
            Stage::UpstreamTakes => (since, limit, None),
            Stage::ClientSends => (since, CLIENT_SILENCE, Some(Fault::ClientSilent)),
        }
    }
}
