//! A request at its upstream: outstanding there as long as this exists.

use super::choose::{Set, Wants, Why};
use super::target::Target;
use super::upstreams::Member;
use super::{ConnectError, UpstreamId, Upstreams};
use crate::clock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The upstream that a request was given to. While this exists the request is outstanding
/// there, however it ends.
pub struct Picked {
    pub(super) upstreams: Arc<Upstreams>,
    pub(super) id: UpstreamId,
    pub(super) why: Why,
    pub(super) wants: Wants,
    /// Who takes the request's model.
    pub(super) serving: Set,
    /// What it has among the waiting tokens.
    pub(super) waiting_tokens: u32,
    /// Whether it must say if the upstream takes connections again.
    pub(super) is_probe: bool,
    /// Since when the upstream owes the head of an answer, by [`clock::monotonic`].
    pub(super) owes_since: Option<Duration>,
}

/// An upstream that owed an answer for so long when the client left has failed it.
pub const GIVEN_UP: Duration = Duration::from_secs(2);

impl Picked {
    /// Which one.
    #[must_use]
    pub fn id(&self) -> UpstreamId {
        self.id
    }

    /// Why that one.
    #[must_use]
    pub fn why(&self) -> Why {
        self.why
    }

    /// What the upstream wants in every request, and how long it may take.
    #[must_use]
    pub fn target(&self) -> &Target {
        self.upstreams.target(self.id)
    }

    /// The answer has begun: the prompt has been read.
    pub fn began(&mut self) {
        let tokens = std::mem::take(&mut self.waiting_tokens);
        if tokens > 0 {
            let waiting = &self.member().outstanding.waiting_tokens;
            waiting.fetch_sub(tokens.into(), Ordering::Relaxed);
        }
    }

    /// Its upstream's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.member().config.name
    }

    /// Tokens of its prompt, as counted here.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.wants.input_tokens
    }

    /// The upstream has taken a connection for it.
    pub(super) fn connected(&mut self) {
        self.is_probe = false;
        self.upstreams.connected(self.id);
    }

    /// The upstream has answered it, over whatever connection.
    pub(super) fn answered(&mut self) {
        self.owes_since = None;
        if std::mem::take(&mut self.is_probe) {
            self.upstreams.is_well(self.id);
        }
    }

    /// The upstream has failed it: with a status from 500 on, without an answer, or with an
    /// error in place of one.
    pub(super) fn failed(&mut self) {
        self.owes_since = None;
        self.upstreams.failed(self.id, self.wants.input_tokens);
    }

    /// The upstream has refused it.
    pub(super) fn refused(&self) {
        self.upstreams.refused(self.id, self.wants.input_tokens);
    }

    /// The upstream has not taken a connection for it.
    pub(super) fn connect_failed(&mut self, error: &ConnectError) {
        self.owes_since = None;
        let is_probe = std::mem::take(&mut self.is_probe);
        self.upstreams.connect_failed(self.id, is_probe, error);
    }

    fn member(&self) -> &Member {
        self.upstreams.member(self.id)
    }
}

impl Drop for Picked {
    fn drop(&mut self) {
        if (self.owes_since)
            .is_some_and(|since| clock::monotonic().saturating_sub(since) >= GIVEN_UP)
        {
            self.failed();
        }
        self.began();
        let member = self.member();
        let outstanding = &member.outstanding;
        (outstanding.tokens).fetch_sub(self.wants.input_tokens.into(), Ordering::Relaxed);
        outstanding.requests.fetch_sub(1, Ordering::Relaxed);
        if self.is_probe {
            member.ejection.give_probe_back();
        }
    }
}
