//! What is asked: routes, authentication, version negotiation, API-shaped errors, response
//! headers.
//!
//! One [`Api`] a serving thread. A request goes down [`Api::begin`] and [`Api::answer`] from top
//! to bottom: id, key, shape, upstream, headers of the response. Not here: the connection
//! ([`crate::listener`]), whose key it is ([`crate::session`]), the bytes of the body
//! ([`crate::relay`]).

mod admit;
mod begun;
mod catalogue;
mod context;
pub mod error;
mod forward;
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

pub use begun::Begun;
pub use head::{MAX_HEAD_BYTES, MAX_HEADERS};
pub use headers::is_json_or_events;
pub use request_id::{IdText, RequestId, RequestIds};
pub use route::Route;
pub use settings::{Settings, SettingsError};

use crate::config::Models;
use crate::context::{Contexts, Turn, wire};
use crate::keys::KeyRecord;
use crate::message::{Head, Response};
use crate::prompt::{Count, Counters, Prompts};
use crate::relay::{Extras, Incoming, RequestBody, ResponseBody, Unreadable};
use crate::session::{End, Presented, Refusal, Session, State, Stream};
use crate::telemetry::{Bounded, ConnectionEnd, Metrics, Requests};
use crate::upstream::{Fault, Sender, Upstreams};
use crate::usage::{Ledger, Settlement};
use admit::{Admitted, Announced, Refused};
use begun::{Counting, Facts, Work};
use bytes::Bytes;
use context::{About, ToLearn, Told};
use error::ApiError;
use forward::{Ready, Waiting};
use http::header::{self, HeaderValue};
use http::{StatusCode, Version};
use seen::Seen;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

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
    unreadable: Rc<Unreadable>,
}

/// What a client gets.
type Answered = Result<Response<ResponseBody>, ApiError>;

/// What is decided about a request before it is sent on.
enum Plan {
    /// The edge answers: `/v1/health`.
    Health,
    /// The edge answers with this JSON.
    Own(Bytes),
    /// The upstream does, or several.
    Forward(Settlement),
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
            unreadable: Rc::new(Unreadable::new(
                Arc::clone(&upstreams),
                Arc::clone(&metrics),
            )),
            sender: Rc::new(Sender::new(upstreams, &metrics)),
            contexts,
            ledger,
            ids: RequestIds::new(),
            metrics,
            log: Bounded::new(LOG_LINES_PER_SECOND),
        }
    }

    /// Writes requests to upstreams together; to be run beside the rest, by itself.
    pub fn writing(&self) -> impl Future<Output = ()> + use<> {
        self.sender.writing()
    }

    /// Looks after upstream connections; to be run beside the rest.
    pub fn upkeep(&self) -> impl Future<Output = ()> + use<> {
        self.sender.upkeep()
    }

    /// Answers a request of a connection that has begun. Dropping the future, or the response's
    /// body before its end, closes the upstream connection that works on it.
    pub async fn answer(&self, session: &Rc<Session>, begun: Begun) -> Response<ResponseBody> {
        let Begun { facts, work } = begun;
        // In boxes: most of a connection's requests wait in the upstream's part.
        let (answered, count) = match work {
            Work::Said(response) => (Ok(*response), None),
            Work::Pass(stream, passing) => {
                (Box::pin(self.pass(stream, passing, &facts)).await, None)
            }
            Work::Count(stream, counting) => Box::pin(self.counted(stream, counting, &facts)).await,
        };
        let response =
            answered.unwrap_or_else(|error| whole(error.response(&facts.id.text().value())));
        self.dressed(session, &facts, response, count)
    }

    /// An answer with all that the edge has to say in its head.
    fn dressed(
        &self,
        session: &Session,
        facts: &Facts,
        mut response: Response<ResponseBody>,
        count: Option<Count>,
    ) -> Response<ResponseBody> {
        let Facts {
            id,
            route,
            lane,
            version,
            is_head,
            key,
        } = facts;
        if *route != Route::None && response.status == StatusCode::METHOD_NOT_ALLOWED {
            let allow = HeaderValue::from_static(route.methods());
            response.fields.insert(header::ALLOW, allow);
        }
        if session.state() != State::Open && *version < Version::HTTP_2 {
            let close = HeaderValue::from_static("close");
            response.fields.insert(header::CONNECTION, close);
        }
        if *is_head {
            if let ResponseBody::Whole(Some(body)) = &response.body {
                let length = HeaderValue::from(body.len());
                response.fields.insert(header::CONTENT_LENGTH, length);
            }
            // HTTP/2 would send it on.
            response.body = ResponseBody::Whole(None);
        }
        headers::tell_count(&mut response.fields, count);
        match key {
            Some(key) => self.tell_limits(Some(key), &mut response),
            None => self.tell_limits(session.key().as_deref(), &mut response),
        }
        let fields = &mut response.fields;
        headers::dress(fields, &self.settings, *lane, id);
        if *route == Route::ChatCompletions {
            headers::tell_id_for_chat(fields, id);
        }
        headers::tell_time(fields, id.took());
        self.metrics
            .requests
            .one(Requests::new(*route, response.status));
        response
    }

    /// Everything that can be refused before the body is read. `key` becomes the entry of the
    /// key that was shown.
    fn plan(
        &self,
        session: &Session,
        head: &Head,
        route: Route,
        seen: &Seen<'_>,
        id: &RequestId,
        key: &mut Option<Arc<KeyRecord>>,
    ) -> Result<Plan, ApiError> {
        self.check_host(session, head, seen)?;
        let open = session.state() == State::Open;
        let asks_health = route == Route::Health && matches!(seen.presented(), Presented::Nothing);
        if !(asks_health && open) {
            let presented = seen.presented();
            let authenticated = session.authenticate(presented, id.at_s());
            let shown = authenticated.map_err(|refusal| {
                match session.would_serve(presented, id.at_s()) {
                    true => refused(refusal).again(),
                    false => refused(refusal),
                }
            })?;
            *key = Some(shown);
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
        head::check(head, seen)?;
        if seen.names_end_to_end {
            return Err(ApiError::invalid_request(
                "connection names a header that is not of one hop",
            ));
        }
        if route == Route::None {
            return Err(route::nothing_at(head.uri.path()));
        }
        if !route.takes(&head.method) {
            return Err(ApiError::method_not_allowed(format!(
                "This path takes {}",
                route.methods()
            )));
        }
        if let Some(answered) = self.own(&head.uri, route, key.as_deref()) {
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
                Plan::Count(announced, self.let_in(session, key.as_deref())?)
            }
            None => Plan::Forward(self.let_in(session, key.as_deref())?),
        })
    }

    /// Counts the prompt, then answers with the count or sends the request on.
    async fn counted(
        &self,
        stream: Stream,
        mut counting: Box<Counting>,
        facts: &Facts,
    ) -> (Answered, Option<Count>) {
        let waiting = Waiting::new(&self.metrics);
        let mut waited = Duration::ZERO;
        let Counting {
            body, announced, ..
        } = &mut *counting;
        let admitted = stream.run(self.admit(facts, announced, body, &mut waited));
        let admitted = admitted.await;
        facts.id.wait(waited);
        if !matches!(admitted, Ok(Err(Refused::Body(Fault::ClientLeft)))) {
            waiting.over();
        }
        let session = stream.session();
        let admitted = match admitted {
            Ok(Ok(admitted)) => admitted,
            Ok(Err(refused)) => {
                let Counting { going, body, .. } = *counting;
                let has_failed = matches!(
                    refused,
                    Refused::Body(Fault::ClientSilent | Fault::ClientLeft)
                );
                if !has_failed {
                    self.read_off(session, body, &going.head);
                }
                return (Err(self.not_admitted(&refused).not_begun()), None);
            }
            Err(end) => return (Err(ended(end).not_begun()), None),
        };
        let count = Some(admitted.counted.count);
        match self.ready(session, &mut counting, facts, admitted) {
            Ok(ready) => {
                let sent = self.forward(stream, &mut counting.going, ready, &facts.id);
                (sent.await, count)
            }
            Err(answered) => (*answered, count),
        }
    }

    /// What is to be sent of a request that has been read, and where; or its answer.
    fn ready(
        &self,
        session: &Session,
        counting: &mut Counting,
        facts: &Facts,
        admitted: Box<Admitted>,
    ) -> Result<Ready, Box<Answered>> {
        let Admitted {
            counted,
            turn,
            pieces,
            held,
            begun,
            waited,
        } = *admitted;
        let Counting {
            going, announced, ..
        } = counting;
        let may_use = |key: &KeyRecord| key.allows_model(&counted.model);
        let may_use = match &facts.key {
            Some(key) if waited.is_zero() => may_use(key),
            // It may be another by now.
            _ => session.key().is_none_or(|key| may_use(&key)),
        };
        if !may_use {
            return Err(Box::new(Err(models::not_allowed(&counted.model))));
        }
        if facts.route == Route::CountTokens {
            return Err(Box::new(admit::counted(&counted).map(whole)));
        }
        let reserved = self.reserve(session, &mut going.settlement, &counted);
        reserved.map_err(|error| Box::new(Err(error)))?;
        if turn.as_ref().is_some_and(Turn::is_hit) {
            let took = begun.elapsed().saturating_sub(waited);
            self.metrics.context_path.observe(took);
        }
        going.learn = ToLearn {
            usage: counted.learn,
            turn: None,
            output: Some(counted.output),
            extras: announced.extras,
        };
        if let (Some(turn), Some(about)) = (turn, announced.about.take()) {
            going.learn.turn = Some(Told::new(turn, &counted.prefixes, about));
        }
        let picked = self.pick(&counted.model, counted.count.tokens, &going.learn);
        let (body, upload) = RequestBody::whole(pieces, held);
        Ok(Ready {
            body,
            upload: Some(upload),
            picked,
        })
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
    fn read_off(&self, session: &Session, body: Incoming, head: &Head) {
        // Of an HTTP/1.1 connection that is to end now the rest is read by whoever closes it.
        let is_read = match session.state() {
            State::Open | State::Closing => true,
            State::Poisoned => head.version == Version::HTTP_2,
            State::Ended(_) => false,
        };
        if !is_read {
            return;
        }
        let max_body_bytes = self.settings.max_body_bytes;
        let most_bytes = read_off::most_bytes(max_body_bytes, session.is_bound());
        let expects_continue = head.fields.has(header::EXPECT);
        read_off::read_off(body, head.version, most_bytes, expects_continue);
    }

    /// The connection ends with the answer, or with what else runs there, so that another try opens
    /// a new one, which may be within the rate.
    fn over_rate(&self, session: &Session) -> ApiError {
        if session.close_at_rest() {
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

fn refused(refusal: Refusal) -> ApiError {
    ApiError::authentication(refusal.to_string())
}

fn ended(end: End) -> ApiError {
    match end {
        End::Key => refused(Refusal::Ended),
        End::Draining => ApiError::overloaded("This node stops; send the request again"),
    }
}

fn whole(response: Response<Bytes>) -> Response<ResponseBody> {
    response.map(|body| ResponseBody::Whole(Some(body)))
}
