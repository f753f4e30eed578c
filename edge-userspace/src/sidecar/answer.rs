//! An answer on its way to the program: the edge's bytes as they come, or the sidecar's own words.
//!
//! An event stream that breaks off between two events ends with an `error` event, which SDKs turn into
//! an error of their own; any other answer that breaks off breaks off here too. None ends so that
//! it looks whole.

use crate::api::error::ApiError;
use crate::relay::Boundary;
use crate::upstream::Hop;
use bytes::Bytes;
use edge_client::ResponseBody;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of an answer.
pub enum Answer {
    /// The edge's, as it comes.
    Edge(ResponseBody),
    /// The edge's, events.
    Events(Box<Events>),
    /// The sidecar's own.
    Own(Option<Bytes>),
}

/// An edge's event stream.
pub struct Events {
    /// None once it has ended.
    body: Option<ResponseBody>,
    at: Boundary,
    request_id: HeaderValue,
}

/// The edge's answer, for the program.
pub(super) fn passed(response: Response<ResponseBody>) -> Response<Answer> {
    let (mut head, body) = response.into_parts();
    strip(&mut head.headers);
    let body = match is_event_stream(&head.headers) {
        false => Answer::Edge(body),
        true => Answer::Events(Box::new(Events {
            body: Some(body),
            at: Boundary::default(),
            request_id: (head.headers.get("request-id").cloned())
                .unwrap_or_else(|| HeaderValue::from_static("")),
        })),
    };
    Response::from_parts(head, body)
}

/// Takes out what belongs to one connection.
pub(super) fn strip(headers: &mut HeaderMap) {
    let hop = Hop::of(headers.get_all(header::CONNECTION));
    let gone: Vec<_> = headers
        .keys()
        .filter(|name| hop.has(name))
        .cloned()
        .collect();
    for name in gone {
        headers.remove(name);
    }
}

/// An error as an answer to a request of that method.
pub(super) fn told(
    error: &ApiError,
    request_id: &HeaderValue,
    method: &Method,
) -> Response<Answer> {
    let response = error.response(request_id).map(Some).map(Answer::Own);
    let mut response = response.into_http();
    let headers = response.headers_mut();
    headers.insert("request-id", request_id.clone());
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    if *method == Method::HEAD {
        // HTTP/2 would send it on.
        *response.body_mut() = Answer::Own(None);
    }
    response
}

/// A small document of the sidecar's own.
pub(super) fn document(json: String) -> Response<Answer> {
    let mut response = Response::new(Answer::Own(Some(Bytes::from(json))));
    let headers = response.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    response
}

const NO_STORE: HeaderValue = HeaderValue::from_static("private, no-store");

/// To one with a length, or that is encoded, nothing can be added.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.as_bytes().split(|byte| *byte == b';').next());
    kind.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
        && !headers.contains_key(header::CONTENT_LENGTH)
        && !headers.contains_key(header::CONTENT_ENCODING)
}

impl Events {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.at.pass(data);
                }
            }
            Some(Err(error)) if self.at.is_between_events() => {
                self.body = None;
                tracing::warn!(%error, "an edge broke off within a stream");
                let words = ApiError::api("edge connect: the edge broke off the response");
                let event = Frame::data(words.event(&self.request_id));
                return Poll::Ready(Some(Ok(event)));
            }
            Some(Err(_)) | None => {}
        }
        Poll::Ready(frame)
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Edge(body) => Pin::new(body).poll_frame(cx),
            Self::Events(events) => events.poll_frame(cx),
            Self::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Edge(body) => body.is_end_stream(),
            Self::Events(events) => events.body.as_ref().is_none_or(Body::is_end_stream),
            Self::Own(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Edge(body) => body.size_hint(),
            // It may get an event more.
            Self::Events(_) => SizeHint::default(),
            Self::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stream_to_which_something_can_be_added_is_one_of_events() {
        let is = |lines: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            is_event_stream(&headers)
        };
        assert!(is(&[("content-type", "Text/Event-Stream; charset=utf-8")]));
        assert!(!is(&[("content-type", "application/json")]));
        assert!(!is(&[]));
        for more in [("content-length", "5"), ("content-encoding", "gzip")] {
            assert!(!is(&[("content-type", "text/event-stream"), more]));
        }
    }
}
