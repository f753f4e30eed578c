//! Errors in the API's shape: `{"type":"error","error":{"type","message"},"request_id"}`.

use crate::message::Response;
use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use serde::Serialize;
use std::borrow::Cow;

/// Tells the official SDKs whether to try again; they obey it before anything else.
pub const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Tells who stands between the client and this edge that the request can go to another edge.
pub const X_EDGE_NOT_BEGUN: HeaderName = HeaderName::from_static("x-edge-not-begun");

/// So much of a client's own words is told back to it, characters.
const MOST_SHOWN: usize = 128;

const OVERLOADED: &str = "overloaded_error";
const RATE_LIMIT: &str = "rate_limit_error";

/// An error as a client gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: Cow<'static, str>,
    retry: bool,
    not_begun: bool,
}

/// A client's own words as an error tells them: not too many, and nothing in them that commands a
/// terminal.
pub(super) fn shown(words: &str) -> String {
    let mut chars = words.chars();
    let mut shown: String = chars.by_ref().take(MOST_SHOWN).collect();
    shown = shown.escape_debug().to_string();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $status:ident $kind:literal retry $retry:literal,)*) => {
        impl ApiError {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
                    Self {
                        status: StatusCode::$status,
                        kind: $kind,
                        message: message.into(),
                        retry: $retry,
                        not_begun: false,
                    }
                }
            )*
        }
    };
}

kinds! {
    /// 400: the request is wrong.
    invalid_request = BAD_REQUEST "invalid_request_error" retry false,
    /// 401: no key, or not a good one.
    authentication = UNAUTHORIZED "authentication_error" retry false,
    /// 403: the key may not do that.
    permission = FORBIDDEN "permission_error" retry false,
    /// 404: no such path.
    not_found = NOT_FOUND "not_found_error" retry false,
    /// 405: the path exists, the method does not fit it.
    method_not_allowed = METHOD_NOT_ALLOWED "invalid_request_error" retry false,
    /// 408: the request did not come to its end.
    request_timeout = REQUEST_TIMEOUT "timeout_error" retry true,
    /// 413: the body is too large.
    request_too_large = PAYLOAD_TOO_LARGE "request_too_large" retry false,
    /// 414: the path and query are too long.
    uri_too_long = URI_TOO_LONG "invalid_request_error" retry false,
    /// 415: the body's encoding is not understood.
    unsupported_encoding = UNSUPPORTED_MEDIA_TYPE "invalid_request_error" retry false,
    /// 429: too many, for the moment.
    rate_limit = TOO_MANY_REQUESTS "rate_limit_error" retry true,
    /// 429: used up for longer than a try later could wait.
    used_up = TOO_MANY_REQUESTS "rate_limit_error" retry false,
    /// 431: the head is too large.
    head_too_large = REQUEST_HEADER_FIELDS_TOO_LARGE "request_too_large" retry false,
    /// 500: the edge or the upstream failed.
    api = INTERNAL_SERVER_ERROR "api_error" retry true,
    /// 504: the upstream did not answer in time.
    timeout = GATEWAY_TIMEOUT "timeout_error" retry true,
}

impl ApiError {
    /// 529: no room now.
    #[must_use]
    pub fn overloaded(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
            kind: OVERLOADED,
            message: message.into(),
            retry: true,
            not_begun: false,
        }
    }

    /// The same, of a request of which no upstream has heard: whoever sent it may send it
    /// elsewhere without having it done twice.
    #[must_use]
    pub fn not_begun(self) -> Self {
        Self {
            not_begun: true,
            ..self
        }
    }

    /// The same for one that another try, on another connection, may not meet.
    #[must_use]
    pub fn again(mut self) -> Self {
        self.retry = true;
        self
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The error as a response's body.
    #[must_use]
    pub fn body(&self, request_id: &HeaderValue) -> Bytes {
        Bytes::from(self.json(request_id))
    }

    /// The error as the last event of an event stream.
    #[must_use]
    pub fn event(&self, request_id: &HeaderValue) -> Bytes {
        let mut event = b"event: error\ndata: ".to_vec();
        event.append(&mut self.json(request_id));
        event.extend_from_slice(b"\n\n");
        Bytes::from(event)
    }

    /// The error as a response without the edge's own headers.
    #[must_use]
    pub fn response(&self, request_id: &HeaderValue) -> Response<Bytes> {
        let mut response = Response::json(self.body(request_id));
        response.status = self.status;
        let retry = if self.retry { "true" } else { "false" };
        let fields = &mut response.fields;
        fields.append(X_SHOULD_RETRY, HeaderValue::from_static(retry));
        if self.not_begun && self.retry {
            fields.append(X_EDGE_NOT_BEGUN, HeaderValue::from_static("true"));
        }
        if self.retry && (self.kind == OVERLOADED || self.kind == RATE_LIMIT) {
            // Short: the official TypeScript SDK sleeps it in full.
            fields.append(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    fn json(&self, request_id: &HeaderValue) -> Vec<u8> {
        #[derive(Serialize)]
        struct Body<'a> {
            r#type: &'a str,
            error: Inner<'a>,
            request_id: &'a str,
        }
        #[derive(Serialize)]
        struct Inner<'a> {
            r#type: &'a str,
            message: &'a str,
        }
        let body = Body {
            r#type: "error",
            error: Inner {
                r#type: self.kind,
                message: &self.message,
            },
            // Made at the edge, of letters and digits only.
            request_id: request_id.to_str().unwrap_or_default(),
        };
        // Strings alone always serialise.
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_words_are_cut_and_command_no_terminal() {
        assert_eq!(shown("/v1/x"), "/v1/x");
        assert_eq!(shown("a\u{1b}[31m\n\u{202e}é"), r"a\u{1b}[31m\n\u{202e}é");
        assert_eq!(shown(&"é".repeat(128)), "é".repeat(128));
        assert_eq!(shown(&"é".repeat(129)), format!("{}…", "é".repeat(128)));
    }

    #[test]
    fn has_the_apis_shape_byte_for_byte() {
        let id = HeaderValue::from_static("req_1");
        let error = ApiError::authentication("Invalid \"Key\"\n");
        let expected = r#"{"type":"error","error":{"type":"authentication_error","message":"Invalid \"Key\"\n"},"request_id":"req_1"}"#;
        assert_eq!(error.body(&id), expected);
        assert_eq!(
            error.event(&id),
            format!("event: error\ndata: {expected}\n\n")
        );
        let response = error.response(&id).into_http();
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()[X_SHOULD_RETRY], "false");
        assert_eq!(response.headers()["content-type"], "application/json");
        let overloaded = ApiError::overloaded("").response(&id).into_http();
        assert_eq!(overloaded.status().as_u16(), 529);
        assert_eq!(overloaded.headers()["retry-after"], "1");
        let limited = ApiError::rate_limit("").response(&id).into_http();
        assert_eq!(limited.status(), 429);
        assert_eq!(limited.headers()["retry-after"], "1");
        assert_eq!(limited.headers()[X_SHOULD_RETRY], "true");
        assert!(!response.headers().contains_key("retry-after"));
        let used_up = ApiError::used_up("").response(&id).into_http();
        assert_eq!(used_up.status(), 429);
        assert_eq!(used_up.headers()[X_SHOULD_RETRY], "false");
        assert!(!used_up.headers().contains_key("retry-after"));
        assert!(!limited.headers().contains_key("x-edge-not-begun"));
        let elsewhere = ApiError::overloaded("")
            .not_begun()
            .response(&id)
            .into_http();
        assert_eq!(elsewhere.headers()["x-edge-not-begun"], "true");
        let wrong = ApiError::invalid_request("")
            .not_begun()
            .response(&id)
            .into_http();
        assert!(!wrong.headers().contains_key("x-edge-not-begun"));
    }
}
