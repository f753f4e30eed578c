//! An edge as a client sees it: requests on HTTP/2 connections that are pooled, each with a token
//! of its own.
//!
//! Not here: which of several edges a request goes to; and no request is sent twice, except one
//! that provably was not sent.

use crate::connect::ConnectError;
use crate::endpoint::Endpoint;
use crate::lines::{Lines, Place};
use crate::secret::ApiKey;
use crate::tls::Tls;
use crate::tokens::TokenSource;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Scheme, Uri};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of a request.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const CONTEXT_HINT: HeaderName = HeaderName::from_static("x-anthropic-context-hint");
/// A request that was not sent finds another connection, at most so often.
const MOST_UNSENT: u32 = 3;

/// How much a client may hold open, and how long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections to the edge.
    pub connections: usize,
    /// Requests that run on one connection at once.
    pub streams: usize,
    /// From a name to a connection that has shaken hands.
    pub connect: Duration,
    /// For a place on a connection, when all are taken.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4,
            streams: 64,
            connect: Duration::from_secs(10),
            wait: Duration::from_secs(30),
        }
    }
}

/// Requests of one key to one edge. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    lines: Arc<Lines>,
    credential: HeaderValue,
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("the API key has a character that no header may carry, such as a newline")]
pub struct KeyText;

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection.
    #[error(transparent)]
    Connect(Arc<ConnectError>),
    /// All connections are full.
    #[error("{to}: no place on a connection within {wait:?}: {running} requests run")]
    Full {
        /// The edge.
        to: Endpoint,
        /// How long it waited.
        wait: Duration,
        /// As many as there may be.
        running: usize,
    },
    /// The edge said that it did not take the request (GOAWAY, REFUSED_STREAM; RFC 9113 section
    /// 8.7), or it was not sent at all.
    #[error("{to}: the edge did not take the request: {source}")]
    NotTaken {
        /// The edge.
        to: Endpoint,
        /// What it said.
        source: Arc<hyper::Error>,
    },
    /// The request broke off. The edge may have begun with it.
    #[error("{to}: broke off before an answer: {source}")]
    Broken {
        /// The edge.
        to: Endpoint,
        /// What was wrong.
        source: Arc<hyper::Error>,
    },
}

impl Error {
    /// Whether the edge may have begun with the request, so that sending it again might have it
    /// done, and paid for, twice.
    #[must_use]
    pub fn may_have_begun(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }
}

/// What a health check showed.
#[derive(Clone, Debug)]
pub struct Health {
    /// From the request to the answer's head.
    pub round_trip: Duration,
    /// 200 when it serves.
    pub status: StatusCode,
}

/// A small answer, read whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Client {
    /// No connection is made yet. `tokens` are those of `key`, at the edge's audience.
    ///
    /// # Errors
    /// When the key cannot stand in a header.
    pub fn new(
        endpoint: Endpoint,
        tls: Tls,
        key: &ApiKey,
        tokens: TokenSource,
        limits: Limits,
    ) -> Result<Self, KeyText> {
        let mut credential = HeaderValue::from_bytes(key.expose()).map_err(|_| KeyText)?;
        // Prints as "Sensitive" wherever a header is printed.
        credential.set_sensitive(true);
        let lines = Lines::new(endpoint, tls, tokens, credential.clone(), limits);
        Ok(Self {
            lines: Arc::new(lines),
            credential,
        })
    }

    /// The edge.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.lines.endpoint()
    }

    /// What tokens are made by, and the edge's clock.
    #[must_use]
    pub fn tokens(&self) -> &TokenSource {
        self.lines.tokens()
    }

    /// Connections that are open, and requests that run on them.
    #[must_use]
    pub fn open(&self) -> (usize, usize) {
        self.lines.open()
    }

    /// Makes sure that a connection is open, for requests that are expected.
    ///
    /// # Errors
    /// When there is none to be had.
    pub async fn open_ahead(&self) -> Result<(), Error> {
        self.lines.place().await.map(drop)
    }

    /// Sends a request and waits for the head of its answer. Its URI is a path, with its query;
    /// the edge's name and the key are put in here. Dropping the future, or the answer before its
    /// end, ends the request at the edge.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn send<B>(&self, request: Request<B>) -> Result<Response<ResponseBody>, Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        self.address(&mut request);
        let mut unsent = 0;
        loop {
            let mut place = self.lines.place().await?;
            let sent = place.sender().try_send_request(request).await;
            let mut failed = match sent {
                Ok(response) => {
                    return Ok(response.map(|incoming| ResponseBody { incoming, place }));
                }
                Err(failed) => failed,
            };
            let to = self.endpoint().clone();
            let message = failed.take_message();
            let source = Arc::new(failed.into_error());
            unsent += 1;
            request = match message {
                Some(message) if unsent < MOST_UNSENT => message,
                Some(_) => return Err(Error::NotTaken { to, source }),
                None if was_not_taken(&source) => return Err(Error::NotTaken { to, source }),
                None => return Err(Error::Broken { to, source }),
            };
        }
    }

    /// Asks whether the edge serves, and learns its clock. `hint` is the name of a context that
    /// will soon be asked for: the edge makes ready for it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn health(&self, hint: Option<&HeaderValue>) -> Result<Health, Error> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::HEAD;
        *request.uri_mut() = Uri::from_static("/v1/health");
        if let Some(hint) = hint {
            request.headers_mut().insert(CONTEXT_HINT, hint.clone());
        }
        self.open_ahead().await?;
        let (begun, asked) = (Instant::now(), SystemTime::now());
        let response = self.send(request).await?;
        let round_trip = begun.elapsed();
        if let Some(date_s) = date_s(response.headers()) {
            (self.tokens().clock()).learn(date_s, asked, SystemTime::now());
        }
        Ok(Health {
            round_trip,
            status: response.status(),
        })
    }

    /// Gets a small document.
    ///
    /// # Errors
    /// See [`Error`]; also when it is longer than `most_bytes`: it counts as broken off, and as
    /// empty.
    pub async fn get(&self, path: &'static str, most_bytes: usize) -> Result<Answer, Error> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = Uri::from_static(path);
        let (head, body) = self.send(request).await?.into_parts();
        let body = Limited::new(body, most_bytes).collect().await;
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: body.map_or_else(|_| Bytes::new(), |body| body.to_bytes()),
        })
    }

    fn address<B>(&self, request: &mut Request<B>) {
        let path = request.uri().path_and_query().cloned();
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(Scheme::HTTPS);
        uri.authority = Some(self.endpoint().authority().clone());
        uri.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        if let Ok(uri) = Uri::from_parts(uri) {
            *request.uri_mut() = uri;
        }
        let headers = request.headers_mut();
        // In HTTP/2 the authority says it (RFC 9113 section 8.3.1).
        headers.remove(header::HOST);
        headers.remove(header::AUTHORIZATION);
        headers.insert(X_API_KEY, self.credential.clone());
    }
}

/// Whether the edge said that it had not begun with a request.
fn was_not_taken(error: &hyper::Error) -> bool {
    if error.is_canceled() {
        // It was still in the queue of a connection that ended.
        return false;
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            let reason = error.reason();
            return error.is_remote()
                && ((error.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM))
                    // Above the last stream that a leaving edge takes.
                    || (error.is_go_away() && reason == Some(h2::Reason::NO_ERROR)));
        }
        source = cause.source();
    }
    false
}

/// An answer's `date`, Unix seconds.
pub(crate) fn date_s(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(header::DATE)?.to_str().ok()?;
    let date = httpdate::parse_http_date(text).ok()?;
    date.duration_since(UNIX_EPOCH)
        .ok()
        .map(|since| since.as_secs())
}

/// The body of an answer. Dropping it before its end ends the request at the edge.
pub struct ResponseBody {
    incoming: Incoming,
    /// Given back with the body.
    place: Place,
}

impl ResponseBody {
    /// Which edge it comes from.
    #[must_use]
    pub fn from(&self) -> &Endpoint {
        self.place.endpoint()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.get_mut().incoming).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
