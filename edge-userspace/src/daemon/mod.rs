//! Puts the parts together: start, serve, drain, stop.
//!
//! The order of the start is the point: everything that can be wrong is found before the
//! kernel half is attached, so that a daemon that does not start leaves nothing behind.
//! Configuration → logs → keys → sockets → kernel half loaded → tables of what is charged →
//! certificate and upstream → kernel half attached → those who follow key changes → serving
//! threads → admin → ready.

mod allocator;
mod half;
mod kept;
mod learnt;
mod log;
mod reload;
mod threads;

use crate::admin::{self, Collect, Phase, Target, View};
use crate::charges::{self, Charges};
use crate::config::{self, Config};
use crate::kernel::{self, KernelHalf, Loaded};
use crate::keys::store::follow::Follower;
use crate::keys::{self, Keyring, watch::Watch};
use crate::listener::{self, BindError};
use crate::session::{Sessions, Stop};
use crate::telemetry::Metrics;
use crate::usage::{self, Keep};
use half::Kernel;
use kept::Kept;
use learnt::Learnt;
pub use reload::Status as Configuration;
use reload::{Followed, Reload, Stamp};
use sd_notify::NotifyState;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use threads::Threads;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// After the drain timeout, which each connection keeps by itself, the threads get this
/// long to come to their end.
const GRACE: Duration = Duration::from_secs(5);

/// Why the daemon did not start, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The log's filter.
    #[error("log.filter: {0}")]
    Log(#[from] tracing_subscriber::filter::ParseError),
    /// The key store.
    #[error("keys.store: {0}")]
    Keys(#[from] keys::store::Error),
    /// An address for clients.
    #[error("listen.addresses: {0}")]
    Listen(#[source] BindError),
    /// The admin address.
    #[error("admin.address: {0}")]
    Admin(#[source] BindError),
    /// The certificate, the upstream or the API's settings.
    #[error(transparent)]
    DataPath(#[from] listener::Error),
    /// The tables of used tokens, prefixes and keys.
    #[error(transparent)]
    Charges(#[from] charges::Error),
    /// The file that keeps what keys have used.
    #[error("quotas.usage_file: {0}")]
    Usage(#[from] usage::snapshot::Error),
    /// The kernel half, where the configuration demands it.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// The system refused a thread, a runtime or a signal's handler.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A serving thread ended by itself.
    #[error("serving thread {0} ended by itself; the log says why; all others were stopped")]
    ThreadEnded(usize),
}

impl Error {
    fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Runs the daemon until a signal stops it.
///
/// # Errors
/// When it cannot start, with nothing attached or left behind; or when a part of it ended.
pub fn run(file: &Path) -> Result<(), Error> {
    allocator::give_back();
    let started = Instant::now();
    let configuration = Stamp::of(file);
    let (mut config, said) = config::load_said(file)?;
    let log = log::start(&config.log)?;
    let started_at_s = unix_s();
    let open_files = raise_open_files();

    let keyring = Arc::new(Keyring::new(config.keys.capacity));
    let mut follower = Follower::new(&config.keys.store, &config.keys.audience);
    follower.follow(&keyring)?;

    let sockets = Sockets::bind(&mut config)?;
    let config = Arc::new(config);
    let target = Target::default();
    let mut metrics = Metrics::new();
    (metrics.registry_mut()).register_collector(Box::new(Collect::new(target.clone())));
    let metrics = Arc::new(metrics);
    let sessions = Arc::new(Sessions::new());
    // Loaded first, attached last: the tables of what is charged lie in its maps.
    let mut loaded = KernelHalf::load(&config)?;
    let tables = (loaded.as_mut().ok()).and_then(Loaded::take_charged);
    let charges = Charges::new(&config, &keyring, tables)?;
    let shared = Arc::new(listener::Shared::new(
        Arc::clone(&config),
        Arc::clone(&keyring),
        Arc::clone(&charges),
        Arc::clone(&metrics),
        Arc::clone(&sessions),
    )?);
    let usage_file = match &config.quotas.usage_file {
        Some(file) => Some(Arc::new(Keep::resume(Arc::clone(shared.ledger()), file)?)),
        None => None,
    };
    let runtime = (tokio::runtime::Builder::new_current_thread().enable_all())
        .build()
        .map_err(Error::system("make a runtime"))?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new().map_err(Error::system("handle signals"))?
    };

    let kernel = Kernel::attach(loaded, &config, &keyring, &charges)?;
    let kernel = Arc::new(kernel);
    kernel.announce();
    if let Some(agreement) = kernel.agreement() {
        shared.compare(agreement);
    }
    warn_of(&config, &keyring, open_files);
    // Sessions first: what a revoked key runs ends before the kernel's map is brought up.
    keyring.observe(sessions);
    if let Some(observer) = kernel.observer() {
        keyring.observe(observer);
    }
    // Nothing has changed the table since the kernel half was filled: only this thread does.
    let store = Watch::start(follower, Arc::clone(&keyring))
        .map_err(Error::system("start the key store's thread"))?;

    let reload = Reload::start(
        Followed {
            file: file.to_owned(),
            said,
            charges: Arc::clone(&charges),
            kernel: Arc::clone(&kernel),
            keyring: Arc::clone(&keyring),
            prompts: Arc::clone(shared.prompts()),
            ledger: Arc::clone(shared.ledger()),
        },
        configuration,
    )
    .map_err(Error::system("start the configuration's thread"))?;
    let learnt = Learnt::start(Arc::clone(shared.prompts().calibration()))
        .map_err(Error::system("start the thread that keeps what is learnt"))?;

    let kept = (usage_file.clone().map(Kept::start).transpose()).map_err(Error::system(
        "start the thread that keeps what keys have used",
    ))?;

    let stop = Stop::new();
    let mut threads = Threads::start(sockets.serving, &shared, &stop)
        .map_err(Error::system("start a serving thread"))?;
    let phase = Phase::default();
    let view = Arc::new(View {
        config: file.to_owned(),
        started,
        started_at_s,
        log_lines_lost: {
            let lost = log.lost;
            Box::new(move || lost.dropped_lines() as u64)
        },
        listen: config.listen.addresses.clone(),
        keyring,
        store,
        configuration: {
            let status = reload.status();
            Box::new(move || {
                let status = status.lock().unwrap_or_else(PoisonError::into_inner);
                status.clone()
            })
        },
        charges: {
            let charges = Arc::clone(&charges);
            Box::new(move || charges.status())
        },
        kernel: {
            let kernel = Arc::clone(&kernel);
            Box::new(move || kernel.status())
        },
        prompts: Arc::clone(shared.prompts()),
        contexts: shared.contexts().cloned(),
        upstreams: Arc::clone(shared.upstreams()),
        ledger: Arc::clone(shared.ledger()),
        usage_file,
        metrics,
        phase: phase.clone(),
    });
    target.set(&view);

    let outcome = runtime.block_on(async {
        let admin_ends = CancellationToken::new();
        let admin = tokio::spawn({
            let serving = admin::serve(sockets.admin, view, admin_ends.clone());
            async move {
                if let Err(error) = serving.await {
                    tracing::error!(%error, "the admin address cannot be served");
                }
            }
        });
        phase.serving();
        tracing::info!(
            listen = ?config.listen.addresses,
            threads = config.listen.threads,
            admin = %config.admin.address,
            "serving"
        );
        notify(&[NotifyState::Ready]);
        let outcome = tokio::select! {
            name = signals.stop(&reload) => {
                tracing::info!(signal = name, "stopping: no new connections, running streams may end");
                Ok(())
            }
            ended = threads.ended() => Err(Error::ThreadEnded(ended)),
        };
        phase.stopping();
        notify(&[NotifyState::Stopping]);
        stop.drain();
        let drained = tokio::time::timeout(config.listen.drain_timeout + GRACE, threads.all_ended());
        let signal = tokio::select! {
            drained = drained => {
                say_ended(drained.is_ok());
                None
            }
            name = signals.stop(&reload) => Some(name),
        };
        if let Some(name) = signal {
            tracing::warn!(signal = name, "a second signal: what still runs is cut");
            stop.cut();
            // Clients hear of it, and what they used is settled.
            tokio::select! {
                ended = tokio::time::timeout(GRACE, threads.all_ended()) => say_ended(ended.is_ok()),
                name = signals.stop(&reload) => {
                    tracing::warn!(signal = name, "a third signal: nothing is waited for");
                }
            }
        }
        admin_ends.cancel();
        let _ = admin.await;
        outcome
    });
    kernel.detach();
    drop(learnt);
    // Last: connections have ended, so what they used is settled.
    drop(kept);
    outcome
}

fn say_ended(all: bool) {
    if all {
        tracing::info!("all connections have ended");
    } else {
        tracing::warn!("connections do not end in their time; they are closed");
    }
}

/// The wall clock, Unix time in seconds; 0 before 1970.
fn unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// The listening sockets.
struct Sockets {
    /// For each serving thread, one of each address.
    serving: Vec<Vec<TcpListener>>,
    admin: TcpListener,
}

impl Sockets {
    /// Binds everything. Ports 0 in the configuration are replaced by those the system chose.
    fn bind(config: &mut Config) -> Result<Self, Error> {
        let count = config.listen.threads;
        let mut serving: Vec<Vec<TcpListener>> = (0..count.get()).map(|_| vec![]).collect();
        for address in &mut config.listen.addresses {
            let sockets = listener::bind(
                *address,
                config.listen.backlog,
                config.listen.handshake_timeout,
                count,
            )
            .map_err(Error::Listen)?;
            learn(address, sockets.first());
            for (sockets, socket) in serving.iter_mut().zip(sockets) {
                sockets.push(socket);
            }
        }
        let admin = &mut config.admin.address;
        let socket = listener::bind(*admin, 128, Duration::ZERO, NonZeroUsize::MIN)
            .map_err(Error::Admin)?
            .remove(0);
        learn(admin, Some(&socket));
        Ok(Self {
            serving,
            admin: socket,
        })
    }
}

fn learn(address: &mut SocketAddr, socket: Option<&TcpListener>) {
    if let Some(Ok(bound)) = socket.map(TcpListener::local_addr) {
        *address = bound;
    }
}

/// The signals that mean something to us.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one that asks us to stop. A SIGHUP asks for the configuration to be read.
    async fn stop(&mut self, reload: &Reload) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hang_up.recv() => {
                    tracing::info!("SIGHUP: the configuration is read again");
                    reload.now();
                }
            }
        }
    }
}

/// Raises the limit of open files as far as we may; says what it is then.
fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => limit.maximum,
        Err(_) => before,
    }
}

/// What an operator should know from the start.
fn warn_of(config: &Config, keyring: &Keyring, open_files: Option<u64>) {
    // A connection has a descriptor, and its request another one to the upstream.
    let wanted = config.listen.max_connections as u64 * 2;
    if let Some(limit) = open_files.filter(|limit| *limit < wanted) {
        tracing::warn!(
            limit,
            wanted,
            "fewer open files are allowed than listen.max_connections may need; raise LimitNOFILE"
        );
    }
    let snapshot = keyring.snapshot();
    if snapshot.is_empty() {
        tracing::warn!("the key store has no keys: nobody can connect");
    } else if snapshot.for_audience() == 0 {
        tracing::warn!(
            keys = snapshot.len(),
            audience = config.keys.audience,
            "no key of the store is for this edge's audience: nobody can connect; see edge keys list"
        );
    }
    if !snapshot.complete() {
        tracing::warn!(
            capacity = snapshot.capacity(),
            refused = snapshot.refused_for_capacity(),
            "the key store has more keys than keys.capacity; the rest is refused"
        );
    }
}

/// Tells systemd, when it started us with Type=notify.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, state) {
        tracing::warn!(%error, "systemd could not be told");
    }
}
