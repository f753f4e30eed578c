//! How a response ends that cannot go on: by what, and what the client is told.

use crate::api::error::ApiError;
use crate::session::End;
use crate::telemetry::StreamEnd;
use crate::upstream::Broken;
use std::io;

/// The body was cut off: the client sees a reset stream or a closed connection, never a
/// response that looks whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    /// The upstream's response was no HTTP any more.
    #[error("the upstream broke off")]
    UpstreamBroke,
    /// The upstream reset its connection.
    #[error("the upstream reset its connection")]
    UpstreamReset,
    /// The upstream ended before its response was whole.
    #[error("the upstream's response ended too early")]
    UpstreamTruncated,
    /// The upstream said nothing for too long.
    #[error("the upstream fell silent")]
    UpstreamSilent,
    /// The connection's key has ended.
    #[error("the key has ended")]
    KeyEnded,
    /// The daemon stops.
    #[error("the edge stops")]
    Draining,
    /// The key has no tokens left.
    #[error("a limit of the key is passed")]
    Capped,
}

impl Cut {
    /// By what the upstream's body failed.
    pub(super) fn of(broken: &Broken) -> Self {
        match broken {
            Broken::Truncated | Broken::NoAnswer => Self::UpstreamTruncated,
            Broken::Read(error) | Broken::Write(error) => match error.kind() {
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe => Self::UpstreamReset,
                _ => Self::UpstreamBroke,
            },
            Broken::NoHttp(_) | Broken::Body => Self::UpstreamBroke,
        }
    }

    /// What the client is told.
    pub(super) fn error(self) -> ApiError {
        match self {
            Self::UpstreamBroke | Self::UpstreamReset => {
                ApiError::api("The upstream broke off the response")
            }
            Self::UpstreamTruncated => {
                ApiError::api("The upstream ended the response before it was whole")
            }
            Self::UpstreamSilent => {
                ApiError::timeout("The upstream fell silent within the response")
            }
            Self::KeyEnded => ApiError::authentication("Invalid Key: the key has been revoked"),
            Self::Draining => ApiError::overloaded("This node stops; send the request again"),
            Self::Capped => ApiError::rate_limit("A limit of the key is passed"),
        }
    }
}

impl From<End> for Cut {
    fn from(end: End) -> Self {
        match end {
            End::Key => Self::KeyEnded,
            End::Draining => Self::Draining,
        }
    }
}

impl From<Cut> for StreamEnd {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::UpstreamBroke => Self::UpstreamBroke,
            Cut::UpstreamReset => Self::UpstreamReset,
            Cut::UpstreamTruncated => Self::UpstreamTruncated,
            Cut::UpstreamSilent => Self::UpstreamSilent,
            Cut::KeyEnded => Self::KeyEnded,
            Cut::Draining => Self::Draining,
            Cut::Capped => Self::Capped,
        }
    }
}
