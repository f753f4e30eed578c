//! Reads and counts a request's body before it is sent on, or refused.

use super::Api;
use super::begun::Facts;
use super::context::About;
use super::error::ApiError;
use super::route::Route;
use crate::context::Turn;
use crate::context::wire::{Computed, WireFingerprint};
use crate::message::Response;
use crate::prompt::decode::{self, Encoding};
use crate::prompt::{
    Count, Counted, Held, Limits, Prompts, Reading, Refusal, Shape, TooLong, Whose,
};
use crate::relay::{Dialect, Extras, Incoming};
use crate::telemetry::PromptRefusal;
use crate::upstream::{CLIENT_SILENCE, Fault};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::json;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// So much that is kept of a body's messages is not counted against the room.
const NAMES_BYTES: usize = 16 * 1024;

/// What a request's head says of its body.
pub(super) struct Announced {
    pub(super) shape: Shape,
    pub(super) encoding: Encoding,
    /// What the client computed of it.
    pub(super) fingerprint: Option<WireFingerprint>,
    /// Of its conversation.
    pub(super) about: Option<About>,
    /// What the client wants in its answer.
    pub(super) extras: Extras,
}

/// A body that has been read. In a box: it is large, and on its way to who sends it it would move
/// again and again.
pub(super) struct Admitted {
    pub(super) counted: Counted,
    /// What is known of its conversation.
    pub(super) turn: Option<Turn>,
    /// As it came.
    pub(super) pieces: Vec<Bytes>,
    pub(super) held: Held,
    /// Since when it has been read; and for how long of that it was waited for.
    pub(super) begun: Instant,
    pub(super) waited: Duration,
}

/// Why a body was not taken.
pub(super) enum Refused {
    /// It could not be read.
    Body(Fault),
    /// It was read so far, and is refused for what it holds.
    Content(Refusal),
    /// There is no room for it now.
    NoRoom,
    /// It needs more than all the room that there is.
    NeverFits,
    /// Decoding it needs more than all the room that there is for that.
    NeverDecoded,
    /// It is not the one that its fingerprint is of.
    Fingerprint(Box<Computed>),
}

impl Route {
    /// Whose prompts are asked for with it, if any.
    pub(super) const fn shape(self) -> Option<Shape> {
        match self {
            Self::Messages | Self::CountTokens => Some(Shape::Messages),
            Self::ChatCompletions => Some(Shape::Chat),
            Self::Health | Self::Models | Self::Model | Self::Regions | Self::None => None,
        }
    }

    /// What clients of its event streams understand.
    pub(super) const fn dialect(self) -> Dialect {
        match self {
            Self::Messages => Dialect::Messages,
            _ => Dialect::Comments,
        }
    }
}

impl Api {
    /// Reads a body to its end, or to where it is refused; what is left of it is in `body`, and
    /// how long it was waited for in `waited`.
    ///
    /// The clock is read when something has to be waited for: most bodies are there.
    pub(super) async fn admit(
        &self,
        facts: &Facts,
        announced: &Announced,
        body: &mut Incoming,
        waited: &mut Duration,
    ) -> Result<Box<Admitted>, Refused> {
        let begun = Instant::now();
        let Announced {
            shape,
            encoding,
            fingerprint,
            about,
            ..
        } = announced;
        let (shape, encoding, fingerprint) = (*shape, *encoding, *fingerprint);
        let reading = self.reading(facts, shape);
        let mut reading = reading.encoded(encoding, self.settings.max_body_bytes);
        if fingerprint.is_some() {
            reading = reading.with_wire_form();
        }
        if let Some(about) = about {
            reading = about.chained(reading);
        }
        let mut held = self.prompts.room().hold();
        let read = self.read(body, &mut reading, &mut held, waited);
        let mut admitted = read.await;
        let mut turn = None;
        if admitted.is_ok() {
            if let (Some(sent), Some(computed)) = (fingerprint, reading.wire_form())
                && computed.fingerprint != sent
            {
                return Err(Refused::Fingerprint(Box::new(computed)));
            }
            turn = (about.as_ref()).and_then(|about| about.begin(&mut reading));
            admitted = go_on(&mut reading, waited).await;
        }
        let spent = begun.elapsed().saturating_sub(*waited);
        self.metrics.prompt_counting.observe(spent);
        admitted?;
        let (counted, pieces) = reading.counted();
        self.counters.keep_for_next(reading);
        self.metrics.prompts.one(counted.count.kind);
        (self.metrics.prompt_tokens).add(counted.count.kind, counted.count.tokens);
        Ok(Box::new(Admitted {
            counted,
            turn,
            pieces,
            held,
            begun,
            waited: *waited,
        }))
    }

    fn reading(&self, facts: &Facts, shape: Shape) -> Box<Reading> {
        let mut models = self.models_before.borrow_mut();
        if !self.prompts.are_models(&models) {
            *models = self.prompts.models();
            self.counters.keep(&models);
        }
        // Whoever asks how long a prompt is may ask of one that is too long.
        let limits = match facts.route {
            Route::CountTokens => Limits::default(),
            _ => {
                let key = facts.key.as_ref();
                self.prompts
                    .limits(key.and_then(|key| key.max_prompt_tokens))
            }
        };
        (self.counters).reading(shape, &models, self.prompts.calibration(), limits)
    }

    async fn read(
        &self,
        body: &mut Incoming,
        reading: &mut Reading,
        held: &mut Held,
        waited: &mut Duration,
    ) -> Result<(), Refused> {
        let mut left_bytes = self.settings.max_body_bytes;
        // Given back when the body has been read.
        let mut decoding = None;
        if reading.decoder_bytes() > 0 {
            let begun = decoding.insert(Decoding::new(&self.prompts));
            begun.grow(reading)?;
        }
        let mut names_bytes = 0;
        loop {
            let frame = soon(body.frame(), CLIENT_SILENCE, waited).await;
            let frame = frame.ok_or(Refused::Body(Fault::ClientSilent))?;
            let piece = match frame {
                None => break,
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => piece,
                    Err(_trailers) => continue,
                },
                Some(Err(_)) => return Err(Refused::Body(Fault::ClientLeft)),
            };
            left_bytes = (left_bytes.checked_sub(piece.len() as u64))
                .ok_or(Refused::Body(Fault::TooLarge))?;
            take(held, piece.len())?;
            if !reading.push(piece).map_err(Refused::Content)? {
                go_on(reading, waited).await?;
            }
            if let Some(decoding) = &mut decoding {
                decoding.grow(reading)?;
            }
            // Many small messages take more than their bytes.
            let grown = reading.names_bytes().saturating_sub(names_bytes);
            if grown > NAMES_BYTES {
                take(held, grown)?;
                names_bytes += grown;
            }
        }
        reading.finish().map_err(Refused::Content)
    }

    /// What the client is told of a body that was not taken; counts it.
    pub(super) fn not_admitted(&self, refused: &Refused) -> ApiError {
        let (reason, error) = match refused {
            Refused::Body(fault) => return self.body_failed(*fault),
            Refused::Content(Refusal::Decoding(decode::Error::TooLarge)) => {
                return self.too_large();
            }
            Refused::NeverFits => return self.needs_more_than_all_room(),
            Refused::NeverDecoded => {
                return ApiError::request_too_large(format!(
                    "Decoding the request's body needs more memory than the {} bytes that this node has for it; send it with a smaller window, or as it is",
                    self.prompts.decoding().most_bytes()
                ));
            }
            Refused::Content(Refusal::Decoding(decode::Error::Broken(encoding))) => (
                PromptRefusal::Json,
                ApiError::invalid_request(not_encoded(*encoding)),
            ),
            Refused::Content(Refusal::Json(error)) => (
                PromptRefusal::Json,
                ApiError::invalid_request(format!(
                    "The request's body is not {}: {error}",
                    if error.what.is_json() {
                        "taken"
                    } else {
                        "valid JSON"
                    }
                )),
            ),
            Refused::Content(Refusal::TooLong(too_long)) => (
                too_long.reason(),
                ApiError::invalid_request(too_long.to_string()),
            ),
            Refused::Fingerprint(computed) => (
                PromptRefusal::Fingerprint,
                ApiError::invalid_request(computed.mismatch()),
            ),
            Refused::NoRoom => (
                PromptRefusal::NoRoom,
                ApiError::overloaded(
                    "This node has no room for the request's body; send the request again",
                ),
            ),
        };
        self.metrics.prompt_refusals.one(reason);
        error
    }
}

/// What comes of `work`, if it comes within `limit`. A timer is made when there is something to
/// wait for: most bodies are there when they are asked for.
async fn soon<T>(
    work: impl Future<Output = T> + Unpin,
    limit: Duration,
    waited: &mut Duration,
) -> Option<T> {
    let mut work = work;
    let at_once = poll_fn(|cx| Poll::Ready(Pin::new(&mut work).poll(cx)));
    match at_once.await {
        Poll::Ready(done) => Some(done),
        // In a box: it is rare and large.
        Poll::Pending => {
            let _wait = Wait::new(waited);
            Box::pin(tokio::time::timeout(limit, work)).await.ok()
        }
    }
}

/// Adds up how long is waited, also when that is given up.
struct Wait<'a> {
    since: Instant,
    waited: &'a mut Duration,
}

impl<'a> Wait<'a> {
    fn new(waited: &'a mut Duration) -> Self {
        Self {
            since: Instant::now(),
            waited,
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        *self.waited += self.since.elapsed();
    }
}

/// Takes room of a body, if there is any.
fn take(held: &mut Held, bytes: usize) -> Result<(), Refused> {
    if held.take(bytes) {
        Ok(())
    } else if held.never_fits() {
        Err(Refused::NeverFits)
    } else {
        Err(Refused::NoRoom)
    }
}

/// What decoding a body takes, of all room and of its own part of that.
struct Decoding {
    of_all: Held,
    of_part: Held,
}

impl Decoding {
    fn new(prompts: &Prompts) -> Self {
        Self {
            of_all: prompts.room().hold(),
            of_part: prompts.decoding().hold(),
        }
    }

    /// Takes what the decoder has grown by.
    fn grow(&mut self, reading: &Reading) -> Result<(), Refused> {
        let needed = reading.decoder_bytes() as u64;
        let grown = needed.saturating_sub(self.of_part.bytes());
        if grown == 0 {
            return Ok(());
        }
        match take(&mut self.of_part, grown as usize) {
            Err(Refused::NeverFits) => Err(Refused::NeverDecoded),
            Ok(()) => take(&mut self.of_all, grown as usize),
            other => other,
        }
    }
}

/// Turn by turn, until nothing is left to do.
async fn go_on(reading: &mut Reading, waited: &mut Duration) -> Result<(), Refused> {
    loop {
        if reading.go_on().map_err(Refused::Content)? {
            return Ok(());
        }
        let _wait = Wait::new(waited);
        #[expect(
            clippy::disallowed_methods,
            reason = "each turn does a part of a bounded work; others have theirs in between"
        )]
        tokio::task::yield_now().await;
    }
}

fn not_encoded(encoding: Encoding) -> String {
    let window = if encoding == Encoding::Zstd {
        ", or its window is larger than 8 MiB"
    } else {
        ""
    };
    format!(
        "The request's body is not {} as content-encoding says{window}",
        encoding.name()
    )
}

impl TooLong {
    fn reason(&self) -> PromptRefusal {
        match self.whose {
            Whose::Key => PromptRefusal::KeyLimit,
            Whose::Node => PromptRefusal::NodeLimit,
            Whose::Model => PromptRefusal::Context,
        }
    }
}

/// The answer of `/v1/messages/count_tokens`.
pub(super) fn counted(counted: &Counted) -> Result<Response<Bytes>, ApiError> {
    for (name, is_there) in [
        ("model", !counted.model.is_empty()),
        ("messages", counted.has_messages),
    ] {
        if !is_there {
            return Err(ApiError::invalid_request(format!("{name}: Field required")));
        }
    }
    let Count { tokens, .. } = counted.count;
    let body = json!({ "input_tokens": tokens }).to_string();
    Ok(Response::json(Bytes::from(body)))
}
