//! A key's limits where a request meets them: what is refused, what is reserved, what the
//! client is told of it.

use super::Api;
use super::error::ApiError;
use crate::prompt::Counted;
use crate::relay::ResponseBody;
use crate::session::{Session, State};
use crate::telemetry::{ConnectionEnd, QuotaLimit};
use crate::upstream::{self, Upload};
use crate::usage::{Level, Refused, Settlement, Standing};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `limit`, `remaining` and `reset` of each limit.
const HEADERS: [[HeaderName; 3]; 4] = [
    [
        HeaderName::from_static("anthropic-ratelimit-requests-limit"),
        HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
        HeaderName::from_static("anthropic-ratelimit-requests-reset"),
    ],
    [
        HeaderName::from_static("anthropic-ratelimit-input-tokens-limit"),
        HeaderName::from_static("anthropic-ratelimit-input-tokens-remaining"),
        HeaderName::from_static("anthropic-ratelimit-input-tokens-reset"),
    ],
    [
        HeaderName::from_static("anthropic-ratelimit-output-tokens-limit"),
        HeaderName::from_static("anthropic-ratelimit-output-tokens-remaining"),
        HeaderName::from_static("anthropic-ratelimit-output-tokens-reset"),
    ],
    [
        HeaderName::from_static("anthropic-ratelimit-tokens-limit"),
        HeaderName::from_static("anthropic-ratelimit-tokens-remaining"),
        HeaderName::from_static("anthropic-ratelimit-tokens-reset"),
    ],
];

impl Api {
    /// Lets a request of the connection's key in, or says over which limit it is.
    pub(super) fn let_in(&self, session: &Session) -> Result<Settlement, ApiError> {
        let Some(key) = session.key() else {
            return Ok(Settlement::none());
        };
        let begun = self.ledger.begin(&key);
        begun.map_err(|refused| self.over_quota(session, refused))
    }

    /// Holds back what a counted request may use.
    pub(super) fn reserve(
        &self,
        session: &Session,
        settlement: &mut Settlement,
        counted: &Counted,
    ) -> Result<(), ApiError> {
        let output = self.ledger.reserve(counted.max_tokens, counted.choices);
        let reserved = settlement.reserve(counted.count.tokens, output);
        reserved.map_err(|refused| self.over_quota(session, refused))
    }

    /// The connection ends with the answer, so that another try opens a new one, which may come
    /// to a node with room. A day's tokens are used up for longer than that could mend.
    fn over_quota(&self, session: &Session, refused: Refused) -> ApiError {
        if refused.limit != QuotaLimit::Day && session.state() == State::Open {
            session.close();
            self.metrics.connection_ends.one(ConnectionEnd::KeyQuota);
        }
        ApiError::from(refused).not_begun()
    }

    /// Tells how the connection's key stands with its limits. An upstream's own 429 stays as it
    /// is: its headers say what it was over there.
    pub(super) fn tell_limits(&self, session: &Session, response: &mut Response<ResponseBody>) {
        let status = response.status();
        let is_upstreams = matches!(response.body(), ResponseBody::Relayed(_));
        if status == StatusCode::UNAUTHORIZED
            || (status == StatusCode::TOO_MANY_REQUESTS && is_upstreams)
        {
            return;
        }
        let standing = session.key().and_then(|key| self.ledger.standing(&key));
        if let Some(standing) = standing {
            tell(response.headers_mut(), &standing, SystemTime::now());
        }
    }
}

fn tell(headers: &mut HeaderMap, standing: &Standing, now: SystemTime) {
    let Standing {
        requests,
        input,
        output,
        tokens,
    } = *standing;
    for (level, names) in [requests, input, output, tokens].into_iter().zip(HEADERS) {
        let Some(Level {
            limit,
            remaining,
            full_in,
            full_at_s,
        }) = level
        else {
            continue;
        };
        let [limit_name, remaining_name, reset_name] = names;
        headers.insert(limit_name, HeaderValue::from(limit));
        headers.insert(remaining_name, HeaderValue::from(remaining));
        if let Some(reset) = moment(now, full_in, full_at_s) {
            headers.insert(reset_name, reset);
        }
    }
}

/// RFC 3339 in whole seconds, not before it is true.
fn moment(now: SystemTime, after: Duration, at_s: Option<u64>) -> Option<HeaderValue> {
    let at = now.duration_since(UNIX_EPOCH).ok()?.checked_add(after)?;
    let at_s = at_s.unwrap_or(at.as_secs() + u64::from(at.subsec_nanos() > 0));
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(at_s))?;
    HeaderValue::try_from(humantime::format_rfc3339_seconds(at).to_string()).ok()
}

impl From<Refused> for ApiError {
    fn from(Refused { limit, allowed }: Refused) -> Self {
        let soft = |what: &str| {
            Self::rate_limit(format!(
                "This key may use {allowed} {what} at this node, and has too few left; send the request again"
            ))
        };
        match limit {
            QuotaLimit::Requests => soft("requests a minute"),
            QuotaLimit::Input => soft("input tokens a minute"),
            QuotaLimit::Output => soft("output tokens a minute"),
            QuotaLimit::Concurrent => Self::rate_limit(format!(
                "This key may have {allowed} requests running at a time at this node, and has them; send the request again"
            )),
            QuotaLimit::Day => Self::used_up(format!(
                "This key may use {allowed} tokens a day (UTC) at this node, and has too few left"
            )),
        }
    }
}

/// A request that goes upstream. Dropped, it settles as given up by the client, of which the
/// upstream may have got nothing yet.
pub(super) struct Sending<'a> {
    settlement: Settlement,
    upload: Option<&'a Upload>,
}

impl<'a> Sending<'a> {
    pub(super) fn new(settlement: Settlement, upload: Option<&'a Upload>) -> Self {
        Self { settlement, upload }
    }

    /// No upstream answers. When that is the client's fault it has given the request up.
    pub(super) fn failed(mut self, error: &upstream::Error) {
        if !matches!(error, upstream::Error::Body(_)) {
            self.take().failed();
        }
    }

    /// The upstream answers with that status.
    pub(super) fn answered(mut self, status: StatusCode) -> Settlement {
        let mut settlement = self.take();
        settlement.answered(status);
        settlement
    }

    fn take(&mut self) -> Settlement {
        std::mem::replace(&mut self.settlement, Settlement::none())
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if self.upload.is_none_or(Upload::has_begun) {
            self.settlement.sent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_are_the_apis_and_a_reset_is_never_too_early() {
        let level = |limit, remaining, full_in_ms| {
            Some(Level {
                limit,
                remaining,
                full_in: Duration::from_millis(full_in_ms),
                full_at_s: None,
            })
        };
        let standing = Standing {
            requests: level(50, 49, 1200),
            input: None,
            output: level(u64::MAX, 0, 60_000),
            tokens: level(1000, 10, 0),
        };
        let mut headers = HeaderMap::new();
        headers.insert(
            "anthropic-ratelimit-requests-remaining",
            HeaderValue::from_static("an upstream's"),
        );
        let now = UNIX_EPOCH + Duration::from_millis(1_800_000_000_500);
        tell(&mut headers, &standing, now);
        let of = |name: &str| {
            let name = format!("anthropic-ratelimit-{name}");
            headers.get(name).map(|value| value.to_str().unwrap())
        };
        assert_eq!(of("requests-limit"), Some("50"));
        assert_eq!(of("requests-remaining"), Some("49"));
        assert_eq!(of("requests-reset"), Some("2027-01-15T08:00:02Z"));
        assert_eq!(of("input-tokens-limit"), None);
        assert_eq!(of("output-tokens-limit"), Some("18446744073709551615"));
        assert_eq!(of("output-tokens-reset"), Some("2027-01-15T08:01:01Z"));
        assert_eq!(of("tokens-remaining"), Some("10"));
        assert_eq!(of("tokens-reset"), Some("2027-01-15T08:00:01Z"));
    }

    #[test]
    fn a_limit_that_is_over_soon_says_try_again_and_a_day_says_do_not() {
        let id = HeaderValue::from_static("req_1");
        for limit in [
            QuotaLimit::Requests,
            QuotaLimit::Input,
            QuotaLimit::Output,
            QuotaLimit::Concurrent,
            QuotaLimit::Day,
        ] {
            let error = ApiError::from(Refused { limit, allowed: 77 });
            let response = error.response(&id);
            assert_eq!(response.status(), 429);
            let is_soft = limit != QuotaLimit::Day;
            assert_eq!(
                response.headers()["x-should-retry"],
                if is_soft { "true" } else { "false" }
            );
            assert_eq!(response.headers().contains_key("retry-after"), is_soft);
            let body = String::from_utf8(response.body().to_vec()).unwrap();
            assert!(
                body.contains("rate_limit_error") && body.contains("may") && body.contains("77"),
                "{body}"
            );
        }
    }
}
