//! What is asked: routes, authentication, version negotiation, API-shaped errors, response
//! headers.
//!
//! One [`Api`] a serving thread. A request goes down [`Api::answer`] from top to bottom: id,
//! key, shape, upstream, headers of the response. Not here: the connection
//! ([`crate::listener`]), whose key it is ([`crate::session`]), the bytes of the body
//! ([`crate::relay`]).

mod admit;
mod catalogue;
mod context;
pub mod error;
mod head;
mod headers;
pub mod layer;
mod models;
mod quota;
mod read_off;
mod regions;
mod request_id;
mod route;
mod seen;
mod settings;

pub use head::MAX_HEAD_BYTES;
pub use headers::is_json_or_events;
pub use request_id::{RequestId, RequestIds};
pub use route::Route;
pub use settings::{Settings, SettingsError};

use crate::config::Models;
use crate::context::{Contexts, wire};
use crate::prompt::{Count, Counters, Prompts};
use crate::relay::{Company, Extras, Relayed, RequestBody, ResponseBody};
use crate::session::{End, Presented, Refusal, Session, State, Stream};
use crate::telemetry::{Bounded, ConnectionEnd, Lane, Metrics, Requests, StreamEnd};
use crate::upstream::{self, Answer, ConnectError, Fault, Picked, Sender, Upload, Upstreams};
use crate::usage::{Ledger, Settlement};
use admit::{Admitted, Announced, Refused};
use bytes::Bytes;
use context::{About, ToLearn, Told};
use error::ApiError;
use http::header::{self, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use quota::Sending;
use seen::Seen;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lines a second and thread about failed requests.
const LOG_LINES_PER_SECOND: u32 = 20;

/// The API as one thread serves it.
pub struct Api {
    settings: Arc<Settings>,
    sender: Rc<Sender<RequestBody>>,
    /// None: conversations are not remembered.
    contexts: Option<Arc<Contexts>>,
    prompts: Arc<Prompts>,
    ledger: Arc<Ledger>,
    counters: Rc<Counters>,
    /// Those that the counters were made for.
    models_before: RefCell<Arc<Models>>,
    ids: RequestIds,
    metrics: Arc<Metrics>,
    log: Bounded,
}

/// What is decided about a request before it is sent on.
enum Plan {
    /// The edge answers: `/v1/health`.
    Health,
    /// The edge answers with this JSON.
    Own(Bytes),
    /// The upstream does.
    Forward,
    /// The prompt is read and counted first.
    Count(Announced, Settlement),
}

impl Api {
    /// With upstream connections of its own.
    #[must_use]
    pub fn new(
        settings: Arc<Settings>,
        upstreams: Arc<Upstreams>,
        prompts: Arc<Prompts>,
        contexts: Option<Arc<Contexts>>,
        ledger: Arc<Ledger>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            models_before: RefCell::new(prompts.models()),
            counters: Rc::default(),
            prompts,
            settings,
            sender: Rc::new(Sender::new(upstreams, &metrics)),
            contexts,
            ledger,
            ids: RequestIds::new(),
            metrics,
            log: Bounded::new(LOG_LINES_PER_SECOND),
        }
    }

    /// Looks after idle upstream connections; to be run beside the rest.
    pub fn upkeep(&self) -> impl Future<Output = ()> + use<> {
        self.sender.reap()
    }

    /// Answers one request of a connection. Dropping the future, or the response's body
    /// before its end, closes the upstream connection that works on it.
    pub async fn answer(
        &self,
        session: &Rc<Session>,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let id = self.ids.next();
        let stream = session.begin();
        let route = Route::of(request.uri().path());
        let (version, is_head) = (request.version(), *request.method() == Method::HEAD);
        let seen = Seen::read(request.headers());
        let lane = if seen.debug_legacy {
            Lane::Legacy
        } else {
            session.identity().lane
        };
        let mut count = None;
        let mut response = match self.plan(session, &request, route, &seen, &id) {
            Err(error) => {
                let expects_continue = request.headers().contains_key(header::EXPECT);
                // Of a connection that is to end now the rest is read by whoever closes it.
                if matches!(session.state(), State::Open | State::Closing) {
                    self.read_off(session, request.into_body(), version, expects_continue);
                }
                whole(error.not_begun().response(id.text()))
            }
            Ok(Plan::Health) => {
                self.preheat(session, request.method(), &seen, id.at_s());
                whole(json(Bytes::from_static(br#"{"status":"ok"}"#)))
            }
            Ok(Plan::Own(answer)) => whole(json(answer)),
            Ok(Plan::Forward) => {
                let passed = Box::pin(self.pass(stream, request, route, &id)).await;
                passed.unwrap_or_else(|error| whole(error.response(id.text())))
            }
            Ok(Plan::Count(announced, settlement)) => {
                let asked = self.counted(stream, request, route, announced, settlement, &id);
                // In a box: most of a connection's requests wait in the upstream's part.
                let (answered, told) = Box::pin(asked).await;
                count = told;
                answered.unwrap_or_else(|error| whole(error.response(id.text())))
            }
        };
        if route != Route::None && response.status() == StatusCode::METHOD_NOT_ALLOWED {
            let allow = HeaderValue::from_static(route.methods());
            response.headers_mut().insert(header::ALLOW, allow);
        }
        if session.state() != State::Open && version < Version::HTTP_2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        if is_head {
            if let ResponseBody::Whole(Some(body)) = response.body() {
                let length = HeaderValue::from(body.len());
                response
                    .headers_mut()
                    .insert(header::CONTENT_LENGTH, length);
            }
            // HTTP/2 would send it on.
            *response.body_mut() = ResponseBody::Whole(None);
        }
        headers::tell_count(response.headers_mut(), count);
        self.tell_limits(session, &mut response);
        headers::dress(response.headers_mut(), &self.settings, lane, &id);
        if route == Route::ChatCompletions {
            headers::tell_id_for_chat(response.headers_mut(), &id);
        }
        headers::tell_time(response.headers_mut(), id.took());
        self.metrics
            .requests
            .one(Requests::new(route, response.status()));
        response
    }

    /// Everything that can be refused before the body is read.
    fn plan(
        &self,
        session: &Session,
        request: &Request<Incoming>,
        route: Route,
        seen: &Seen<'_>,
        id: &RequestId,
    ) -> Result<Plan, ApiError> {
        let open = session.state() == State::Open;
        let asks_health = route == Route::Health && matches!(seen.presented(), Presented::Nothing);
        if !(asks_health && open) {
            let presented = seen.presented();
            let authenticated = session.authenticate(presented, id.at_s());
            authenticated.map_err(|refusal| match session.would_serve(presented, id.at_s()) {
                true => refused(refusal).again(),
                false => refused(refusal),
            })?;
        }
        if session.identity().over_rate {
            return Err(self.over_rate(session));
        }
        if seen.layer {
            return Err(ApiError::invalid_request(
                "x-anthropic-layer is set by the edge and must not be sent",
            ));
        }
        if seen.context_ids_conflict {
            return Err(ApiError::invalid_request(
                "x-anthropic-context-id has two different values",
            ));
        }
        head::check(request, seen)?;
        if seen.names_end_to_end {
            return Err(ApiError::invalid_request(
                "connection names a header that is not of one hop",
            ));
        }
        if route == Route::None {
            return Err(ApiError::not_found("There is nothing at this path"));
        }
        if !route.takes(request.method()) {
            return Err(ApiError::method_not_allowed(format!(
                "This path takes {}",
                route.methods()
            )));
        }
        if let Some(answered) = self.own(session, request.uri(), route) {
            return answered;
        }
        if route.is_versioned() && !seen.version_is_one_of(&self.settings.versions) {
            return Err(ApiError::invalid_request(format!(
                "Routing layer requires version negotiation: send anthropic-version, one of {}",
                self.settings.versions.join(", ")
            )));
        }
        if seen.framing_unknown {
            return Err(ApiError::invalid_request(
                "transfer-encoding other than chunked is not understood",
            ));
        }
        if seen.encoding_unknown {
            return Err(ApiError::unsupported_encoding(
                "content-encoding must be identity, gzip or zstd",
            ));
        }
        if (seen.content_length).is_some_and(|length| length > self.settings.max_body_bytes) {
            return Err(self.too_large());
        }
        Ok(match route.shape() {
            Some(_) if (seen.content_length).is_some_and(|length| length > self.all_room()) => {
                return Err(self.needs_more_than_all_room());
            }
            Some(shape) => {
                let fingerprint = seen.fingerprint().map_err(|()| {
                    ApiError::invalid_request(format!(
                        "{} must be 64 hex digits, once: what `edge fingerprint` says of the request",
                        wire::HEADER
                    ))
                })?;
                let about = About::of(self.contexts.as_ref(), session, route, seen);
                let announced = Announced {
                    shape,
                    encoding: seen.encoding,
                    fingerprint,
                    about,
                    extras: Extras {
                        usage: seen.wants_usage && route == Route::Messages,
                        ping_after: self.settings.ping_after,
                        dialect: route.dialect(),
                    },
                };
                // Last: what is refused for what it is is charged nothing.
                Plan::Count(announced, self.let_in(session)?)
            }
            None => Plan::Forward,
        })
    }

    /// Counts the prompt, then answers with the count or sends the request on.
    async fn counted(
        &self,
        stream: Stream,
        request: Request<Incoming>,
        route: Route,
        announced: Announced,
        mut settlement: Settlement,
        id: &RequestId,
    ) -> (Result<Response<ResponseBody>, ApiError>, Option<Count>) {
        let (head, mut body) = request.into_parts();
        let session = Rc::clone(stream.session());
        let waiting = Waiting::new(&self.metrics);
        let (begun, mut spent) = (Instant::now(), Duration::ZERO);
        let admitted = self.admit(&session, route, &announced, &mut body, &mut spent);
        let admitted = stream.run(admitted).await;
        id.wait(begun.elapsed().saturating_sub(spent));
        if !matches!(admitted, Ok(Err(Refused::Body(Fault::ClientLeft)))) {
            waiting.over();
        }
        let Admitted {
            counted,
            turn,
            pieces,
            held,
        } = match admitted {
            Ok(Ok(admitted)) => admitted,
            Ok(Err(refused)) => {
                let is_over = matches!(refused, Refused::Body(_));
                let goes_on = matches!(session.state(), State::Open | State::Closing);
                if goes_on && !is_over {
                    self.read_off(&session, body, head.version, false);
                }
                return (Err(self.not_admitted(&refused).not_begun()), None);
            }
            Err(end) => return (Err(ended(end).not_begun()), None),
        };
        let count = Some(counted.count);
        if session
            .key()
            .is_some_and(|key| !key.allows_model(&counted.model))
        {
            return (Err(model_not_allowed()), count);
        }
        if route == Route::CountTokens {
            return (admit::counted(&counted).map(whole), count);
        }
        if let Err(error) = self.reserve(&session, &mut settlement, &counted) {
            return (Err(error), count);
        }
        let (body, upload) = RequestBody::whole(pieces, held);
        let request = Request::from_parts(head, body);
        let mut learn = ToLearn {
            usage: counted.learn,
            turn: None,
            output: Some(counted.output),
            extras: announced.extras,
        };
        if let (Some(turn), Some(about)) = (turn, announced.about) {
            learn.turn = Some(Told::new(turn, &counted.prefixes, about));
        }
        let picked = self.pick(&counted.model, counted.count.tokens, &learn);
        let upload = Some(upload);
        let sent = self.forward(stream, request, upload, id, learn, picked, settlement);
        (sent.await, count)
    }

    /// The upstream for a prompt; none when there is none for its model.
    fn pick(&self, model: &[u8], tokens: u64, learn: &ToLearn) -> Option<Picked> {
        let model = Some(model).filter(|model| !model.is_empty());
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        let (affinity, prefix_tokens) = learn.affinity();
        self.sender.pick(model, affinity, prefix_tokens, tokens)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all of it is one request's, and put together nowhere else"
    )]
    async fn forward(
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
        learn.sent();
        let answered = stream.run(self.sender.send(picked, request, upload.as_deref()));
        let answered = answered.await;
        waiting.over();
        id.wait(begun.elapsed());
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
        self.metrics.first_byte.observe(begun.elapsed());
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
        headers.remove(error::X_EDGE_NOT_BEGUN);
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
            request_id: id.text().clone(),
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

    fn body_failed(&self, fault: Fault) -> ApiError {
        match fault {
            Fault::TooLarge => self.too_large(),
            Fault::ClientSilent => {
                ApiError::request_timeout("The request's body did not come to its end in time")
            }
            Fault::ClientLeft => ApiError::invalid_request("The request's body broke off"),
        }
    }

    /// See [`read_off`](read_off::read_off).
    fn read_off(
        &self,
        session: &Session,
        body: Incoming,
        version: Version,
        expects_continue: bool,
    ) {
        let known_bytes = session.is_bound().then_some(self.settings.max_body_bytes);
        let most_bytes = read_off::most_bytes(version, known_bytes);
        read_off::read_off(body, version, most_bytes, expects_continue);
    }

    /// The connection ends with the answer, so that another try opens a new one, which may
    /// be within the rate.
    fn over_rate(&self, session: &Session) -> ApiError {
        if session.state() == State::Open {
            session.close();
            self.metrics.connection_ends.one(ConnectionEnd::KeyRate);
        }
        ApiError::rate_limit(
            "This key opens connections faster than its rate allows; open fewer and use each for more requests, or wait a moment",
        )
    }

    fn too_large(&self) -> ApiError {
        ApiError::request_too_large(format!(
            "The request's body is larger than {} bytes",
            self.settings.max_body_bytes
        ))
    }

    /// Room for bodies that are held, when none is.
    fn all_room(&self) -> u64 {
        self.prompts.room().most_bytes()
    }

    /// No second try helps, so it is no 529.
    fn needs_more_than_all_room(&self) -> ApiError {
        ApiError::request_too_large(format!(
            "The request's body needs more room than the {} bytes that this node has for bodies",
            self.all_room()
        ))
    }
}

fn model_not_allowed() -> ApiError {
    ApiError::permission("This key may not use the request's model")
}

fn refused(refusal: Refusal) -> ApiError {
    ApiError::authentication(refusal.to_string())
}

fn ended(end: End) -> ApiError {
    match end {
        End::Key => refused(Refusal::Ended),
        End::Draining => ApiError::overloaded("This node stops; send the request again"),
    }
}

fn json(body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn whole(response: Response<Bytes>) -> Response<ResponseBody> {
    response.map(|body| ResponseBody::Whole(Some(body)))
}

/// The path and query alone, as a request to an origin has them (RFC 9112 section 3.2.1).
fn path_of(uri: Uri) -> Uri {
    let path = uri.into_parts().path_and_query;
    Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
}

/// Counts a client that leaves before it gets a response's head.
struct Waiting<'a>(Option<&'a Metrics>);

impl<'a> Waiting<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        Self(Some(metrics))
    }

    fn over(mut self) {
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
