//! One answer as a client saw it: status, events, error.

use serde::{Deserialize, Serialize};

/// What came back for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// HTTP status; none when no head came.
    pub status: Option<u16>,
    /// Server-sent events, by name, in order.
    pub events: Vec<String>,
    /// `error.type` of an API-shaped error, in a body or in an `error` event.
    pub error_type: Option<String>,
    /// `error.message` of the same.
    pub message: Option<String>,
    /// What the library said when the answer ended badly.
    pub failure: Option<String>,
    /// Unix time at which the answer ended, nanoseconds; 0 when the client does not tell.
    pub ended_unix_ns: u64,
}

impl Answer {
    /// No answer, for this reason.
    #[must_use]
    pub fn failed(why: String) -> Self {
        Self {
            failure: Some(why),
            ..Self::default()
        }
    }

    /// From a status and a body: JSON or an event stream, whole or cut.
    #[must_use]
    pub fn from_parts(status: Option<u16>, body: &str) -> Self {
        let mut answer = Self {
            status,
            ..Self::default()
        };
        if let Some(error) = api_error(body) {
            answer.take_error(error);
        }
        for line in body.lines() {
            if let Some(name) = line.strip_prefix("event:") {
                answer.events.push(name.trim().to_owned());
            } else if let Some(data) = line.strip_prefix("data:")
                && let Some(error) = api_error(data)
            {
                answer.take_error(error);
            }
        }
        answer
    }

    fn take_error(&mut self, (kind, message): (String, String)) {
        self.error_type = Some(kind);
        self.message = Some(message);
    }

    /// Whether it is a whole streamed message.
    #[must_use]
    pub fn is_whole_stream(&self) -> bool {
        self.status == Some(200)
            && self.failure.is_none()
            && self.events.first().is_some_and(|e| e == "message_start")
            && self.events.last().is_some_and(|e| e == "message_stop")
    }
}

/// `{"type":"error","error":{"type":…,"message":…}}`
fn api_error(text: &str) -> Option<(String, String)> {
    let value: serde_json::Value = serde_json::from_str(text.trim()).ok()?;
    let error = value.get("error")?;
    let field = |name: &str| Some(error.get(name)?.as_str()?.to_owned());
    Some((field("type")?, field("message")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_error_is_read_from_a_body_and_from_an_error_event() {
        let error =
            r#"{"type":"error","error":{"type":"authentication_error","message":"Invalid Key"}}"#;
        let body = Answer::from_parts(Some(401), error);
        assert_eq!(body.error_type.as_deref(), Some("authentication_error"));
        assert_eq!(body.message.as_deref(), Some("Invalid Key"));
        let stream = format!("event: message_start\ndata: {{}}\n\nevent: error\ndata: {error}\n\n");
        let stream = Answer::from_parts(Some(200), &stream);
        assert_eq!(stream.events, ["message_start", "error"]);
        assert_eq!(stream.message.as_deref(), Some("Invalid Key"));
        assert!(!stream.is_whole_stream());
    }

    #[test]
    fn a_stream_that_stops_early_is_not_whole() {
        let whole = "event: message_start\ndata: {}\n\nevent: message_stop\ndata: {}\n\n";
        assert!(Answer::from_parts(Some(200), whole).is_whole_stream());
        let cut = &whole[..whole.len() / 2];
        assert!(!Answer::from_parts(Some(200), cut).is_whole_stream());
        assert!(!Answer::from_parts(Some(500), whole).is_whole_stream());
    }
}
