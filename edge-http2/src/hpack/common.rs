//! Names and values that clients of the Messages API send and the static table lacks.
//!
//! One that is found here lies in the program: no parsing, no allocation, and no references to
//! count each time that a field with it is decoded, passed on and dropped.

use http::{HeaderName, HeaderValue};

/// `bytes` as a name, if it is one of these.
pub(super) fn name(bytes: &[u8]) -> Option<HeaderName> {
    macro_rules! names {
        ($($name:literal)*) => {
            match bytes {
                $(_ if bytes == $name.as_bytes() => Some(const { HeaderName::from_static($name) }),)*
                _ => None,
            }
        };
    }
    names! {
        "anthropic-beta"
        "anthropic-dangerous-direct-browser-access"
        "anthropic-version"
        "openai-organization"
        "openai-project"
        "priority"
        "traceparent"
        "x-anthropic-context-id"
        "x-api-key"
        "x-app"
        "x-request-id"
        "x-stainless-arch"
        "x-stainless-async"
        "x-stainless-helper-method"
        "x-stainless-lang"
        "x-stainless-os"
        "x-stainless-package-version"
        "x-stainless-read-timeout"
        "x-stainless-retry-count"
        "x-stainless-runtime"
        "x-stainless-runtime-version"
        "x-stainless-timeout"
    }
}

/// `bytes` as a value, if it is one of these.
pub(super) fn value(bytes: &[u8]) -> Option<HeaderValue> {
    macro_rules! values {
        ($($value:literal)*) => {
            match bytes {
                $(_ if bytes == $value.as_bytes() => Some(const { HeaderValue::from_static($value) }),)*
                _ => None,
            }
        };
    }
    values! {
        "*"
        "*/*"
        "0"
        "2023-06-01"
        "600"
        "CPython"
        "Linux"
        "MacOS"
        "Windows"
        "application/json"
        "application/json; charset=utf-8"
        "arm64"
        "async:asyncio"
        "br, gzip, deflate"
        "cli"
        "cors"
        "false"
        "gzip"
        "gzip, br"
        "gzip, deflate"
        "gzip, deflate, br"
        "gzip, deflate, br, zstd"
        "gzip,deflate"
        "identity"
        "js"
        "no-cache"
        "node"
        "python"
        "stream"
        "text/event-stream"
        "trailers"
        "true"
        "x64"
    }
}
