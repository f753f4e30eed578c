//! Lets people look in: `/metrics`, `/livez`, `/readyz`, `/status` and `/usage` over plain HTTP/1.1.
//!
//! It answers everyone who can connect and changes nothing, so it listens on loopback unless
//! told otherwise. Connections, heads and times are bounded: who overruns them is closed.

mod collect;
mod contexts;
mod prompts;
mod status;
mod usage;

pub use collect::{Collect, Target};
pub use status::Status;

use crate::charges;
use crate::context::Contexts;
use crate::daemon;
use crate::kernel;
use crate::keys::{Keyring, watch::Watch};
use crate::prompt::Prompts;
use crate::telemetry::{self, Metrics};
use crate::upstream::Upstreams;
use crate::usage::{Keep, Ledger};
use bytes::Bytes;
use edge_common::token::KeyId;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Connections at a time; more wait in the backlog.
const MAX_CONNECTIONS: usize = 64;
/// A request's head must be there within this time, also on a connection that is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest head.
const MAX_HEAD_BYTES: usize = 16_384;
/// Longest life of a connection.
const MAX_LIFE: Duration = Duration::from_secs(600);
/// After an accept that failed for want of descriptors, trying again at once only spins.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Everything that can be looked at.
pub struct View {
    /// The configuration's path.
    pub config: PathBuf,
    /// When the daemon started.
    pub started: Instant,
    /// The same on the wall clock of that moment, Unix time in seconds.
    pub started_at_s: u64,
    /// Log lines that were lost so far because no one took them.
    pub log_lines_lost: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Where clients connect.
    pub listen: Vec<SocketAddr>,
    /// The keys.
    pub keyring: Arc<Keyring>,
    /// The key store.
    pub store: Watch,
    /// A fresh look at how the configuration's file is followed.
    pub configuration: Box<dyn Fn() -> daemon::Configuration + Send + Sync>,
    /// A fresh look at the tables of what is charged.
    pub charges: Box<dyn Fn() -> charges::Status + Send + Sync>,
    /// A fresh look at the kernel half.
    pub kernel: Box<dyn Fn() -> kernel::Status + Send + Sync>,
    /// How prompts are counted.
    pub prompts: Arc<Prompts>,
    /// Where requests go.
    pub upstreams: Arc<Upstreams>,
    /// What is remembered of conversations, if anything is.
    pub contexts: Option<Arc<Contexts>>,
    /// What keys have used, and may use.
    pub ledger: Arc<Ledger>,
    /// Where that is kept, if it is.
    pub usage_file: Option<Arc<Keep>>,
    /// What the data path counts.
    pub metrics: Arc<Metrics>,
    /// How far the daemon is.
    pub phase: Phase,
}

/// How far the daemon is; shared with those who look.
#[derive(Clone, Debug, Default)]
pub struct Phase(Arc<AtomicU8>);

// 0, the default, is the start.
const SERVING: u8 = 1;
const STOPPING: u8 = 2;

impl Phase {
    /// Connections are served from now on.
    pub fn serving(&self) {
        self.0.store(SERVING, Ordering::Relaxed);
    }

    /// No new connections are taken from now on.
    pub fn stopping(&self) {
        self.0.store(STOPPING, Ordering::Relaxed);
    }

    /// `ready`, or why not.
    ///
    /// # Errors
    /// Why connections are not served.
    pub fn ready(&self) -> Result<&'static str, &'static str> {
        match self.0.load(Ordering::Relaxed) {
            SERVING => Ok("ready"),
            STOPPING => Err("stopping: no new connections, running streams may end"),
            _ => Err("starting: not serving yet"),
        }
    }
}

/// Answers on `socket` until `shutdown`; what runs then is cut, it is only about us.
///
/// # Errors
/// When the socket cannot be used at all.
pub async fn serve(
    socket: TcpListener,
    view: Arc<View>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(socket)?;
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            accepted = next => accepted,
        };
        match accepted {
            (Ok(place), Ok((tcp, _))) => {
                let (view, shutdown) = (Arc::clone(&view), shutdown.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = shutdown.cancelled() => {}
                        () = answer_all(tcp, place, view) => {}
                    }
                });
            }
            (_, accepted) => {
                if let Err(error) = accepted {
                    tracing::warn!(%error, "the admin address could not accept");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer_all(tcp: TcpStream, _place: OwnedSemaphorePermit, view: Arc<View>) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = answer(&view, request.method(), request.uri().path());
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(tcp), service);
    // Errors are the asker's: it left, or spoke no HTTP.
    let _ = tokio::time::timeout(MAX_LIFE, connection).await;
}

fn answer(view: &View, method: &Method, path: &str) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n");
        let allow = header::HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(header::ALLOW, allow);
        return response;
    }
    match path {
        "/livez" => text(StatusCode::OK, "alive\n"),
        "/readyz" => match view.phase.ready() {
            Ok(ready) => text(StatusCode::OK, format!("{ready}\n")),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        },
        "/metrics" => respond(
            StatusCode::OK,
            telemetry::CONTENT_TYPE,
            view.metrics.render(),
        ),
        "/status" => json(serde_json::to_string_pretty(&Status::of(view))),
        "/usage" => json(usage::all(view)),
        path => match path.strip_prefix("/usage/").and_then(KeyId::from_hex) {
            Some(id) => json(usage::one(view, id)),
            None => text(
                StatusCode::NOT_FOUND,
                "there are /metrics, /livez, /readyz, /status, /usage and /usage/KEY_ID\n",
            ),
        },
    }
}

fn json(text_of: serde_json::Result<String>) -> Response<Full<Bytes>> {
    match text_of {
        Ok(json) => respond(StatusCode::OK, "application/json", json + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", text)
}

fn respond(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    headers.insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-store"),
    );
    response
}

#[cfg(test)]
mod tests;
