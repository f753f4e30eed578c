//! Paths and their methods.

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
            "/v1/chat/completions" => Self::ChatCompletions,
            "/v1/health" => Self::Health,
            _ => Self::None,
        }
    }

    /// The methods it takes, as an `allow` header names them.
    #[must_use]
    pub const fn methods(self) -> &'static str {
        match self {
            Self::Health => "GET, HEAD",
            Self::Models => "GET",
            Self::Messages | Self::CountTokens | Self::ChatCompletions => "POST",
            Self::None => "",
        }
    }

    /// Whether it takes that method.
    #[must_use]
    pub fn takes(self, method: &Method) -> bool {
        match self {
            Self::Health => matches!(*method, Method::GET | Method::HEAD),
            Self::Models => *method == Method::GET,
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
            Self::ChatCompletions => "chat_completions",
            Self::None => "none",
        }
    }
}

impl Series for Route {
    fn all() -> impl Iterator<Item = Self> {
        [
            Self::Health,
            Self::Messages,
            Self::CountTokens,
            Self::Models,
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
            "/v1/models/x",
            "/v1/%6dessages",
        ] {
            assert_eq!(Route::of(path), Route::None, "{path}");
        }
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
