//! `x-demo-echo`: the answer is what the model received.
//!
//! A JSON object: `method`, `path`, `headers` (an array of `[name, value]` in lower case;
//! of a credential only `sha256:` and its hash), `body_bytes`, `body_sha256`.

use http::request::Parts;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(super) fn echo(head: &Parts, body: &[u8]) -> Value {
    let headers: Vec<Value> = (head.headers.iter())
        .map(|(name, value)| {
            let value = match name.as_str() {
                "x-api-key" | "authorization" => format!("sha256:{}", sha256(value.as_bytes())),
                _ => String::from_utf8_lossy(value.as_bytes()).into_owned(),
            };
            json!([name.as_str(), value])
        })
        .collect();
    json!({
        "method": head.method.as_str(),
        "path": head.uri.path_and_query().map_or("", |path| path.as_str()),
        "headers": headers,
        "body_bytes": body.len(),
        "body_sha256": sha256(body),
    })
}

/// In hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
