//! Who is bound to a connection, and how a connection ends when its key does.
//!
//! A [`Session`] is one connection's, and lives on that connection's thread. The token's key
//! binds it; without a token the first authenticated request does. [`Sessions`] knows which
//! connections a key has on any thread, so that revoking the key ends them; a [`Keeper`]
//! looks after the sessions of one thread.
//! Not here: reading keys out of headers ([`crate::api`]), and carrying the end out on the
//! wire ([`crate::listener`], [`crate::relay`]).

mod keeper;
mod known;
mod registry;
mod run;
mod running;
mod stop;
mod task;

pub use keeper::{Keeper, Kept, Limits};
pub use registry::Sessions;
pub use run::Run;
pub use stop::Stop;
pub use task::Task;

use crate::clock;
use crate::keys::{KeyRecord, Keyring, Refused};
use crate::listener::Identity;
use crate::secret::ApiKey;
use crate::telemetry::Lane;
use edge_common::token::KeyId;
use known::Known;
use registry::{Registration, Signal};
use running::Running;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use task::Begun;

/// One connection: whose it is, and whether it goes on.
pub struct Session {
    identity: Identity,
    keyring: Arc<Keyring>,
    sessions: Arc<Sessions>,
    bound: RefCell<Option<Bound>>,
    /// The key as requests showed it.
    known: RefCell<Known>,
    state: Cell<State>,
    /// To be closed when nothing runs.
    closes_at_rest: Cell<bool>,
    /// Requests that run.
    streams: RefCell<Slab<Running>>,
    /// How many have begun.
    requests: Cell<u64>,
    /// The one that has just begun, for the task that runs it.
    begun: Cell<Option<Begun>>,
    /// Whom to wake when the state changes: the one who runs the connection.
    driver: RefCell<Option<Waker>>,
    /// When the last one ended, by [`clock::monotonic`].
    last_request: Cell<Duration>,
    /// Set by other threads.
    key_ended: Signal,
}

struct Bound {
    key: Arc<KeyRecord>,
    _registration: Registration,
}

/// Whether a connection goes on. Only ever moves down this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Requests are served.
    Open,
    /// To be closed as soon as nothing runs: idle, or the daemon stops. What still comes is
    /// served.
    Closing,
    /// Another key came: what runs may finish, nothing new is served.
    Poisoned,
    /// What runs is to end too.
    Ended(End),
}

/// Why running streams are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The connection's key was revoked or removed.
    Key,
    /// The daemon stops and the drain timeout is over.
    Draining,
}

/// The key that a request shows.
#[derive(Clone, Copy, Debug)]
pub enum Presented<'a> {
    /// None at all.
    Nothing,
    /// One, in one header or the same in both.
    Key(&'a [u8]),
    /// Several that differ.
    Conflicting,
}

/// Why a request is not served. A 401 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No key in the headers.
    #[error("No API key: send it as x-api-key or as Authorization: Bearer")]
    Missing,
    /// Not the key that is bound to this connection, or no key that is known here.
    #[error("Invalid Key")]
    Invalid,
    /// Two keys in one request.
    #[error("Invalid Key: x-api-key and Authorization differ")]
    Conflicting,
    /// An earlier request on this connection showed another key.
    #[error("Invalid Key: this connection showed another key before and is closed; open a new one")]
    Poisoned,
    /// The key was good once, or will be.
    #[error("Invalid Key: {0}")]
    Refused(Refused),
    /// The key ended while the connection was open.
    #[error("Invalid Key: the key has been revoked")]
    Ended,
}

impl Session {
    /// A connection that has just completed its handshake. A token's key binds it.
    fn new(
        identity: Identity,
        keyring: Arc<Keyring>,
        sessions: Arc<Sessions>,
        key_ended: Signal,
    ) -> Rc<Self> {
        let session = Self {
            identity,
            keyring,
            sessions,
            bound: RefCell::default(),
            known: RefCell::default(),
            state: Cell::new(State::Open),
            closes_at_rest: Cell::new(false),
            streams: RefCell::default(),
            requests: Cell::new(0),
            begun: Cell::new(None),
            driver: RefCell::default(),
            last_request: Cell::new(clock::monotonic()),
            key_ended,
        };
        if let Some(key) = session.identity.key.clone() {
            // Whether the key has ended meanwhile is in the state.
            let _ = session.bind(key);
        }
        Rc::new(session)
    }

    /// Lane, peer, and the token's key.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether the connection goes on.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.get()
    }

    /// Checks a request's key against the connection's, and binds the connection when
    /// nothing has. There is no point at which this could be interrupted, and only this
    /// thread runs it, so of two first requests exactly one binds.
    ///
    /// A key that is not the bound one poisons the connection. `now_s` is Unix time in
    /// seconds. Gives the key's entry as it is now.
    ///
    /// # Errors
    /// Why the request is not to be served.
    pub fn authenticate(
        &self,
        presented: Presented<'_>,
        now_s: u64,
    ) -> Result<Arc<KeyRecord>, Refusal> {
        match self.state() {
            State::Open | State::Closing => {}
            State::Poisoned => return Err(Refusal::Poisoned),
            State::Ended(_) => return Err(Refusal::Ended),
        }
        let bound = self.bound.borrow().as_ref().map(|bound| bound.key.id);
        let Some(id) = bound else {
            return self.authenticate_first(presented, now_s);
        };
        // As it is now: validity may have changed since the connection was made.
        let key = self.keyring.find(id).ok_or(Refusal::Ended)?;
        match presented {
            Presented::Key(shown) if self.known.borrow_mut().is_key(&key, shown) => {}
            Presented::Key(_) => {
                self.change(State::Poisoned);
                return Err(Refusal::Invalid);
            }
            Presented::Conflicting => {
                self.change(State::Poisoned);
                return Err(Refusal::Conflicting);
            }
            Presented::Nothing if key.alpn_only && self.identity.lane == Lane::Zero => {}
            Presented::Nothing => return Err(Refusal::Missing),
        }
        key.usable(now_s).map_err(Refusal::Refused)?;
        Ok(key)
    }

    fn authenticate_first(
        &self,
        presented: Presented<'_>,
        now_s: u64,
    ) -> Result<Arc<KeyRecord>, Refusal> {
        let shown = match presented {
            Presented::Key(shown) => ApiKey::new(shown.to_vec()),
            Presented::Nothing => return Err(Refusal::Missing),
            Presented::Conflicting => return Err(Refusal::Conflicting),
        };
        let key = self.keyring.authenticate(&shown, now_s);
        let key = key.map_err(|refused| match refused {
            Refused::Unknown | Refused::NotLoaded => Refusal::Invalid,
            refused => Refusal::Refused(refused),
        })?;
        self.bind(Arc::clone(&key))?;
        Ok(key)
    }

    /// Whether a refused key would be served on a connection of its own: a good one, in the lane
    /// where the first request binds. Clients that keep one pool for several keys come so.
    #[must_use]
    pub fn would_serve(&self, presented: Presented<'_>, now_s: u64) -> bool {
        let Presented::Key(shown) = presented else {
            return false;
        };
        let is_legacy = self.identity.lane == Lane::Legacy;
        let shown = ApiKey::new(shown.to_vec());
        is_legacy && self.keyring.authenticate(&shown, now_s).is_ok()
    }

    /// The id of the key that is bound to the connection, if one is.
    #[must_use]
    pub fn key_id(&self) -> Option<KeyId> {
        self.bound.borrow().as_ref().map(|bound| bound.key.id)
    }

    /// The entry of the bound key as it is now; none: no key is bound, or it is gone.
    #[must_use]
    pub fn key(&self) -> Option<Arc<KeyRecord>> {
        self.keyring.find(self.key_id()?)
    }

    fn bind(&self, key: Arc<KeyRecord>) -> Result<(), Refusal> {
        let id = key.id;
        let registration = self.sessions.register(id, self.key_ended.clone());
        *self.bound.borrow_mut() = Some(Bound {
            key,
            _registration: registration,
        });
        // A revocation between the check and the registration was told to no one here.
        if self.keyring.find(id).is_none_or(|key| key.revoked) {
            self.end(End::Key);
            return Err(Refusal::Ended);
        }
        Ok(())
    }

    /// The connection is to be closed as soon as nothing runs on it.
    pub fn close(&self) {
        if self.state() == State::Open {
            self.change(State::Closing);
        }
    }

    /// For a request that is refused: the connection is to be closed with its answer if nothing else
    /// runs, and else when nothing does. Whether that was not to be yet.
    ///
    /// To be closed already while others run would be right by RFC 9113 section 6.8, but there are
    /// clients (Python's h2, to version 4.4) for which all streams are over with the first GOAWAY.
    pub fn close_at_rest(&self) -> bool {
        if self.state() != State::Open || self.closes_at_rest.replace(true) {
            return false;
        }
        if self.running() <= 1 {
            self.close();
        }
        true
    }

    /// Makes running streams end.
    pub fn end(&self, end: End) {
        if matches!(self.state(), State::Ended(_)) {
            return;
        }
        self.change(State::Ended(end));
        for (_, stream) in &mut *self.streams.borrow_mut() {
            stream.wake();
        }
    }

    fn change(&self, state: State) {
        self.state.set(state);
        self.wake_driver();
    }

    fn wake_driver(&self) {
        if let Some(driver) = self.driver.borrow_mut().take() {
            driver.wake();
        }
    }

    /// Makes the task of `cx` run when the state changes. For the one who runs the
    /// connection.
    pub fn drive(&self, cx: &mut Context<'_>) {
        let mut driver = self.driver.borrow_mut();
        if !(driver.as_ref()).is_some_and(|driver| driver.will_wake(cx.waker())) {
            *driver = Some(cx.waker().clone());
        }
    }

    /// A request begins. Lasts until its response's last byte.
    #[must_use]
    pub fn begin(self: &Rc<Self>) -> Stream {
        let number = self.requests.get();
        self.requests.set(number + 1);
        let slot = self.streams.borrow_mut().insert(Running::new(number));
        self.begun.set(Some(Begun { slot, number }));
        Stream {
            session: Rc::clone(self),
            slot,
        }
    }

    /// Requests that run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.streams.borrow().len()
    }

    /// Ends the requests of which the client has taken nothing for `limit`, as far as is seen by
    /// looking from time to time: their [`Task`]s end, or the connection that has none.
    pub(super) fn end_unread(&self, limit: Duration) {
        let mut found = false;
        for (_, stream) in &mut *self.streams.borrow_mut() {
            found |= stream.look(limit);
        }
        if found {
            self.wake_driver();
        }
    }

    /// Whether one runs of which the client has taken nothing for too long.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        (self.streams.borrow().iter()).any(|(_, stream)| stream.is_unread)
    }

    fn is_unread(&self, begun: Begun) -> bool {
        let streams = self.streams.borrow();
        (streams.get(begun.slot)).is_some_and(|one| one.number == begun.number && one.is_unread)
    }

    /// How long nothing has run here; zero while something does.
    #[must_use]
    pub fn idle(&self) -> Duration {
        if self.running() > 0 {
            return Duration::ZERO;
        }
        clock::monotonic().saturating_sub(self.last_request.get())
    }

    /// Whether a key is bound.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.bound.borrow().is_some()
    }
}

/// A request that runs on a connection.
pub struct Stream {
    session: Rc<Session>,
    slot: usize,
}

impl Stream {
    /// Its connection.
    #[must_use]
    pub fn session(&self) -> &Rc<Session> {
        &self.session
    }

    /// Why the stream is to end, if it is; else the task of `cx` is woken when it is.
    pub fn poll_end(&self, cx: &mut Context<'_>) -> Poll<End> {
        if let State::Ended(end) = self.session.state() {
            return Poll::Ready(end);
        }
        self.session.streams.borrow_mut()[self.slot].wakes(cx.waker());
        Poll::Pending
    }

    /// A piece of the response was given to the connection, or there was none to give.
    pub fn gave(&self, piece: bool) {
        self.session.streams.borrow_mut()[self.slot].gave(piece);
    }

    /// Whether the client has taken nothing of the response for too long.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.session.streams.borrow()[self.slot].is_unread
    }

    /// Runs `work` until it is done or the stream is to end, and says why it is to end then. The
    /// end is looked at first: once it has come, `work` is not polled again, and nothing of it
    /// goes on.
    pub fn run<W: Future>(&self, work: W) -> Run<'_, W> {
        Run::new(self, work)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.session.streams.borrow_mut().remove(self.slot);
        self.session.last_request.set(clock::monotonic());
        if self.session.closes_at_rest.get() && self.session.running() == 0 {
            self.session.close();
        }
    }
}

#[cfg(test)]
mod tests;
