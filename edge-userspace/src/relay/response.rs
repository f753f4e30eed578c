//! The upstream's body on its way down, what is put into it, and how it ends when it cannot go
//! on.

use super::account::Account;
use super::cut::Cut;
use super::events::Boundary;
use super::extra::{Extras, Insert, Owed};
use super::mark::Mark;
use super::request::RequestBody;
use super::side::Side;
use super::silence::{Due, Silence};
use super::unreadable::Whose;
use crate::api::error::ApiError;
use crate::session::Stream;
use crate::telemetry::{Metrics, StreamEnd};
use crate::upstream::{Answer, Broken};
use crate::usage::{Go, Observed, Settlement};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// So long before a response is broken off what came before has to leave: HTTP throws away
/// what it has not written yet, be it the head.
const BEFORE_BREAK: Duration = Duration::from_millis(10);
/// How long an event that is being relayed may take to its end when the stream has to end.
const LAST_EVENT: Duration = Duration::from_millis(400);

/// The body of any response.
pub enum ResponseBody {
    /// Made by the edge.
    Whole(Option<Bytes>),
    /// The upstream's. In a box: on its way to the connection a response moves again and again.
    Relayed(Box<Relayed>),
}

/// What a response is relayed with.
pub struct Company {
    /// By its content type.
    pub is_event_stream: bool,
    /// How long the upstream may be silent within it.
    pub idle_timeout: Duration,
    /// Reads along, where something is to be learnt.
    pub side: Option<Box<Side>>,
    /// What of the edge's own goes into it.
    pub extras: Extras,
    /// Hears what is used.
    pub settlement: Settlement,
    /// Whose it is.
    pub whose: Whose,
}

/// An upstream's body that is being relayed.
pub struct Relayed {
    /// `None` once the upstream has nothing more to say here.
    answer: Option<Answer<RequestBody>>,
    /// Where it stands, when it is an event stream.
    events: Option<Boundary>,
    mark: Mark,
    /// What comes after the upstream's last byte.
    last: Last,
    /// Set while an event is still to come to its end.
    ending: Option<Box<Ending>>,
    silence: Silence,
    extras: Extras,
    owed: Owed,
    stream: Stream,
    account: Account,
}

/// After the upstream's last byte.
enum Last {
    Nothing,
    Words(Bytes),
    Break(Cut, Pin<Box<Sleep>>),
}

/// The stream is to end as soon as it stands between two events.
struct Ending {
    cut: Cut,
    error: ApiError,
    at_most: Pin<Box<Sleep>>,
}

impl Ending {
    fn new(cut: Cut, error: ApiError) -> Box<Self> {
        Box::new(Self {
            cut,
            error,
            at_most: Box::pin(sleep(LAST_EVENT)),
        })
    }
}

impl Relayed {
    /// Relays `answer`.
    #[must_use]
    pub fn new(
        answer: Answer<RequestBody>,
        company: Company,
        stream: Stream,
        metrics: Arc<Metrics>,
    ) -> Box<Self> {
        let Company {
            is_event_stream,
            idle_timeout,
            side,
            extras,
            settlement,
            whose,
        } = company;
        let side = side.map(|side| {
            if extras.usage || settlement.is_capped() {
                side.counting_each()
            } else {
                side
            }
        });
        let ping_every = extras.ping_after.filter(|_| is_event_stream);
        let mut relayed = Box::new(Self {
            answer: Some(answer),
            events: is_event_stream.then(Boundary::default),
            mark: Mark::default(),
            last: Last::Nothing,
            ending: None,
            silence: Silence::new(idle_timeout, ping_every),
            extras,
            owed: None,
            stream,
            account: Account::new(metrics, side, settlement, whose),
        });
        if relayed.is_end_stream() {
            relayed.complete();
        }
        relayed
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        if self.answer.is_none() {
            return self.poll_last(cx);
        }
        if self.ending.is_none()
            && let Poll::Ready(end) = self.stream.poll_end(cx)
        {
            let cut = Cut::from(end);
            self.ending = Some(Ending::new(cut, cut.error()));
        }
        if !self.is_mid_event()
            && let Some(ending) = self.ending.take()
        {
            self.cut_here(ending.cut, &ending.error);
            return self.poll_last(cx);
        }
        match self.poll_answer(cx) {
            Poll::Ready(Some(Ok(data))) => Poll::Ready(Some(Ok(self.pass(data)))),
            Poll::Ready(Some(Err(error))) => {
                tracing::debug!(%error, "the upstream broke off within a response");
                let cut = Cut::of(&error);
                self.cut_here(cut, &cut.error());
                self.poll_last(cx)
            }
            Poll::Ready(None) => {
                self.complete();
                self.poll_last(cx)
            }
            Poll::Pending => self.poll_waiting(cx),
        }
    }

    /// The upstream says nothing now.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        if let Some(mut ending) = self.ending.take() {
            if ending.at_most.as_mut().poll(cx).is_ready() {
                self.cut_here(ending.cut, &ending.error);
                return self.poll_last(cx);
            }
            self.ending = Some(ending);
            return Poll::Pending;
        }
        let may_ping = !self.is_mid_event();
        match ready!(self.silence.poll(cx, may_ping)) {
            Due::Ping => {
                let ping = self.extras.dialect.ping();
                self.mark.said();
                self.account.count(ping.len());
                Poll::Ready(Some(Ok(ping)))
            }
            Due::End => {
                let cut = Cut::UpstreamSilent;
                self.cut_here(cut, &cut.error());
                self.poll_last(cx)
            }
        }
    }

    /// What comes after the upstream's last byte.
    fn poll_last(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        if let Last::Break(_, moment) = &mut self.last {
            ready!(moment.as_mut().poll(cx));
        }
        Poll::Ready(match std::mem::replace(&mut self.last, Last::Nothing) {
            Last::Nothing => None,
            Last::Words(words) => Some(Ok(words)),
            Last::Break(cut, _) => Some(Err(cut)),
        })
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
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
    fn pass(&mut self, data: Bytes) -> Bytes {
        self.silence.broken();
        let data = match &mut self.events {
            None => {
                if let Some(side) = &mut self.account.side {
                    let mut at = 0;
                    while at < data.len() {
                        at += side.read(&data[at..]).0;
                    }
                }
                data
            }
            Some(boundary) => {
                let mut data = self.mark.pass(data);
                let mut end = data.len();
                let mut ends_here = None;
                if self.ending.is_some() {
                    if let Some(at) = boundary.pass_to_boundary(&data) {
                        end = at;
                        ends_here = self.ending.take();
                    }
                } else {
                    boundary.pass(&data);
                }
                let had_failed = self.account.has_failed();
                data.truncate(end);
                let (data, capped) = self.read_along(data);
                if !had_failed
                    && self.account.failed_at_once()
                    && let Some(answer) = &mut self.answer
                {
                    answer.failed();
                }
                if let Some(error) = capped {
                    self.say_last(Cut::Capped, &error);
                } else if let Some(ending) = ends_here {
                    self.say_last(ending.cut, &ending.error);
                }
                data
            }
        };
        self.account.count(data.len());
        if self.answer.as_ref().is_some_and(Body::is_end_stream) {
            self.complete();
        }
        data
    }

    /// Has the events of a chunk read; what of them goes on, with what is put between them,
    /// and why no more does.
    fn read_along(&mut self, data: Bytes) -> (Bytes, Option<ApiError>) {
        let Account {
            side: Some(side),
            settlement,
            ..
        } = &mut self.account
        else {
            return (data, None);
        };
        let progress = |seen: &Observed| match settlement {
            Some(settlement) => settlement.progress(seen),
            None => Go::On,
        };
        along(side, data, self.extras.usage, &mut self.owed, progress)
    }

    /// The upstream said all that it had to say, or so it says.
    fn complete(&mut self) {
        if self.answer.take().is_none() {
            return;
        }
        let side = self.account.side.as_mut();
        let (lacks_last, is_error) = side.map_or((false, false), |side| {
            side.end();
            (side.lacks_last_event(), side.observed().is_error)
        });
        if lacks_last {
            let cut = Cut::UpstreamTruncated;
            if self.is_mid_event() {
                self.break_off(cut);
            } else {
                self.say_last(cut, &cut.error());
            }
            return;
        }
        self.account.end(if is_error && self.events.is_some() {
            StreamEnd::UpstreamError
        } else {
            StreamEnd::Complete
        });
        if let Some(owed) = self.owed.take() {
            self.last = Last::Words(owed.freeze());
        }
    }

    /// Within an event there is no place for another.
    fn is_mid_event(&self) -> bool {
        self.events.is_some_and(|at| !at.is_between_events())
    }

    /// Ends the response now: with an error event where there is a place for one.
    fn cut_here(&mut self, cut: Cut, error: &ApiError) {
        if self.events.is_some() && !self.is_mid_event() {
            self.say_last(cut, error);
        } else {
            self.break_off(cut);
        }
    }

    fn break_off(&mut self, cut: Cut) {
        self.finish(cut);
        self.last = Last::Break(cut, Box::pin(sleep(BEFORE_BREAK)));
    }

    fn say_last(&mut self, cut: Cut, error: &ApiError) {
        self.finish(cut);
        self.last = Last::Words(error.event(&self.account.whose.request_id.value()));
    }

    /// Drops the upstream's side, which closes its connection.
    fn finish(&mut self, cut: Cut) {
        self.answer = None;
        self.ending = None;
        self.account.end(cut.into());
    }

    fn is_end_stream(&self) -> bool {
        let ended = (self.answer.as_ref()).is_none_or(Body::is_end_stream);
        ended && matches!(self.last, Last::Nothing)
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        if self.stream.is_unread() {
            self.account.end(StreamEnd::ClientStalled);
        }
    }
}

/// Reads the events of a chunk; see [`Relayed::read_along`]. `progress` is told each change.
fn along(
    side: &mut Side,
    data: Bytes,
    tells_usage: bool,
    owed: &mut Owed,
    mut progress: impl FnMut(&Observed) -> Go,
) -> (Bytes, Option<ApiError>) {
    let mut insert = Insert::new(data, owed);
    let mut at = 0;
    while at < insert.piece().len() {
        let (read, ended) = side.read(&insert.piece()[at..]);
        at += read;
        let Some(ended) = ended else { continue };
        let seen = side.observed();
        // What is finished is not cut any more.
        let go = if ended.has_changed && !seen.is_finished {
            progress(seen)
        } else {
            Go::On
        };
        if tells_usage && let Some(index) = ended.delta_of {
            let tokens = seen.relayed_output.max(seen.output.unwrap_or(0));
            insert.usage(at, index, tokens, seen.relayed_exact, owed);
        }
        if let Go::Cut(error) = go {
            return (insert.finish(at), Some(error));
        }
    }
    (insert.finish(at), None)
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
                let polled = relayed.poll_frame(cx);
                relayed.stream.gave(polled.is_ready());
                polled.map(|data| data.map(|data| data.map(Frame::data)))
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

#[cfg(test)]
mod tests;
