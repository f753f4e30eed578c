//! Looks after the sessions of one thread: ended keys, idle connections, streams that nobody reads,
//! the daemon's end.
//!
//! One task a thread walks over the sessions when another thread rings, and once a second.
//! So a connection needs no timer and no waiting of its own.

use super::registry::Signal;
use super::{End, Session, Sessions, Stop};
use crate::keys::Keyring;
use crate::listener::Identity;
use crate::telemetry::{ConnectionEnd, Metrics};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// How often the keeper looks without being called.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// When connections are closed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A connection to which a key is bound may be idle this long.
    pub idle: Duration,
    /// A connection to which none is bound may be idle this long.
    pub idle_unbound: Duration,
    /// Running streams may go on this long after the stop signal.
    pub drain: Duration,
    /// A stream whose client takes nothing may go on this long; none: as long as it likes.
    pub unread: Option<Duration>,
}

/// The sessions of one thread.
pub struct Keeper {
    keyring: Arc<Keyring>,
    registry: Arc<Sessions>,
    metrics: Arc<Metrics>,
    limits: Limits,
    sessions: RefCell<Slab<Weak<Session>>>,
    bell: Arc<Notify>,
    draining: Cell<bool>,
}

/// A session that is kept; it derefs to the session. Dropping it takes it out.
pub struct Kept {
    keeper: Rc<Keeper>,
    place: usize,
    session: Rc<Session>,
}

impl Keeper {
    /// For a thread without connections yet.
    #[must_use]
    pub fn new(
        keyring: Arc<Keyring>,
        registry: Arc<Sessions>,
        metrics: Arc<Metrics>,
        limits: Limits,
    ) -> Rc<Self> {
        Rc::new(Self {
            keyring,
            registry,
            metrics,
            limits,
            sessions: RefCell::default(),
            bell: Arc::default(),
            draining: Cell::new(false),
        })
    }

    /// A connection that has just completed its handshake. A token's key binds it.
    #[must_use]
    pub fn open(self: &Rc<Self>, identity: Identity) -> Kept {
        let session = Session::new(
            identity,
            Arc::clone(&self.keyring),
            Arc::clone(&self.registry),
            Signal::new(Arc::clone(&self.bell)),
        );
        if self.draining.get() {
            session.close();
        }
        let place = (self.sessions.borrow_mut()).insert(Rc::downgrade(&session));
        Kept {
            keeper: Rc::clone(self),
            place,
            session,
        }
    }

    /// Keeps watch. When the daemon stops sessions close, and end when the drain timeout is over
    /// or they are to be cut; the future itself never ends.
    pub async fn watch(&self, stop: &Stop) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut drained = Drained::Never;
        loop {
            tokio::select! {
                _ = look.tick() => {
                    self.close_idle();
                    self.end_unread();
                }
                () = self.bell.notified() => {}
                () = stop.draining(), if matches!(drained, Drained::Never) => {
                    self.draining.set(true);
                    self.each(|session| self.close(session, ConnectionEnd::Draining));
                    drained = Drained::At(Instant::now() + self.limits.drain);
                }
                () = drained.come() => drained = Drained::Over,
                () = stop.is_cut(), if matches!(drained, Drained::At(_)) => drained = Drained::Over,
            }
            if matches!(drained, Drained::Over) {
                self.each(|session| session.end(End::Draining));
            }
            self.end_keys();
        }
    }

    fn end_keys(&self) {
        self.each(|session| {
            if session.key_ended.is_given() {
                session.end(End::Key);
            }
        });
    }

    fn end_unread(&self) {
        if let Some(limit) = self.limits.unread {
            self.each(|session| session.end_unread(limit));
        }
    }

    fn close_idle(&self) {
        self.each(|session| {
            let limit = if session.is_bound() {
                self.limits.idle
            } else {
                self.limits.idle_unbound
            };
            if session.idle() > limit {
                self.close(session, ConnectionEnd::Idle);
            }
        });
    }

    fn close(&self, session: &Session, why: ConnectionEnd) {
        if session.state() == super::State::Open {
            session.close();
            self.metrics.connection_ends.one(why);
        }
    }

    fn each(&self, what: impl Fn(&Session)) {
        for (_, session) in &*self.sessions.borrow() {
            if let Some(session) = session.upgrade() {
                what(&session);
            }
        }
    }
}

/// When running streams are to end because the daemon stops.
enum Drained {
    /// It does not stop.
    Never,
    At(Instant),
    Over,
}

impl Drained {
    async fn come(&self) {
        match self {
            Self::At(at) => sleep_until(*at).await,
            Self::Never | Self::Over => std::future::pending().await,
        }
    }
}

impl std::ops::Deref for Kept {
    type Target = Rc<Session>;

    fn deref(&self) -> &Rc<Session> {
        &self.session
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeper.sessions.borrow_mut().remove(self.place);
    }
}
