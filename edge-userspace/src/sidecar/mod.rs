//! `edge connect`: a local HTTP server that gives programs which know nothing of tokens the zero
//! lane.
//!
//! local connection → [`guard`] (a program of this machine?) → [`fingerprint`] and context id →
//! [`forward`] (which edge, and again where nothing was begun; [`held`] keeps the body for that) →
//! an [`edge_client::Client`], tokened TLS 1.3 and HTTP/2. Beside that road [`watch`] checks the
//! edges and reads their [`regions`], and [`choose`] is the rule by which one is left for another.
//!
//! Answers pass as they come: nothing of them is kept, a client that reads slowly slows its own
//! stream at the edge, one that leaves ends its request there. Not here: the command line
//! ([`crate::cli`]), and nothing of the daemon is needed.

mod answer;
pub mod choose;
mod fingerprint;
pub mod forward;
pub mod guard;
pub mod held;
pub mod nodes;
pub mod regions;
mod serve;
mod status;
mod watch;

pub use serve::{Sidecar, serve};
pub use status::Status;

use edge_client::client::KeyText;
use edge_client::{ApiKey, Endpoint, Limits, Tls};
use http::header::{HeaderMap, HeaderName, HeaderValue};

const CONTEXT_ID: HeaderName = HeaderName::from_static("x-anthropic-context-id");
const CONTEXT_HINT: HeaderName = HeaderName::from_static("x-anthropic-context-hint");

/// What a sidecar is to do.
pub struct Options {
    /// The edges to begin with, at least one.
    pub edges: Vec<Endpoint>,
    /// The audience of all that name no other.
    pub audience: String,
    /// The key that is put into every request.
    pub key: ApiKey,
    /// Whom to trust.
    pub tls: Tls,
    /// Edges that these tell of are used too.
    pub discover: bool,
    /// What is put into requests that have none of their own.
    pub ids: ContextIds,
    /// So is a fingerprint.
    pub fingerprint: bool,
    /// Connections and requests for each edge.
    pub limits: Limits,
    /// What may be kept of requests' bodies, so that they can be sent again, bytes.
    pub held_bytes: u64,
    /// Local connections at once.
    pub connections: usize,
}

/// What names the conversations of a program that does not do so itself.
#[derive(Clone, Debug, Default)]
pub struct ContextIds {
    /// `x-anthropic-context-id`.
    pub id: Option<HeaderValue>,
    /// `x-anthropic-context-hint`.
    pub hint: Option<HeaderValue>,
}

/// Why a sidecar cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// The key is of no use.
    #[error(transparent)]
    Key(#[from] KeyText),
    /// There is no edge.
    #[error("no edge is named")]
    NoEdge,
}

impl ContextIds {
    fn put(&self, headers: &mut HeaderMap) {
        for (name, value) in [(CONTEXT_ID, &self.id), (CONTEXT_HINT, &self.hint)] {
            if let Some(value) = value
                && !headers.contains_key(&name)
            {
                headers.insert(name, value.clone());
            }
        }
    }
}
