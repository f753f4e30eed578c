//! What is to be counted of a response, and settled when it is over: on whatever way that is.

use super::side::Side;
use super::unreadable::Whose;
use crate::telemetry::{Metrics, StreamEnd};
use crate::usage::{Observed, Settlement};
use std::sync::Arc;

/// Bytes are counted in the metrics at least this often.
const COUNT_EVERY_BYTES: u64 = 1 << 20;

/// One response's.
pub(super) struct Account {
    metrics: Arc<Metrics>,
    bytes: u64,
    /// Reads along, where there is something to be read.
    pub(super) side: Option<Box<Side>>,
    /// `None`: settled.
    pub(super) settlement: Option<Settlement>,
    pub(super) whose: Whose,
}

impl Account {
    pub(super) fn new(
        metrics: Arc<Metrics>,
        side: Option<Box<Side>>,
        settlement: Settlement,
        whose: Whose,
    ) -> Self {
        metrics.open_streams.inc();
        Self {
            metrics,
            bytes: 0,
            side,
            settlement: Some(settlement),
            whose,
        }
    }

    /// So many bytes go to the client.
    pub(super) fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if self.bytes >= COUNT_EVERY_BYTES {
            self.metrics.relayed_bytes.add((), self.bytes);
            self.bytes = 0;
        }
    }

    /// Whether the upstream has told an error.
    pub(super) fn has_failed(&self) -> bool {
        (self.side.as_ref()).is_some_and(|side| side.observed().is_error)
    }

    /// Whether that was instead of an answer: no text came before it.
    pub(super) fn failed_at_once(&mut self) -> bool {
        let Some(side) = self.side.as_mut().filter(|side| side.observed().is_error) else {
            return false;
        };
        side.count();
        side.observed().relayed_output == 0
    }

    /// The response is over; the first end is the one that counts.
    pub(super) fn end(&mut self, end: StreamEnd) {
        let Some(settlement) = self.settlement.take() else {
            return;
        };
        match &mut self.side {
            Some(side) => {
                side.settle();
                settlement.end(end, side.observed());
                let unread = side.unread_events();
                self.metrics.unread_events.add((), unread);
                if let Some((why, bytes)) = side.unread() {
                    self.whose.unread(why, bytes);
                }
            }
            None => settlement.end(end, &Observed::default()),
        }
        self.metrics.streams.one(end);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // Dropped before its end, it is the client that left.
        self.end(StreamEnd::ClientLeft);
        self.metrics.relayed_bytes.add((), self.bytes);
        self.metrics.open_streams.dec();
    }
}
