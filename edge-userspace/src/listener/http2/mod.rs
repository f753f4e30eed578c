//! HTTP/2 as the edge serves it: a connection's wire, its clock and all its requests in the one
//! task of the connection.
//!
//! The frames are h2's. What is here is what runs them: requests are begun as they are
//! accepted, and polled when their [bell](bells) is rung; what they send leaves in the same
//! turn. A request that waits for others costs nothing but its place. Not here: what is
//! answered ([`crate::api`]), and when a connection is to end ([`super::serving`]).

mod bells;
mod exchange;
mod keep_alive;

use super::serving::MAX_HEAD_BYTES;
use crate::relay::{Incoming, ResponseBody};
use crate::session::{Session, State, Task};
use bells::{Bell, Bells};
use bytes::Bytes;
use exchange::Exchange;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Request, Response};
use keep_alive::KeepAlive;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake as _, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite};

/// What a client may send ahead on one stream and on the connection, bytes.
const STREAM_WINDOW_BYTES: u32 = 512 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// What is written ahead for one stream, bytes.
const SEND_AHEAD_BYTES: usize = 128 * 1024;
/// After so many turns with something to do in each others run.
const TURNS: usize = 32;
/// Places of requests that a connection keeps when none runs.
const KEPT_PLACES: usize = 4;

/// The wire's number, and the clock's; lower ones are requests'.
const WIRE: usize = usize::MAX;
const CLOCK: usize = usize::MAX - 1;

/// A connection, to be polled to its end. `S` answers a request with an `F`.
pub(super) struct Http2<T, S, F> {
    // Requests go first: to a stream of a connection that is gone there is nothing to say.
    requests: Vec<Place<F>>,
    free: Vec<usize>,
    wire: Wire<T>,
    clock: Option<KeepAlive>,
    heard: Rc<Cell<bool>>,
    service: S,
    session: Rc<Session>,
    is_closing: bool,
    bells: Arc<Bells>,
    wire_bell: (Arc<Bell>, Waker),
    clock_bell: (Arc<Bell>, Waker),
    rung: Vec<usize>,
}

enum Wire<T> {
    Greeting(Handshake<T, Bytes>),
    Serving(Connection<T, Bytes>),
}

/// Where a request may run, one after the other.
struct Place<F> {
    bell: Arc<Bell>,
    waker: Waker,
    request: Option<Pin<Box<Task<Exchange<F>>>>>,
}

/// Why a connection broke.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// As the frames have it.
    #[error(transparent)]
    Frames(#[from] h2::Error),
    /// The client does not answer pings.
    #[error("the client answers no ping")]
    Silent,
}

impl Broken {
    /// Whether its client broke the protocol.
    pub(super) fn is_the_clients_fault(&self) -> bool {
        matches!(self, Self::Frames(error) if error.is_go_away() && error.is_library())
    }
}

impl<T, S, F> Http2<T, S, F>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: FnMut(Request<Incoming>) -> F,
    F: Future<Output = Response<ResponseBody>>,
{
    /// Over `io`; `heard` is set by whoever reads from it. So many of its streams may be open.
    pub(super) fn new(
        io: T,
        heard: Rc<Cell<bool>>,
        max_streams: u32,
        session: &Rc<Session>,
        service: S,
    ) -> Self {
        let mut builder = Builder::new();
        builder
            .max_concurrent_streams(max_streams)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buffer_size(SEND_AHEAD_BYTES)
            .max_header_list_size(MAX_HEAD_BYTES as u32);
        let bells = Arc::new(Bells::default());
        let bell = |number| {
            let bell = Bell::new(&bells, number);
            // Each is looked at once to begin with.
            bell.wake_by_ref();
            (Arc::clone(&bell), Waker::from(bell))
        };
        Self {
            requests: Vec::new(),
            free: Vec::new(),
            wire: Wire::Greeting(builder.handshake(io)),
            clock: None,
            heard,
            service,
            session: Rc::clone(session),
            is_closing: false,
            wire_bell: bell(WIRE),
            clock_bell: bell(CLOCK),
            bells,
            rung: Vec::new(),
        }
    }

    /// Takes no more requests, and ends when none runs (RFC 9113 section 6.8).
    pub(super) fn close(&mut self) {
        self.is_closing = true;
        if let Wire::Serving(connection) = &mut self.wire {
            connection.graceful_shutdown();
        }
        self.wire_bell.0.wake_by_ref();
    }

    /// Reads and writes; begins what requests have come.
    fn poll_wire(&mut self) -> Poll<Result<(), Broken>> {
        self.wire_bell.0.answered();
        loop {
            let cx = &mut Context::from_waker(&self.wire_bell.1);
            match &mut self.wire {
                Wire::Greeting(greeting) => {
                    let mut connection = ready!(Pin::new(greeting).poll(cx))?;
                    let pings = connection.ping_pong();
                    self.clock = pings.map(|pings| KeepAlive::new(pings, Rc::clone(&self.heard)));
                    self.clock_bell.0.wake_by_ref();
                    if self.is_closing {
                        connection.graceful_shutdown();
                    }
                    self.wire = Wire::Serving(connection);
                }
                Wire::Serving(connection) => {
                    // An answer that ends the connection says so in the same write: else the
                    // client may well ask once more in between.
                    if !self.is_closing && self.session.state() != State::Open {
                        self.is_closing = true;
                        connection.graceful_shutdown();
                    }
                    let accepted = connection.poll_accept(cx);
                    if let Some(clock) = &mut self.clock
                        && clock.has_answer(cx)
                    {
                        self.clock_bell.0.wake_by_ref();
                    }
                    match ready!(accepted) {
                        Some(Ok((request, respond))) => self.begin(request, respond),
                        Some(Err(error)) => return Poll::Ready(Err(error.into())),
                        None => return Poll::Ready(Ok(())),
                    }
                }
            }
        }
    }

    /// Ready when the client is gone.
    fn poll_clock(&mut self) -> Poll<()> {
        self.clock_bell.0.answered();
        let Some(clock) = &mut self.clock else {
            return Poll::Pending;
        };
        let cx = &mut Context::from_waker(&self.clock_bell.1);
        ready!(clock.poll_timer(cx));
        if let Wire::Serving(connection) = &mut self.wire {
            // It is told, should it hear after all; it is not waited for.
            connection.abrupt_shutdown(Reason::NO_ERROR);
            let _ = connection.poll_closed(cx);
        }
        Poll::Ready(())
    }

    fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let length = content_length(request.headers());
        let request = request.map(|stream| Incoming::http2(stream, length));
        // Without an answer to come the stream is reset as `respond` goes.
        let Some(answer) = alone(|| (self.service)(request)) else {
            return;
        };
        let exchange = Exchange::Asked { answer, respond };
        let request = Box::pin(Task::new(exchange, &self.session));
        let number = self.free.pop().unwrap_or_else(|| {
            let number = self.requests.len();
            let bell = Bell::new(&self.bells, number);
            self.requests.push(Place {
                waker: Waker::from(Arc::clone(&bell)),
                bell,
                request: None,
            });
            number
        });
        self.requests[number].request = Some(request);
        self.poll_request(number);
    }

    fn poll_request(&mut self, number: usize) {
        let Some(place) = self.requests.get_mut(number) else {
            return;
        };
        place.bell.answered();
        let Some(request) = &mut place.request else {
            return;
        };
        let cx = &mut Context::from_waker(&place.waker);
        if let Some(Poll::Pending) = alone(|| request.as_mut().poll(cx)) {
            return;
        }
        place.request = None;
        self.free.push(number);
        if self.free.len() == self.requests.len() && self.free.len() > KEPT_PLACES {
            self.requests.truncate(KEPT_PLACES);
            self.requests.shrink_to(KEPT_PLACES);
            self.free.clear();
            self.free.extend(0..KEPT_PLACES);
            self.free.shrink_to(KEPT_PLACES);
        }
    }
}

impl<T, S, F> Future for Http2<T, S, F>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: FnMut(Request<Incoming>) -> F + Unpin,
    F: Future<Output = Response<ResponseBody>>,
{
    type Output = Result<(), Broken>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        for _ in 0..TURNS {
            if !this.bells.hear(&mut this.rung, cx.waker()) {
                return Poll::Pending;
            }
            for at in 0..this.rung.len() {
                match this.rung[at] {
                    WIRE => {
                        if let Poll::Ready(ended) = this.poll_wire() {
                            return Poll::Ready(ended);
                        }
                    }
                    CLOCK => {
                        if this.poll_clock().is_ready() {
                            return Poll::Ready(Err(Broken::Silent));
                        }
                    }
                    number => this.poll_request(number),
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What `work` for one request comes to. None: there is a fault in it, which has been logged where
/// it happened, and which is no fault of the connection's other requests.
fn alone<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// What all `content-length`s say, if they say the same; h2 judges those that do not.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    let mut said = headers.get_all(CONTENT_LENGTH).iter();
    let first = said.next()?;
    if said.any(|other| other != first) {
        return None;
    }
    first.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
