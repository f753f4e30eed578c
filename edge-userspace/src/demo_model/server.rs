//! The demo model's own listener.

use super::answer::answer;
use super::kv_cache::KvCache;
use super::socket::{Ending, Socket};
use super::{Options, Stats};
use crate::config::{Identity, IdentityError};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// As many as the edge passes on.
const MAX_HEADERS: usize = 256;

/// Why the demo model cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its address cannot be listened on.
    #[error("{address}: cannot listen: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Its certificate or key.
    #[error(transparent)]
    Certificate(#[from] IdentityError),
    /// rustls did not take them.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// Its thread or runtime cannot be made.
    #[error("cannot start: {0}")]
    Start(#[source] io::Error),
}

/// A demo model that runs on a thread of its own. Dropping it closes its connections at
/// once, as a process that is killed does.
#[derive(Debug)]
pub struct DemoModel {
    address: SocketAddr,
    stats: Stats,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// Runs until `stop`. `listening` is told the address once there is one.
///
/// # Errors
/// When it cannot listen or has no good certificate.
pub async fn run(
    options: Options,
    stop: CancellationToken,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let ready = Ready::new(options)?;
    listening(ready.address);
    ready.serve(Stats::default(), stop).await
}

impl DemoModel {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot listen or has no good certificate.
    pub fn start(options: Options) -> Result<Self, Error> {
        let ready = Ready::new(options)?;
        let (address, stats, stop) = (ready.address, Stats::default(), CancellationToken::new());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::Start)?;
        let thread = {
            let (stats, stop) = (stats.clone(), stop.clone());
            std::thread::Builder::new()
                .name("demo-model".to_owned())
                .spawn(move || {
                    if let Err(error) = runtime.block_on(ready.serve(stats, stop)) {
                        tracing::error!(%error, "the demo model stopped");
                    }
                })
                .map_err(Error::Start)?
        };
        Ok(Self {
            address,
            stats,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

impl Drop for DemoModel {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic in it has been reported on standard error.
            let _ = thread.join();
        }
    }
}

/// What all requests of a demo model are answered by.
pub(super) struct Model {
    pub(super) options: Options,
    pub(super) kv_cache: KvCache,
}

/// Listening, with its certificate read.
struct Ready {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    options: Options,
}

impl Ready {
    fn new(options: Options) -> Result<Self, Error> {
        let tls = match &options.tls {
            Some((certificate, key)) => {
                let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
                let identity = Identity::read(certificate, key, &provider)?;
                let resolver = rustls::sign::SingleCertAndKey::from(identity.certified);
                let mut config = rustls::ServerConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()?
                    .with_no_client_auth()
                    .with_cert_resolver(Arc::new(resolver));
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                Some(TlsAcceptor::from(Arc::new(config)))
            }
            None => None,
        };
        let address = options.listen;
        let listen = || {
            let socket = TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok((socket, address))
        };
        let (socket, address) = listen().map_err(|source| Error::Listen { address, source })?;
        Ok(Self {
            socket,
            address,
            tls,
            options,
        })
    }

    async fn serve(self, stats: Stats, stop: CancellationToken) -> Result<(), Error> {
        let listener = tokio::net::TcpListener::from_std(self.socket).map_err(Error::Start)?;
        let kv_cache = KvCache::new(
            self.options.kv_cache_tokens,
            self.options.prefill_tokens_per_ms,
        );
        let model = Arc::new(Model {
            options: self.options,
            kv_cache,
        });
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                accepted = listener.accept() => accepted,
            };
            let Ok((tcp, _)) = accepted else {
                // Out of descriptors; some will be closed.
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                continue;
            };
            stats.connection();
            let (tls, model, stats) = (self.tls.clone(), Arc::clone(&model), stats.clone());
            tokio::spawn(connection(tcp, tls, model, stats));
        }
    }
}

async fn connection(tcp: TcpStream, tls: Option<TlsAcceptor>, model: Arc<Model>, stats: Stats) {
    // A token goes out when it is there.
    if tcp.set_nodelay(true).is_err() {
        return;
    }
    let ending = Ending::default();
    let tcp = Socket::new(tcp, ending.clone());
    match tls {
        Some(tls) => {
            if let Ok(tls) = tls.accept(tcp).await {
                http(tls, ending, model, stats).await;
            }
        }
        None => http(tcp, ending, model, stats).await,
    }
}

async fn http(
    io: impl AsyncRead + AsyncWrite + Unpin,
    ending: Ending,
    model: Arc<Model>,
    stats: Stats,
) {
    let service = service_fn(move |request| {
        let (model, stats, ending) = (Arc::clone(&model), stats.clone(), ending.clone());
        async move { answer(request, ending, &model, &stats).await }
    });
    let mut builder = http1::Builder::new();
    builder.max_headers(MAX_HEADERS);
    let served = builder.serve_connection(TokioIo::new(io), service);
    // Ends with an error whenever a client leaves or a fault was asked for.
    let _ = served.await;
}
