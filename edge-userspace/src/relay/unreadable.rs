//! Says of answers that could not be read along, so that nobody is charged by an estimate
//! without a word.

use crate::api::IdText;
use crate::telemetry::{Bounded, Metrics, UnreadAnswer};
use crate::upstream::{UpstreamId, Upstreams};
use std::rc::Rc;
use std::sync::Arc;

/// Lines a second and thread.
const LINES_PER_SECOND: u32 = 2;

/// Counts and logs them. One a thread.
pub struct Unreadable {
    upstreams: Arc<Upstreams>,
    metrics: Arc<Metrics>,
    log: Bounded,
}

/// Whose answer one is.
pub struct Whose {
    /// Hears of it if it cannot be read.
    pub unreadable: Rc<Unreadable>,
    /// Who gave it.
    pub upstream: UpstreamId,
    /// Goes into the log, and into an error event.
    pub request_id: IdText,
}

impl Whose {
    /// So many bytes of it could not be read.
    pub(super) fn unread(&self, why: UnreadAnswer, bytes: u64) {
        self.unreadable
            .tell(self.upstream, &self.request_id, why, bytes);
    }
}

impl Unreadable {
    /// Of answers of those upstreams.
    #[must_use]
    pub fn new(upstreams: Arc<Upstreams>, metrics: Arc<Metrics>) -> Self {
        Self {
            upstreams,
            metrics,
            log: Bounded::new(LINES_PER_SECOND),
        }
    }

    /// Of an answer of `upstream` so many bytes could not be read.
    fn tell(&self, upstream: UpstreamId, request_id: &IdText, why: UnreadAnswer, bytes: u64) {
        self.metrics.unread_answers.one(why);
        if let Some(permit) = self.log.permit() {
            tracing::warn!(
                request_id = request_id.as_str(),
                upstream = self.upstreams.name(upstream),
                reason = why.name(),
                unread_bytes = bytes,
                left_out = permit.left_out,
                "an answer could not be read along, and its key is charged by an estimate where the upstream's usage was not seen"
            );
        }
    }
}
