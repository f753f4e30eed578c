//! The requests of one connection that run, each in the place of its stream.

use super::bells::{Bell, Bells};
use super::exchange::Exchange;
use super::line::Line;
use crate::message::{Head, Request, Response};
use crate::relay::{Inbox, Incoming, ResponseBody};
use crate::session::{Session, Task};
use edge_http2::{Code, Event, RequestHead, Stream};
use http::Version;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Places that a connection keeps when no request runs.
const KEPT: usize = 4;

/// All of them. `S` answers a request with an `F`.
pub(super) struct Requests<S, F> {
    places: Vec<Place<F>>,
    /// Where some have just begun and were not polled yet.
    begun: Vec<usize>,
    line: Rc<Line>,
    bells: Arc<Bells>,
    session: Rc<Session>,
    service: S,
}

/// Where a request may run, one after the other.
struct Place<F> {
    bell: Arc<Bell>,
    waker: Waker,
    request: Option<Pin<Box<Task<Exchange<F>>>>>,
    /// Where its body goes, while more of it may come.
    inbox: Option<Rc<Inbox>>,
}

impl<S, F> Requests<S, F>
where
    S: FnMut(Request<Incoming>) -> F,
    F: Future<Output = Response<ResponseBody>>,
{
    pub(super) fn new(
        line: &Rc<Line>,
        bells: &Arc<Bells>,
        session: &Rc<Session>,
        service: S,
    ) -> Self {
        Self {
            places: Vec::new(),
            begun: Vec::new(),
            line: Rc::clone(line),
            bells: Arc::clone(bells),
            session: Rc::clone(session),
            service,
        }
    }

    /// What has come of one of them, or begins one.
    pub(super) fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Request {
                stream,
                head,
                length,
                is_end,
            } => {
                let inbox = (!is_end).then(|| Inbox::new(length));
                self.begin(stream, head, inbox);
            }
            Event::Data {
                stream,
                data,
                is_end,
            } => {
                let Some(place) = self.places.get_mut(stream.place()) else {
                    return;
                };
                if let Some(inbox) = &place.inbox {
                    inbox.put(data, is_end);
                }
                if is_end {
                    place.inbox = None;
                }
            }
            Event::Reset { stream, code } => {
                if let Some(place) = self.places.get_mut(stream.place()) {
                    let (request, inbox) = (place.request.take(), place.inbox.take());
                    drop(request);
                    if let Some(inbox) = inbox {
                        inbox.fail(code);
                    }
                }
            }
            Event::Pong => {}
        }
    }

    fn begin(&mut self, stream: Stream, head: RequestHead, inbox: Option<Rc<Inbox>>) {
        let body = match &inbox {
            Some(inbox) => {
                let line = Rc::clone(&self.line) as Rc<dyn crate::relay::Line>;
                Incoming::http2(Rc::clone(inbox), line, stream)
            }
            None => Incoming::none(),
        };
        let RequestHead {
            method,
            uri,
            fields,
        } = head;
        let head = Head {
            method,
            uri,
            version: Version::HTTP_2,
            fields,
        };
        let request = Request { head, body };
        let Some(answer) = alone(|| (self.service)(request)) else {
            self.line.reset(stream, Code::INTERNAL_ERROR);
            return;
        };
        let exchange = Exchange::new(answer, &self.line, stream);
        let request = Box::pin(Task::new(exchange, &self.session));
        while self.places.len() <= stream.place() {
            let bell = Bell::new(&self.bells, self.places.len());
            self.places.push(Place {
                waker: Waker::from(Arc::clone(&bell)),
                bell,
                request: None,
                inbox: None,
            });
        }
        let place = &mut self.places[stream.place()];
        place.request = Some(request);
        place.inbox = inbox;
        self.begun.push(stream.place());
    }

    /// Polls those that have begun. To be called when all that has come has been read: their
    /// bodies are there then, mostly.
    pub(super) fn poll_begun(&mut self) {
        let mut begun = mem::take(&mut self.begun);
        for number in begun.drain(..) {
            self.poll(number);
        }
        self.begun = begun;
    }

    /// Polls the one in that place.
    pub(super) fn poll(&mut self, number: usize) {
        let Some(place) = self.places.get_mut(number) else {
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
    }

    /// Has those go on that waited for the client's windows or for room in what is to be
    /// written, each in its turn. Whether there were any.
    pub(super) fn go_on(&mut self) -> bool {
        let mut any = false;
        loop {
            let next = self.line.frames().next_writable();
            let Some(stream) = next else {
                return any;
            };
            any = true;
            self.poll(stream.place());
        }
    }

    /// Drops all: the connection is over.
    pub(super) fn end(&mut self) {
        for place in mem::take(&mut self.places) {
            drop(place.request);
            if let Some(inbox) = place.inbox {
                inbox.fail(Code::CANCEL);
            }
        }
    }

    /// Lets go of what a connection that rests does not need.
    pub(super) fn trim(&mut self) {
        let is_large = self.places.len() > KEPT || self.begun.capacity() > KEPT;
        if is_large && self.line.frames().open_streams() == 0 {
            self.places.truncate(KEPT);
            self.places.shrink_to(KEPT);
            // Larger where many began and ended in one turn, all in the same place.
            self.begun.shrink_to(KEPT);
        }
    }
}

impl<S, F> Drop for Requests<S, F> {
    /// Who still reads a request's body is told that no more comes.
    fn drop(&mut self) {
        for place in &mut self.places {
            drop(place.request.take());
            if let Some(inbox) = place.inbox.take() {
                inbox.fail(Code::CANCEL);
            }
        }
    }
}

/// What `work` for one request comes to. None: there is a fault in it, which has been logged where
/// it happened, and which is no fault of the connection's other requests.
fn alone<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
