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
    /// `reset-between-events`: as the first of these, and by a TCP reset.
    ResetBetweenEvents,
    /// `reset-mid-event`: as the second, and by a TCP reset.
    ResetMidEvent,
    /// `truncated-chunk`: it closes within an event, before the end of a chunk of HTTP/1.1's
    /// coding.
    TruncatedChunk,
    /// `hang`: no answer, ever.
    Hang,
    /// `hang-between-events`: the answer stops in its middle, after a whole event.
    HangBetweenEvents,
    /// `hang-mid-event`: it stops in its middle, and in that of an event.
    HangMidEvent,
    /// `error-event`: the stream's first event is an error; the others come all the same.
    ErrorEvent,
    /// `error-event-mid-stream`: an event in the middle is an error, and the last.
    ErrorEventMidStream,
}

impl Fault {
    /// From the header's value. `None` when there is no such fault.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        Some(match value {
            "close-before-head" => Self::CloseBeforeHead,
            "close-mid-stream" | "close-between-events" => Self::CloseBetweenEvents,
            "close-mid-event" => Self::CloseMidEvent,
            "reset-between-events" => Self::ResetBetweenEvents,
            "reset-mid-event" => Self::ResetMidEvent,
            "truncated-chunk" => Self::TruncatedChunk,
            "hang" => Self::Hang,
            "hang-mid-stream" | "hang-between-events" => Self::HangBetweenEvents,
            "hang-mid-event" => Self::HangMidEvent,
            "error-event" => Self::ErrorEvent,
            "error-event-mid-stream" => Self::ErrorEventMidStream,
            status => {
                let status = StatusCode::from_bytes(status.as_bytes()).ok()?;
                let fails = status.is_client_error() || status.as_u16() >= 500;
                return fails.then_some(Self::Status(status));
            }
        })
    }

    /// Whether the connection closes within the answer.
    pub(super) fn closes(self) -> bool {
        matches!(
            self,
            Self::CloseBetweenEvents
                | Self::CloseMidEvent
                | Self::ResetBetweenEvents
                | Self::ResetMidEvent
                | Self::TruncatedChunk
        )
    }

    /// Whether a piece of the event at which it strikes still goes out.
    pub(super) fn is_mid_event(self) -> bool {
        matches!(
            self,
            Self::CloseMidEvent | Self::ResetMidEvent | Self::HangMidEvent
        )
    }

    /// Whether the connection writes less than it said.
    pub(super) fn is_cut(self) -> bool {
        self == Self::TruncatedChunk
    }

    /// Whether the answer stops without an end.
    pub(super) fn hangs(self) -> bool {
        matches!(self, Self::HangBetweenEvents | Self::HangMidEvent)
    }

    /// Whether the connection is reset rather than closed.
    pub(super) fn resets(self) -> bool {
        matches!(self, Self::ResetBetweenEvents | Self::ResetMidEvent)
    }
}
