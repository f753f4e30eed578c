//! A key's limits where a request meets them: what is refused, what is reserved, what the
//! client is told of it.

use super::Api;
use super::error::ApiError;
use crate::keys::KeyRecord;
use crate::message::Response;
use crate::prompt::Counted;
use crate::relay::ResponseBody;
use crate::session::Session;
use crate::telemetry::{ConnectionEnd, QuotaLimit};
use crate::upstream::{self, Upload};
use crate::usage::{Level, OfDay, Refused, Settlement, Standing, Until};
use edge_http2::Fields;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
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
    pub(super) fn let_in(
        &self,
        session: &Session,
        key: Option<&KeyRecord>,
    ) -> Result<Settlement, ApiError> {
        let Some(key) = key else {
            return Ok(Settlement::none());
        };
        let begun = self.ledger.begin(key);
        begun.map_err(|refused| self.over_quota(session, refused))
    }

    /// Holds back what a counted request may use.
    pub(super) fn reserve(
        &self,
        session: &Session,
        settlement: &mut Settlement,
        counted: &Counted,
    ) -> Result<(), ApiError> {
        let held = self.ledger.held(
            counted.count.tokens,
            counted.max_tokens,
            counted.choices,
            counted.is_stream,
        );
        let reserved = settlement.reserve(held);
        reserved.map_err(|refused| self.over_quota(session, refused))
    }

    /// The connection ends with the answer, or with what else runs there, so that another try opens
    /// a new one, which may come to a node with room. A day's tokens are used up for longer than that could mend.
    fn over_quota(&self, session: &Session, refused: Refused) -> ApiError {
        if refused.is_soon_over() && session.close_at_rest() {
            self.metrics.connection_ends.one(ConnectionEnd::KeyQuota);
        }
        ApiError::from(refused).not_begun()
    }

    /// Tells how the connection's key stands with its limits. An upstream's own 429 stays as it
    /// is: its headers say what it was over there.
    pub(super) fn tell_limits(
        &self,
        key: Option<&KeyRecord>,
        response: &mut Response<ResponseBody>,
    ) {
        let status = response.status;
        let is_upstreams = matches!(response.body, ResponseBody::Relayed(_));
        if status == StatusCode::UNAUTHORIZED
            || (status == StatusCode::TOO_MANY_REQUESTS && is_upstreams)
        {
            return;
        }
        if let Some(standing) = key.and_then(|key| self.ledger.standing(key)) {
            tell(&mut response.fields, &standing, SystemTime::now());
        }
    }
}

fn tell(fields: &mut Fields, standing: &Standing, now: SystemTime) {
    let Standing {
        requests,
        input,
        output,
        ..
    } = *standing;
    for (level, names) in [requests, input, output, standing.tokens()]
        .into_iter()
        .zip(HEADERS)
    {
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
        fields.insert(limit_name, HeaderValue::from(limit));
        fields.insert(remaining_name, HeaderValue::from(remaining));
        if let Some(reset) = moment(now, full_in, full_at_s) {
            fields.insert(reset_name, reset);
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
    fn from(refused: Refused) -> Self {
        let message = message(&refused);
        if refused.is_soon_over() {
            Self::rate_limit(message)
        } else {
            Self::used_up(message)
        }
    }
}

/// Which limit it was, and when the request fits.
fn message(refused: &Refused) -> String {
    let Refused {
        limit,
        allowed,
        until,
    } = *refused;
    let s = if allowed == 1 { "" } else { "s" };
    let what = match limit {
        QuotaLimit::Requests => format!("request{s} a minute"),
        QuotaLimit::Input => format!("input token{s} a minute"),
        QuotaLimit::Output => format!("output token{s} a minute"),
        QuotaLimit::Concurrent => format!("request{s} at a time"),
        QuotaLimit::Day => format!("token{s} a day (UTC)"),
    };
    let may = format!("This key may use {allowed} {what} at this node");
    match until {
        Until::Filled {
            needed,
            left,
            owed,
            after,
        } => format!(
            "{may} and {}: the request, which needs {needed}, fits here in {} s",
            match owed {
                0 => format!("has {left} left"),
                _ => format!("has used {owed} more"),
            },
            seconds(after)
        ),
        Until::Full { needed, after } => format!(
            "{may}, and the request needs {needed}, more than that: it fits here when all of them are there, in {} s",
            seconds(after)
        ),
        Until::OthersEnd if limit == QuotaLimit::Day => format!(
            "{may} and has too few left beside those that its running requests hold back for their answers: the request may fit here when they have ended"
        ),
        Until::OthersEnd => {
            format!("{may}, which it has: the request fits here when one of them has ended")
        }
        Until::NextDay { needs, after, .. } if needs == OfDay::default() => format!(
            "{may} and has used them: the next day begins in {} s",
            seconds(after)
        ),
        Until::NextDay { needs, left, after } => format!(
            "{may} and has {left} left: the request needs {}, which fits here when the next day begins, in {} s{}",
            needed(needs),
            seconds(after),
            advice(needs, left)
        ),
        Until::Never(needs) => format!(
            "{may}: the request needs {}, which can never fit{}",
            needed(needs),
            advice(needs, allowed)
        ),
    }
}

fn needed(needs: OfDay) -> String {
    let OfDay { prompt, answer } = needs;
    match answer {
        0 => format!("{prompt} for its prompt"),
        _ => format!("{prompt} for its prompt and up to {answer} for its answer"),
    }
}

/// What helps where it is the answer that is too long.
fn advice(needs: OfDay, left: u64) -> &'static str {
    if needs.prompt < left {
        "; with a smaller max_tokens, or as a stream, it may fit now"
    } else {
        ""
    }
}

/// Whole seconds, not before it is true.
fn seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0)
}

/// A request that goes upstream. Dropped, it settles as given up by the client: what the
/// upstream has not got all of, it cannot have worked for.
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
        if self.upload.is_none_or(Upload::has_passed) {
            self.settlement.sent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

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
            output: level(u64::MAX, 20, 60_000),
            day: level(1000, 10, 0),
        };
        let mut fields = Fields::new();
        fields.append(
            HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
            HeaderValue::from_static("an upstream's"),
        );
        let now = UNIX_EPOCH + Duration::from_millis(1_800_000_000_500);
        tell(&mut fields, &standing, now);
        let headers = HeaderMap::from(fields);
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
    fn who_is_refused_hears_which_limit_it_was_and_when_the_request_fits() {
        let id = HeaderValue::from_static("req_1");
        let filled = |owed| Until::Filled {
            needed: 20,
            left: if owed == 0 { 3 } else { 0 },
            owed,
            after: Duration::from_millis(11_001),
        };
        let after = Duration::from_secs(3600);
        let needs = |prompt, answer| OfDay { prompt, answer };
        let next_day = |needs, left| Until::NextDay { needs, left, after };
        for (limit, until, is_soon, expected) in [
            (
                QuotaLimit::Requests,
                filled(0),
                true,
                "This key may use 77 requests a minute at this node and has 3 left: the request, which needs 20, fits here in 12 s",
            ),
            (
                QuotaLimit::Output,
                filled(9),
                true,
                "This key may use 77 output tokens a minute at this node and has used 9 more: the request, which needs 20, fits here in 12 s",
            ),
            (
                QuotaLimit::Input,
                Until::Full {
                    needed: 300,
                    after: Duration::from_secs(60),
                },
                true,
                "This key may use 77 input tokens a minute at this node, and the request needs 300, more than that: it fits here when all of them are there, in 60 s",
            ),
            (
                QuotaLimit::Concurrent,
                Until::OthersEnd,
                true,
                "This key may use 77 requests at a time at this node, which it has: the request fits here when one of them has ended",
            ),
            (
                QuotaLimit::Day,
                Until::OthersEnd,
                true,
                "This key may use 77 tokens a day (UTC) at this node and has too few left beside those that its running requests hold back for their answers: the request may fit here when they have ended",
            ),
            (
                QuotaLimit::Day,
                next_day(needs(0, 0), 0),
                false,
                "This key may use 77 tokens a day (UTC) at this node and has used them: the next day begins in 3600 s",
            ),
            (
                QuotaLimit::Day,
                next_day(needs(5, 60), 30),
                false,
                "This key may use 77 tokens a day (UTC) at this node and has 30 left: the request needs 5 for its prompt and up to 60 for its answer, which fits here when the next day begins, in 3600 s; with a smaller max_tokens, or as a stream, it may fit now",
            ),
            (
                QuotaLimit::Day,
                next_day(needs(40, 0), 30),
                false,
                "This key may use 77 tokens a day (UTC) at this node and has 30 left: the request needs 40 for its prompt, which fits here when the next day begins, in 3600 s",
            ),
            (
                QuotaLimit::Day,
                Until::Never(needs(80, 10)),
                false,
                "This key may use 77 tokens a day (UTC) at this node: the request needs 80 for its prompt and up to 10 for its answer, which can never fit",
            ),
        ] {
            let error = ApiError::from(Refused {
                limit,
                allowed: 77,
                until,
            });
            let response = error.response(&id).into_http();
            assert_eq!(response.status(), 429);
            assert_eq!(
                response.headers()["x-should-retry"],
                if is_soon { "true" } else { "false" }
            );
            assert_eq!(response.headers().contains_key("retry-after"), is_soon);
            let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(body["error"]["type"], "rate_limit_error");
            assert_eq!(body["error"]["message"], expected);
        }
    }
}
