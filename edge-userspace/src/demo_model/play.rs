//! An answer on its way: piece by piece, at its pace, with its faults.

use super::Fault;
use super::ledger::Outcome;
use super::script::Script;
use super::socket::Ending;
use super::stats;
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

const BEFORE_BREAKING: Duration = Duration::from_millis(20);

/// An answer's body.
pub(super) struct Play {
    kind: Kind,
    request: stats::Request,
}

enum Kind {
    /// All at once; `None` when it has been given.
    Whole(Option<Bytes>, Outcome),
    /// Half of so many bytes, then the connection closes, or is reset.
    Half(Option<Bytes>, u64, Break, Option<Ending>),
    Events(Box<Events>),
}

struct Events {
    script: Script,
    next: u64,
    next_at: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    end: Break,
    ending: Ending,
    /// Made and not yet given, when chunks are cut.
    left: BytesMut,
}

impl Play {
    /// That, which makes the request's end such a one.
    pub(super) fn whole(body: impl Into<Bytes>, outcome: Outcome, request: stats::Request) -> Self {
        Self {
            kind: Kind::Whole(Some(body.into()), outcome),
            request,
        }
    }

    /// Says its full length and breaks off after half.
    pub(super) fn half(
        body: impl Into<Bytes>,
        resets: Option<Ending>,
        request: stats::Request,
    ) -> Self {
        let body = body.into();
        let length = body.len() as u64;
        let half = Some(body.slice(..body.len() / 2));
        Self {
            kind: Kind::Half(half, length, Break::default(), resets),
            request,
        }
    }

    pub(super) fn events(script: Script, ending: Ending, request: stats::Request) -> Self {
        let events = Events {
            script,
            next: 0,
            next_at: Instant::now(),
            timer: None,
            end: Break::default(),
            ending,
            left: BytesMut::new(),
        };
        Self {
            kind: Kind::Events(Box::new(events)),
            request,
        }
    }
}

impl Events {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Some(chunk_bytes) = self.script.chunk_bytes else {
            let event = ready!(self.poll_event(cx));
            return Poll::Ready(event.map(|event| event.map(Bytes::from)));
        };
        while self.left.len() < chunk_bytes {
            match self.poll_event(cx) {
                Poll::Ready(Some(Ok(event))) => self.left.extend_from_slice(event.as_bytes()),
                Poll::Pending if self.left.is_empty() => return Poll::Pending,
                Poll::Ready(Some(Err(error))) if self.left.is_empty() => {
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) if self.left.is_empty() => return Poll::Ready(None),
                // First what there is.
                _ => break,
            }
        }
        let count = self.left.len().min(chunk_bytes);
        Poll::Ready(Some(Ok(self.left.split_to(count).freeze())))
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<String>>> {
        let (n, script) = (self.next, &self.script);
        let fault = script.fault.filter(|_| n >= script.fault_at());
        let past = n - script.fault_at().min(n);
        match fault {
            Some(Fault::TruncatedChunk) if past > 0 => return Poll::Pending,
            Some(fault) if past >= u64::from(fault.is_mid_event()) => {
                if fault.hangs() {
                    return Poll::Pending;
                }
                if fault.closes() && fault != Fault::TruncatedChunk {
                    let error = ready!(self.end.poll(cx));
                    if fault.resets() {
                        self.ending.resets();
                    }
                    return Poll::Ready(Some(Err(error)));
                }
                if fault == Fault::ErrorEventMidStream && past > 0 {
                    return Poll::Ready(None);
                }
            }
            _ => {}
        }
        if n >= script.len() {
            return Poll::Ready(None);
        }
        if !script.inter_token.is_zero() && n > 0 {
            let at = self.next_at;
            let timer = (self.timer).get_or_insert_with(|| Box::pin(sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            ready!(timer.as_mut().poll(cx));
        }
        let mut event = script.event(n);
        if past == 0 && fault.is_some_and(|fault| fault.is_mid_event() || fault.is_cut()) {
            event.truncate(event.find("data: ").unwrap_or(0) + 12);
        }
        if fault.is_some_and(Fault::is_cut) {
            self.ending.cuts();
        }
        self.next_at = Instant::now() + script.inter_token;
        self.next += 1;
        Poll::Ready(Some(Ok(event)))
    }
}

impl Events {
    /// Events that were handed over whole.
    fn whole(&self) -> u64 {
        let Script { fault, .. } = &self.script;
        let cuts = |fault: Fault| fault.is_mid_event() || fault.is_cut();
        let is_cut = fault.is_some_and(cuts) && self.next > self.script.fault_at();
        self.next - u64::from(is_cut)
    }

    /// What its end makes of the request, if this is its end.
    fn outcome(&self) -> Outcome {
        match self.script.fault {
            Some(Fault::ErrorEvent) => Outcome::Failed,
            Some(Fault::ErrorEventMidStream) if self.script.fault_at() == 0 => Outcome::Failed,
            Some(Fault::ErrorEventMidStream) => Outcome::Broken,
            Some(fault) if fault.closes() => Outcome::Broken,
            _ => Outcome::Finished,
        }
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        if let Kind::Events(events) = &self.kind
            && self.request.has_account()
            && events.outcome() != Outcome::Failed
            && let whole @ 1.. = events.whole()
        {
            self.request.made(events.script.output_tokens(whole));
        }
    }
}

/// Breaks an answer off when what came before has had time to leave: the connection throws
/// away what it has not written yet.
#[derive(Default)]
struct Break(Option<Pin<Box<Sleep>>>);

impl Break {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let timer = (self.0).get_or_insert_with(|| Box::pin(sleep(BEFORE_BREAKING)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(io::Error::other("closed on request"))
    }
}

impl Body for Play {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let (chunk, end) = match &mut this.kind {
            Kind::Whole(body, outcome) => (body.take().map(Ok), Some(*outcome)),
            Kind::Half(half, _, end, resets) => match half.take() {
                Some(half) => (Some(Ok(half)), None),
                None => {
                    let error = ready!(end.poll(cx));
                    if let Some(ending) = resets {
                        ending.resets();
                    }
                    (Some(Err(error)), Some(Outcome::Broken))
                }
            },
            Kind::Events(events) => {
                let chunk = ready!(events.poll_chunk(cx));
                let is_cut = events.script.fault == Some(Fault::TruncatedChunk)
                    && events.next > events.script.fault_at();
                let is_over = is_cut || !matches!(chunk, Some(Ok(_)));
                (chunk, is_over.then(|| events.outcome()))
            }
        };
        if let Some(Ok(chunk)) = &chunk {
            this.request.gave(chunk.len());
        }
        if let Some(end) = end {
            this.request.finish(end);
        }
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Whole(None, _))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(body, _) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            Kind::Half(_, length, ..) => SizeHint::with_exact(*length),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests;
