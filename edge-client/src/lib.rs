//! The client's side of the edge.
//!
//! From an [`ApiKey`] and the edge's audience a [`TokenSource`] makes a pre-auth token for each
//! connection, dated by the edge's own [`Clock`]; [`Tls`] is rustls set up for it; a [`Client`]
//! keeps HTTP/2 connections to one [`Endpoint`] and sends requests on them; [`fingerprint`] names
//! a request and a context. What goes over the wire is in docs/protocol.md.
//!
//! Not here: a choice among several edges (`edge connect` does that), and nothing of the daemon.
//!
//! ```no_run
//! use edge_client::{ApiKey, Client, Clock, Endpoint, Limits, Tls, TokenSource, tls};
//! use http_body_util::{BodyExt as _, Full};
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let key = ApiKey::read(Path::new("alice.key"))?;
//! let tokens = TokenSource::new(&key, "demo", Arc::new(Clock::new()));
//! let edge = Endpoint::parse("https://edge.example:8443")?;
//! let tls = Tls::new(tls::system_roots()?)?;
//! let client = Client::new(edge, tls, &key, tokens, Limits::default())?;
//!
//! let body = r#"{"model":"claude-demo","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}"#;
//! let request = http::Request::post("/v1/messages")
//!     .header("anthropic-version", "2023-06-01")
//!     .header("content-type", "application/json")
//!     .header("x-anthropic-context-id", edge_client::fingerprint::context_id("user 7"))
//!     .body(Full::from(body))?;
//! let response = client.send(request).await?;
//! println!("{}", response.status());
//! println!("{:?}", response.into_body().collect().await?.to_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! With `default-features = false` there are keys, tokens and fingerprints alone, for programs
//! that have a TLS stack of their own; the feature `tls` adds rustls.

#[cfg(feature = "http")]
pub mod client;
pub mod clock;
#[cfg(feature = "http")]
pub mod connect;
pub mod derive;
#[cfg(feature = "http")]
mod endpoint;
pub mod fingerprint;
#[cfg(feature = "http")]
mod lines;
pub mod secret;
#[cfg(feature = "tls")]
pub mod tls;
pub mod tokens;

#[cfg(feature = "http")]
pub use client::{Client, Error, Health, Limits, ResponseBody};
pub use clock::Clock;
#[cfg(feature = "http")]
pub use connect::ConnectError;
#[cfg(feature = "http")]
pub use endpoint::{Endpoint, EndpointError};
pub use secret::ApiKey;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use tokens::TokenSource;
