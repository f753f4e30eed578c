//! All upstreams, as all threads share them: what is outstanding at each, who takes requests,
//! and the choice.

use super::choose::{self, Load, Random, Set, Wants, Why};
use super::ejection::{Ejection, Standing};
use super::failures::Failures;
use super::picked::Picked;
use super::target::{Target, TargetError};
use super::{ConnectError, UpstreamId};
use crate::clock;
use crate::config;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// All upstreams of the configuration.
pub struct Upstreams {
    members: Vec<Member>,
    /// Those that take every model's requests.
    for_every_model: Set,
    choice: config::Choice,
    began: Instant,
    ejected: OnceLock<Box<dyn Fn(UpstreamId) + Send + Sync>>,
}

pub(super) struct Member {
    pub(super) config: config::Upstream,
    target: Target,
    pub(super) outstanding: Outstanding,
    pub(super) ejection: Ejection,
    failures: Failures,
    failed: AtomicU64,
    /// Why the last connect failed; none since one was made.
    last_error: Mutex<Option<String>>,
    connects: AtomicU64,
    connect_failures: AtomicU64,
    unsent: AtomicU64,
    picks: [AtomicU64; Why::ALL.len()],
}

/// Written by every thread at every request: on lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Outstanding {
    pub(super) requests: AtomicU64,
    pub(super) tokens: AtomicU64,
    pub(super) waiting_tokens: AtomicU64,
}

/// Why an upstream cannot be made ready.
#[derive(Debug, thiserror::Error)]
#[error("upstream {name}: {source}")]
pub struct UpstreamError {
    name: String,
    source: TargetError,
}

/// One upstream at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// `serving`, or `ejected`.
    pub state: &'static str,
    /// Until one request may try it, milliseconds; none while it serves.
    pub ejected_for_ms: Option<u64>,
    /// Requests that are running.
    pub requests: u64,
    /// Tokens of their prompts.
    pub tokens: u64,
    /// Those of them that are believed to be still read.
    pub waiting_tokens: u64,
    /// Connections that were made.
    pub connects: u64,
    /// Connections that could not be made.
    pub connect_failures: u64,
    /// Why the last one could not; none when one was made since.
    pub last_error: Option<String>,
    /// Times that it was ejected.
    pub ejections: u64,
    /// Requests that it failed: a status from 500 on, none, or an error event before any text.
    pub failed: u64,
    /// Requests that were given to it and not sent: no connection was had for them.
    pub unsent: u64,
    /// `[reason, count]` of all requests that were given to it.
    pub picks: Vec<(&'static str, u64)>,
}

impl Upstreams {
    /// Reads what the configuration names.
    ///
    /// # Errors
    /// When something that it names is missing or of no use.
    pub fn new(
        upstreams: &[config::Upstream],
        choice: &config::Choice,
    ) -> Result<Self, UpstreamError> {
        let members: Result<Vec<_>, _> = (upstreams.iter().take(config::MAX_UPSTREAMS))
            .map(|config| {
                let target = Target::new(config).map_err(|source| UpstreamError {
                    name: config.name.clone(),
                    source,
                })?;
                Ok(Member {
                    config: config.clone(),
                    target,
                    outstanding: Outstanding::default(),
                    ejection: Ejection::new(choice),
                    failures: Failures::default(),
                    failed: AtomicU64::new(0),
                    last_error: Mutex::default(),
                    connects: AtomicU64::new(0),
                    connect_failures: AtomicU64::new(0),
                    unsent: AtomicU64::new(0),
                    picks: Default::default(),
                })
            })
            .collect();
        let members = members?;
        let every =
            |(id, member): (UpstreamId, &Member)| (member.config.models.is_empty()).then_some(id);
        Ok(Self {
            for_every_model: ids().zip(&members).filter_map(every).collect(),
            members,
            choice: *choice,
            began: Instant::now(),
            ejected: OnceLock::new(),
        })
    }

    /// The number of each, in the configuration's order.
    pub fn ids(&self) -> impl Iterator<Item = UpstreamId> {
        ids().take(self.members.len())
    }

    /// How many there are, at most 64.
    #[must_use]
    pub fn count(&self) -> u16 {
        u16::try_from(self.members.len()).unwrap_or(u16::MAX)
    }

    /// Requests that run at all of them together.
    #[must_use]
    pub fn running(&self) -> u64 {
        let requests = |member: &Member| member.outstanding.requests.load(Ordering::Relaxed);
        self.members.iter().map(requests).sum()
    }

    /// Connections that each thread may have to all of them together.
    #[must_use]
    pub fn places(&self) -> u64 {
        let places = |member: &Member| member.config.max_connections as u64;
        self.members.iter().map(places).sum()
    }

    /// Whether one of them takes that model's requests.
    #[must_use]
    pub fn serves(&self, model: &[u8]) -> bool {
        (self.members.iter()).any(|member| member.config.serves(Some(model)))
    }

    /// Whether there is no model that none of them takes.
    #[must_use]
    pub fn serve_all(&self) -> bool {
        (self.members.iter()).any(|member| member.config.models.is_empty())
    }

    /// The number of the one of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<UpstreamId> {
        let is_named = |(id, member): (_, &Member)| (member.config.name == name).then_some(id);
        ids().zip(&self.members).find_map(is_named)
    }

    /// Its name; empty when there is none of that number.
    #[must_use]
    pub fn name(&self, id: UpstreamId) -> &str {
        self.members
            .get(usize::from(id.0))
            .map_or("", |member| &member.config.name)
    }

    /// `act` is told from now on whenever one is ejected, by the thread that found it so:
    /// what it had cached is believed lost. The first to ask stays.
    pub fn on_ejected(&self, act: impl Fn(UpstreamId) + Send + Sync + 'static) {
        let _ = self.ejected.set(Box::new(act));
    }

    /// Chooses one for a request of that model; none when no upstream takes it. It is
    /// outstanding there until what is given is dropped.
    pub fn pick(
        self: &Arc<Self>,
        model: Option<&[u8]>,
        affinity: Option<UpstreamId>,
        prefix_tokens: u32,
        input_tokens: u32,
        random: &Random,
    ) -> Option<Picked> {
        let serving = self.serving(model);
        let wants = Wants {
            affinity,
            prefix_tokens,
            input_tokens,
            saving_percent: self.choice.cache_saving_percent,
            patience_percent: self.choice.cache_patience_percent,
            running_percent: self.choice.running_percent,
        };
        if let [_] = &self.members[..] {
            // Nothing to choose; also not when it is not there.
            let id = serving.iter().next()?;
            let why = match affinity == Some(id) {
                true => Why::Affinity,
                false => Why::Only,
            };
            return Some(self.picked(id, why, wants, serving));
        }
        let now_ms = self.now_ms();
        if let Some(id) = self.probe(serving, now_ms) {
            return Some(self.picked(id, Why::Probe, wants, serving));
        }
        let usable = self.usable(serving, now_ms);
        let loads = |id| self.load(id, now_ms);
        let (id, why) = choose::choose(&wants, usable, loads, random)?;
        Some(self.picked(id, why, wants, serving))
    }

    /// Each of them that is not ejected with its place in the list, for a request that is its
    /// alone.
    pub fn pick_each(self: &Arc<Self>) -> impl Iterator<Item = (usize, Picked)> {
        let all: Set = self.ids().collect();
        let wants = Wants {
            affinity: None,
            prefix_tokens: 0,
            input_tokens: 0,
            saving_percent: self.choice.cache_saving_percent,
            patience_percent: self.choice.cache_patience_percent,
            running_percent: self.choice.running_percent,
        };
        self.usable(all, self.now_ms()).iter().map(move |id| {
            let alone = Set::default().with(id);
            let picked = self.picked(id, Why::Only, wants, alone);
            (usize::from(id.0), picked)
        })
    }

    /// Whether the one at that place in the list takes that model's requests.
    #[must_use]
    pub fn one_serves(&self, place: usize, model: &[u8]) -> bool {
        let member = self.members.get(place);
        member.is_some_and(|member| member.config.serves(Some(model)))
    }

    /// Another one for a request that could not be sent to the one that was picked, if
    /// another takes it.
    pub(super) fn other(self: &Arc<Self>, picked: &Picked, random: &Random) -> Option<Picked> {
        let serving = picked.serving.without(picked.id);
        let wants = Wants {
            affinity: picked.wants.affinity.filter(|affine| *affine != picked.id),
            ..picked.wants
        };
        let now_ms = self.now_ms();
        let usable = self.usable(serving, now_ms);
        let (id, _) = choose::choose(&wants, usable, |id| self.load(id, now_ms), random)?;
        Some(self.picked(id, Why::Retry, wants, serving))
    }

    /// All of them at this moment, in the configuration's order.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let now_ms = self.now_ms();
        (self.members.iter())
            .map(|member| member.status(now_ms))
            .collect()
    }

    /// It has taken a connection.
    pub(super) fn connected(&self, id: UpstreamId) {
        self.member(id).connects.fetch_add(1, Ordering::Relaxed);
        self.is_well(id);
    }

    /// It takes connections, or answers over one.
    pub(super) fn is_well(&self, id: UpstreamId) {
        let member = self.member(id);
        let Some(was_ejected) = member.ejection.connected(self.now_ms()) else {
            return;
        };
        member.set_last_error(None);
        if was_ejected {
            let name = &member.config.name;
            tracing::info!(upstream = name, "the upstream takes connections again");
        }
    }

    /// It has not taken a connection; `is_probe`: that of the request that was to try.
    pub(super) fn connect_failed(&self, id: UpstreamId, is_probe: bool, error: &ConnectError) {
        let member = self.member(id);
        member.connect_failures.fetch_add(1, Ordering::Relaxed);
        member.set_last_error(Some(error.to_string()));
        let now_ms = self.now_ms();
        let mut others = self.ids().filter(|other| *other != id);
        let may_eject = others.any(|other| self.is_serving(other, now_ms));
        let Some(for_ms) = member.ejection.failed(now_ms, is_probe, may_eject) else {
            return;
        };
        let name = &member.config.name;
        if is_probe {
            tracing::info!(upstream = name, for_ms, %error, "the upstream still takes no connections");
            return;
        }
        tracing::warn!(
            upstream = name,
            for_ms,
            %error,
            "the upstream takes no connections: it gets no requests for a while"
        );
        if let Some(act) = self.ejected.get() {
            act(id);
        }
    }

    /// It has failed a request of so many tokens.
    pub(super) fn failed(&self, id: UpstreamId, tokens: u32) {
        let member = self.member(id);
        member.failed.fetch_add(1, Ordering::Relaxed);
        (member.failures).add(tokens, self.now_ms(), self.failure_ms());
    }

    /// It has refused a request of so many tokens. If that is the client's own affair it is so
    /// at all of them, and changes nothing.
    pub(super) fn refused(&self, id: UpstreamId, tokens: u32) {
        let failures = &self.member(id).failures;
        failures.add(tokens, self.now_ms(), self.failure_ms());
    }

    fn failure_ms(&self) -> u64 {
        u64::try_from(self.choice.failure_counts_for.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn target(&self, id: UpstreamId) -> &Target {
        &self.member(id).target
    }

    /// Who takes that model's requests, ejected or not.
    fn serving(&self, model: Option<&[u8]>) -> Set {
        let named = |(id, member): (UpstreamId, &Member)| {
            (!member.config.models.is_empty() && member.config.serves(model)).then_some(id)
        };
        if self.for_every_model.len() as usize == self.members.len() {
            return self.for_every_model;
        }
        let named = ids().zip(&self.members).filter_map(named);
        named.fold(self.for_every_model, Set::with)
    }

    /// Of those who take it the ones that are not ejected; all when every one is.
    fn usable(&self, serving: Set, now_ms: u64) -> Set {
        let stands =
            |id: &UpstreamId| self.member(*id).ejection.standing(now_ms) == Standing::Serving;
        let usable: Set = serving.iter().filter(stands).collect();
        if usable.is_empty() { serving } else { usable }
    }

    fn is_serving(&self, id: UpstreamId, now_ms: u64) -> bool {
        self.member(id).ejection.standing(now_ms) == Standing::Serving
    }

    fn probe(&self, serving: Set, now_ms: u64) -> Option<UpstreamId> {
        serving.iter().find(|id| {
            let ejection = &self.member(*id).ejection;
            ejection.standing(now_ms) == Standing::Due && ejection.take_probe(now_ms)
        })
    }

    fn picked(self: &Arc<Self>, id: UpstreamId, why: Why, wants: Wants, serving: Set) -> Picked {
        let is_warm = wants.affinity == Some(id);
        let waiting_tokens = match is_warm {
            true => wants.warm_tokens(),
            false => wants.input_tokens,
        };
        let member = self.member(id);
        member.picks[why as usize].fetch_add(1, Ordering::Relaxed);
        let Outstanding {
            requests,
            tokens,
            waiting_tokens: waiting,
        } = &member.outstanding;
        requests.fetch_add(1, Ordering::Relaxed);
        tokens.fetch_add(wants.input_tokens.into(), Ordering::Relaxed);
        waiting.fetch_add(waiting_tokens.into(), Ordering::Relaxed);
        Picked {
            upstreams: Arc::clone(self),
            id,
            why,
            wants,
            serving,
            waiting_tokens,
            is_probe: why == Why::Probe,
            owes_since: Some(clock::monotonic()),
        }
    }

    fn load(&self, id: UpstreamId, now_ms: u64) -> Load {
        let member = self.member(id);
        let outstanding = &member.outstanding;
        Load {
            tokens: outstanding.tokens.load(Ordering::Relaxed),
            waiting_tokens: outstanding.waiting_tokens.load(Ordering::Relaxed),
            failed_tokens: member.failures.tokens(now_ms, self.failure_ms()),
            tokens_per_second: member.config.prefill_tokens_per_second,
        }
    }

    /// A request that was given to it is not sent, for want of a connection.
    pub(super) fn unsent(&self, id: UpstreamId) {
        self.member(id).unsent.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn member(&self, id: UpstreamId) -> &Member {
        // Numbers come from this list; another's would be a fault of ours.
        &self.members[usize::from(id.0).min(self.members.len() - 1)]
    }

    /// From 1 on.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}

fn ids() -> impl Iterator<Item = UpstreamId> {
    (0..).map(UpstreamId)
}

impl Member {
    fn set_last_error(&self, error: Option<String>) {
        *self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = error;
    }

    fn status(&self, now_ms: u64) -> Status {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let ejected_for_ms = match self.ejection.standing(now_ms) {
            Standing::Serving => None,
            Standing::Ejected(ms) => Some(ms),
            Standing::Due => Some(0),
        };
        let picks = Why::ALL.iter().zip(&self.picks);
        Status {
            name: self.config.name.clone(),
            url: self.config.url(),
            state: match ejected_for_ms {
                None => "serving",
                Some(_) => "ejected",
            },
            ejected_for_ms,
            requests: read(&self.outstanding.requests),
            tokens: read(&self.outstanding.tokens),
            waiting_tokens: read(&self.outstanding.waiting_tokens),
            connects: read(&self.connects),
            connect_failures: read(&self.connect_failures),
            last_error: (self.last_error.lock())
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            ejections: self.ejection.ejections(),
            failed: read(&self.failed),
            unsent: read(&self.unsent),
            picks: picks
                .map(|(why, count)| (why.name(), read(count)))
                .collect(),
        }
    }
}
