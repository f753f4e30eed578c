//! Paths and their methods.

use super::error::{ApiError, shown};
use crate::telemetry::Series;
use http::Method;

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/v1/health`
    Health,
    /// `/v1/messages`
    Messages,
    /// `/v1/messages/count_tokens`
    CountTokens,
    /// `/v1/models`
    Models,
    /// `/v1/models/{id}`
    Model,
    /// `/v1/regions`
    Regions,
    /// `/v1/chat/completions`, OpenAI's shape.
    ChatCompletions,
    /// Nothing here.
    None,
}

impl Route {
    /// The route of a path, which is taken as it stands: what is not spelt exactly is not
    /// there, so no upstream is asked to interpret it.
    #[must_use]
    pub fn of(path: &str) -> Self {
        match path {
            "/v1/messages" => Self::Messages,
            "/v1/messages/count_tokens" => Self::CountTokens,
            "/v1/models" => Self::Models,
            "/v1/regions" => Self::Regions,
            "/v1/chat/completions" => Self::ChatCompletions,
            "/v1/health" => Self::Health,
            _ if model_id(path).is_some() => Self::Model,
            _ => Self::None,
        }
    }

    /// The methods it takes, as an `allow` header names them.
    #[must_use]
    pub const fn methods(self) -> &'static str {
        match self {
            Self::Health | Self::Models | Self::Model | Self::Regions => "GET, HEAD",
            Self::Messages | Self::CountTokens | Self::ChatCompletions => "POST",
            Self::None => "",
        }
    }

    /// Whether it takes that method.
    #[must_use]
    pub fn takes(self, method: &Method) -> bool {
        match self {
            Self::Health | Self::Models | Self::Model | Self::Regions => {
                matches!(*method, Method::GET | Method::HEAD)
            }
            Self::Messages | Self::CountTokens | Self::ChatCompletions => *method == Method::POST,
            Self::None => false,
        }
    }

    /// Whether `anthropic-version` must be negotiated.
    #[must_use]
    pub const fn is_versioned(self) -> bool {
        matches!(self, Self::Messages | Self::CountTokens)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
            Self::Models => "models",
            Self::Model => "model",
            Self::Regions => "regions",
            Self::ChatCompletions => "chat_completions",
            Self::None => "none",
        }
    }
}

/// What a path is told that leads nowhere. Most come of a base URL with one `/v1` too many or too
/// few, since SDKs differ in whether they add it.
pub(super) fn nothing_at(path: &str) -> ApiError {
    let with = format!("/v1{path}");
    let without = path.strip_prefix("/v1");
    let meant = [without, Some(&*with)].into_iter().flatten();
    let meant = { meant }.find(|path| Route::of(path) != Route::None);
    let hint = meant.map_or_else(String::new, |meant| {
        format!(
            ", but there is {}: look at the client's base URL, which Anthropic's SDKs want without /v1 at its end and OpenAI's with it",
            shown(meant)
        )
    });
    ApiError::not_found(format!("There is nothing at {}{hint}", shown(path)))
}

/// The model that `/v1/models/{id}` asks for: visible ASCII, of which nothing could be read as
/// another path by an upstream that decodes once more.
pub(super) fn model_id(path: &str) -> Option<String> {
    let escaped = path.strip_prefix("/v1/models/")?;
    if escaped.contains('/') || escaped.len() > MAX_ID_BYTES {
        return None;
    }
    let id = unescape(escaped)?;
    let good = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'\\' | b'?' | b'#');
    let mut parts = id.split('/');
    let is_good = id.bytes().all(good) && parts.all(|part| !matches!(part, "" | "." | ".."));
    is_good.then_some(id)
}

/// Longest name of a model, escaped.
const MAX_ID_BYTES: usize = 256;

/// Takes percent-encoding off (RFC 3986 section 2.1). None: it is broken, or no UTF-8.
pub(super) fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, others)) = rest.split_first() {
        rest = others;
        if byte == b'%' {
            let (digits, others) = others.split_at_checked(2)?;
            let mut decoded = [0];
            hex::decode_to_slice(digits, &mut decoded).ok()?;
            bytes.push(decoded[0]);
            rest = others;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

impl Series for Route {
    fn all() -> impl Iterator<Item = Self> {
        [
            Self::Health,
            Self::Messages,
            Self::CountTokens,
            Self::Models,
            Self::Model,
            Self::Regions,
            Self::ChatCompletions,
            Self::None,
        ]
        .into_iter()
    }

    fn index(self) -> usize {
        self as usize
    }

    fn labels(self) -> Vec<(&'static str, &'static str)> {
        vec![("route", self.name())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_as_they_stand() {
        assert_eq!(Route::of("/v1/messages"), Route::Messages);
        for path in [
            "/",
            "/v1/messages/",
            "//v1/messages",
            "/v1/Messages",
            "/v1/./messages",
            "/v1/%6dessages",
            "/v1/regions/",
        ] {
            assert_eq!(Route::of(path), Route::None, "{path}");
        }
    }

    #[test]
    fn a_models_path_is_one_name_and_no_other_path() {
        for (path, id) in [
            ("/v1/models/claude-demo", "claude-demo"),
            ("/v1/models/a%2Fb:c@1", "a/b:c@1"),
        ] {
            assert_eq!(model_id(path).as_deref(), Some(id));
            assert_eq!(Route::of(path), Route::Model);
        }
        let long = format!("/v1/models/{}", "x".repeat(300));
        for path in [
            "/v1/models/",
            "/v1/models/a/b",
            "/v1/models/..",
            "/v1/models/%2e%2E",
            "/v1/models/%2e%2e%2fmessages",
            "/v1/models/a%2f..%2f..%2fx",
            "/v1/models/%252e%252e",
            "/v1/models/a%5cb",
            "/v1/models/a%00",
            "/v1/models/a%3fb",
            "/v1/models/%c3%a9",
            "/v1/models/%",
            "/v1/models/%4",
            "/v1/models/%zz",
            &long,
        ] {
            assert_eq!(Route::of(path), Route::None, "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_is_named_and_a_base_urls_slip_told() {
        let told = |path: &str| {
            let body = nothing_at(path).body(&http::HeaderValue::from_static("req_1"));
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            body["error"]["message"].as_str().unwrap().to_owned()
        };
        for (path, meant) in [
            ("/v1/v1/messages", "/v1/messages"),
            ("/v1/v1/messages/count_tokens", "/v1/messages/count_tokens"),
            ("/v1/v1/models/m", "/v1/models/m"),
            ("/messages", "/v1/messages"),
            ("/chat/completions", "/v1/chat/completions"),
            ("/models", "/v1/models"),
        ] {
            let told = told(path);
            let begin = format!("There is nothing at {path}, but there is {meant}: look at");
            assert!(told.starts_with(&begin), "{told}");
        }
        for path in [
            "/",
            "/v1",
            "/v1/",
            "/v1/v1",
            "/v1/Messages",
            "/v1/v1/v1/messages",
            "/x\"y",
        ] {
            assert_eq!(
                told(path),
                format!("There is nothing at {}", path.escape_debug())
            );
        }
        let long = told(&format!("/{}", "x".repeat(8000)));
        assert!(long.len() < 200 && long.ends_with("x…"), "{long}");
    }

    #[test]
    fn methods_named_are_methods_taken() {
        let all = [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
        ];
        for route in Route::all() {
            let taken: Vec<_> = all.iter().filter(|method| route.takes(method)).collect();
            let named: Vec<_> = (route.methods().split(", "))
                .filter(|m| !m.is_empty())
                .collect();
            assert_eq!(
                taken.iter().map(|m| m.as_str()).collect::<Vec<_>>(),
                named,
                "{route:?}"
            );
        }
    }
}
