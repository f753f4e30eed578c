//! One request of an HTTP/2 connection, from its head to its answer's last byte.
//!
//! Dropped before its end, it resets the stream (RFC 9113 section 6.4), and drops the answer,
//! which closes the upstream's connection. Not here: what is answered ([`crate::api`]).

use crate::relay::ResponseBody;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::Response;
use http::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderValue};
use http_body::Body as _;
use pin_project_lite::pin_project;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, UNIX_EPOCH};

/// A client's first (RFC 9113 section 5.1.1).
const FIRST_STREAM: u32 = 1;

pin_project! {
    /// A request that runs.
    #[project = Part]
    pub(super) enum Exchange<F> {
        /// Its answer is worked for.
        Asked {
            #[pin]
            answer: F,
            respond: SendResponse<Bytes>,
        },
        /// Its answer's body is sent.
        Answered { answer: Answering },
    }
}

/// A body on its way down.
pub(super) struct Answering {
    body: ResponseBody,
    stream: SendStream<Bytes>,
    /// A piece that waits for the client's window, and whether it is the last.
    piece: Option<(Bytes, bool)>,
}

impl<F: Future<Output = Response<ResponseBody>>> Future for Exchange<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let answering = match self.as_mut().project() {
                Part::Answered { answer } => return answer.poll(cx),
                Part::Asked { answer, respond } => match answer.poll(cx) {
                    Poll::Ready(response) => match begin(respond, response) {
                        Some(answering) => answering,
                        None => return Poll::Ready(()),
                    },
                    // A client that takes its request back is not waited for.
                    Poll::Pending => return respond.poll_reset(cx).map(drop),
                },
            };
            self.set(Self::Answered { answer: answering });
        }
    }
}

/// Sends the head. None: that was all.
fn begin(respond: &mut SendResponse<Bytes>, response: Response<ResponseBody>) -> Option<Answering> {
    let (head, body) = response.into_parts();
    let mut head = Response::from_parts(head, ());
    let headers = head.headers_mut();
    if !headers.contains_key(DATE) {
        headers.insert(DATE, date());
    }
    if respond.stream_id().as_u32() > FIRST_STREAM {
        keep_out_of_the_table(headers);
    }
    let is_over = body.is_end_stream();
    if !is_over
        && let Some(bytes) = body.size_hint().exact()
        && !headers.contains_key(CONTENT_LENGTH)
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    match respond.send_response(head, is_over) {
        Ok(stream) if !is_over => Some(Answering {
            body,
            stream,
            piece: None,
        }),
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "an answer's head could not be sent");
            respond.send_reset(Reason::INTERNAL_ERROR);
            None
        }
    }
}

/// What differs from answer to answer would push what does not out of the table of headers by
/// which both sides save them (HPACK, RFC 7541 section 2.3.2). A sensitive value is not put
/// there; that is the word's only meaning here. The first answer's are, for their names' sake.
fn keep_out_of_the_table(headers: &mut HeaderMap) {
    for (name, value) in headers {
        let differs = match name.as_str() {
            "request-id" | "server-timing" | "x-anthropic-layer" => true,
            "x-edge-upstream-request-id" | "x-request-id" => true,
            name => name.starts_with("anthropic-ratelimit-"),
        };
        if differs {
            value.set_sensitive(true);
        }
    }
}

impl Answering {
    /// Ready when nothing more is to be sent, or the client wants no more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.piece.is_some() {
                while self.stream.capacity() == 0 {
                    match ready!(self.stream.poll_capacity(cx)) {
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => return Poll::Ready(()),
                    }
                }
            }
            if let Some((piece, is_last)) = self.piece.take()
                && (self.stream.send_data(piece, is_last).is_err() || is_last)
            {
                return Poll::Ready(());
            }
            let piece = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return self.stream.poll_reset(cx).map(drop),
                Poll::Ready(None) => {
                    let _ = self.stream.send_data(Bytes::new(), true);
                    return Poll::Ready(());
                }
                Poll::Ready(Some(Err(cut))) => {
                    tracing::debug!(?cut, "an answer is broken off");
                    self.stream.send_reset(Reason::INTERNAL_ERROR);
                    return Poll::Ready(());
                }
                Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            let is_last = self.body.is_end_stream();
            if !piece.is_empty() {
                // A byte's room will do to send all of it: what is asked for beforehand is
                // taken from the connection's other streams.
                self.stream.reserve_capacity(1);
                self.piece = Some((piece, is_last));
            } else if is_last {
                let _ = self.stream.send_data(piece, true);
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
