//! One request of an HTTP/2 connection, from its head to its answer's last byte.
//!
//! Dropped before its end, it resets the stream (RFC 9113 section 6.4), and drops the answer,
//! which closes the upstream's connection. Not here: what is answered ([`crate::api`]).

use super::line::Line;
use crate::message::Response;
use crate::relay::ResponseBody;
use bytes::Bytes;
use edge_http2::{Code, Stream};
use http::header::{CONTENT_LENGTH, DATE, HeaderName, HeaderValue};
use http_body::Body as _;
use pin_project_lite::pin_project;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, UNIX_EPOCH};

pin_project! {
    /// A request that runs.
    pub(super) struct Exchange<F> {
        #[pin]
        step: Step<F>,
        reply: Reply,
    }
}

pin_project! {
    #[project = Doing]
    enum Step<F> {
        /// Its answer is worked for.
        Asked {
            #[pin]
            answer: F,
        },
        /// Its answer's body is sent.
        Answered { answer: Answering },
    }
}

/// A body on its way down.
struct Answering {
    body: ResponseBody,
    /// A piece that waits for the client's window, and whether it is the last.
    piece: Bytes,
    is_last: bool,
}

/// Where the answer goes. Dropped before its end, it resets the stream.
struct Reply {
    line: Rc<Line>,
    stream: Stream,
    is_over: bool,
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_over {
            self.line.reset(self.stream, Code::CANCEL);
        }
    }
}

impl<F> Exchange<F> {
    /// Of the request on `stream`, to be answered by `answer`.
    pub(super) fn new(answer: F, line: &Rc<Line>, stream: Stream) -> Self {
        Self {
            step: Step::Asked { answer },
            reply: Reply {
                line: Rc::clone(line),
                stream,
                is_over: false,
            },
        }
    }
}

impl<F: Future<Output = Response<ResponseBody>>> Future for Exchange<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            let answering = match this.step.as_mut().project() {
                Doing::Answered { answer } => return answer.poll(this.reply, cx),
                Doing::Asked { answer } => match this.reply.begin(ready!(answer.poll(cx))) {
                    Some(answering) => answering,
                    None => return Poll::Ready(()),
                },
            };
            this.step.set(Step::Answered { answer: answering });
        }
    }
}

impl Reply {
    /// Sends the head. None: that was all.
    fn begin(&mut self, response: Response<ResponseBody>) -> Option<Answering> {
        let Response {
            status,
            mut fields,
            body,
        } = response;
        let is_end = body.is_end_stream();
        if !fields.has(DATE) {
            fields.append(DATE, date());
        }
        let length = match is_end || fields.has(CONTENT_LENGTH) {
            true => None,
            false => body.size_hint().exact(),
        };
        let fields = (fields.iter()).map(|(name, value)| (name, value, is_kept(name)));
        let mut frames = self.line.frames();
        frames.respond(self.stream, status, fields, length, is_end);
        self.is_over = is_end;
        (!is_end).then(|| Answering {
            body,
            piece: Bytes::new(),
            is_last: false,
        })
    }

    /// `true`: all of it has been sent.
    fn send(&mut self, piece: &mut Bytes, is_last: bool) -> bool {
        let sent = self.line.frames().send(self.stream, piece, is_last);
        self.is_over |= sent && is_last;
        sent
    }
}

/// What differs from answer to answer would push what does not out of the table of headers by
/// which both sides save them (HPACK, RFC 7541 section 2.3.2).
fn is_kept(name: &HeaderName) -> bool {
    match name.as_str() {
        "date" | "request-id" | "server-timing" | "x-anthropic-layer" => false,
        "x-edge-upstream-request-id" | "x-request-id" => false,
        "content-length" | "age" | "etag" | "location" | "set-cookie" => false,
        name => !name.starts_with("anthropic-ratelimit-"),
    }
}

impl Answering {
    /// Ready when nothing more is to be sent. While the client has no room for more nothing is
    /// woken: whoever runs the connection knows, and polls this when there is room.
    fn poll(&mut self, reply: &mut Reply, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if !self.piece.is_empty() {
                if !reply.send(&mut self.piece, self.is_last) {
                    return Poll::Pending;
                }
                if self.is_last {
                    return Poll::Ready(());
                }
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => {
                    reply.send(&mut Bytes::new(), true);
                    return Poll::Ready(());
                }
                Some(Err(cut)) => {
                    tracing::debug!(?cut, "an answer is broken off");
                    reply.is_over = true;
                    reply.line.reset(reply.stream, Code::INTERNAL_ERROR);
                    return Poll::Ready(());
                }
                Some(Ok(frame)) => self.piece = frame.into_data().unwrap_or_default(),
            }
            self.is_last = self.body.is_end_stream();
            if self.piece.is_empty() && self.is_last {
                reply.send(&mut Bytes::new(), true);
                return Poll::Ready(());
            }
        }
    }
}

/// Now, as a `date` header has it (RFC 9110 section 6.6.1); written anew each second.
fn date() -> HeaderValue {
    thread_local! {
        static WRITTEN: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
    }
    // As of the kernel's last tick: it is told in whole seconds.
    let now = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    let now_s = u64::try_from(now).unwrap_or_default();
    WRITTEN.with_borrow_mut(|written| match written {
        Some((at_s, date)) if *at_s == now_s => date.clone(),
        _ => {
            let date = HeaderValue::try_from(httpdate::fmt_http_date(
                UNIX_EPOCH + Duration::from_secs(now_s),
            ));
            let date = date.unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
            *written = Some((now_s, date.clone()));
            date
        }
    })
}
