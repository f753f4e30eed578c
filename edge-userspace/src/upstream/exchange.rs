//! One HTTP/1.1 connection to the upstream, driven by whoever waits for its response.
//!
//! It has no task and no channel: the reader of the response writes the request and reads from
//! the socket, under its own waker. So dropping the response closes the connection at once,
//! and a chunk costs no switch between tasks.

use super::acks::Holding;
use super::burst::{Aside, Burst, Slot};
use super::connect::{Io, Socket};
use super::head::Own;
use super::patience::{Limit, Patience};
use super::picked::Picked;
use super::places::Place;
use super::pool::Pool;
use super::receiving::Receiving;
use super::sending::Sending;
use super::{Broken, Error, Sendable, Upload};
use crate::message::{Head, Response};
use bytes::Bytes;
use http::Method;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A connection with at most one request on it. In a box: it travels between the pool and the
/// responses.
pub(super) struct Exchange<B: Sendable>(Box<Live<B>>);

struct Live<B> {
    io: Io,
    socket: Socket,
    method: Method,
    sending: Sending<B>,
    way: Way,
    burst: Rc<Burst>,
    slot: Rc<Slot>,
    /// The request could not be written to its end. What comes all the same is heard.
    unwritten: Option<Broken>,
    receiving: Receiving,
    patience: Patience,
    /// Acknowledgements of this response are held back.
    acks: Option<Holding>,
    _place: Place,
}

/// Why there is no response.
pub(super) enum Unanswered {
    /// The connection is of no more use.
    Broken(Broken),
    /// It was waited for too long.
    GivenUp(Error),
}

/// How the request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// That is to be seen.
    Unknown,
    /// Together with others.
    PutAside,
    /// By itself.
    Alone,
}

impl<B: Sendable> Exchange<B> {
    pub(super) fn new(io: Io, socket: Socket, place: Place, burst: &Rc<Burst>) -> Self {
        Self(Box::new(Live {
            way: Way::Unknown,
            burst: Rc::clone(burst),
            slot: Slot::new(socket.clone()),
            io,
            socket,
            method: Method::GET,
            sending: Sending::new(),
            unwritten: None,
            receiving: Receiving::new(),
            patience: Patience::default(),
            acks: None,
            _place: place,
        }))
    }

    /// Begins to send a request.
    pub(super) fn ask(&mut self, own: &Own, head: &Head, body: B) {
        let live = &mut *self.0;
        live.method = head.method.clone();
        live.sending.begin(own, head, body);
        live.way = match live.io {
            Io::Plain(_) => Way::Unknown,
            Io::Tls(_) => Way::Alone,
        };
    }

    /// Sends it on, and waits for the response's head.
    pub(super) fn answered(
        &mut self,
        limit: Limit<'_>,
    ) -> impl Future<Output = Result<Response<()>, Unanswered>> {
        let live = &mut *self.0;
        std::future::poll_fn(move |cx| {
            if let Poll::Ready(head) = live.poll_head(cx) {
                return Poll::Ready(head.map_err(Unanswered::Broken));
            }
            let over = live.patience.poll(limit, cx);
            over.map(|error| Err(Unanswered::GivenUp(error)))
        })
    }

    /// To be kept while a request with that body is asked.
    pub(super) fn aside<'a>(&self, upload: &'a Upload) -> Aside<'a> {
        Aside::new(&self.0.slot, upload)
    }

    /// Whether an idle connection can still be used: open, with nothing to read.
    pub(super) fn is_usable(&self) -> bool {
        self.0.socket.is_quiet()
    }
}

impl<B: Sendable> Live<B> {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Broken>> {
        self.write(cx)?;
        let head = ready!(self.receiving.poll_head(&self.method, &mut self.io, cx));
        Poll::Ready(head.map_err(|broken| match broken {
            // What was first.
            Broken::NoAnswer | Broken::Read(_) => self.unwritten.take().unwrap_or(broken),
            broken => broken,
        }))
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        self.write(cx)?;
        self.receiving.poll_body(&mut self.io, cx)
    }

    /// An upstream that takes no more may have answered.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        if self.sending.is_done() || self.unwritten.is_some() {
            return Ok(());
        }
        if self.way == Way::Unknown {
            self.way = Way::Alone;
            if let Some(whole) = self.sending.take_whole(cx)? {
                match self.burst.put(&self.slot, whole, cx) {
                    Ok(()) => self.way = Way::PutAside,
                    Err(whole) => self.sending.tried(whole, 0),
                }
            }
        }
        if self.way == Way::PutAside {
            let Poll::Ready((bytes, tried)) = self.slot.poll(cx) else {
                return Ok(());
            };
            self.way = Way::Alone;
            match tried {
                Ok(written) => self.sending.tried(bytes, written),
                Err(error) => self.unwritten(Broken::Write(error)),
            }
            if self.sending.is_done() || self.unwritten.is_some() {
                return Ok(());
            }
        }
        match self.sending.poll(&mut self.io, cx) {
            Poll::Ready(Err(broken @ Broken::Write(_))) => {
                self.unwritten(broken);
                Ok(())
            }
            Poll::Ready(Err(broken)) => Err(broken),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    fn unwritten(&mut self, broken: Broken) {
        self.sending.stop();
        self.unwritten = Some(broken);
    }

    /// Whether the connection can take another request.
    fn can_go_on(&mut self) -> bool {
        self.sending.is_done()
            && self.unwritten.is_none()
            && self.receiving.can_go_on()
            && self.io.is_empty()
    }
}

/// A response's body together with the connection that it comes from. At its clean end the
/// connection goes back to the pool; dropped before, the connection is closed.
pub struct Answer<B: Sendable> {
    /// `None` once there is nothing more to come.
    exchange: Option<Exchange<B>>,
    pool: Rc<Pool<B>>,
    picked: Picked,
}

impl<B: Sendable> Answer<B> {
    pub(super) fn new(mut exchange: Exchange<B>, pool: &Rc<Pool<B>>, picked: Picked) -> Self {
        let live = &mut *exchange.0;
        // One whose length is not known beforehand is most likely a stream of small pieces.
        if live.receiving.left_bytes().is_none() && !live.receiving.is_at_end() {
            live.acks = pool.acks.begin(&live.socket);
        }
        let mut answer = Self {
            exchange: Some(exchange),
            pool: Rc::clone(pool),
            picked,
        };
        answer.finish_at_end();
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

    fn finish_at_end(&mut self) {
        let is_at_end = |exchange: &mut Exchange<B>| exchange.0.receiving.is_at_end();
        let Some(mut exchange) = self.exchange.take_if(is_at_end) else {
            return;
        };
        let live = &mut *exchange.0;
        if let Some(held) = live.acks.take() {
            self.pool.acks.end(&held, &live.socket);
        }
        if live.can_go_on() {
            live.receiving.rest();
            self.pool.put(exchange);
        }
    }
}

impl<B: Sendable> Body for Answer<B> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        let Some(exchange) = &mut this.exchange else {
            return Poll::Ready(None);
        };
        let data = ready!(exchange.0.poll_body(cx));
        match &data {
            Some(Ok(_)) => {
                this.picked.began();
                this.pool
                    .acks
                    .piece(&mut exchange.0.acks, &exchange.0.socket);
                this.finish_at_end();
            }
            // Until its end, the body of a connection that is over.
            None => {
                this.finish_at_end();
                this.exchange = None;
            }
            Some(Err(_)) => this.exchange = None,
        }
        Poll::Ready(data.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.exchange.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.exchange {
            None => SizeHint::with_exact(0),
            Some(exchange) => {
                let left = exchange.0.receiving.left_bytes();
                left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}
