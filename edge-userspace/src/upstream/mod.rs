//! The upstreams: which of them a request goes to, connections to it, and the request over
//! one of them.
//!
//! [`Upstreams`] is what all threads share: who takes requests, what is outstanding where. A
//! [`Sender`] is one serving thread's, with connections of its own, so nothing is locked. A
//! connection has no task: whoever waits for the response drives it ([`Answer`]). Not here:
//! what a request must look like ([`crate::api`]), where its beginning may be cached, and what
//! becomes of a response that breaks off ([`crate::relay`]).

mod acks;
mod addresses;
mod broken;
mod burst;
pub mod choose;
mod connect;
mod connections;
mod ejection;
mod exchange;
pub mod failures;
mod framing;
mod head;
mod headers;
mod id;
mod patience;
mod picked;
mod places;
mod pool;
mod receiving;
mod sender;
mod sending;
mod target;
mod upload;
mod upstreams;

pub use broken::Broken;
pub use choose::Why;
pub use connect::ConnectError;
pub use exchange::Answer;
pub use headers::{Hop, is_of_one_hop, strip_hop_by_hop};
pub use id::UpstreamId;
pub use picked::{GIVEN_UP, Picked};
pub use sender::Sender;
pub use target::{Target, TargetError};
pub use upload::{CLIENT_SILENCE, Fault, Upload};
pub use upstreams::{Status, UpstreamError, Upstreams};

use bytes::Bytes;
use http_body::Body;
use std::error::Error as StdError;
use std::task::Context;
use std::time::Duration;

/// A body that can be sent upstream; its default is the empty one.
pub trait Sendable:
    Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Default + Unpin + 'static
{
    /// Takes in a bounded part while there is no connection to send it on. Besides saving
    /// time this is how a client is noticed that leaves meanwhile: HTTP/1.1 shows it only
    /// to someone who reads.
    fn read_ahead(&mut self, cx: &mut Context<'_>);
}

/// Why there is no response. Nothing of one has been seen in any of these cases.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection to be had.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The upstream did not begin to answer in time.
    #[error("no response within {0:?}")]
    FirstByte(Duration),
    /// The client's body failed.
    #[error("the request's body failed: {0:?}")]
    Body(Fault),
    /// The connection broke, or what came was no HTTP.
    #[error("the connection broke before the response: {0}")]
    Broken(#[source] Broken),
}
