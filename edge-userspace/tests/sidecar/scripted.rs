//! An edge that does as it is told: TLS and HTTP/2, and for each request whatever the script says.

use crate::world::Files;
use bytes::Bytes;
use edge_common::token;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;

/// What it does with a request.
#[derive(Clone, Debug)]
pub(crate) struct Does {
    /// Before the answer's head.
    pub(crate) waits: Duration,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: String,
    /// The connection breaks instead of an answer.
    pub(crate) breaks: bool,
    /// GOAWAY comes with the answer.
    pub(crate) leaves: bool,
    /// The answer is an event stream, of which this much comes before the connection breaks.
    pub(crate) begins: Option<&'static str>,
}

impl Default for Does {
    fn default() -> Self {
        Self {
            waits: Duration::ZERO,
            status: 200,
            headers: vec![("x-anthropic-routed-to", "scripted")],
            body: "{}".to_owned(),
            breaks: false,
            leaves: false,
            begins: None,
        }
    }
}

impl Does {
    pub(crate) fn refuses(status: u16, more: &[(&'static str, &'static str)]) -> Self {
        let mut does = Self {
            status,
            ..Self::default()
        };
        does.headers.push(("x-should-retry", "true"));
        does.headers.extend(more);
        does
    }
}

/// What came.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

type Script = Box<dyn Fn(&str) -> Does + Send>;

pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    pub(crate) files: Files,
    shared: Arc<Shared>,
}

struct Shared {
    script: Mutex<Script>,
    came: Mutex<Vec<Came>>,
    connections: AtomicU64,
    tokens: AtomicU64,
    regions: Mutex<Option<String>>,
}

impl Scripted {
    /// One that answers everything with 200.
    pub(crate) async fn new() -> Self {
        let files = Files::new();
        let mut config = files.server_config();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let shared = Arc::new(Shared {
            script: Mutex::new(Box::new(|_| Does::default())),
            came: Mutex::default(),
            connections: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            regions: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, Arc::new(config), Arc::clone(&shared)));
        Self {
            address,
            files,
            shared,
        }
    }

    /// What it does from now on with requests to any path but its own health and regions.
    pub(crate) fn does(&self, does: Does) {
        self.script(move |path| match path {
            "/v1/health" => Does::default(),
            _ => does.clone(),
        });
    }

    pub(crate) fn script(&self, script: impl Fn(&str) -> Does + Send + 'static) {
        *self.shared.script.lock().unwrap() = Box::new(script);
    }

    /// What it says of regions; nothing before.
    pub(crate) fn says(&self, regions: &str) {
        *self.shared.regions.lock().unwrap() = Some(regions.to_owned());
    }

    /// Requests that came, without those that ask how it is.
    pub(crate) fn came(&self) -> Vec<Came> {
        let came = self.shared.came.lock().unwrap();
        let asks = |came: &&Came| !matches!(&*came.path, "/v1/health" | "/v1/regions");
        came.iter().filter(asks).cloned().collect()
    }

    /// Those that ask how it is.
    pub(crate) fn checks(&self) -> Vec<Came> {
        let came = self.shared.came.lock().unwrap();
        let asks = |came: &&Came| came.path == "/v1/health";
        came.iter().filter(asks).cloned().collect()
    }

    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Connections whose hello had a token.
    pub(crate) fn tokens(&self) -> u64 {
        self.shared.tokens.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, config: Arc<ServerConfig>, shared: Arc<Shared>) {
    while let Ok((tcp, _)) = listener.accept().await {
        let (config, shared) = (Arc::clone(&config), Arc::clone(&shared));
        tokio::spawn(async move {
            shared.connections.fetch_add(1, Ordering::SeqCst);
            let socket = tcp.into_std().unwrap();
            let below = socket.try_clone().unwrap();
            let tcp = tokio::net::TcpStream::from_std(socket).unwrap();
            let acceptor = tokio_rustls::LazyConfigAcceptor::new(Default::default(), tcp);
            let Ok(start) = acceptor.await else { return };
            let offers = start
                .client_hello()
                .alpn()
                .is_some_and(|mut names| names.any(|name| name.starts_with(token::PREFIX)));
            shared.tokens.fetch_add(u64::from(offers), Ordering::SeqCst);
            let Ok(tls) = start.into_stream(config).await else {
                return;
            };
            let leaves = Arc::new(tokio::sync::Notify::new());
            let service = service_fn(|request| {
                let (shared, leaves) = (Arc::clone(&shared), Arc::clone(&leaves));
                let below = below.try_clone().unwrap();
                async move { Ok::<_, Infallible>(answer(&shared, &leaves, &below, request).await) }
            });
            let mut connection = std::pin::pin!(
                http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(tls), service)
            );
            tokio::select! {
                _ = connection.as_mut() => {}
                () = leaves.notified() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        });
    }
}

async fn answer(
    shared: &Shared,
    leaves: &tokio::sync::Notify,
    below: &std::net::TcpStream,
    request: Request<Incoming>,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let path = request.uri().path().to_owned();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let does = (shared.script.lock().unwrap())(&path);
    shared.came.lock().unwrap().push(Came {
        path: path.clone(),
        headers: head.headers,
        body: body.unwrap_or_default(),
    });
    if path == "/v1/regions" {
        let said = shared.regions.lock().unwrap().clone();
        let body = Full::from(said.clone().unwrap_or_default());
        let mut response = Response::new(body.boxed_unsync());
        if said.is_none() {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        return response;
    }
    tokio::time::sleep(does.waits).await;
    if does.breaks {
        let _ = below.shutdown(std::net::Shutdown::Both);
        std::future::pending::<()>().await;
    }
    if does.leaves {
        leaves.notify_one();
    }
    if let Some(beginning) = does.begins {
        let body = Beginning {
            text: Some(beginning),
            below: below.try_clone().unwrap(),
        };
        let mut response = Response::new(body.boxed_unsync());
        let kind = http::HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert("content-type", kind);
        return response;
    }
    let mut response = Response::new(Full::from(does.body).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(does.status).unwrap();
    for (name, value) in does.headers {
        response.headers_mut().append(name, value.parse().unwrap());
    }
    response
}

/// A body that begins, and breaks with its connection a moment later.
struct Beginning {
    text: Option<&'static str>,
    below: std::net::TcpStream,
}

impl Body for Beginning {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.text.take() {
            Some(text) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(text))))),
            None => {
                let (below, waker) = (self.below.try_clone().unwrap(), cx.waker().clone());
                tokio::spawn(async move {
                    // What was written is to arrive.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    let _ = below.shutdown(std::net::Shutdown::Both);
                    waker.wake();
                });
                Poll::Pending
            }
        }
    }
}
