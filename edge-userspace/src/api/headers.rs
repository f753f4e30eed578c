//! The headers that the edge adds to a response, and those that are its alone.

use super::layer::{self, X_ANTHROPIC_LAYER};
use super::request_id::RequestId;
use super::seen::OWN_BETAS;
use super::settings::Settings;
use crate::context::hints::encode;
use crate::message::digits::{DIGITS, digits};
use crate::prompt::Count;
use crate::relay::side::BodyForm;
use crate::telemetry::Lane;
use crate::upstream::{is_of_one_hop, strip_hop_by_hop};
use bytes::Bytes;
use edge_http2::Fields;
use http::header::{self, HeaderName, HeaderValue};
use std::time::Duration;

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const UPSTREAM_REQUEST_ID: HeaderName = HeaderName::from_static("x-edge-upstream-request-id");
const X_CLAUDE_LAYER: HeaderName = HeaderName::from_static("x-claude-layer");
const X_CLAUDE_ROUTE: HeaderName = HeaderName::from_static("x-claude-route");
const X_ANTHROPIC_ROUTED_TO: HeaderName = HeaderName::from_static("x-anthropic-routed-to");
const X_EDGE_INPUT_TOKENS: HeaderName = HeaderName::from_static("x-edge-input-tokens");
const X_ANTHROPIC_CONTEXT_HINT: HeaderName = HeaderName::from_static("x-anthropic-context-hint");
const X_ANTHROPIC_PREFIX_HINT: HeaderName = HeaderName::from_static("x-anthropic-prefix-hint");
const ANTHROPIC_BETA: HeaderName = HeaderName::from_static("anthropic-beta");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const X_DEBUG: HeaderName = HeaderName::from_static("x-debug");

/// What comes before the milliseconds in `server-timing`.
const EDGE_TOOK: &[u8] = b"edge;dur=";

/// Takes out of a request what speaks to the edge alone. An upstream refuses betas that it
/// does not know.
pub(super) fn remove_own(fields: &mut Fields) {
    fields.retain(|name, _| *name != X_DEBUG && *name != X_ANTHROPIC_CONTEXT_HINT);
    remove_own_betas(fields);
    join_cookies(fields);
}

/// HTTP/2 may have cut it, HTTP/1.1 must have it in one (RFC 9113 section 8.2.3).
fn join_cookies(fields: &mut Fields) {
    let cookies = fields.get_all(header::COOKIE).map(HeaderValue::as_bytes);
    let cookies: Vec<_> = cookies.collect();
    if cookies.len() < 2 {
        return;
    }
    if let Ok(cookies) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        fields.insert(header::COOKIE, cookies);
    }
}

fn remove_own_betas(fields: &mut Fields) {
    let names = |value: &HeaderValue| -> Vec<Vec<u8>> {
        let names = value.as_bytes().split(|byte| *byte == b',');
        names.map(|name| name.trim_ascii().to_vec()).collect()
    };
    let values: Vec<_> = fields.get_all(ANTHROPIC_BETA).map(names).collect();
    let is_own = |name: &Vec<u8>| OWN_BETAS.contains(&&name[..]);
    if !values.iter().flatten().any(is_own) {
        return;
    }
    fields.remove(ANTHROPIC_BETA);
    for names in values {
        let others: Vec<_> = (names.into_iter())
            .filter(|name| !is_own(name) && !name.is_empty())
            .collect();
        if !others.is_empty()
            && let Ok(value) = HeaderValue::from_bytes(&others.join(&b','))
        {
            fields.append(ANTHROPIC_BETA, value);
        }
    }
}

/// Takes out of an upstream's answer what belongs to its connection, and what the edge alone says,
/// on its own answers or on [all](dress): an upstream may be an edge as well. The upstream's id,
/// which helps its operators, makes room for the edge's. What is left says that of the body.
pub(super) fn received(fields: &mut Fields) -> BodyForm {
    // Most answers have few of these, or none: one look at all names tells.
    let (mut hops, mut own, mut ids) = (false, false, false);
    let (mut media_type, mut encoding) = (None, None);
    for (name, value) in fields.iter() {
        match name.as_str() {
            "content-type" => media_type = media_type.or(Some(value)),
            "content-encoding" => encoding = encoding.or(Some(value)),
            "connection" => hops = true,
            "request-id" => ids = true,
            name => {
                own |= is_the_edges(name);
                hops |= is_of_one_hop(name);
            }
        }
    }
    let is_plain = |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
    let is = |known: &[u8]| media_type.is_some_and(|value| is_of_type(value, known));
    let form = if !encoding.is_none_or(is_plain) {
        BodyForm::Encoded
    } else if is(b"text/event-stream") {
        BodyForm::Events
    } else if is(b"application/json") {
        BodyForm::Json
    } else {
        BodyForm::Unsaid
    };
    if hops {
        strip_hop_by_hop(fields);
    }
    if own {
        fields.retain(|name, _| !is_the_edges(name.as_str()));
    }
    if ids && let Some(id) = fields.remove(REQUEST_ID) {
        fields.insert(UPSTREAM_REQUEST_ID, id);
    }
    form
}

/// Whether what an upstream says under that name does not go on. It has begun, whatever it says.
fn is_the_edges(name: &str) -> bool {
    matches!(
        name,
        "x-edge-not-begun"
            | "x-edge-input-tokens"
            | "x-anthropic-layer"
            | "x-anthropic-prefix-hint"
            | "x-anthropic-routed-to"
            | "x-claude-layer"
            | "x-claude-route"
            | "cache-control"
    )
}

/// Tells how the answer will begin, if that is to be told.
pub(super) fn tell_hint(fields: &mut Fields, hint: Option<&str>) {
    if let Some(value) = hint.and_then(encode::header) {
        fields.append(X_ANTHROPIC_PREFIX_HINT, value);
    }
}

/// Whether a body ends as JSON or an event stream does, by its content type. An empty one has
/// none.
pub fn is_json_or_events(fields: &Fields) -> bool {
    let is_empty = (fields.get(header::CONTENT_LENGTH)).is_some_and(|length| length == "0");
    is_empty
        || is_media_type(fields, b"application/json")
        || is_media_type(fields, b"text/event-stream")
}

/// Says how many tokens the request's prompt has.
pub(super) fn tell_count(fields: &mut Fields, count: Option<Count>) {
    let value = |count: Count| {
        let mut room = [0; DIGITS];
        let parts = [
            digits(count.tokens, &mut room),
            b";",
            count.kind.name().as_bytes(),
        ];
        HeaderValue::from_maybe_shared(Bytes::from(parts.concat())).ok()
    };
    if let Some(value) = count.and_then(value) {
        fields.append(X_EDGE_INPUT_TOKENS, value);
    }
}

/// Says what the edge itself took for the request. An upstream's own timings stay, before it.
pub(super) fn tell_time(fields: &mut Fields, took: Duration) {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let digit = |number: u64| b'0' + (number % 10) as u8;
    let mut room = [0; DIGITS];
    let value = [
        EDGE_TOOK,
        digits(us / 1000, &mut room),
        &[b'.', digit(us / 100), digit(us / 10), digit(us)],
    ];
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(value.concat())) {
        fields.append(SERVER_TIMING, value);
    }
}

/// Puts the edge's headers on a response, from which an upstream's of these names have been
/// [taken](received). `lane` is the one that it is marked with.
pub(super) fn dress(fields: &mut Fields, settings: &Settings, lane: Lane, id: &RequestId) {
    let is_json = is_media_type(fields, b"application/json");
    let id_text = id.text().value();
    let layer = match lane {
        _ if !is_json => None,
        Lane::Zero => Some(settings.layer.sign(&id_text, id.at_s())),
        Lane::Legacy => Some(layer::LEGACY),
    };
    fields.append(REQUEST_ID, id_text);
    if let Some(layer) = layer {
        fields.append(X_ANTHROPIC_LAYER, layer);
    }
    let route = match lane {
        Lane::Zero => HeaderValue::from_static("direct"),
        Lane::Legacy => HeaderValue::from_static("fallback"),
    };
    fields.append(X_CLAUDE_ROUTE, route);
    fields.append(X_CLAUDE_LAYER, HeaderValue::from_static("v2.1.0-alpha"));
    fields.append(X_ANTHROPIC_ROUTED_TO, settings.node.clone());
    fields.append(
        header::VARY,
        HeaderValue::from_static("x-anthropic-context-id"),
    );
    fields.append(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-store"),
    );
}

/// The name under which clients of Chat Completions look for the id, if the upstream has not
/// said one of its own there.
pub(super) fn tell_id_for_chat(fields: &mut Fields, id: &RequestId) {
    if !fields.has(X_REQUEST_ID) {
        fields.append(X_REQUEST_ID, id.text().value());
    }
}

fn is_media_type(fields: &Fields, media_type: &[u8]) -> bool {
    let value = fields.get(header::CONTENT_TYPE);
    value.is_some_and(|value| is_of_type(value, media_type))
}

/// Parameters such as `charset` do not count.
fn is_of_type(value: &HeaderValue, media_type: &[u8]) -> bool {
    let value = value.as_bytes();
    let end = value.iter().position(|byte| *byte == b';');
    value[..end.unwrap_or(value.len())]
        .trim_ascii()
        .eq_ignore_ascii_case(media_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::regions::Regions;
    use crate::api::{RequestIds, layer::LayerKey};
    use crate::secret::Secret;
    use http::HeaderMap;

    fn settings() -> Settings {
        Settings {
            models: Vec::new(),
            regions: Regions::of_nothing(),
            versions: Vec::new(),
            max_body_bytes: 0,
            ping_after: None,
            node: HeaderValue::from_static("node-7"),
            layer: LayerKey::new(&Secret::new(b"secret".to_vec())),
        }
    }

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        let value = HeaderValue::from_static;
        (lines.iter())
            .map(|(name, text)| (HeaderName::from_static(name), value(text)))
            .collect()
    }

    fn dressed(lines: &[(&'static str, &'static str)], lane: Lane) -> (Fields, RequestId) {
        let mut fields = fields(lines);
        received(&mut fields);
        let id = RequestIds::new().next();
        dress(&mut fields, &settings(), lane, &id);
        (fields, id)
    }

    #[test]
    fn what_speaks_to_the_edge_alone_does_not_go_on() {
        let mut fields = fields(&[
            ("x-debug", "legacy"),
            ("x-anthropic-context-hint", "project"),
            ("x-anthropic-context-id", "u1"),
            ("anthropic-beta", "prefix-hint-2024-10-22"),
            (
                "anthropic-beta",
                "a-1, prefix-hint-2024-10-22, b-2,edge-usage-2026-11-01",
            ),
        ]);
        remove_own(&mut fields);
        let headers = HeaderMap::from(fields.clone());
        assert_eq!(headers.len(), 2);
        assert_eq!(headers["x-anthropic-context-id"], "u1");
        assert_eq!(headers["anthropic-beta"], "a-1,b-2");
        let before = HeaderValue::from_static("a-1 ,b-2");
        fields.insert(ANTHROPIC_BETA, before.clone());
        remove_own(&mut fields);
        let betas = fields.get(ANTHROPIC_BETA);
        assert_eq!(betas, Some(&before), "others' stay as they are");
    }

    #[test]
    fn cut_cookies_are_joined() {
        let cookies = ["a=b", "c=d; e=f", "g=h"].map(|cookie| ("cookie", cookie));
        let mut fields = fields(&cookies);
        remove_own(&mut fields);
        let cookies: Vec<_> = fields.get_all(header::COOKIE).collect();
        assert_eq!(cookies, ["a=b; c=d; e=f; g=h"]);
    }

    #[test]
    fn times_are_told_in_milliseconds_behind_others() {
        for (us, told) in [
            (0, "edge;dur=0.000"),
            (7, "edge;dur=0.007"),
            (1234, "edge;dur=1.234"),
            (98_765_432, "edge;dur=98765.432"),
        ] {
            let mut fields = fields(&[("server-timing", "db;dur=5")]);
            tell_time(&mut fields, Duration::from_micros(us));
            let told_all: Vec<_> = fields.get_all(SERVER_TIMING).collect();
            assert_eq!(told_all, ["db;dur=5", told]);
        }
        tell_time(&mut Fields::new(), Duration::MAX);
    }

    #[test]
    fn json_on_the_zero_lane_carries_a_signed_layer() {
        let upstream = [
            ("content-type", "application/json; charset=utf-8"),
            ("request-id", "req_upstream"),
            ("vary", "origin"),
            ("cache-control", "public"),
            ("anthropic-ratelimit-requests-remaining", "3"),
            ("retry-after", "1"),
            ("x-anthropic-routed-to", "another"),
        ];
        let (fields, id) = dressed(&upstream, Lane::Zero);
        let headers = HeaderMap::from(fields);
        let layer = headers["x-anthropic-layer"].to_str().unwrap();
        let verified = settings().layer.verify(layer, &id.text().value());
        assert_eq!(verified, Ok(id.at_s()));
        assert_eq!(headers["request-id"], id.text().as_str());
        assert_eq!(headers["x-edge-upstream-request-id"], "req_upstream");
        assert_eq!(headers["x-claude-layer"], "v2.1.0-alpha");
        assert_eq!(headers["x-claude-route"], "direct");
        assert_eq!(headers["cache-control"], "private, no-store");
        let routed_to: Vec<_> = headers.get_all("x-anthropic-routed-to").iter().collect();
        assert_eq!(routed_to, ["node-7"]);
        let vary: Vec<_> = headers.get_all("vary").iter().collect();
        assert_eq!(vary, ["origin", "x-anthropic-context-id"]);
        assert_eq!(headers["anthropic-ratelimit-requests-remaining"], "3");
        assert_eq!(headers["retry-after"], "1");
    }

    #[test]
    fn the_legacy_lane_says_so() {
        let (fields, _) = dressed(&[("content-type", "application/json")], Lane::Legacy);
        let headers = HeaderMap::from(fields);
        assert_eq!(headers["x-anthropic-layer"], "legacy-gateway");
        assert_eq!(headers["x-claude-route"], "fallback");
    }

    #[test]
    fn what_an_upstream_says_of_its_connection_or_as_an_edge_goes() {
        let mut fields = fields(&[
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("x-edge-not-begun", "true"),
            ("x-edge-input-tokens", "7;exact"),
            ("x-anthropic-layer", "legacy-gateway"),
            ("x-anthropic-prefix-hint", "\"a\""),
            ("content-type", "application/json"),
            ("content-type", "text/event-stream"),
            ("x-edge-other", "stays"),
        ]);
        assert_eq!(received(&mut fields), BodyForm::Json, "by the first");
        let left: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(left, ["content-type", "content-type", "x-edge-other"]);
        fields.remove(header::CONTENT_TYPE);
        assert_eq!(received(&mut fields), BodyForm::Unsaid);
        let identity = HeaderValue::from_static("Identity");
        fields.insert(header::CONTENT_ENCODING, identity);
        assert_eq!(received(&mut fields), BodyForm::Unsaid);
    }

    #[test]
    fn event_streams_carry_no_layer() {
        let upstream = [
            ("content-type", "text/event-stream; charset=utf-8"),
            ("x-anthropic-layer", "an upstream's"),
        ];
        for lane in [Lane::Zero, Lane::Legacy] {
            let (mut fields, _) = dressed(&upstream, lane);
            assert!(!fields.has(X_ANTHROPIC_LAYER));
            assert_eq!(received(&mut fields), BodyForm::Events);
            let gzip = HeaderValue::from_static("gzip");
            fields.insert(header::CONTENT_ENCODING, gzip);
            let form = received(&mut fields);
            assert_eq!(form, BodyForm::Encoded, "nothing can be added to it");
        }
    }
}
