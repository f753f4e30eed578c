//! An answer on its way: piece by piece, at its pace, with its faults.

use super::Fault;
use super::script::Script;
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
    Whole(Option<Bytes>),
    /// Half of so many bytes, then the connection closes.
    Half(Option<Bytes>, u64, Break),
    Events(Events),
}

struct Events {
    script: Script,
    next: u64,
    next_at: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    end: Break,
    /// Made and not yet given, when chunks are cut.
    left: BytesMut,
}

impl Play {
    pub(super) fn whole(body: impl Into<Bytes>, request: stats::Request) -> Self {
        Self {
            kind: Kind::Whole(Some(body.into())),
            request,
        }
    }

    /// Says its full length and breaks off after half.
    pub(super) fn half(body: impl Into<Bytes>, request: stats::Request) -> Self {
        let body = body.into();
        let length = body.len() as u64;
        Self {
            kind: Kind::Half(Some(body.slice(..body.len() / 2)), length, Break::default()),
            request,
        }
    }

    pub(super) fn events(script: Script, request: stats::Request) -> Self {
        let events = Events {
            script,
            next: 0,
            next_at: Instant::now(),
            timer: None,
            end: Break::default(),
            left: BytesMut::new(),
        };
        Self {
            kind: Kind::Events(events),
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
        if n >= script.len() {
            return Poll::Ready(None);
        }
        let strikes = |at: u64| n == script.middle() + at;
        match script.fault {
            Some(Fault::CloseBetweenEvents) if strikes(0) => {
                return self.end.poll(cx).map(|error| Some(Err(error)));
            }
            Some(Fault::CloseMidEvent) if strikes(1) => {
                return self.end.poll(cx).map(|error| Some(Err(error)));
            }
            Some(Fault::HangBetweenEvents) if strikes(0) => return Poll::Pending,
            Some(Fault::HangMidEvent) if strikes(1) => return Poll::Pending,
            _ => {}
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
        let mid_event = matches!(
            script.fault,
            Some(Fault::CloseMidEvent | Fault::HangMidEvent)
        );
        if mid_event && strikes(0) {
            event.truncate(event.find("data: ").unwrap_or(0) + 12);
        }
        self.next_at = Instant::now() + script.inter_token;
        self.next += 1;
        Poll::Ready(Some(Ok(event)))
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
        let (chunk, last) = match &mut this.kind {
            Kind::Whole(body) => (body.take().map(Ok), true),
            Kind::Half(half, _, end) => match half.take() {
                Some(half) => (Some(Ok(half)), false),
                None => (Some(Err(ready!(end.poll(cx)))), true),
            },
            Kind::Events(events) => {
                let chunk = ready!(events.poll_chunk(cx));
                let over = !matches!(chunk, Some(Ok(_)));
                (chunk, over)
            }
        };
        if let Some(Ok(chunk)) = &chunk {
            this.request.gave(chunk.len());
        }
        if last {
            this.request.finish();
        }
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            Kind::Half(_, length, _) => SizeHint::with_exact(*length),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo_model::script::Shape;
    use http_body_util::BodyExt as _;

    fn script(tokens: u64) -> Script {
        Script {
            shape: Shape::Messages,
            model: "claude-demo".to_owned(),
            input_tokens: 7,
            cached: None,
            tokens,
            beginning: None,
            stop_reason: "end_turn",
            inter_token: Duration::ZERO,
            chunk_bytes: None,
            fault: None,
        }
    }

    async fn played(script: Script) -> Result<Vec<u8>, Vec<u8>> {
        let mut play = Play::events(script, stats::Stats::default().begin());
        let mut bytes = Vec::new();
        while let Some(frame) = play.frame().await {
            match frame {
                Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap()),
                Err(_) => return Err(bytes),
            }
        }
        Ok(bytes)
    }

    #[tokio::test]
    async fn the_events_are_the_apis_in_its_order() {
        let stream = String::from_utf8(played(script(3)).await.unwrap()).unwrap();
        let names: Vec<_> = (stream.lines())
            .filter_map(|line| line.strip_prefix("event: "))
            .collect();
        assert_eq!(
            names,
            [
                "message_start",
                "content_block_start",
                "ping",
                "content_block_delta",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop"
            ]
        );
        let data = (stream.lines()).filter_map(|line| line.strip_prefix("data: "));
        let data: Vec<serde_json::Value> = data
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        for (name, data) in names.iter().zip(&data) {
            assert_eq!(data["type"], **name);
        }
        let told: String = (data.iter())
            .filter_map(|data| data["delta"]["text"].as_str())
            .collect();
        assert_eq!(told, script(3).text());
        assert_eq!(data[7]["usage"]["output_tokens"], 3);
    }

    #[tokio::test]
    async fn chunks_change_nothing_but_where_it_is_cut() {
        let whole = played(script(40)).await.unwrap();
        for chunk_bytes in [1, 7, 1000, 1 << 20] {
            let cut = Script {
                chunk_bytes: Some(chunk_bytes),
                ..script(40)
            };
            assert_eq!(played(cut).await.unwrap(), whole, "{chunk_bytes}");
        }
    }

    #[tokio::test]
    async fn faults_strike_in_the_middle() {
        let whole = played(script(40)).await.unwrap();
        for (fault, between_events) in [
            (Fault::CloseBetweenEvents, true),
            (Fault::CloseMidEvent, false),
        ] {
            let script = Script {
                fault: Some(fault),
                ..script(40)
            };
            let begun = played(script).await.unwrap_err();
            assert!(begun.len() > 1000 && whole.starts_with(&begun));
            assert_eq!(begun.ends_with(b"\n\n"), between_events, "{fault:?}");
        }
    }
}
