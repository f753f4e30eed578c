//! Accepts connections, judges the hello again in full, terminates TLS, runs HTTP.
//!
//! The way of a connection: [`socket`] → accept here → [`proxy_protocol`] where a listener
//! expects it → [`hello`] (verdict) → [`charge`] → [`refuse`], or, without a token after
//! [`turns`], [`tls`] → [`serving`] (HTTP until the end). What goes on from here is an
//! [`Identity`]: this module alone decides what it says, from the hello's token and
//! nothing else; a resumed TLS session says nothing.

mod certificate;
mod charge;
mod client;
mod compare;
mod connection;
mod gather;
mod hello;
mod http2;
mod leaving;
mod outbox;
mod proxy_protocol;
mod refuse;
mod rules;
mod serving;
mod socket;
mod tls;
mod turns;
mod unread;
mod unreadable;

pub use crate::telemetry::Lane;
pub use socket::{BindError, bind};

use crate::api::{Api, Settings, SettingsError};
use crate::charges::Charges;
use crate::config::{Config, IdentityError};
use crate::context::{Contexts, ContextsError};
use crate::ja4::Ja4;
use crate::kernel::agreement::Agreement;
use crate::keys::{KeyRecord, Keyring};
use crate::prompt::Prompts;
use crate::session::{Keeper, Limits, Sessions, Stop};
use crate::telemetry::{Bounded, ConnectionEnd, Metrics};
use crate::upstream::{UpstreamError, Upstreams};
use crate::usage::Ledger;
use edge_common::policy::Reason;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

/// How long accept pauses when the system has no descriptor or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection may have no request, with a key bound to it and without.
const IDLE: Duration = Duration::from_secs(300);
const IDLE_UNBOUND: Duration = Duration::from_secs(60);
/// Lines a second and thread about refused connections.
const LOG_LINES_PER_SECOND: u32 = 20;

/// What is known of a connection when its handshake is done.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Zero with a good token, else legacy.
    pub lane: Lane,
    /// The token's key; `None` on the legacy lane, where a request's header decides.
    pub key: Option<Arc<KeyRecord>>,
    /// Why the hello got its lane.
    pub reason: Reason,
    /// The client; where a balancer is in front, the one that its PROXY header names.
    pub peer: SocketAddr,
    /// The other end of the socket: the client or the balancer. The kernel knows the
    /// connection by this address.
    pub socket_peer: SocketAddr,
    /// What kind of client it is, where the log is to say so.
    pub ja4: Option<Ja4>,
    /// The key is over its soft rate: every request gets a 429.
    pub over_rate: bool,
}

/// What all serving threads share.
pub struct Shared {
    config: Arc<Config>,
    keyring: Arc<Keyring>,
    charges: Arc<Charges>,
    metrics: Arc<Metrics>,
    sessions: Arc<Sessions>,
    settings: Arc<Settings>,
    upstreams: Arc<Upstreams>,
    prompts: Arc<Prompts>,
    ledger: Arc<Ledger>,
    contexts: Option<Arc<Contexts>>,
    tls: tls::Tls,
    agreement: OnceLock<Arc<Agreement>>,
    open_connections: AtomicUsize,
}

/// Why the data path cannot be made ready. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The edge's certificate or its key.
    #[error("[tls] {0}")]
    Certificate(#[from] IdentityError),
    /// rustls did not take the settings.
    #[error("[tls] TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// An upstream.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The `[context]` section.
    #[error(transparent)]
    Contexts(#[from] ContextsError),
    /// The `[api]` section.
    #[error(transparent)]
    Api(#[from] SettingsError),
    /// The thread that watches the certificate cannot be started.
    #[error("the certificate's watcher cannot be started: {0}")]
    Watcher(#[source] io::Error),
}

impl Shared {
    /// Reads what the configuration names and watches the certificate from now on.
    ///
    /// # Errors
    /// When something that it names is missing or of no use.
    pub fn new(
        config: Arc<Config>,
        keyring: Arc<Keyring>,
        charges: Arc<Charges>,
        metrics: Arc<Metrics>,
        sessions: Arc<Sessions>,
    ) -> Result<Self, Error> {
        let upstreams = Arc::new(Upstreams::new(&config.upstreams, &config.choice)?);
        let contexts = Contexts::new(&config.context, upstreams.count(), &metrics)?;
        if let Some(contexts) = &contexts {
            let contexts = Arc::clone(contexts);
            upstreams.on_ejected(move |id| contexts.forget(id));
        }
        Ok(Self {
            settings: Arc::new(Settings::new(&config)?),
            upstreams,
            contexts,
            prompts: Arc::new(Prompts::new(&config.prompt)),
            ledger: Ledger::new(&config.quotas, &keyring, &metrics),
            tls: tls::Tls::new(&config.tls, &metrics)?,
            agreement: OnceLock::new(),
            open_connections: AtomicUsize::new(0),
            config,
            keyring,
            charges,
            metrics,
            sessions,
        })
    }

    /// How prompts are counted.
    #[must_use]
    pub fn prompts(&self) -> &Arc<Prompts> {
        &self.prompts
    }

    /// What keys have used, and may use.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// What is remembered of conversations, if anything is.
    #[must_use]
    pub fn contexts(&self) -> Option<&Arc<Contexts>> {
        self.contexts.as_ref()
    }

    /// Where requests go.
    #[must_use]
    pub fn upstreams(&self) -> &Arc<Upstreams> {
        &self.upstreams
    }

    /// From now on what the kernel half said of a hello is compared with what is said here.
    pub fn compare(&self, agreement: Arc<Agreement>) {
        // There is one kernel half; the first stays.
        let _ = self.agreement.set(agreement);
    }

    /// A place for one connection, if there is one.
    fn open(self: &Arc<Self>) -> Option<Open> {
        let max = self.config.listen.max_connections;
        let open = self.open_connections.fetch_add(1, Ordering::Relaxed);
        self.metrics.open_connections.inc();
        // Dropped, and so counted down again, when there is no place.
        let place = Open(Arc::clone(self));
        (open < max).then_some(place)
    }
}

/// Counts an open connection while it exists.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open_connections.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.open_connections.dec();
    }
}

/// What one serving thread has.
struct Thread {
    shared: Arc<Shared>,
    api: Api,
    keeper: Rc<Keeper>,
    turns: turns::Turns,
    outbox: Rc<outbox::Outbox>,
    unread_hellos: unread::UnreadHellos,
    log: Bounded,
}

/// Serves one thread's listening sockets, in the order of `listen.addresses`, until `stop`, then
/// until their connections have ended, each within the drain timeout. Ends at once when one of
/// them cannot be served. Must run inside a [`tokio::task::LocalSet`] of a current_thread runtime.
pub async fn serve(sockets: Vec<std::net::TcpListener>, shared: Arc<Shared>, stop: Stop) {
    let listeners = sockets.into_iter().map(TcpListener::from_std);
    let listeners: Vec<_> = match listeners.collect() {
        Ok(listeners) => listeners,
        Err(error) => {
            tracing::error!(%error, "a listening socket cannot be served");
            return;
        }
    };
    let api = Api::new(
        Arc::clone(&shared.settings),
        Arc::clone(&shared.upstreams),
        Arc::clone(&shared.prompts),
        shared.contexts.clone(),
        Arc::clone(&shared.ledger),
        Arc::clone(&shared.metrics),
    );
    let limits = Limits {
        idle: IDLE,
        idle_unbound: IDLE_UNBOUND,
        drain: shared.config.listen.drain_timeout,
        unread: shared.config.listen.unread_timeout,
    };
    let keeper = Keeper::new(
        Arc::clone(&shared.keyring),
        Arc::clone(&shared.sessions),
        Arc::clone(&shared.metrics),
        limits,
    );
    let turns = turns::Turns::new(
        shared.config.legacy.waiting,
        shared.metrics.waiting_handshakes.clone(),
    );
    let thread = Rc::new(Thread {
        turns,
        outbox: Rc::default(),
        unread_hellos: unread::UnreadHellos::new(shared.config.listen.max_unread_hellos),
        shared,
        api,
        keeper,
        log: Bounded::new(LOG_LINES_PER_SECOND),
    });
    // Each by itself, for they come at each turn: others would be looked at with them.
    let writing = [
        tokio::task::spawn_local(outbox::Writer::new(&thread.outbox)),
        tokio::task::spawn_local(thread.api.writing()),
    ];
    let upkeep = tokio::task::spawn_local(upkeep(Rc::clone(&thread), stop.clone()));
    let connections = TaskTracker::new();
    let mut accepting = JoinSet::new();
    for (number, listener) in listeners.into_iter().enumerate() {
        let (thread, connections) = (Rc::clone(&thread), connections.clone());
        let listener = Listener {
            expects_header: thread.shared.config.listen.expects_header(number),
            socket: listener,
        };
        accepting.spawn_local(accept(thread, connections, listener, stop.clone()));
    }
    while let Some(accepted) = accepting.join_next().await {
        if accepted.is_err() {
            // A panic, which has been logged where it happened.
            return;
        }
    }
    connections.close();
    connections.wait().await;
    upkeep.abort();
    for writing in writing {
        writing.abort();
    }
}

struct Listener {
    socket: TcpListener,
    /// Whether connections begin with a PROXY header.
    expects_header: bool,
}

/// Accepts until `stop`, then what waits already.
async fn accept(thread: Rc<Thread>, connections: TaskTracker, listener: Listener, stop: Stop) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.draining() => break,
            accepted = listener.socket.accept() => accepted,
        };
        match accepted {
            Ok((tcp, peer)) => begin(&thread, &connections, tcp, peer, listener.expects_header),
            Err(error) => accept_failed(&thread, &error).await,
        }
    }
    accept_the_rest(&thread, &connections, listener);
    // New connections go to the other sockets of the port, or are refused by the kernel.
}

/// Accepts the connections that the kernel has queued: it would reset them when the socket
/// is closed. Not more than the queue holds, for others may come as fast as these go.
fn accept_the_rest(thread: &Rc<Thread>, connections: &TaskTracker, listener: Listener) {
    // The runtime may not have heard of the latest, so the kernel is asked itself.
    let Ok(socket) = listener.socket.into_std() else {
        return;
    };
    for _ in 0..thread.shared.config.listen.backlog {
        let accepted = socket.accept().and_then(|(tcp, peer)| {
            tcp.set_nonblocking(true)?;
            Ok((TcpStream::from_std(tcp)?, peer))
        });
        match accepted {
            Ok((tcp, peer)) => begin(thread, connections, tcp, peer, listener.expects_header),
            Err(error) if is_of_the_connection(&error) => {}
            // None is left, or there is no room for one.
            Err(_) => break,
        }
    }
}

/// What runs beside the connections.
async fn upkeep(thread: Rc<Thread>, stop: Stop) {
    let (watch, reap) = (thread.keeper.watch(&stop), thread.api.upkeep());
    let Shared {
        charges, config, ..
    } = &*thread.shared;
    let threads = config.listen.threads.get();
    let pace = || turns::Pace::of(charges.limits().legacy_total_per_second, threads);
    tokio::join!(watch, reap, thread.turns.give(pace));
}

fn begin(
    thread: &Rc<Thread>,
    connections: &TaskTracker,
    tcp: TcpStream,
    peer: SocketAddr,
    expects_header: bool,
) {
    thread.shared.metrics.accepted_connections.one(());
    let Some(open) = thread.shared.open() else {
        let ends = &thread.shared.metrics.connection_ends;
        ends.one(ConnectionEnd::Limit);
        if let Some(permit) = thread.log.permit() {
            let left_out = permit.left_out;
            tracing::warn!(%peer, left_out, "closed at once: listen.max_connections are open");
        }
        return;
    };
    let thread = Rc::clone(thread);
    connections.spawn_local(async move {
        connection::run(&thread, tcp, peer, expects_header).await;
        drop(open);
    });
}

/// Some errors are of the one connection that is gone; others are of the system, and
/// trying again at once would only spin.
async fn accept_failed(thread: &Thread, error: &io::Error) {
    if is_of_the_connection(error) {
        return;
    }
    let ends = &thread.shared.metrics.connection_ends;
    ends.one(ConnectionEnd::AcceptFailed);
    if let Some(permit) = thread.log.permit() {
        let left_out = permit.left_out;
        tracing::error!(%error, left_out, "accept failed; raise the limit of open files (ulimit -n)");
    }
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
