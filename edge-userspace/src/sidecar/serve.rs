//! The local server: HTTP/1.1, and HTTP/2 by prior knowledge, in the clear.

use super::answer::{Answer, document, told};
use super::forward::Forward;
use super::held::Room;
use super::nodes::Nodes;
use super::status::Status;
use super::{Options, SidecarError, guard, watch};
use crate::api::RequestIds;
use crate::api::error::ApiError;
use http::header::HeaderValue;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where the sidecar tells of itself.
pub(super) const STATUS_PATH: &str = "/edge-connect/status";
/// A request's head must be whole within this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest request head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// What a program may send ahead on one HTTP/2 stream and on the connection, bytes. It is on the
/// same machine, so little is enough to keep it sending, and what lies here of many connections is
/// in no room. Two streams that no edge takes fill the connection.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 128 * 1024;
/// What is written ahead for one HTTP/2 stream, bytes.
const SEND_AHEAD_BYTES: usize = 128 * 1024;
const MAX_STREAMS: u32 = 256;
/// An edge is told of requests to come at most so often, for a local connection that opens.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(10);
/// When the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A sidecar that can be served.
pub struct Sidecar {
    nodes: Arc<Nodes>,
    forward: Forward,
    room: Arc<Room>,
    request_ids: Mutex<RequestIds>,
    discover: bool,
    hint: Option<HeaderValue>,
    connections: Arc<Semaphore>,
    most_connections: usize,
    announced: Mutex<Option<Instant>>,
}

impl Sidecar {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// When there is no edge, or the key cannot stand in a header.
    pub fn new(options: Options) -> Result<Arc<Self>, SidecarError> {
        let Options {
            edges,
            audience,
            key,
            tls,
            discover,
            ids,
            fingerprint,
            limits,
            held_bytes,
            connections,
        } = options;
        if edges.is_empty() {
            return Err(SidecarError::NoEdge);
        }
        let nodes = Arc::new(Nodes::new(key, audience, tls, limits));
        for endpoint in edges {
            nodes.add(endpoint, None)?;
        }
        let room = Arc::new(Room::new(held_bytes));
        let hint = ids.hint.clone();
        Ok(Arc::new(Self {
            forward: Forward::new(Arc::clone(&nodes), Arc::clone(&room), ids, fingerprint),
            nodes,
            room,
            request_ids: Mutex::new(RequestIds::new()),
            discover,
            hint,
            connections: Arc::new(Semaphore::new(connections)),
            most_connections: connections,
            announced: Mutex::default(),
        }))
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> Status {
        let open = self.most_connections - self.connections.available_permits();
        Status::of(&self.nodes, self.forward.counts(), &self.room, open)
    }

    async fn answer(&self, request: Request<Incoming>, is_loopback: bool) -> Response<Answer> {
        let method = request.method().clone();
        let admitted = guard::admit(request.headers(), request.uri().authority(), is_loopback);
        let answered = match admitted {
            Err(stranger) => Err(ApiError::permission(stranger.to_string())),
            Ok(()) if request.uri().path() == STATUS_PATH => Ok(document(self.status().json())),
            Ok(()) => self.forward.forward(request).await,
        };
        answered.unwrap_or_else(|error| {
            let ids = self.request_ids.lock();
            let id = ids.unwrap_or_else(PoisonError::into_inner).next();
            told(&error, &id.text().value(), &method)
        })
    }

    /// A program has connected, so it will soon ask: the edge is told, and the way is open by
    /// then.
    async fn announce(&self) {
        let is_due = {
            let mut announced = self
                .announced
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let is_due = announced.is_none_or(|at| at.elapsed() >= ANNOUNCE_EVERY);
            if is_due {
                *announced = Some(Instant::now());
            }
            is_due
        };
        if is_due && let Some(node) = self.nodes.current() {
            // What fails here fails again, and is told, when a request comes.
            let _ = node.client.health(self.hint.as_ref()).await;
        }
    }
}

/// Serves until `stop`; then answers end within `drain`.
pub async fn serve(
    sidecar: Arc<Sidecar>,
    listener: TcpListener,
    stop: CancellationToken,
    drain: Duration,
) {
    let is_loopback = (listener.local_addr()).is_ok_and(|address| address.ip().is_loopback());
    let watching = tokio::spawn(watch::watch(Arc::clone(&sidecar.nodes), sidecar.discover));
    let running = TaskTracker::new();
    loop {
        // Those beyond the limit wait in the backlog.
        let permit = Arc::clone(&sidecar.connections).acquire_owned();
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = async { (permit.await, listener.accept().await) } => accepted,
        };
        match accepted {
            (Ok(permit), Ok((tcp, _))) => {
                let (sidecar, stop) = (Arc::clone(&sidecar), stop.clone());
                running.spawn(async move {
                    connection(&sidecar, tcp, is_loopback, stop).await;
                    drop(permit);
                });
            }
            (_, Err(error)) => {
                tracing::warn!(%error, "a local connection could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            // Never closed.
            (Err(_), _) => break,
        }
    }
    drop(listener);
    watching.abort();
    running.close();
    if tokio::time::timeout(drain, running.wait()).await.is_err() {
        tracing::warn!(?drain, "some answers did not end in time and are cut off");
    }
}

async fn connection(
    sidecar: &Arc<Sidecar>,
    tcp: TcpStream,
    is_loopback: bool,
    stop: CancellationToken,
) {
    // With Nagle's algorithm an event waits for a delayed ACK.
    if tcp.set_nodelay(true).is_err() {
        return;
    }
    let announcer = Arc::clone(sidecar);
    tokio::spawn(async move { announcer.announce().await });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    (builder.http1())
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES);
    (builder.http2())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(SEND_AHEAD_BYTES)
        .max_header_list_size(MAX_HEAD_BYTES as u32);
    let service = service_fn(|request| {
        let sidecar = Arc::clone(sidecar);
        async move { Ok::<_, Infallible>(sidecar.answer(request, is_loopback).await) }
    });
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(tcp), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a local connection broke off");
    }
}
