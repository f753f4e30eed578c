//! A request as a turn of its conversation: what its headers say of it, what is known of it
//! before it is sent on, what is learnt of its answer.

use super::headers;
use super::route::Route;
use super::seen::Seen;
use super::{Api, Presented, Session};
use crate::context::{Contexts, Owner, Tenant, Turn};
use crate::prompt::{Learn, Output, Prefixes, Reading};
use crate::relay::Extras;
use crate::relay::side::{BodyForm, Opening, Side};
use crate::upstream::UpstreamId;
use bytes::Bytes;
use edge_http2::Fields;
use http::{Method, StatusCode};
use std::rc::Rc;
use std::sync::Arc;

/// What a request's headers say of its conversation.
pub(super) struct About {
    contexts: Arc<Contexts>,
    owner: Owner,
    /// The name under which the client announces itself.
    name: Option<Bytes>,
    wants_hint: bool,
}

/// What is to be learnt when the answer comes.
#[derive(Default)]
pub(super) struct ToLearn {
    /// Of what the upstream counts.
    pub(super) usage: Option<Learn>,
    /// Of where the conversation is, and how the answer begins.
    pub(super) turn: Option<Told>,
    /// Counts the answer's text, where a model writes one.
    pub(super) output: Option<Output>,
    /// What of the edge's own goes into the answer.
    pub(super) extras: Extras,
}

/// A turn that is sent on.
pub(super) struct Told {
    pub(super) turn: Turn,
    about: About,
}

impl Told {
    pub(super) fn new(mut turn: Turn, prefixes: &Prefixes, about: About) -> Self {
        turn.count(|messages| prefixes.tokens(messages));
        Self { turn, about }
    }
}

impl About {
    /// Of a request that asks a model for an answer, when conversations are remembered.
    pub(super) fn of(
        contexts: Option<&Arc<Contexts>>,
        session: &Session,
        route: Route,
        seen: &Seen<'_>,
    ) -> Option<Self> {
        if route == Route::CountTokens {
            return None;
        }
        let contexts = contexts?;
        let tenant = Tenant::from(session.key_id()?);
        Some(Self {
            owner: contexts.owner(tenant, seen.context_id),
            name: seen.context_hint.map(Bytes::copy_from_slice),
            wants_hint: seen.wants_prefix_hint,
            contexts: Arc::clone(contexts),
        })
    }

    /// Has the body's prefixes named while it is read.
    pub(super) fn chained(&self, reading: Box<Reading>) -> Box<Reading> {
        reading.chained(self.contexts.secret())
    }

    /// Looks up a body that is whole; what is known of it is not counted again.
    pub(super) fn begin(&self, reading: &mut Reading) -> Option<Turn> {
        let chain = reading.chain(self.contexts.secret(), self.owner);
        let turn = self.contexts.begin(self.owner, chain)?;
        if let Some((messages, tokens)) = turn.counted()
            && reading.know(messages, tokens)
        {
            self.contexts.know(tokens);
        }
        Some(turn)
    }
}

impl ToLearn {
    /// Where the conversation is, and how much of it.
    pub(super) fn affinity(&self) -> (Option<UpstreamId>, u32) {
        let known = self.turn.as_ref().and_then(|told| told.turn.affinity());
        known.map_or((None, 0), |(upstream, tokens)| (Some(upstream), tokens))
    }

    /// It goes to that upstream.
    pub(super) fn sent(&self, upstream: UpstreamId) {
        if let Some(told) = &self.turn {
            told.turn.sent(upstream);
        }
    }

    /// There was no answer.
    pub(super) fn failed(&self) {
        if let Some(told) = &self.turn {
            told.turn.leave();
        }
    }

    /// The answer of `upstream` has begun. Puts the hint among its fields; gives who reads
    /// along.
    pub(super) fn begun(
        &mut self,
        upstream: UpstreamId,
        status: StatusCode,
        form: BodyForm,
        fields: &mut Fields,
    ) -> Option<Box<Side>> {
        let is_readable = matches!(form, BodyForm::Events | BodyForm::Json);
        let is_read = status == StatusCode::OK && is_readable;
        if let Some(told) = &self.turn {
            told.turn.answered();
        }
        // What the request itself is at fault for it meets everywhere.
        if status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 408 | 429) {
            self.failed();
        }
        let mut hint = None;
        let opening = self
            .turn
            .take()
            .filter(|_| status.is_success())
            .map(|told| {
                let Told { turn, about } = told;
                turn.keep(upstream);
                if let Some(name) = &about.name {
                    turn.announce(name);
                }
                // Of what is not read nothing can be learnt.
                is_read.then(|| {
                    let listening = turn.ask(about.wants_hint);
                    hint = listening.hint().map(str::to_owned);
                    Opening::new(move |text| listening.learn(text))
                })
            });
        headers::tell_hint(fields, hint.as_deref());
        // An error costs nothing, whatever it is; an answer is never relayed unread without a word.
        let is_watched = is_readable || status.is_success();
        let output = self.output.take().filter(|_| is_watched)?;
        // Of an answer that is none, nothing is learnt.
        let learn = self.usage.take().filter(|_| is_read);
        let side = Side::new(form, output, learn, opening.flatten());
        Some(if status.is_success() {
            side
        } else {
            side.of_error()
        })
    }
}

impl Api {
    /// A client announces itself: `HEAD /v1/health` with a name. Whatever comes of it, the
    /// answer is the same.
    pub(super) fn preheat(&self, session: &Session, method: &Method, seen: &Seen<'_>, now_s: u64) {
        let (Some(contexts), Some(name)) = (&self.contexts, seen.context_hint) else {
            return;
        };
        let is_known = match seen.presented() {
            // A token alone is enough of some keys.
            Presented::Nothing => session.authenticate(Presented::Nothing, now_s).is_ok(),
            // That one has been looked at.
            _ => true,
        };
        if *method != Method::HEAD || !is_known {
            return;
        }
        let Some(tenant) = session.key_id().map(Tenant::from) else {
            return;
        };
        let (contexts, sender) = (Arc::clone(contexts), Rc::clone(&self.sender));
        let name = Bytes::copy_from_slice(name);
        tokio::task::spawn_local(async move {
            if let Some(upstream) = contexts.preheat(tenant, &name) {
                sender.open_ahead(upstream).await;
            }
        });
    }
}
