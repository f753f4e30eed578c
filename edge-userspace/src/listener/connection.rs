//! One connection from accept to its end.

use super::charge::{Addresses, Charged, charge};
use super::client::Client;
use super::hello::{self, Decision, Hello};
use super::http2::{self, Http2};
use super::leaving::Leaving;
use super::proxy_protocol::{self, Preface};
use super::turns::Crowded;
use super::unreadable::{Unreadable, Wire};
use super::windows::Windows;
use super::{Identity, Thread, compare, refuse, rules};
use crate::api;
use crate::charges::Now;
use crate::ja4::Ja4;
use crate::relay::ResponseBody;
use crate::session::{End, Session, State};
use crate::telemetry::{ConnectionEnd, Handshake, Lane, Metrics, ProxyHeader, Verdict};
use bytes::BytesMut;
use edge_common::policy::Reason;
use http::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tokio_rustls::server::TlsStream;

/// Largest request head that is read at all; the API says more of one that is too large for it.
pub(super) const MAX_HEAD_BYTES: usize = 2 * api::MAX_HEAD_BYTES;
const MAX_HEADERS: usize = 256;
/// A request's head must be whole within this time; also how long an HTTP/1.1 connection
/// may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a connection may take to end after its key has ended, its streams included.
const KEY_END: Duration = Duration::from_millis(900);
/// How long any other closing connection may take when nothing runs on it.
const CLOSE: Duration = Duration::from_secs(2);

/// Judges the hello, then refuses the connection or serves it to its end. `expects_header`:
/// a PROXY header comes before the hello.
pub(super) async fn run(
    thread: &Rc<Thread>,
    mut tcp: TcpStream,
    socket_peer: SocketAddr,
    expects_header: bool,
) {
    let listen = &thread.shared.config.listen;
    let deadline = Instant::now() + listen.handshake_timeout;
    let handshakes = &thread.shared.metrics.handshakes;
    let verdicts = &thread.shared.metrics.verdicts;

    let mut peer = socket_peer;
    let mut ahead = BytesMut::new();
    if expects_header {
        let Some(preface) = preface(thread, &mut tcp, socket_peer, deadline).await else {
            return;
        };
        peer = preface.client.unwrap_or(socket_peer);
        ahead = preface.ahead;
    }
    let read = hello::read(&mut tcp, ahead, listen.max_hello_bytes);
    let read = timeout_at(deadline, read);
    let hello = match thread.unread_hellos.enter().or_pushed_out(read).await {
        Some(Ok(Ok(hello))) => hello,
        // Gone, or too slow: nothing to answer to, or too late to.
        outcome => {
            verdicts.one(Verdict::of(Reason::Incomplete));
            if outcome.is_none() {
                let ends = &thread.shared.metrics.connection_ends;
                ends.one(ConnectionEnd::HelloPushedOut);
            }
            return;
        }
    };
    let Ok(local) = tcp.local_addr() else {
        // The connection is gone.
        verdicts.one(Verdict::of(Reason::Incomplete));
        return;
    };
    let addresses = Addresses {
        peer: socket_peer,
        local,
        source: peer.ip(),
    };
    compare::with_kernel(thread, &hello, addresses);
    let Charged {
        reason,
        decision,
        over_rate,
    } = judge(thread, &hello, addresses);
    verdicts.one(match (reason, &decision) {
        (Reason::Accepted, Decision::Legacy) => Verdict::LEGACY_BY_RULE,
        _ => Verdict::of(reason),
    });
    let (lane, key) = match decision {
        Decision::Zero(key) => (Lane::Zero, Some(key)),
        Decision::Legacy => (Lane::Legacy, None),
        Decision::Refuse | Decision::Malformed | Decision::NotTls => {
            log_refused(thread, reason, &hello, peer, socket_peer);
            refuse::answer(tcp, &decision, &hello.bytes).await;
            return;
        }
    };
    if lane == Lane::Legacy {
        match timeout_at(deadline, thread.turns.wait()).await {
            Ok(Ok(())) => {}
            Ok(Err(Crowded)) => {
                handshakes.one(Handshake::Crowded);
                refuse::answer(tcp, &Decision::Refuse, &hello.bytes).await;
                return;
            }
            Err(_) => {
                handshakes.one(Handshake::Crowded);
                return;
            }
        }
    }
    let identity = Identity {
        lane,
        key,
        reason,
        peer,
        socket_peer,
        ja4: hello.ja4(),
        over_rate,
    };
    let client = Client::new(tcp, hello.bytes);
    let accept = thread.shared.tls.accept(client, lane);
    match timeout_at(deadline, accept).await {
        Ok(Ok(tls)) => {
            handshakes.one(Handshake::Completed);
            serve(thread, tls, identity).await;
        }
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "the TLS handshake failed");
            handshakes.one(Handshake::Failed);
        }
        Err(_) => handshakes.one(Handshake::TimedOut),
    }
}

/// The PROXY header, from whom it may come. `None`: the connection is to be closed, and that
/// has been counted and said.
async fn preface(
    thread: &Thread,
    tcp: &mut TcpStream,
    from: SocketAddr,
    deadline: Instant,
) -> Option<Preface> {
    let headers = &thread.shared.metrics.proxy_headers;
    let trusted = (thread.shared.config.listen.proxy_protocol).trusts(from.ip());
    let read = if trusted {
        let read = proxy_protocol::read(tcp);
        let read = timeout_at(deadline, read).await;
        read.unwrap_or(Err(ProxyHeader::Incomplete))
    } else {
        Err(ProxyHeader::Untrusted)
    };
    match read {
        Ok(preface) => {
            headers.one(match preface.client {
                Some(_) => ProxyHeader::Proxied,
                None => ProxyHeader::Own,
            });
            Some(preface)
        }
        Err(why) => {
            headers.one(why);
            if let Some(permit) = thread.log.permit() {
                tracing::info!(
                    socket_peer = %from,
                    reason = why.name(),
                    left_out = permit.left_out,
                    "a connection without a good PROXY header was closed"
                );
            }
            None
        }
    }
}

fn judge(thread: &Thread, hello: &Hello, addresses: Addresses) -> Charged {
    let shared = &thread.shared;
    let limits = shared.charges.limits();
    let keys = shared.keyring.snapshot();
    let verdict = hello.judge(&keys, limits.window(), limits.legacy_deny);
    let rules = &shared.config.clients;
    let (verdict, action) = rules::apply(rules, || hello.ja4(), verdict, limits.legacy_deny);
    if let Some(action) = action {
        shared.metrics.client_rules.one(action);
    }
    charge(&shared.charges, hello, verdict, addresses, Now::read())
}

fn log_refused(
    thread: &Thread,
    reason: Reason,
    hello: &Hello,
    peer: SocketAddr,
    socket_peer: SocketAddr,
) {
    if let Some(permit) = thread.log.permit() {
        let key_id = hello.key_id().map(|id| id.to_string());
        let ja4 = hello.ja4();
        tracing::info!(
            %peer,
            %socket_peer,
            reason = reason.name(),
            key_id = key_id.unwrap_or_default(),
            ja4 = ja4.as_ref().map_or("", Ja4::as_str),
            left_out = permit.left_out,
            "a hello was refused"
        );
    }
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

async fn serve(thread: &Rc<Thread>, tls: TlsStream<Client>, identity: Identity) {
    let metrics = &thread.shared.metrics;
    metrics.connections.one(identity.lane);
    log_served(&identity);
    let is_h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    let session = thread.keeper.open(identity);
    let ended = if is_h2 {
        serve_http2(thread, tls, &session).await
    } else {
        serve_http1(thread, tls, &session).await
    };
    if let Err(error) = ended {
        if error.is_the_clients_fault() {
            metrics.connection_ends.one(ConnectionEnd::Protocol);
        }
        tracing::debug!(peer = %session.identity().peer, %error, "the connection broke");
    }
}

async fn serve_http2(
    thread: &Rc<Thread>,
    tls: TlsStream<Client>,
    session: &Rc<Session>,
) -> Result<(), Broken> {
    let heard = Rc::new(Cell::new(false));
    let io = Windows::new(tls, &heard);
    let max_streams = thread.shared.config.listen.max_streams;
    let service = {
        let (thread, session) = (Rc::clone(thread), Rc::clone(session));
        move |request| {
            let (thread, session) = (Rc::clone(&thread), Rc::clone(&session));
            async move { thread.api.answer(&session, request).await }
        }
    };
    let connection = pin!(Http2::new(io, heard, max_streams, session, service));
    let close = |connection: Pin<&mut Http2<_, _, _>>| connection.get_mut().close();
    let never = |_: &mut Context<'_>| Poll::Pending;
    let ended = drive(connection, close, never, session, &thread.shared.metrics).await;
    ended.map_err(Broken::from)
}

async fn serve_http1(
    thread: &Rc<Thread>,
    mut tls: TlsStream<Client>,
    session: &Rc<Session>,
) -> Result<(), Broken> {
    let wire = Rc::new(Wire::default());
    let service = {
        let (thread, session) = (Rc::clone(thread), Rc::clone(session));
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
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES);
    tls.get_mut().0.end_gathering();
    let tls = Rc::new(RefCell::new(tls));
    let mut leaving = Leaving::new(&tls, &wire, session);
    let io = Unreadable::new(&tls, thread, session, &wire);
    let connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    // Accepted when the daemon stopped already, it has had no request, and would be
    // closed at once: the response to the first one closes it, or patience's end.
    let is_late = session.state() != State::Open;
    let close = |connection: Pin<&mut _>| {
        if !is_late {
            http1::Connection::graceful_shutdown(connection);
        }
    };
    let left = |cx: &mut Context<'_>| leaving.poll(cx);
    let ended = drive(connection, close, left, session, &thread.shared.metrics).await;
    ended.map_err(Broken::from)
}

async fn answer_http1(
    thread: &Thread,
    session: &Rc<Session>,
    wire: &Wire,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let is_chunked = request.headers().contains_key(TRANSFER_ENCODING);
    let may_have_both = is_chunked && wire.length_said.get();
    let request = request.map(Into::into);
    let mut response = thread.api.answer(session, request).await;
    if may_have_both {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    if !api::is_json_or_events(response.headers()) {
        wire.opaque.set(true);
    }
    response
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
/// not see it.
async fn drive<C: Future<Output = Result<(), E>>, E>(
    mut connection: Pin<&mut C>,
    close: impl Fn(Pin<&mut C>),
    mut left: impl FnMut(&mut Context<'_>) -> Poll<()>,
    session: &Session,
    metrics: &Metrics,
) -> Result<(), E> {
    let mut known = State::Open;
    let mut patience: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        loop {
            if session.state() != known {
                count(known, session.state(), metrics);
                if known == State::Open {
                    close(connection.as_mut());
                }
                known = session.state();
                patience = Some(Box::pin(sleep_until(Instant::now() + patience_in(known))));
            }
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
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
                Some(patience) => poll_patience(patience, session, cx).map(Ok),
                None => Poll::Pending,
            };
        }
    })
    .await
}

/// Ready when the connection is to be dropped as it stands.
fn poll_patience(
    patience: &mut Pin<Box<Sleep>>,
    session: &Session,
    cx: &mut Context<'_>,
) -> Poll<()> {
    while patience.as_mut().poll(cx).is_ready() {
        if session.running() == 0 || matches!(session.state(), State::Ended(_)) {
            return Poll::Ready(());
        }
        patience.as_mut().reset(Instant::now() + CLOSE);
    }
    Poll::Pending
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
