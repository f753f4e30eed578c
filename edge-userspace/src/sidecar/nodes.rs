//! The edges that the sidecar knows: a client for each, and the choice among them.

use super::choose::{Chooser, Known, Switch};
use edge_client::{ApiKey, Client, Clock, Endpoint, Limits, Tls, TokenSource, client::KeyText};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most edges that are known, those that others tell of included.
pub const MOST_NODES: usize = 16;

/// One edge.
pub struct Node {
    /// Its number for the choice.
    pub number: usize,
    /// Requests to it.
    pub client: Client,
    /// Requests that it answered.
    pub answered: AtomicU64,
    /// Requests that it refused, or that did not reach it.
    pub not_taken: AtomicU64,
    /// What it said when it refused the token last.
    refusal: Mutex<Option<String>>,
    /// Its last health check failed.
    is_away: AtomicBool,
}

impl Node {
    /// A health check failed, for this reason: said when that begins.
    pub(super) fn check_failed(&self, why: &dyn std::fmt::Display) {
        let edge = self.client.endpoint();
        match self.is_away.swap(true, Ordering::Relaxed) {
            false => tracing::warn!(%edge, error = %why, "health checks fail"),
            true => tracing::debug!(%edge, error = %why, "a health check failed"),
        }
    }

    /// A health check went well: said when some had failed.
    pub(super) fn check_went_well(&self) {
        if self.is_away.swap(false, Ordering::Relaxed) {
            tracing::info!(edge = %self.client.endpoint(), "health checks go well again");
        }
    }

    /// It has refused the token, in these words.
    pub fn refuses(&self, error: &edge_client::ConnectError) {
        // Told without its words when they were asked for a moment ago; those stand.
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        if refusal.is_none() || error.has_words() {
            *refusal = Some(error.to_string());
        }
    }

    /// Why it refused the token last.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        (self.refusal.lock())
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// All edges.
pub struct Nodes {
    key: ApiKey,
    audience: String,
    tls: Tls,
    limits: Limits,
    inner: Mutex<Inner>,
    switches: AtomicU64,
    rounds: AtomicU64,
}

#[derive(Default)]
struct Inner {
    nodes: Vec<Arc<Node>>,
    chooser: Chooser,
}

impl Nodes {
    /// None is known yet. `audience` is that of all edges that name no other.
    #[must_use]
    pub fn new(key: ApiKey, audience: String, tls: Tls, limits: Limits) -> Self {
        Self {
            key,
            audience,
            tls,
            limits,
            inner: Mutex::default(),
            switches: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
        }
    }

    /// Gets to know an edge. None when it is known, or there are enough.
    ///
    /// # Errors
    /// When the key cannot stand in a header.
    pub fn add(
        &self,
        endpoint: Endpoint,
        audience: Option<&str>,
    ) -> Result<Option<Arc<Node>>, KeyText> {
        let mut inner = self.lock();
        let is_known = |node: &Arc<Node>| {
            let known = node.client.endpoint();
            (known.host(), known.port()) == (endpoint.host(), endpoint.port())
        };
        if inner.nodes.len() >= MOST_NODES || inner.nodes.iter().any(is_known) {
            return Ok(None);
        }
        let audience = audience.unwrap_or(&self.audience);
        // Each edge has its own clock.
        let tokens = TokenSource::new(&self.key, audience, Arc::new(Clock::new()));
        let tls = self.tls.clone();
        let client = Client::new(endpoint, tls, &self.key, tokens, self.limits)?;
        let node = Arc::new(Node {
            number: inner.chooser.add(),
            client,
            answered: AtomicU64::new(0),
            not_taken: AtomicU64::new(0),
            refusal: Mutex::default(),
            is_away: AtomicBool::new(false),
        });
        inner.nodes.push(Arc::clone(&node));
        Ok(Some(node))
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Node>> {
        self.lock().nodes.clone()
    }

    /// The one that requests go to.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Node>> {
        let inner = self.lock();
        inner.nodes.get(inner.chooser.current()).cloned()
    }

    /// The edge for a request that those in `tried` have not taken.
    #[must_use]
    pub fn choose(&self, tried: &[usize]) -> Option<Arc<Node>> {
        let inner = self.lock();
        let number = inner.chooser.choose(tried, Instant::now())?;
        inner.nodes.get(number).cloned()
    }

    /// What is known of each, in the order of their numbers.
    #[must_use]
    pub fn known(&self) -> Vec<(Arc<Node>, Known)> {
        let inner = self.lock();
        let known = inner.chooser.known().iter().cloned();
        inner.nodes.iter().cloned().zip(known).collect()
    }

    /// How often requests went elsewhere.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.switches.load(Ordering::Relaxed)
    }

    /// How often all edges were checked.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// All edges have been checked: the first time the best is taken, later it is looked whether
    /// there is a better one.
    pub fn reviewed(&self) {
        match self.rounds() {
            0 => self.note(|chooser, now| {
                chooser.begin(now);
                None
            }),
            _ => self.note(Chooser::review),
        }
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the choice what happened; says so when requests go elsewhere for it.
    pub fn note(&self, happened: impl FnOnce(&mut Chooser, Instant) -> Option<Switch>) {
        let mut inner = self.lock();
        let Some(switch) = happened(&mut inner.chooser, Instant::now()) else {
            return;
        };
        let name = |number: usize| inner.nodes[number].client.endpoint().to_string();
        let (from, to) = (name(switch.from), name(switch.to));
        drop(inner);
        self.switches.fetch_add(1, Ordering::Relaxed);
        tracing::info!(%from, %to, why = ?switch.why, "requests go to another edge");
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Always whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From 0 to 1, so that many sidecars do not come back at once.
#[must_use]
pub fn random() -> f64 {
    let mut byte = [0];
    // Without random bytes there is no spread, and nothing worse.
    let _ = getrandom::fill(&mut byte);
    f64::from(byte[0]) / 255.0
}
