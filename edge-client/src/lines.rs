//! The HTTP/2 connections to one edge, and the places for requests on them.
//!
//! A request takes a place on the connection that has most room; where all are full, one more is
//! opened, up to the limit; beyond that requests wait. One is opened at a time, and those who
//! wait for it share its failure.

use crate::client::{Error, Limits, RequestBody, date_s};
use crate::connect::{ConnectError, connect};
use crate::endpoint::Endpoint;
use crate::tls::Tls;
use crate::tokens::TokenSource;
use bytes::Bytes;
use http::header::HeaderValue;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// What the edge may send ahead on one stream, bytes. All streams of a connection together may
/// send as much as the connection, so that those that nobody reads take nothing from the others.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// What is taken over from one request's body before the edge takes it, bytes.
const SEND_AHEAD_BYTES: usize = 256 * 1024;
/// Largest head of an answer.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
/// An edge that does not answer pings is gone.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// So often at most the reason of a refusal is looked for: without a token, where edges have
/// little room.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Longest text of an edge about a key.
const MAX_TOLD_BYTES: usize = 16 * 1024;

/// All connections to one edge.
pub(crate) struct Lines {
    endpoint: Arc<Endpoint>,
    tls: Tls,
    tokens: TokenSource,
    credential: HeaderValue,
    limits: Limits,
    open: Mutex<Vec<Arc<Line>>>,
    /// As many as all connections have.
    places: Arc<Semaphore>,
    /// Held by whoever opens one.
    opening: tokio::sync::Mutex<()>,
    failed: Mutex<Option<(Instant, Arc<ConnectError>)>>,
    looked: Mutex<Option<Instant>>,
}

struct Line {
    sender: SendRequest<RequestBody>,
    running: AtomicUsize,
}

/// A place for one request on a connection.
pub(crate) struct Place {
    line: Arc<Line>,
    endpoint: Arc<Endpoint>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    pub(crate) fn sender(&mut self) -> SendRequest<RequestBody> {
        self.line.sender.clone()
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.line.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lines {
    pub(crate) fn new(
        endpoint: Endpoint,
        tls: Tls,
        tokens: TokenSource,
        credential: HeaderValue,
        limits: Limits,
    ) -> Self {
        let places = limits.connections.saturating_mul(limits.streams);
        Self {
            endpoint: Arc::new(endpoint),
            tls,
            tokens,
            credential,
            limits,
            open: Mutex::default(),
            places: Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))),
            opening: tokio::sync::Mutex::new(()),
            failed: Mutex::default(),
            looked: Mutex::default(),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn tokens(&self) -> &TokenSource {
        &self.tokens
    }

    pub(crate) fn open(&self) -> (usize, usize) {
        let open = lock(&self.open);
        let live = open.iter().filter(|line| !line.sender.is_closed());
        live.fold((0, 0), |(lines, running), line| {
            (lines + 1, running + line.running.load(Ordering::Relaxed))
        })
    }

    /// A place on a connection, which is opened if need be.
    pub(crate) async fn place(&self) -> Result<Place, Error> {
        let asked = Instant::now();
        let wait = self.limits.wait;
        let permit = timeout(wait, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(Error::Full {
                to: self.endpoint().clone(),
                wait,
                running: self.open().1,
            });
        };
        let line = match self.take() {
            Some(line) => line,
            None => self.one_more(asked).await?,
        };
        Ok(Place {
            line,
            endpoint: Arc::clone(&self.endpoint),
            _permit: permit,
        })
    }

    /// On a connection that is open.
    fn take(&self) -> Option<Arc<Line>> {
        let mut open = lock(&self.open);
        open.retain(|line| !line.sender.is_closed());
        let running = |line: &&Arc<Line>| line.running.load(Ordering::Relaxed);
        let line = open.iter().min_by_key(running)?;
        (running(&line) < self.limits.streams).then(|| line.taken())
    }

    async fn one_more(&self, asked: Instant) -> Result<Arc<Line>, Error> {
        let _opening = self.opening.lock().await;
        if let Some(line) = self.take() {
            return Ok(line);
        }
        if let Some((at, error)) = &*lock(&self.failed)
            && *at >= asked
        {
            return Err(Error::Connect(Arc::clone(error)));
        }
        match self.connect_and_learn().await {
            Ok(sender) => {
                let line = Arc::new(Line {
                    sender,
                    running: AtomicUsize::new(0),
                });
                let taken = line.taken();
                lock(&self.open).push(line);
                Ok(taken)
            }
            Err(error) => {
                let error = Arc::new(error);
                *lock(&self.failed) = Some((Instant::now(), Arc::clone(&error)));
                Err(Error::Connect(error))
            }
        }
    }

    /// With a token; when that may have been refused, the reason is looked for, and when it was
    /// the clock, once more.
    async fn connect_and_learn(&self) -> Result<SendRequest<RequestBody>, ConnectError> {
        let error = match self.connect(self.tokens.alpn(&[b"h2"])?).await {
            Ok(sender) => return Ok(sender),
            Err(error) => error,
        };
        if !error.may_be_refusal() || !self.may_look() {
            return Err(error);
        }
        match self.look().await {
            Ok(Found::ClockWasOff) => self.connect(self.tokens.alpn(&[b"h2"])?).await,
            Ok(Found::Told(told)) => Err(ConnectError::Refused {
                to: self.endpoint().clone(),
                told: Some(told),
            }),
            Ok(Found::Nothing) | Err(_) => Err(error),
        }
    }

    async fn connect(&self, alpn: Vec<Vec<u8>>) -> Result<SendRequest<RequestBody>, ConnectError> {
        let to = || self.endpoint().clone();
        let tls = connect(&self.endpoint, &self.tls, alpn, self.limits.connect).await?;
        if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(ConnectError::NotHttp2 { to: to() });
        }
        let all = u32::try_from(self.limits.streams).unwrap_or(u32::MAX);
        // HTTP/2 has windows of 31 bits.
        let window = STREAM_WINDOW_BYTES.saturating_mul(all).min(i32::MAX as u32);
        let begun = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(window)
            .max_send_buf_size(SEND_AHEAD_BYTES)
            .max_header_list_size(MAX_HEAD_BYTES)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(TokioIo::new(tls))
            .await;
        let (sender, driver) = begun.map_err(|source| ConnectError::Http { to: to(), source })?;
        // Ends with the connection, or when the last sender and the last answer are gone.
        tokio::spawn(driver);
        Ok(sender)
    }

    fn may_look(&self) -> bool {
        let mut looked = lock(&self.looked);
        let may = looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        if may {
            *looked = Some(Instant::now());
        }
        may
    }

    /// Asks without a token, in the legacy lane: what the edge's clock says, and what it says of
    /// the key.
    async fn look(&self) -> Result<Found, ConnectError> {
        let mut sender = self.connect(vec![b"h2".to_vec()]).await?;
        let authority = self.endpoint.authority().clone();
        let uri = Uri::builder().scheme("https").authority(authority);
        let mut request = Request::new(Empty::new().map_err(|e| match e {}).boxed_unsync());
        *request.uri_mut() = uri.path_and_query("/v1/health").build().unwrap_or_default();
        let credential = self.credential.clone();
        request.headers_mut().insert("x-api-key", credential);
        let failed = |source| ConnectError::Http {
            to: self.endpoint().clone(),
            source,
        };
        let asked = SystemTime::now();
        let answered = timeout(self.limits.connect, sender.send_request(request)).await;
        let Ok(answered) = answered else {
            return Ok(Found::Nothing);
        };
        let (head, body) = answered.map_err(failed)?.into_parts();
        let date_s = date_s(&head.headers);
        let clock = self.tokens.clock();
        if date_s.is_some_and(|date_s| clock.learn(date_s, asked, SystemTime::now())) {
            return Ok(Found::ClockWasOff);
        }
        if head.status == StatusCode::OK {
            return Ok(Found::Told(
                "it takes the key without a token, so it is for another audience, or the key's connection rate is used up".to_owned(),
            ));
        }
        let body = Limited::new(body, MAX_TOLD_BYTES).collect();
        let body = match timeout(self.limits.connect, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => Bytes::new(),
        };
        Ok(Found::Told(told(head.status, &body)))
    }
}

/// What a look without a token has shown.
enum Found {
    /// It is put right.
    ClockWasOff,
    /// The reason, in words.
    Told(String),
    Nothing,
}

impl Line {
    fn taken(self: &Arc<Self>) -> Arc<Self> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }
}

/// The message of an error in the API's shape, as far as it can be found without a JSON reader:
/// the edge's messages on keys have no escapes.
fn told(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let message = text.split_once("\"message\":\"");
    let message = message.and_then(|(_, rest)| rest.split('"').next());
    match message {
        Some(message) => format!("it answers {} {message:?} to the key", status.as_u16()),
        None => format!("it answers {status} to the key"),
    }
}

/// What is behind these locks is always whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edges_words_are_told() {
        let body = br#"{"type":"error","error":{"type":"authentication_error","message":"Invalid Key: the key has been revoked"},"request_id":"req_1"}"#;
        let text = told(StatusCode::UNAUTHORIZED, body);
        assert_eq!(
            text,
            "it answers 401 \"Invalid Key: the key has been revoked\" to the key"
        );
        let text = told(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!(text, "it answers 502 Bad Gateway to the key");
    }
}
