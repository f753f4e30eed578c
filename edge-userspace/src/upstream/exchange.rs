//! One HTTP/1.1 connection to the upstream, driven by whoever waits for its response.
//!
//! hyper expects its connection to be polled by a task of its own. Here the reader of the
//! response polls it: first the connection, under the reader's waker, then the channel
//! through which the connection hands over what it read. That channel fills only while the
//! connection is polled, so it needs no waker.

use super::Sendable;
use super::connect::{ConnectError, Io, Socket};
use super::picked::Picked;
use super::places::Place;
use super::pool::Pool;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Most bytes of a response that are read ahead of the client.
const READ_AHEAD_BYTES: usize = 128 * 1024;

type Connection<B> = Pin<Box<http1::Connection<TokioIo<Io>, B>>>;

/// A connection with at most one request on it.
pub(super) struct Exchange<B: Sendable> {
    sender: http1::SendRequest<B>,
    /// `None` once it has ended.
    connection: Option<Connection<B>>,
    socket: Socket,
    _place: Place,
}

/// Why a request got no response.
pub(super) struct Asked<B> {
    pub(super) error: hyper::Error,
    /// The request, when nothing of it was sent.
    pub(super) unsent: Option<Request<B>>,
}

impl<B: Sendable> Exchange<B> {
    pub(super) async fn new(io: Io, socket: Socket, place: Place) -> Result<Self, ConnectError> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(READ_AHEAD_BYTES)
            .handshake(TokioIo::new(io))
            .await
            .map_err(ConnectError::Http)?;
        Ok(Self {
            sender,
            connection: Some(Box::pin(connection)),
            socket,
            _place: place,
        })
    }

    /// Sends the request and waits for the response's head.
    pub(super) fn ask(
        &mut self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Incoming>, Asked<B>>> {
        Ask {
            // Without the cooperative budget: a wake-up for its sake would go to no one.
            sent: tokio::task::unconstrained(self.sender.try_send_request(request)),
            connection: &mut self.connection,
        }
    }

    /// Whether an idle connection can still be used: open, with nothing to read. An end
    /// that the kernel knows of and the runtime not yet is seen here too.
    pub(super) fn is_usable(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready() && self.socket.is_quiet()
    }

    /// After a response's last byte: whether the connection can take another request.
    fn settle(&mut self) -> bool {
        drive(
            &mut self.connection,
            &mut Context::from_waker(Waker::noop()),
        );
        self.connection.is_some() && self.sender.is_ready()
    }
}

pin_project_lite::pin_project! {
    /// A request that has been given to a connection. An `async` block in its stead would
    /// have room for the request twice, and so would every request's task.
    struct Ask<'a, B: Sendable, F> {
        #[pin]
        sent: F,
        connection: &'a mut Option<Connection<B>>,
    }
}

impl<B, F> Future for Ask<'_, B, F>
where
    B: Sendable,
    F: Future<Output = Result<Response<Incoming>, TrySendError<Request<B>>>>,
{
    type Output = Result<Response<Incoming>, Asked<B>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        drive(this.connection, cx);
        let sent = this.sent.poll(&mut Context::from_waker(Waker::noop()));
        sent.map_err(|mut failed| Asked {
            unsent: failed.take_message(),
            error: failed.into_error(),
        })
    }
}

fn drive<B: Sendable>(connection: &mut Option<Connection<B>>, cx: &mut Context<'_>) {
    if let Some(open) = connection
        && open.as_mut().poll(cx).is_ready()
    {
        // Its errors reach the reader through the response or the body.
        *connection = None;
    }
}

/// A response's body together with the connection that it comes from. At its clean end the
/// connection goes back to the pool; dropped before, the connection is closed.
pub struct Answer<B: Sendable> {
    body: Incoming,
    /// `None` once the connection has gone back.
    exchange: Option<Exchange<B>>,
    pool: Rc<Pool<B>>,
    picked: Picked,
}

impl<B: Sendable> Answer<B> {
    pub(super) fn new(
        body: Incoming,
        exchange: Exchange<B>,
        pool: &Rc<Pool<B>>,
        picked: Picked,
    ) -> Self {
        let mut answer = Self {
            body,
            exchange: Some(exchange),
            pool: Rc::clone(pool),
            picked,
        };
        if answer.body.is_end_stream() {
            answer.finish();
        }
        answer
    }

    /// The upstream that it comes from.
    #[must_use]
    pub fn picked(&self) -> &Picked {
        &self.picked
    }

    /// What it answers is no answer: it counts as one that the upstream failed.
    pub fn failed(&mut self) {
        self.picked.failed();
    }

    fn finish(&mut self) {
        if let Some(mut exchange) = self.exchange.take()
            && exchange.settle()
        {
            self.pool.put(exchange);
        }
    }
}

impl<B: Sendable> Body for Answer<B> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        if let Some(exchange) = &mut this.exchange {
            drive(&mut exchange.connection, cx);
        }
        let frame = Pin::new(&mut this.body).poll_frame(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(Some(Ok(_))) = &frame {
            this.picked.began();
        }
        match &frame {
            Poll::Ready(None) => this.finish(),
            Poll::Ready(Some(Ok(_))) if this.body.is_end_stream() => this.finish(),
            Poll::Ready(Some(Err(_))) => this.exchange = None,
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
