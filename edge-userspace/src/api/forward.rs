//! A request on its way to its upstream, and the head of the answer on its way back.
//!
//! Not here: what may be refused before ([`super`]), which upstream it is
//! ([`crate::upstream`]), the bytes of the answer ([`crate::relay`]).

use super::begun::Going;
use super::context::ToLearn;
use super::error::ApiError;
use super::quota::Sending;
use super::{Api, RequestId, ended, headers};
use crate::message::Response;
use crate::relay::side::BodyForm;
use crate::relay::{Company, Relayed, RequestBody, ResponseBody, Whose};
use crate::session::Stream;
use crate::telemetry::{Metrics, StreamEnd};
use crate::upstream::{self, Answer, ConnectError, Picked, Upload};
use crate::usage::Settlement;
use http::header;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// A request that is to be sent.
pub(super) struct Ready {
    pub(super) body: RequestBody,
    /// None: it has no body.
    pub(super) upload: Option<Rc<Upload>>,
    /// None: no upstream takes its model.
    pub(super) picked: Option<Picked>,
}

impl Api {
    /// The upstream for a prompt; none when there is none for its model.
    pub(super) fn pick(&self, model: &[u8], tokens: u64, learn: &ToLearn) -> Option<Picked> {
        let model = Some(model).filter(|model| !model.is_empty());
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        let (affinity, prefix_tokens) = learn.affinity();
        self.sender.pick(model, affinity, prefix_tokens, tokens)
    }

    pub(super) async fn forward(
        &self,
        stream: Stream,
        going: &mut Going,
        ready: Ready,
        id: &RequestId,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let Ready {
            body,
            upload,
            picked,
        } = ready;
        let picked = picked.ok_or_else(|| {
            ApiError::not_found("No upstream of this node serves the request's model")
        })?;
        tracing::debug!(
            request_id = id.text().as_str(),
            upstream = picked.name(),
            why = picked.why().name(),
            prefix_tokens = going.learn.affinity().1,
            tokens = picked.tokens(),
            "goes to an upstream"
        );
        let waiting = Waiting::new(&self.metrics);
        let begun = Instant::now();
        let upload = upload.as_deref();
        let settlement = mem::replace(&mut going.settlement, Settlement::none());
        let sending = Sending::new(settlement, upload);
        going.learn.sent(picked.id());
        let sent = (self.sender).send(picked, &going.head, body, upload, begun);
        let answered = stream.run(sent).await;
        waiting.over();
        let waited = begun.elapsed();
        id.wait(waited);
        let answered = match answered.map_err(ended)? {
            Ok(answered) => answered,
            Err(error) => {
                if !matches!(error, upstream::Error::Body(_)) {
                    going.learn.failed();
                }
                sending.failed(&error);
                return Err(self.failed(&error, id));
            }
        };
        going.settlement = sending.answered(answered.status);
        self.metrics.first_byte.observe(waited);
        Ok(self.relay(answered, stream, going, id))
    }

    fn relay(
        &self,
        answered: Response<Answer<RequestBody>>,
        stream: Stream,
        going: &mut Going,
        id: &RequestId,
    ) -> Response<ResponseBody> {
        let Response {
            status,
            mut fields,
            body: answer,
        } = answered;
        let form = headers::received(&mut fields);
        let Going {
            learn, settlement, ..
        } = going;
        let side = learn.begun(answer.picked().id(), status, form, &mut fields);
        let is_event_stream = form == BodyForm::Events;
        if is_event_stream {
            // An error event may have to be added.
            fields.remove(header::CONTENT_LENGTH);
        }
        let company = Company {
            is_event_stream,
            idle_timeout: answer.picked().target().idle_timeout(),
            side,
            extras: learn.extras,
            settlement: mem::replace(settlement, Settlement::none()),
            whose: Whose {
                unreadable: Rc::clone(&self.unreadable),
                upstream: answer.picked().id(),
                request_id: *id.text(),
            },
        };
        let body = Relayed::new(answer, company, stream, Arc::clone(&self.metrics));
        Response {
            status,
            fields,
            body: ResponseBody::Relayed(body),
        }
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
                request_id = id.text().as_str(),
                %error,
                left_out = permit.left_out,
                "the upstream did not answer"
            );
        }
        told
    }
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
