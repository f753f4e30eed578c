//! One request on its way to an edge, and its answer back.
//!
//! **A request that an edge may have begun is never sent again**: what was done twice is paid
//! for twice. It goes to another edge only when this one provably did nothing with it: there was no
//! connection, it said so (GOAWAY, REFUSED_STREAM), or it refused with a status of its own before
//! it sent anything upstream; and only as long as no byte of an answer has gone to the client.
//! Not here: which edge is next ([`super::choose`]), what is kept of the body ([`super::held`]).

use super::answer::{self, Answer};
use super::choose::Why;
use super::held::{Held, Room};
use super::nodes::{Node, Nodes, random};
use super::{ContextIds, fingerprint};
use crate::api::error::{ApiError, X_EDGE_NOT_BEGUN, X_SHOULD_RETRY};
use edge_client::{Error, ResponseBody};
use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ROUTED_TO: HeaderName = HeaderName::from_static("x-anthropic-routed-to");
const UPSTREAM_REQUEST_ID: HeaderName = HeaderName::from_static("x-edge-upstream-request-id");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Forwards requests.
pub struct Forward {
    nodes: Arc<Nodes>,
    room: Arc<Room>,
    ids: ContextIds,
    /// Requests get a fingerprint.
    fingerprint: bool,
    counts: Counts,
}

/// What has come of requests.
#[derive(Debug, Default)]
pub struct Counts {
    /// All.
    pub requests: AtomicU64,
    /// Those that went to one more edge because one had not taken them; each time counts.
    pub sent_on: AtomicU64,
    /// Those that no edge answered.
    pub unanswered: AtomicU64,
    /// Those that would have been sent on, but were not kept whole.
    pub not_kept: AtomicU64,
}

/// What one attempt came to.
enum Attempted {
    Answered(Response<ResponseBody>),
    /// The edge did nothing with it; another may be asked.
    NotTaken(NotTaken),
    /// It must not be sent again.
    Over(Error),
}

/// How an edge did not take it.
enum NotTaken {
    Refused(Response<ResponseBody>),
    Failed(Error),
}

impl Forward {
    /// To these edges.
    #[must_use]
    pub fn new(nodes: Arc<Nodes>, room: Arc<Room>, ids: ContextIds, fingerprint: bool) -> Self {
        Self {
            nodes,
            room,
            ids,
            fingerprint,
            counts: Counts::default(),
        }
    }

    /// What has come of requests so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Asks one edge after the other until one takes the request, and gives its answer.
    ///
    /// # Errors
    /// What the client is told when none did.
    pub async fn forward(&self, request: Request<Incoming>) -> Result<Response<Answer>, ApiError> {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        let (mut head, body) = request.into_parts();
        prepare(&mut head.headers);
        self.ids.put(&mut head.headers);
        let held = Held::new(body, Arc::clone(&self.room));
        if self.fingerprint {
            fingerprint::put(&mut head, &held)
                .await
                .map_err(|_| ApiError::invalid_request("The request's body broke off"))?;
        }
        let asked = self.ask(&head, &held).await;
        held.settle();
        asked
    }

    async fn ask(&self, head: &Parts, held: &Held) -> Result<Response<Answer>, ApiError> {
        let mut tried = Vec::new();
        let mut last = None;
        while let Some(node) = self.nodes.choose(&tried) {
            if !tried.is_empty() {
                self.counts.sent_on.fetch_add(1, Ordering::Relaxed);
            }
            let request = Request::from_parts(head.clone(), held.attempt());
            match self.attempt(&node, request).await {
                Attempted::Answered(response) => {
                    return Ok(answer::passed(response));
                }
                Attempted::Over(error) => return Err(self.unanswered(&error)),
                Attempted::NotTaken(how) => {
                    node.not_taken.fetch_add(1, Ordering::Relaxed);
                    tried.push(node.number);
                    // What an edge said itself tells more than that another is not there.
                    if !matches!(
                        (&last, &how),
                        (Some(NotTaken::Refused(_)), NotTaken::Failed(_))
                    ) {
                        last = Some(how);
                    }
                }
            }
            if !held.is_repeatable() {
                self.counts.not_kept.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
        match last {
            Some(NotTaken::Refused(response)) => Ok(answer::passed(response)),
            Some(NotTaken::Failed(error)) => Err(match self.refusal() {
                // That of a key tells more than that another edge is not there.
                Some(refusal) if !is_refusal_of_token(&error) => self.refused(refusal),
                _ => self.unanswered(&error),
            }),
            None => Err(self.no_edge()),
        }
    }

    /// One edge, once.
    async fn attempt(&self, node: &Node, request: Request<super::held::Attempt>) -> Attempted {
        let number = node.number;
        match node.client.send(request).await {
            Ok(response) if is_refusal(&response) => {
                let retry_after = retry_after(response.headers());
                (self.nodes).note(|chooser, now| chooser.refused(number, retry_after, now));
                Attempted::NotTaken(NotTaken::Refused(response))
            }
            Ok(response) => {
                node.answered.fetch_add(1, Ordering::Relaxed);
                if let Some(added) = added(response.headers()) {
                    self.nodes
                        .note(|chooser, now| chooser.answered(number, added, now));
                }
                Attempted::Answered(response)
            }
            Err(error) => {
                let may_have_begun = error.may_have_begun();
                tracing::debug!(%error, may_have_begun, "an edge did not answer");
                if let Error::Connect(error) = &error
                    && error.is_refusal()
                {
                    node.refuses(error);
                }
                self.nodes.note(|chooser, now| match &error {
                    Error::Connect(error) if error.is_refusal() => {
                        chooser.refused_token(number, random(), now)
                    }
                    // It has more to do than it takes, or leaves; either passes soon.
                    Error::Full { .. } | Error::NotTaken { .. } => {
                        chooser.refused(number, None, now)
                    }
                    Error::Connect(_) | Error::Broken { .. } => {
                        chooser.failed(number, random(), now)
                    }
                });
                match may_have_begun {
                    true => Attempted::Over(error),
                    false => Attempted::NotTaken(NotTaken::Failed(error)),
                }
            }
        }
    }

    fn unanswered(&self, error: &Error) -> ApiError {
        self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "a request got no answer");
        let told = format!("edge connect: {error}");
        match error {
            Error::Connect(refused) if refused.is_refusal() => ApiError::authentication(told),
            // Whoever asked decides whether to ask again.
            Error::Broken { .. } => ApiError::api(told),
            _ => ApiError::overloaded(told),
        }
    }

    /// All have refused the token a moment ago.
    fn no_edge(&self) -> ApiError {
        match self.refusal() {
            Some(refusal) => self.refused(refusal),
            None => {
                self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
                ApiError::overloaded("edge connect: no edge is known")
            }
        }
    }

    fn refused(&self, refusal: String) -> ApiError {
        self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
        ApiError::authentication(format!("edge connect: {refusal}"))
    }

    /// What an edge said that has refused the token and was not asked since.
    fn refusal(&self) -> Option<String> {
        let known = self.nodes.known();
        let mut refused = known
            .iter()
            .filter(|(_, known)| known.away.is_some_and(|(why, _)| why == Why::TokenRefused));
        refused.find_map(|(node, _)| node.refusal())
    }
}

fn is_refusal_of_token(error: &Error) -> bool {
    matches!(error, Error::Connect(error) if error.is_refusal())
}

/// Takes out what belongs to the client's connection.
fn prepare(headers: &mut HeaderMap) {
    answer::strip(headers);
    // Answered here; the edge is asked when the body comes.
    headers.remove(header::EXPECT);
}

/// Whether an edge refused the request for its own reasons, before it asked any upstream, and
/// another one may take it.
fn is_refusal<B>(response: &Response<B>) -> bool {
    let headers = response.headers();
    let says = |name: &HeaderName| headers.get(name).is_some_and(|value| value == "true");
    let is_own = headers.contains_key(ROUTED_TO) && !headers.contains_key(UPSTREAM_REQUEST_ID);
    let has_begun = match response.status().as_u16() {
        // Some come after the upstream was asked, or from it.
        429 | 500.. => !says(&X_EDGE_NOT_BEGUN),
        _ => true,
    };
    // A cap that is no matter of the node says that it is no use to try again.
    is_own && !has_begun && says(&X_SHOULD_RETRY)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// What the edge itself took for the answer: `edge;dur=` of `server-timing`, milliseconds.
fn added(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(SERVER_TIMING).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let metrics = texts.flat_map(|text| text.split(','));
    // Its upstream may be an edge as well, and said the same before.
    let mut of_edge = metrics.filter_map(|metric| metric.trim().strip_prefix("edge;"));
    let of_edge = of_edge.next_back()?;
    let duration = of_edge
        .split(';')
        .find_map(|part| part.trim().strip_prefix("dur="))?;
    let ms: f64 = duration.parse().ok()?;
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, StatusCode};

    fn response(status: u16, lines: &[(&'static str, &'static str)]) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in lines {
            let value = HeaderValue::from_static(value);
            response.headers_mut().append(*name, value);
        }
        response
    }

    #[test]
    fn only_a_refusal_that_began_nothing_is_one() {
        let own = ("x-anthropic-routed-to", "node-1");
        let retry = ("x-should-retry", "true");
        let not_begun = ("x-edge-not-begun", "true");
        let upstreams = ("x-edge-upstream-request-id", "req_1");
        for (status, lines, expected) in [
            (429, vec![own, retry, not_begun], true),
            // An upstream's, behind an edge that saw no id of it.
            (429, vec![own, retry], false),
            (529, vec![own, retry, not_begun], true),
            // No edge has said it.
            (429, vec![retry], false),
            // The upstream's own.
            (429, vec![own, retry, upstreams], false),
            // A daily cap.
            (429, vec![own, ("x-should-retry", "false")], false),
            (429, vec![own], false),
            // It may have begun.
            (529, vec![own, retry], false),
            (500, vec![own, retry, not_begun], true),
            (500, vec![own, retry], false),
            (413, vec![own, retry, not_begun], false),
            (200, vec![own, retry, not_begun], false),
        ] {
            let refused = is_refusal(&response(status, &lines));
            assert_eq!(refused, expected, "{status} {lines:?}");
        }
    }

    #[test]
    fn the_edges_own_time_is_read() {
        let of = |value| added(response(200, &[("server-timing", value)]).headers());
        let ms = |ms| Some(Duration::from_micros(ms));
        assert_eq!(of("edge;dur=1.25"), ms(1250));
        assert_eq!(of("edge;dur=200, edge;dur=1"), ms(1000));
        assert_eq!(of("cache;dur=9, edge;desc=\"x\";dur=120"), ms(120_000));
        for text in [
            "",
            "edge",
            "edge;dur=",
            "edge;dur=-1",
            "edge;dur=nan",
            "edges;dur=1",
        ] {
            let value: &'static str = text;
            assert_eq!(of(value), None, "{text}");
        }
    }

    #[test]
    fn seconds_of_retry_after_are_read() {
        let of = |value| retry_after(response(429, &[("retry-after", value)]).headers());
        assert_eq!(of("1"), Some(Duration::from_secs(1)));
        assert_eq!(of("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(of("-1"), None);
    }
}
