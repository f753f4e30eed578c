//! What is answered to which request.

use super::ask::{number, plain, script, text};
use super::echo::{echo, sha256};
use super::ledger::Outcome;
use super::play::Play;
use super::script::Shape;
use super::server::Model;
use super::socket::Ending;
use super::stats::{self, Stats};
use super::{Fault, kv_cache, tokens};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Answers one request. An error closes the connection without an answer.
pub(super) async fn answer(
    request: Request<Incoming>,
    ending: Ending,
    model: &Model,
    stats: &Stats,
) -> io::Result<Response<Play>> {
    let counted = stats.begin();
    let (head, body) = request.into_parts();
    // Looking on does not count.
    match head.uri.path() {
        "/demo/stats" => {
            let mut figures = json!(stats.figures());
            figures["active"] = json!(stats.figures().active - 1);
            return Ok(whole(StatusCode::OK, &figures, counted));
        }
        "/demo/ledger" => {
            let accounts = json!(stats.ledger().accounts());
            return Ok(whole(StatusCode::OK, &accounts, counted));
        }
        _ => {}
    }
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Err(io::Error::other(error)),
    };
    let mut response = respond_to(&head, &body, ending, model, counted).await?;
    let headers = response.headers_mut();
    if text(&head.headers, "x-demo-hash").is_some()
        && let Ok(hash) = HeaderValue::try_from(sha256(&body))
    {
        headers.insert(HeaderName::from_static("x-demo-body-sha256"), hash);
    }
    if let Some(more) = text(&head.headers, "x-demo-headers") {
        add(headers, more);
    }
    Ok(response)
}

/// Headers out of a JSON object. Those that cannot be are left out.
fn add(headers: &mut HeaderMap, more: &str) {
    let more: BTreeMap<String, String> = serde_json::from_str(more).unwrap_or_default();
    for (name, value) in more {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}

async fn respond_to(
    head: &Parts,
    body: &Bytes,
    ending: Ending,
    model: &Model,
    mut counted: stats::Request,
) -> io::Result<Response<Play>> {
    let Model { options, .. } = model;
    let shape = match (&head.method, head.uri.path()) {
        (&Method::POST, "/v1/messages") => Some(Shape::Messages),
        (&Method::POST, "/v1/chat/completions") => Some(Shape::ChatCompletions),
        _ => None,
    };
    let mut attempt = 1;
    if let (Some(_), Some(account)) = (shape, text(&head.headers, "x-demo-account")) {
        attempt = counted.put_to(account);
    }
    let fault = text(&head.headers, "x-demo-error")
        .and_then(Fault::parse)
        .filter(|_| {
            number(&head.headers, "x-demo-error-times").is_none_or(|times| attempt <= times)
        });
    match fault {
        Some(Fault::CloseBeforeHead) => {
            counted.finish(Outcome::Failed);
            return Err(io::Error::other("closed on request"));
        }
        Some(Fault::Hang) => std::future::pending::<()>().await,
        Some(Fault::Status(status)) => return Ok(failed(status, "Failed on request", counted)),
        _ => {}
    }
    let first_token = number(&head.headers, "x-demo-first-token-ms")
        .map_or(options.first_token, Duration::from_millis);
    if text(&head.headers, "x-demo-echo").is_some() {
        tokio::time::sleep(first_token).await;
        return Ok(whole(StatusCode::OK, &echo(head, body), counted));
    }
    let Some(body) = plain(&head.headers, body) else {
        let why = "The body is not encoded as its content-encoding says";
        return Ok(failed(StatusCode::BAD_REQUEST, why, counted));
    };
    match (shape, &head.method, head.uri.path()) {
        (Some(shape), ..) => {
            let asked = Asked {
                headers: &head.headers,
                body: &body,
                shape,
                fault,
                first_token,
            };
            message(asked, model, ending, counted).await
        }
        (_, &(Method::GET | Method::HEAD), "/v1/models") => {
            Ok(whole(StatusCode::OK, &models(), counted))
        }
        (_, &(Method::GET | Method::HEAD), "/v1/models/claude-demo") => {
            Ok(whole(StatusCode::OK, &demo(), counted))
        }
        (_, &Method::POST, "/v1/chat/completions/render") => {
            let ids = json!({ "request_id": "req_demo", "token_ids": tokens::ids(&body) });
            Ok(whole(StatusCode::OK, &ids, counted))
        }
        // Routers before inference engines ask it before they send anything.
        (_, &Method::GET, "/health") => Ok(whole(StatusCode::OK, &json!({}), counted)),
        (_, &Method::POST, "/v1/messages/count_tokens") => {
            let count = tokens::count(&body, options.vocabulary.as_ref());
            let count = json!({ "input_tokens": count });
            Ok(whole(StatusCode::OK, &count, counted))
        }
        _ => {
            let why = "The demo model has nothing here";
            Ok(failed(StatusCode::NOT_FOUND, why, counted))
        }
    }
}

/// A message or a completion that is asked for.
struct Asked<'a> {
    headers: &'a HeaderMap,
    body: &'a Bytes,
    shape: Shape,
    fault: Option<Fault>,
    first_token: Duration,
}

async fn message(
    asked: Asked<'_>,
    model: &Model,
    ending: Ending,
    mut counted: stats::Request,
) -> io::Result<Response<Play>> {
    let Model { options, kv_cache } = model;
    let Asked { headers, body, .. } = asked;
    let Ok(said) = serde_json::from_slice::<Value>(body) else {
        return Ok(failed(
            StatusCode::BAD_REQUEST,
            "The body is no JSON",
            counted,
        ));
    };
    let mut script = script(headers, &said, asked.shape, asked.fault, options);
    let vocabulary = options.vocabulary.as_ref();
    script.input_tokens = tokens::count(body, vocabulary);
    let segments = kv_cache::segments(&said, script.input_tokens, vocabulary);
    let read = kv_cache.read(&segments, tokio::time::Instant::now());
    counted.read(script.input_tokens, read.cached);
    script.cached = match text(headers, "x-demo-usage") {
        Some("cache") => Some((script.input_tokens / 2, script.input_tokens / 4)),
        _ => kv_cache.is_on().then_some((read.cached, read.created)),
    };
    tokio::time::sleep_until(read.at + asked.first_token).await;
    if said["stream"] == true {
        let mut response = Response::new(Play::events(script, ending, counted));
        let events = HeaderValue::from_static("text/event-stream; charset=utf-8");
        (response.headers_mut()).insert(header::CONTENT_TYPE, events);
        own_headers(response.headers_mut());
        return Ok(response);
    }
    let between = u32::try_from(script.tokens.saturating_sub(1)).unwrap_or(u32::MAX);
    tokio::time::sleep(script.inter_token.saturating_mul(between)).await;
    let answer = script.whole();
    if asked.fault.is_some_and(Fault::closes) {
        let resets = asked.fault.is_some_and(Fault::resets).then_some(ending);
        return Ok(respond(
            StatusCode::OK,
            Play::half(answer.to_string(), resets, counted),
        ));
    }
    if counted.has_account() {
        counted.made(script.all_output_tokens());
    }
    Ok(whole(StatusCode::OK, &answer, counted))
}

fn models() -> Value {
    json!({
        "data": [demo()],
        "has_more": false,
        "first_id": "claude-demo",
        "last_id": "claude-demo",
    })
}

fn demo() -> Value {
    json!({
        "type": "model",
        "id": "claude-demo",
        "display_name": "Demo model",
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
    })
}

fn failed(status: StatusCode, message: &str, counted: stats::Request) -> Response<Play> {
    let kind = match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    let error = json!({
        "type": "error",
        "error": { "type": kind, "message": message },
    });
    let body = Play::whole(error.to_string(), Outcome::Failed, counted);
    let mut response = respond(status, body);
    if status == StatusCode::TOO_MANY_REQUESTS {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        for (name, value) in [
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
        ] {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
    }
    response
}

fn whole(status: StatusCode, body: &Value, counted: stats::Request) -> Response<Play> {
    respond(
        status,
        Play::whole(body.to_string(), Outcome::Finished, counted),
    )
}

fn respond(status: StatusCode, body: Play) -> Response<Play> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    (response.headers_mut()).insert(header::CONTENT_TYPE, json);
    own_headers(response.headers_mut());
    response
}

fn own_headers(headers: &mut HeaderMap) {
    headers.insert(
        HeaderName::from_static("request-id"),
        HeaderValue::from_static("req_demo"),
    );
}
