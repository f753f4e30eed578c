//! HTTP/2 as the edge serves it: a connection's wire, its clock and all its requests in the one
//! task of the connection.
//!
//! The frames are [`edge_http2`]'s. What is here is what runs them: all that has come is read,
//! then the requests that began and those whose [bell](bells) was rung are polled, then what they
//! said is written at once. A request that waits for others costs nothing but its place. Not here:
//! what is answered ([`crate::api`]), and when a connection is to end ([`super::serving`]).

mod bells;
mod exchange;
mod keep_alive;
mod line;
mod requests;

use super::serving::MAX_HEAD_BYTES;
use crate::message::{Request, Response};
use crate::relay::{Incoming, ResponseBody};
use crate::session::{Session, State};
use bells::{Bell, Bells};
use edge_http2::{Code, Config, Connection, Event, Violation};
use keep_alive::{Due, KeepAlive};
use line::Line;
use requests::Requests;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake as _, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::time::{Sleep, sleep};

/// What a client may send ahead on one stream and on the connection, bytes.
const STREAM_WINDOW_BYTES: u32 = 512 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// So much is read of one connection, bytes, before others run: clients that send without a pause
/// share a thread.
const READ_BYTES: usize = 64 * 1024;
/// After so many turns with something to do in each others run.
const TURNS: usize = 32;
/// After a client has been told to send no more requests those are served that come within that
/// time: longer than what it had sent by then is on its way (RFC 9113 section 6.8).
const LAST_CALL: Duration = Duration::from_secs(1);
/// Parts of what is to be written, written at once: four frames of a body and their heads, mostly.
const MOST_SLICES: usize = 16;
/// Largest buffer for what is to be written that a thread keeps for its next connection.
const KEPT_BYTES: usize = 256 * 1024;

/// The wire's number, and the clock's; lower ones are requests'.
const WIRE: usize = usize::MAX;
const CLOCK: usize = usize::MAX - 1;

thread_local! {
    /// What is to be written lies in one connection's buffer at a time, mostly: a connection
    /// that rests has none.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A connection, to be polled to its end. `S` answers a request with an `F`.
pub(super) struct Http2<T, S, F> {
    // Requests go first: to a stream of a connection that is gone there is nothing to say.
    requests: Requests<S, F>,
    line: Rc<Line>,
    io: T,
    stage: Stage,
    clock: KeepAlive,
    /// Set when the client has been told to send no more requests.
    last_call: Option<Pin<Box<Sleep>>>,
    session: Rc<Session>,
    bells: Arc<Bells>,
    wire_bell: (Arc<Bell>, Waker),
    clock_bell: (Arc<Bell>, Waker),
    rung: Vec<usize>,
    /// Written, and perhaps still on its way below.
    is_unflushed: bool,
    /// No more is read until some of what is to be written has been.
    is_held_up: bool,
    /// What may still be read before others run, bytes.
    left: usize,
}

/// How far a connection has come.
enum Stage {
    /// Nothing had to be waited for yet.
    Begun,
    Serving,
    /// What is to be written goes out, then it is closed: for that reason, if there is one.
    Closing(Option<Broken>),
}

/// Why a connection broke.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The client broke the protocol.
    #[error(transparent)]
    Violated(#[from] Violation),
    /// What is below has failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The client does not answer pings.
    #[error("the client answers no ping")]
    Silent,
}

impl Broken {
    /// Whether its client broke the protocol.
    pub(super) fn is_the_clients_fault(&self) -> bool {
        matches!(self, Self::Violated(_))
    }
}

/// Seconds as of the kernel's last tick.
fn seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::MonotonicCoarse).tv_sec).unwrap_or(0)
}

impl<T, S, F> Http2<T, S, F>
where
    T: AsyncBufRead + AsyncWrite + Unpin,
    S: FnMut(Request<Incoming>) -> F,
    F: Future<Output = Response<ResponseBody>>,
{
    /// Over `io`. So many of its streams may be open.
    pub(super) fn new(io: T, max_streams: u32, session: &Rc<Session>, service: S) -> Self {
        let connection = Connection::new(Config {
            max_streams,
            stream_window_bytes: STREAM_WINDOW_BYTES,
            connection_window_bytes: CONNECTION_WINDOW_BYTES,
            max_head_bytes: MAX_HEAD_BYTES as u32,
            clock: seconds,
        });
        let bells = Arc::new(Bells::default());
        let bell = |number| {
            let bell = Bell::new(&bells, number);
            // Each is looked at once to begin with.
            bell.wake_by_ref();
            (Arc::clone(&bell), Waker::from(bell))
        };
        let wire_bell = bell(WIRE);
        let clock_bell = bell(CLOCK);
        let line = Rc::new(Line::new(connection, Arc::clone(&wire_bell.0)));
        Self {
            requests: Requests::new(&line, &bells, session, service),
            line,
            io,
            stage: Stage::Begun,
            clock: KeepAlive::new(),
            last_call: None,
            session: Rc::clone(session),
            wire_bell,
            clock_bell,
            bells,
            rung: Vec::new(),
            is_unflushed: false,
            is_held_up: false,
            left: 0,
        }
    }

    /// Takes no more requests, and ends when none runs (RFC 9113 section 6.8). To be polled
    /// afterwards.
    pub(super) fn close(&mut self) {
        if self.line.frames().shut_down() {
            self.last_call = Some(Box::pin(sleep(LAST_CALL)));
            self.clock_bell.0.wake_by_ref();
        }
    }

    /// Reads what has come, all of it unless that is much, and begins the requests in it.
    fn poll_read(&mut self) -> Poll<Result<(), Broken>> {
        self.wire_bell.0.answered();
        loop {
            match self.stage {
                Stage::Closing(_) => return Poll::Pending,
                // As long as nothing had to be waited for what is written is held back below, so
                // that it goes out together.
                Stage::Begun => ready!(self.poll_out())?,
                Stage::Serving => {}
            }
            if self.left == 0 {
                return Poll::Pending;
            }
            let cx = &mut Context::from_waker(&self.wire_bell.1);
            let Poll::Ready(bytes) = Pin::new(&mut self.io).poll_fill_buf(cx)? else {
                self.stage = Stage::Serving;
                return Poll::Pending;
            };
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.clock.heard();
            let mut rest = bytes;
            let received = loop {
                // Let go of before a request is begun or ended.
                let event = self.line.frames().receive(&mut rest);
                match event {
                    Ok(Some(Event::Pong)) => {
                        if self.clock.answered() {
                            self.clock_bell.0.wake_by_ref();
                        }
                    }
                    Ok(Some(event)) => self.requests.take(event),
                    Ok(None) => break Ok(()),
                    Err(violation) => break Err(violation),
                }
            };
            let count = bytes.len() - rest.len();
            self.left = self.left.saturating_sub(count);
            Pin::new(&mut self.io).consume(count);
            received?;
            if self.line.frames().is_congested() {
                self.is_held_up = true;
                return Poll::Pending;
            }
        }
    }

    /// Ready when the client is gone.
    fn poll_clock(&mut self) -> Poll<()> {
        self.clock_bell.0.answered();
        let cx = &mut Context::from_waker(&self.clock_bell.1);
        if let Some(time) = &mut self.last_call
            && time.as_mut().poll(cx).is_ready()
        {
            self.last_call = None;
            self.line.frames().last_call();
        }
        loop {
            match ready!(self.clock.poll_timer(cx)) {
                Due::Ask => self.line.frames().ping(),
                Due::Gone => return Poll::Ready(()),
            }
        }
    }

    /// Writes what is to be written, as far as it is taken.
    fn poll_out(&mut self) -> Poll<io::Result<()>> {
        let cx = &mut Context::from_waker(&self.wire_bell.1);
        loop {
            let mut frames = self.line.frames();
            if !frames.has_output() {
                return Poll::Ready(Ok(()));
            }
            let mut slices = [IoSlice::new(&[]); MOST_SLICES];
            let parts = slices.iter_mut().zip(frames.output());
            let parts = parts
                .map(|(slice, part)| *slice = IoSlice::new(part))
                .count();
            let io = Pin::new(&mut self.io);
            let count = ready!(io.poll_write_vectored(cx, &slices[..parts]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            frames.wrote(count);
            self.is_unflushed = true;
        }
    }

    /// Writes what the requests said, and has those go on that waited for room. Ready with
    /// `true` when it has been written, with `false` when others may have something to do.
    fn poll_write(&mut self) -> Poll<io::Result<bool>> {
        // An answer that ends the connection says so in the same write: else the client may well
        // ask once more in between.
        if self.session.state() != State::Open {
            self.close();
        }
        let mut have_gone_on = self.requests.go_on();
        loop {
            let out = self.poll_out()?;
            if self.is_held_up && !self.line.frames().is_congested() {
                self.is_held_up = false;
                self.wire_bell.0.wake_by_ref();
                have_gone_on = true;
            }
            let more = self.requests.go_on();
            have_gone_on |= more;
            if more && out.is_ready() {
                continue;
            }
            if have_gone_on {
                return Poll::Ready(Ok(false));
            }
            ready!(out);
            break;
        }
        if self.is_unflushed {
            let cx = &mut Context::from_waker(&self.wire_bell.1);
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(true))
    }

    /// No request runs any more; what is to be written goes out, then the connection ends.
    fn end(&mut self, why: Option<Broken>) {
        self.requests.end();
        self.stage = Stage::Closing(why);
    }

    fn poll_close(&mut self) -> Poll<Result<(), Broken>> {
        let mut closed = self.poll_out();
        if let Poll::Ready(Ok(())) = closed {
            let cx = &mut Context::from_waker(&self.wire_bell.1);
            closed = Pin::new(&mut self.io).poll_shutdown(cx);
        }
        let failed = ready!(closed);
        match &mut self.stage {
            Stage::Closing(why) => match why.take() {
                Some(why) => Poll::Ready(Err(why)),
                None => Poll::Ready(failed.map_err(Broken::from)),
            },
            _ => Poll::Ready(Ok(())),
        }
    }

    /// What comes of what was rung.
    fn answer(&mut self) {
        for at in 0..self.rung.len() {
            match self.rung[at] {
                WIRE => match self.poll_read() {
                    Poll::Pending => {}
                    Poll::Ready(Ok(())) => self.end(None),
                    Poll::Ready(Err(broken)) => self.end(Some(broken)),
                },
                CLOCK => {
                    if self.poll_clock().is_ready() {
                        // It is told, should it hear after all; it is not waited for.
                        self.line.frames().go_away(Code::NO_ERROR);
                        self.end(Some(Broken::Silent));
                    }
                }
                number => self.requests.poll(number),
            }
        }
        self.requests.poll_begun();
    }

    /// One turn: what is rung, until nothing is, and what is to be written then.
    fn turn(&mut self, task: &Waker) -> Poll<Result<(), Broken>> {
        for _ in 0..TURNS {
            if self.bells.hear(&mut self.rung, task) {
                self.answer();
                continue;
            }
            if matches!(self.stage, Stage::Closing(_)) {
                return self.poll_close_or_give_up();
            }
            match self.poll_write() {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(false)) => {}
                Poll::Ready(Ok(true)) if self.line.frames().is_over() => self.end(None),
                Poll::Ready(Ok(true)) => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            }
        }
        // Others run; what has been said until now leaves.
        let written = self.poll_write();
        task.wake_by_ref();
        match written {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            _ => Poll::Pending,
        }
    }

    /// A client that is gone is not waited for.
    fn poll_close_or_give_up(&mut self) -> Poll<Result<(), Broken>> {
        let closed = self.poll_close();
        match (&self.stage, closed) {
            (Stage::Closing(Some(Broken::Silent)), Poll::Pending) => {
                Poll::Ready(Err(Broken::Silent))
            }
            (_, closed) => closed,
        }
    }
}

impl<T, S, F> Future for Http2<T, S, F>
where
    T: AsyncBufRead + AsyncWrite + Unpin,
    S: FnMut(Request<Incoming>) -> F + Unpin,
    F: Future<Output = Response<ResponseBody>>,
{
    type Output = Result<(), Broken>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.line.in_turn(true);
        this.left = READ_BYTES;
        BUFFER.with_borrow_mut(|buffer| this.line.frames().lend(buffer));
        let polled = this.turn(cx.waker());
        let buffer = this.line.frames().reclaim();
        if let Some(buffer) = buffer.filter(|buffer| buffer.capacity() <= KEPT_BYTES) {
            BUFFER.set(buffer);
        }
        this.requests.trim();
        if this.left == 0 {
            // There may be more.
            this.wire_bell.0.wake_by_ref();
        }
        this.line.in_turn(false);
        polled
    }
}

#[cfg(test)]
mod tests;
