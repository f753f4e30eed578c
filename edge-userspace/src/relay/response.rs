//! The upstream's body on its way down, and how it ends when it cannot go on.

use super::events::Boundary;
use super::request::RequestBody;
use crate::api::error::ApiError;
use crate::prompt::AnswerReading;
use crate::session::{End, Stream};
use crate::telemetry::{Metrics, StreamEnd};
use crate::upstream::Answer;
use crate::usage::{Observed, Settlement};
use bytes::Bytes;
use http::HeaderValue;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// How long an event that is being relayed may take to its end when the stream has to end.
const LAST_EVENT: Duration = Duration::from_millis(400);
/// Bytes are counted in the metrics at least this often.
const COUNT_EVERY_BYTES: u64 = 1 << 20;

/// The body of any response.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every response is relayed; a box would be one allocation more for each"
)]
pub enum ResponseBody {
    /// Made by the edge.
    Whole(Option<Bytes>),
    /// The upstream's.
    Relayed(Relayed),
}

/// The body was cut off: the client sees a reset stream or a closed connection, never a
/// response that looks whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    /// The upstream's connection broke.
    #[error("the upstream broke off")]
    UpstreamBroke,
    /// The upstream said nothing for too long.
    #[error("the upstream fell silent")]
    UpstreamSilent,
    /// The connection's key has ended.
    #[error("the key has ended")]
    KeyEnded,
    /// The daemon stops.
    #[error("the edge stops")]
    Draining,
}

/// An upstream's body that is being relayed.
pub struct Relayed {
    /// `None` once the upstream has nothing more to say here.
    answer: Option<Answer<RequestBody>>,
    /// Where it stands, when it is an event stream.
    events: Option<Boundary>,
    /// Said after the upstream's last byte.
    last_words: Option<Bytes>,
    /// Set while an event is still to come to its end.
    cut: Option<(Cut, Pin<Box<Sleep>>)>,
    silence: Silence,
    /// Reads along, until it knows all that it wants to.
    reading: Option<Box<AnswerReading>>,
    stream: Stream,
    settlement: Settlement,
    observed: Observed,
    request_id: HeaderValue,
    account: Account,
}

impl Relayed {
    /// Relays `answer`; `is_event_stream` by its content type. `settlement` is told
    /// what it used; `request_id` goes into an error event; `reading` reads along, where something is to be learnt.
    #[expect(
        clippy::too_many_arguments,
        reason = "all of it is one response's, and put together nowhere else"
    )]
    #[must_use]
    pub fn new(
        answer: Answer<RequestBody>,
        is_event_stream: bool,
        idle_timeout: Duration,
        reading: Option<AnswerReading>,
        stream: Stream,
        settlement: Settlement,
        request_id: HeaderValue,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.open_streams.inc();
        let mut relayed = Self {
            answer: Some(answer),
            events: is_event_stream.then(Boundary::default),
            last_words: None,
            cut: None,
            silence: Silence::new(idle_timeout),
            reading: reading.map(Box::new),
            stream,
            settlement,
            observed: Observed::default(),
            request_id,
            account: Account {
                metrics,
                bytes: 0,
                end: None,
            },
        };
        if relayed.is_end_stream() {
            relayed.complete();
        }
        relayed
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        if let Some(words) = self.last_words.take() {
            return Poll::Ready(Some(Ok(words)));
        }
        if self.answer.is_none() {
            return Poll::Ready(None);
        }
        if self.cut.is_none()
            && let Poll::Ready(end) = self.stream.poll_end(cx)
        {
            let cut = match end {
                End::Key => Cut::KeyEnded,
                End::Draining => Cut::Draining,
            };
            if self.is_mid_event() {
                self.cut = Some((cut, Box::pin(sleep(LAST_EVENT))));
            } else {
                return Poll::Ready(self.cut_here(cut));
            }
        }
        match self.poll_answer(cx) {
            Poll::Ready(Some(Ok(data))) => Poll::Ready(Some(Ok(self.pass(data)))),
            Poll::Ready(Some(Err(error))) => {
                tracing::debug!(%error, "the upstream broke off within a response");
                Poll::Ready(self.cut_here(Cut::UpstreamBroke))
            }
            Poll::Ready(None) => {
                self.complete();
                Poll::Ready(None)
            }
            Poll::Pending => {
                if let Some((cut, last_event)) = &mut self.cut {
                    ready!(last_event.as_mut().poll(cx));
                    let cut = *cut;
                    return Poll::Ready(self.cut_here(cut));
                }
                ready!(self.silence.poll(cx));
                Poll::Ready(self.cut_here(Cut::UpstreamSilent))
            }
        }
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        let Some(answer) = &mut self.answer else {
            return Poll::Ready(None);
        };
        loop {
            return match ready!(Pin::new(&mut *answer).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Poll::Ready(Some(Ok(data))),
                    Err(_trailers) => continue,
                },
                Some(Err(error)) => Poll::Ready(Some(Err(error))),
                None => Poll::Ready(None),
            };
        }
    }

    /// Notes a chunk; shortens it when the stream is to end within it.
    fn pass(&mut self, mut data: Bytes) -> Bytes {
        self.silence.broken();
        let reading = self.reading.as_mut();
        if reading.is_some_and(|reading| reading.pass(&data)) {
            self.reading = None;
        }
        if let Some(boundary) = &mut self.events {
            match &self.cut {
                None => boundary.pass(&data),
                Some((cut, _)) => {
                    if let Some(end) = boundary.pass_to_boundary(&data) {
                        let cut = *cut;
                        data.truncate(end);
                        self.say_last(cut);
                    }
                }
            }
        }
        self.account.count(data.len());
        if self.answer.as_ref().is_some_and(Body::is_end_stream) {
            self.complete();
        }
        data
    }

    /// The upstream said all that it had to say.
    fn complete(&mut self) {
        self.answer = None;
        self.account.end = Some(StreamEnd::Complete);
        if let Some(reading) = self.reading.take() {
            reading.end();
        }
    }

    /// Within an event there is no place for another.
    fn is_mid_event(&self) -> bool {
        self.events.is_some_and(|at| !at.is_between_events())
    }

    /// Ends the response now: with an error event where there is a place for one.
    fn cut_here(&mut self, cut: Cut) -> Option<Result<Bytes, Cut>> {
        if self.events.is_some() && !self.is_mid_event() {
            self.say_last(cut);
            return self.last_words.take().map(Ok);
        }
        self.finish(cut);
        Some(Err(cut))
    }

    fn say_last(&mut self, cut: Cut) {
        self.last_words = Some(error_of(cut).event(&self.request_id));
        self.finish(cut);
    }

    /// Drops the upstream's side, which closes its connection.
    fn finish(&mut self, cut: Cut) {
        self.answer = None;
        self.cut = None;
        self.account.end = Some(match cut {
            Cut::UpstreamBroke => StreamEnd::UpstreamBroke,
            Cut::UpstreamSilent => StreamEnd::UpstreamSilent,
            Cut::KeyEnded => StreamEnd::KeyEnded,
            Cut::Draining => StreamEnd::Draining,
        });
    }

    fn is_end_stream(&self) -> bool {
        let ended = (self.answer.as_ref()).is_none_or(|answer| answer.is_end_stream());
        ended && self.last_words.is_none()
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        let end = self.account.end.unwrap_or(StreamEnd::ClientLeft);
        let settlement = std::mem::replace(&mut self.settlement, Settlement::none());
        settlement.end(end, &self.observed);
    }
}

fn error_of(cut: Cut) -> ApiError {
    match cut {
        Cut::UpstreamBroke => ApiError::api("The upstream broke off the response"),
        Cut::UpstreamSilent => ApiError::timeout("The upstream fell silent within the response"),
        Cut::KeyEnded => ApiError::authentication("Invalid Key: the key has been revoked"),
        Cut::Draining => ApiError::overloaded("This node stops; send the request again"),
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Cut;

    #[inline]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Relayed(relayed) => {
                let data = ready!(relayed.poll_frame(cx));
                Poll::Ready(data.map(|data| data.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Relayed(relayed) => relayed.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // An event stream may get an event more than the upstream says.
            Self::Relayed(relayed) => match (&relayed.answer, &relayed.events) {
                (Some(answer), None) => answer.size_hint(),
                _ => SizeHint::default(),
            },
        }
    }
}

/// How long the upstream has been waited for. The timer is set once and looks again when it
/// fires, so a chunk costs one reading of the clock.
struct Silence {
    limit: Duration,
    /// Since when; `None` while the client is waited for.
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    fn new(limit: Duration) -> Self {
        Self {
            limit,
            since: None,
            timer: None,
        }
    }

    fn broken(&mut self) {
        self.since = None;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let (None, Some(timer)) = (self.since, &self.timer) {
            let now = Instant::now();
            self.since = Some(now);
            if now < timer.deadline() {
                // It is set, and has this task's waker.
                return Poll::Pending;
            }
        }
        let deadline = *self.since.get_or_insert_with(Instant::now) + self.limit;
        let timer = (self.timer).get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}

/// What is to be counted when the response is over.
struct Account {
    metrics: Arc<Metrics>,
    bytes: u64,
    /// `None`: it is dropped before its end because the client left.
    end: Option<StreamEnd>,
}

impl Account {
    fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if self.bytes >= COUNT_EVERY_BYTES {
            self.metrics.relayed_bytes.add((), self.bytes);
            self.bytes = 0;
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.metrics.relayed_bytes.add((), self.bytes);
        self.metrics.open_streams.dec();
        let end = self.end.unwrap_or(StreamEnd::ClientLeft);
        self.metrics.streams.one(end);
    }
}
