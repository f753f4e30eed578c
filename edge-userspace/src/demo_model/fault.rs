//! Ways to fail, on request.

use http::StatusCode;

/// What `x-demo-error` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A number: that status with an error in the API's shape. 429 brings the headers that
    /// an upstream sends with it.
    Status(StatusCode),
    /// `close-before-head`: the connection closes without an answer.
    CloseBeforeHead,
    /// `close-between-events`: it closes in the middle of the answer, after a whole event.
    CloseBetweenEvents,
    /// `close-mid-event`: it closes in the middle of the answer and of an event.
    CloseMidEvent,
    /// `hang`: no answer, ever.
    Hang,
    /// `hang-between-events`: the answer stops in its middle, after a whole event.
    HangBetweenEvents,
    /// `hang-mid-event`: it stops in its middle, and in that of an event.
    HangMidEvent,
    /// `error-event`: the stream's first event is an error.
    ErrorEvent,
}

impl Fault {
    /// From the header's value. `None` when there is no such fault.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        Some(match value {
            "close-before-head" => Self::CloseBeforeHead,
            "close-mid-stream" | "close-between-events" => Self::CloseBetweenEvents,
            "close-mid-event" => Self::CloseMidEvent,
            "hang" => Self::Hang,
            "hang-mid-stream" | "hang-between-events" => Self::HangBetweenEvents,
            "hang-mid-event" => Self::HangMidEvent,
            "error-event" => Self::ErrorEvent,
            status => {
                let status = StatusCode::from_bytes(status.as_bytes()).ok()?;
                let fails = status.is_client_error() || status.as_u16() >= 500;
                return fails.then_some(Self::Status(status));
            }
        })
    }
}
