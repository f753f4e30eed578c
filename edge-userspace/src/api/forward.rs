//! A request on its way to its upstream, and the head of the answer on its way back.
//!
//! Not here: what may be refused before ([`super`]), which upstream it is
//! ([`crate::upstream`]), the bytes of the answer ([`crate::relay`]).

use super::context::ToLearn;
use super::error::{ApiError, X_EDGE_NOT_BEGUN};
use super::quota::Sending;
use super::{Api, RequestId, ended, headers};
use crate::relay::{Company, Relayed, RequestBody, ResponseBody, Whose};
use crate::session::Stream;
use crate::telemetry::{Metrics, StreamEnd};
use crate::upstream::{self, Answer, ConnectError, Picked, Upload};
use crate::usage::Settlement;
use http::header;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

impl Api {
    /// The upstream for a prompt; none when there is none for its model.
    pub(super) fn pick(&self, model: &[u8], tokens: u64, learn: &ToLearn) -> Option<Picked> {
        let model = Some(model).filter(|model| !model.is_empty());
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        let (affinity, prefix_tokens) = learn.affinity();
        self.sender.pick(model, affinity, prefix_tokens, tokens)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all of it is one request's, and put together nowhere else"
    )]
    pub(super) async fn forward(
        &self,
        stream: Stream,
        request: Request<RequestBody>,
        upload: Option<Rc<Upload>>,
        id: &RequestId,
        learn: ToLearn,
        picked: Option<Picked>,
        settlement: Settlement,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let picked = picked.ok_or_else(|| {
            ApiError::not_found("No upstream of this node serves the request's model")
        })?;
        let (mut head, body) = request.into_parts();
        headers::remove_own(&mut head.headers);
        let mut request = Request::new(body);
        *request.method_mut() = head.method;
        *request.uri_mut() = path_of(head.uri);
        *request.headers_mut() = head.headers;

        tracing::debug!(
            request_id = id.text().to_str().unwrap_or_default(),
            upstream = picked.name(),
            why = picked.why().name(),
            prefix_tokens = learn.affinity().1,
            tokens = picked.tokens(),
            "goes to an upstream"
        );
        let waiting = Waiting::new(&self.metrics);
        let begun = Instant::now();
        let sending = Sending::new(settlement, upload.as_deref());
        learn.sent(picked.id());
        let answered = stream.run(self.sender.send(picked, request, upload.as_deref()));
        let answered = answered.await;
        waiting.over();
        let waited = begun.elapsed();
        id.wait(waited);
        let answered = answered.map_err(ended)?;
        let (head, answer) = match answered {
            Ok(answered) => answered.into_parts(),
            Err(error) => {
                if !matches!(error, upstream::Error::Body(_)) {
                    learn.failed();
                }
                sending.failed(&error);
                return Err(self.failed(&error, id));
            }
        };
        let settlement = sending.answered(head.status);
        self.metrics.first_byte.observe(waited);
        Ok(self.relay(head, answer, stream, id, learn, settlement))
    }

    fn relay(
        &self,
        head: http::response::Parts,
        answer: Answer<RequestBody>,
        stream: Stream,
        id: &RequestId,
        learn: ToLearn,
        settlement: Settlement,
    ) -> Response<ResponseBody> {
        let mut headers = head.headers;
        upstream::strip_hop_by_hop(&mut headers);
        // Whatever an upstream says: it has begun.
        headers.remove(X_EDGE_NOT_BEGUN);
        let extras = learn.extras;
        let side = learn.begun(answer.picked().id(), head.status, &mut headers);
        let is_event_stream = headers::is_event_stream(&headers);
        if is_event_stream {
            // An error event may have to be added.
            headers.remove(header::CONTENT_LENGTH);
        }
        let company = Company {
            is_event_stream,
            idle_timeout: answer.picked().target().idle_timeout(),
            side,
            extras,
            settlement,
            whose: Whose {
                unreadable: Rc::clone(&self.unreadable),
                upstream: answer.picked().id(),
                request_id: id.text().clone(),
            },
        };
        let body = Relayed::new(answer, company, stream, Arc::clone(&self.metrics));
        let mut response = Response::new(ResponseBody::Relayed(body));
        *response.status_mut() = head.status;
        *response.headers_mut() = headers;
        response
    }

    /// What the client is told, and what is logged, about a request that the upstream did
    /// not answer. Addresses and causes go to the log only.
    fn failed(&self, error: &upstream::Error, id: &RequestId) -> ApiError {
        let told = match error {
            upstream::Error::Connect(ConnectError::TimedOut(_)) => {
                ApiError::timeout("The upstream could not be reached in time").not_begun()
            }
            upstream::Error::Connect(ConnectError::Full(_)) => ApiError::overloaded(
                "This node has no connection to the upstream free; send the request again",
            )
            .not_begun(),
            upstream::Error::Connect(_) => {
                ApiError::api("The upstream could not be reached").not_begun()
            }
            upstream::Error::FirstByte(_) => {
                ApiError::timeout("The upstream did not begin to answer in time")
            }
            upstream::Error::Broken(_) => {
                ApiError::api("The upstream broke off before it answered")
            }
            upstream::Error::Body(fault) => self.body_failed(*fault),
        };
        let fault_is_the_clients = matches!(error, upstream::Error::Body(_));
        if !fault_is_the_clients && let Some(permit) = self.log.permit() {
            tracing::warn!(
                request_id = id.text().to_str().unwrap_or_default(),
                %error,
                left_out = permit.left_out,
                "the upstream did not answer"
            );
        }
        told
    }
}

/// The path and query alone, as a request to an origin has them (RFC 9112 section 3.2.1).
fn path_of(uri: Uri) -> Uri {
    let path = uri.into_parts().path_and_query;
    Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
}

/// Counts a client that leaves before it gets a response's head.
pub(super) struct Waiting<'a>(Option<&'a Metrics>);

impl<'a> Waiting<'a> {
    pub(super) fn new(metrics: &'a Metrics) -> Self {
        Self(Some(metrics))
    }

    pub(super) fn over(mut self) {
        self.0 = None;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.0 {
            metrics.streams.one(StreamEnd::ClientLeftBeforeHead);
        }
    }
}
