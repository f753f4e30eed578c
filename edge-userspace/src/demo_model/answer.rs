//! What is answered to which request.

use super::echo::echo;
use super::play::Play;
use super::script::{self, Script, Shape};
use super::server::Model;
use super::stats::{self, Stats};
use super::{Fault, MAX_TOKENS, kv_cache, tokens};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::io;
use std::str::FromStr;
use std::time::Duration;

/// Answers one request. An error closes the connection without an answer.
pub(super) async fn answer(
    request: Request<Incoming>,
    model: &Model,
    stats: &Stats,
) -> io::Result<Response<Play>> {
    let Model { options, .. } = model;
    let mut counted = stats.begin();
    let (head, body) = request.into_parts();
    if head.uri.path() == "/demo/stats" {
        // Looking on does not count.
        let mut figures = json!(stats.figures());
        figures["active"] = json!(stats.figures().active - 1);
        return Ok(whole(StatusCode::OK, &figures, counted));
    }
    let fault = text(&head.headers, "x-demo-error").and_then(Fault::parse);
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Err(io::Error::other(error)),
    };
    match fault {
        Some(Fault::CloseBeforeHead) => {
            counted.finish();
            return Err(io::Error::other("closed on request"));
        }
        Some(Fault::Hang) => std::future::pending::<()>().await,
        Some(Fault::Status(status)) => return Ok(failed(status, counted)),
        _ => {}
    }
    let first_token = number(&head.headers, "x-demo-first-token-ms")
        .map_or(options.first_token, Duration::from_millis);
    if text(&head.headers, "x-demo-echo").is_some() {
        tokio::time::sleep(first_token).await;
        return Ok(whole(StatusCode::OK, &echo(&head, &body), counted));
    }
    match (&head.method, head.uri.path()) {
        (&Method::GET, "/v1/models") => Ok(whole(StatusCode::OK, &models(), counted)),
        (&Method::POST, "/v1/messages/count_tokens") => {
            let count = tokens::count(&body, options.vocabulary.as_ref());
            let count = json!({ "input_tokens": count });
            Ok(whole(StatusCode::OK, &count, counted))
        }
        (&Method::POST, "/v1/messages") => {
            message(
                &head.headers,
                &body,
                model,
                Shape::Messages,
                fault,
                first_token,
                counted,
            )
            .await
        }
        (&Method::POST, "/v1/chat/completions") => {
            let shape = Shape::ChatCompletions;
            message(
                &head.headers,
                &body,
                model,
                shape,
                fault,
                first_token,
                counted,
            )
            .await
        }
        _ => Ok(failed(StatusCode::NOT_FOUND, counted)),
    }
}

async fn message(
    headers: &HeaderMap,
    body: &Bytes,
    model: &Model,
    shape: Shape,
    fault: Option<Fault>,
    first_token: Duration,
    counted: stats::Request,
) -> io::Result<Response<Play>> {
    let Model { options, kv_cache } = model;
    let Ok(asked) = serde_json::from_slice::<Value>(body) else {
        return Ok(failed(StatusCode::BAD_REQUEST, counted));
    };
    let vocabulary = options.vocabulary.as_ref();
    let input_tokens = tokens::count(body, vocabulary);
    let segments = kv_cache::segments(&asked, input_tokens, vocabulary);
    let read = kv_cache.read(&segments, tokio::time::Instant::now());
    counted.read(input_tokens, read.cached);
    let inter_token =
        number(headers, "x-demo-inter-token-ms").map_or(options.inter_token, Duration::from_millis);
    let max_tokens = asked["max_tokens"].as_u64();
    let tokens = (number(headers, "x-demo-tokens").or(max_tokens))
        .unwrap_or(options.tokens)
        .min(MAX_TOKENS);
    let script = Script {
        shape,
        model: asked["model"].as_str().unwrap_or("claude-demo").to_owned(),
        input_tokens,
        cached: kv_cache.is_on().then_some((read.cached, read.created)),
        tokens,
        beginning: text(headers, "x-demo-begin").map(str::to_owned),
        stop_reason: if max_tokens.is_some_and(|max| max <= tokens) {
            "max_tokens"
        } else {
            "end_turn"
        },
        inter_token,
        chunk_bytes: number(headers, "x-demo-chunk-bytes").map(|bytes: usize| bytes.max(1)),
        fault,
    };
    tokio::time::sleep_until(read.at + first_token).await;
    if asked["stream"] == true {
        let mut response = Response::new(Play::events(script, counted));
        let events = HeaderValue::from_static("text/event-stream; charset=utf-8");
        (response.headers_mut()).insert(header::CONTENT_TYPE, events);
        own_headers(response.headers_mut());
        return Ok(response);
    }
    let between = u32::try_from(tokens.saturating_sub(1)).unwrap_or(u32::MAX);
    tokio::time::sleep(inter_token.saturating_mul(between)).await;
    let answer = whole_answer(&script);
    let half = matches!(
        fault,
        Some(Fault::CloseBetweenEvents | Fault::CloseMidEvent)
    );
    if half {
        return Ok(respond(
            StatusCode::OK,
            Play::half(answer.to_string(), counted),
        ));
    }
    Ok(whole(StatusCode::OK, &answer, counted))
}

fn whole_answer(script: &Script) -> Value {
    let text = script.text();
    match script.shape {
        Shape::Messages => json!({
            "id": "msg_demo",
            "type": "message",
            "role": "assistant",
            "model": script.model,
            "content": [{ "type": "text", "text": text }],
            "stop_reason": script.stop_reason,
            "stop_sequence": null,
            "usage": script::with(script.input_usage(), "output_tokens", script.tokens),
        }),
        Shape::ChatCompletions => json!({
            "id": "chatcmpl_demo",
            "object": "chat.completion",
            "model": script.model,
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": text },
                "finish_reason": "stop",
            }],
            "usage": {
                "prompt_tokens": script.input_tokens,
                "completion_tokens": script.tokens,
                "total_tokens": script.input_tokens + script.tokens,
                "prompt_tokens_details": {
                    "cached_tokens": script.cached.map_or(0, |(read, _)| read),
                },
            },
        }),
    }
}

fn models() -> Value {
    json!({
        "data": [{
            "type": "model",
            "id": "claude-demo",
            "display_name": "Demo model",
            "created_at": "2026-01-01T00:00:00Z",
        }],
        "has_more": false,
        "first_id": "claude-demo",
        "last_id": "claude-demo",
    })
}

fn failed(status: StatusCode, counted: stats::Request) -> Response<Play> {
    let kind = match status.as_u16() {
        401 => "authentication_error",
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
        "error": { "type": kind, "message": "Failed on request" },
    });
    let mut response = whole(status, &error, counted);
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
    respond(status, Play::whole(body.to_string(), counted))
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

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn number<T: FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    text(headers, name)?.parse().ok()
}
