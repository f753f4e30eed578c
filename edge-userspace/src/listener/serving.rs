//! One connection from the end of its handshake to its own: HTTP, and who ends it.
//!
//! What HTTP is made of is moved into a box before anything waits. In a future it would lie twice:
//! as what it is made of, and as what it becomes. Most connections do nothing most of the time, and
//! what each takes meanwhile counts.

use super::client::Client;
use super::http2::{self, Http2};
use super::leaving::Leaving;
use super::unreadable::{Unreadable, Wire};
use super::{Identity, Thread};
use crate::api;
use crate::ja4::Ja4;
use crate::message;
use crate::relay::{self, ResponseBody};
use crate::session::{End, Kept, Session, State};
use crate::telemetry::{ConnectionEnd, Metrics};
use http::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::server::TlsStream;

/// Largest request head that is read at all; the API says more of one that is too large for it.
pub(super) const MAX_HEAD_BYTES: usize = 2 * api::MAX_HEAD_BYTES;
/// A request's head must be whole within this time; also how long an HTTP/1.1 connection
/// may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a connection may take to end after its key has ended, its streams included.
const KEY_END: Duration = Duration::from_millis(900);
/// How long any other closing connection may take when nothing runs on it.
const CLOSE: Duration = Duration::from_secs(2);
/// And how long when its client still has to take what was written.
const CLOSE_SLOWLY: Duration = Duration::from_secs(60);

/// A connection that is served, to its end.
pub(super) type Serving = Pin<Box<dyn Future<Output = ()>>>;

/// From the end of the handshake on.
pub(super) fn begin(
    thread: &Rc<Thread>,
    mut tls: TlsStream<Client>,
    identity: Identity,
) -> Serving {
    tls.get_mut().0.write_with(&thread.outbox);
    thread.shared.metrics.connections.one(identity.lane);
    log_served(&identity);
    let session = thread.keeper.open(identity);
    if tls.get_ref().1.alpn_protocol() == Some(b"h2") {
        serve_http2(Rc::clone(thread), tls, session)
    } else {
        serve_http1(Rc::clone(thread), tls, session)
    }
}

/// Whether anyone asks for the line about a connection.
pub(super) fn is_told() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// One line a connection, for who asks for it (`log.filter` at debug).
fn log_served(identity: &Identity) {
    let key_id = identity.key.as_ref().map(|key| key.id.to_string());
    tracing::debug!(
        peer = %identity.peer,
        socket_peer = %identity.socket_peer,
        lane = identity.lane.name(),
        reason = identity.reason.name(),
        key_id = key_id.unwrap_or_default(),
        ja4 = identity.ja4.as_ref().map_or("", Ja4::as_str),
        "a connection is served"
    );
}

fn serve_http2(thread: Rc<Thread>, tls: TlsStream<Client>, session: Kept) -> Serving {
    let held_up = tls.get_ref().0.held_up();
    let max_streams = thread.shared.config.listen.max_streams;
    let service = {
        let (thread, session) = (Rc::clone(&thread), Rc::clone(&session));
        move |request| {
            let (thread, session) = (Rc::clone(&thread), Rc::clone(&session));
            let begun = thread.api.begin(&session, request);
            async move { thread.api.answer(&session, begun).await }
        }
    };
    let mut connection = Box::pin(Http2::new(tls, max_streams, &session, service));
    Box::pin(async move {
        let close = |connection: Pin<&mut Http2<_, _, _>>| connection.get_mut().close();
        let never = |_: &mut Context<'_>| Poll::Pending;
        let metrics = &thread.shared.metrics;
        let ended = drive(
            connection.as_mut(),
            close,
            never,
            &held_up,
            &session,
            metrics,
        )
        .await;
        tell(ended.map_err(Broken::from), &session, metrics);
    })
}

fn serve_http1(thread: Rc<Thread>, mut tls: TlsStream<Client>, session: Kept) -> Serving {
    let wire = Rc::new(Wire::default());
    let service = {
        let (thread, session) = (Rc::clone(&thread), Rc::clone(&session));
        let wire = Rc::clone(&wire);
        service_fn(move |request: Request<Incoming>| {
            let (thread, session) = (Rc::clone(&thread), Rc::clone(&session));
            let wire = Rc::clone(&wire);
            async move {
                let answer = answer_http1(&thread, &session, &wire, request);
                Ok::<_, Infallible>(answer.await)
            }
        })
    };
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(MAX_HEAD_BYTES)
        .max_headers(api::MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES);
    tls.get_mut().0.end_gathering();
    let held_up = tls.get_ref().0.held_up();
    let tls = Rc::new(RefCell::new(tls));
    let mut leaving = Leaving::new(&tls, &wire, &session);
    let io = Unreadable::new(&tls, &thread, &session, &wire);
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(io), service));
    Box::pin(async move {
        // Accepted when the daemon stopped already, it has had no request, and would be
        // closed at once: the response to the first one closes it, or patience's end.
        let is_late = session.state() != State::Open;
        let close = |connection: Pin<&mut _>| {
            if !is_late {
                http1::Connection::graceful_shutdown(connection);
            }
        };
        let left = |cx: &mut Context<'_>| leaving.poll(cx);
        let metrics = &thread.shared.metrics;
        let ended = drive(
            connection.as_mut(),
            close,
            left,
            &held_up,
            &session,
            metrics,
        )
        .await;
        tell(ended.map_err(Broken::from), &session, metrics);
    })
}

/// Counts how a connection ended where that says something of its client.
fn tell(ended: Result<(), Broken>, session: &Session, metrics: &Metrics) {
    if let Err(error) = ended {
        if error.is_the_clients_fault() {
            metrics.connection_ends.one(ConnectionEnd::Protocol);
        }
        tracing::debug!(peer = %session.identity().peer, %error, "the connection broke");
    }
}

async fn answer_http1(
    thread: &Thread,
    session: &Rc<Session>,
    wire: &Wire,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let is_chunked = request.headers().contains_key(TRANSFER_ENCODING);
    let may_have_both = is_chunked && wire.length_said.get();
    let request = message::Request::<relay::Incoming>::from(request);
    let begun = thread.api.begin(session, request);
    let mut response = thread.api.answer(session, begun).await;
    if may_have_both {
        let close = HeaderValue::from_static("close");
        response.fields.insert(CONNECTION, close);
    }
    if !api::is_json_or_events(&response.fields) {
        wire.opaque.set(true);
    }
    response.into_http()
}

/// Why a connection broke.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Http1(#[from] hyper::Error),
    #[error(transparent)]
    Http2(#[from] http2::Broken),
}

impl Broken {
    /// Whether the connection was ended because its client broke the protocol, and not because
    /// it left.
    fn is_the_clients_fault(&self) -> bool {
        match self {
            Self::Http1(error) => error.is_parse(),
            Self::Http2(broken) => broken.is_the_clients_fault(),
        }
    }
}

/// Runs a connection to its end, and brings the end about when the session's state says so.
///
/// `close` tells it to take no more requests: by GOAWAY, or by `connection: close` on the
/// response that runs. `left` says that the client has left, or reads nothing, where HTTP does
/// not see it, `held_up` that it has not taken what was written.
async fn drive<C: Future<Output = Result<(), E>>, E>(
    mut connection: Pin<&mut C>,
    close: impl Fn(Pin<&mut C>),
    mut left: impl FnMut(&mut Context<'_>) -> Poll<()>,
    held_up: &Cell<bool>,
    session: &Session,
    metrics: &Metrics,
) -> Result<(), E> {
    let mut known = State::Open;
    let mut patience: Option<Patience> = None;
    poll_fn(|cx| {
        loop {
            if session.state() != known {
                count(known, session.state(), metrics);
                if known == State::Open {
                    close(connection.as_mut());
                }
                known = session.state();
                patience = Some(Patience::new(patience_in(known)));
            }
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                // A client may leave as soon as it has read the answer that changed it.
                if session.state() != known {
                    count(known, session.state(), metrics);
                }
                return Poll::Ready(ended);
            }
            session.drive(cx);
            if session.state() != known {
                // A request that was answered just now changed it.
                continue;
            }
            if left(cx).is_ready() {
                tracing::debug!("the client has left while a request ran, or reads nothing of it");
                return Poll::Ready(Ok(()));
            }
            return match &mut patience {
                Some(patience) => patience.poll(held_up, session, cx).map(Ok),
                None => Poll::Pending,
            };
        }
    })
    .await
}

/// What a closing connection is waited for.
struct Patience {
    look: Pin<Box<Sleep>>,
    /// Since when nothing runs on it.
    rests: Option<Instant>,
}

impl Patience {
    fn new(time: Duration) -> Self {
        Self {
            look: Box::pin(sleep_until(Instant::now() + time)),
            rests: None,
        }
    }

    /// Ready when the connection is to be dropped as it stands.
    fn poll(&mut self, held_up: &Cell<bool>, session: &Session, cx: &mut Context<'_>) -> Poll<()> {
        while self.look.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let rests = match session.running() {
                0 => *self.rests.get_or_insert(now),
                _ => now,
            };
            let is_slow = held_up.get() && now - rests < CLOSE_SLOWLY;
            let goes_on = session.running() > 0 || is_slow;
            if !goes_on || matches!(session.state(), State::Ended(_)) {
                return Poll::Ready(());
            }
            self.look.as_mut().reset(now + CLOSE);
        }
        Poll::Pending
    }
}

fn patience_in(state: State) -> Duration {
    match state {
        State::Ended(End::Key) => KEY_END,
        _ => CLOSE,
    }
}

fn count(before: State, now: State, metrics: &Metrics) {
    let ends = &metrics.connection_ends;
    match (before, now) {
        (State::Poisoned, _) => {}
        (_, State::Poisoned) => ends.one(ConnectionEnd::Poisoned),
        (_, State::Ended(End::Key)) => ends.one(ConnectionEnd::KeyEnded),
        // Counted by the one who closes them.
        (_, State::Open | State::Closing | State::Ended(End::Draining)) => {}
    }
}
