//! The edge daemon, in the order in which data goes through it.
//!
//! packet → [`kernel`] → connection → [`listener`] (hello again, in full) → [`charges`]
//! (token used up, rates) → [`session`] (who is bound to this connection) → [`api`] (what is
//! asked) → [`context`] (where this conversation was before) → [`usage`] (reserved) →
//! [`upstream`] (where it goes) → [`relay`] (bytes untouched) → [`usage`] again (settled) →
//! [`telemetry`].
//!
//! Beside that road: [`config`] and [`keys`] are pushed in and compiled into snapshots,
//! [`ja4`] names kinds of clients, [`admin`] lets people look in, [`daemon`] puts the parts
//! together, [`cli`] starts it, [`clock`] tells the time, [`memory`] is where small pieces of it come
//! from, [`message`] what requests and answers are made of. [`sidecar`] is the client's end, for programs that know nothing of all this.

pub mod admin;
pub mod api;
pub mod charges;
pub mod cli;
pub mod clock;
pub mod config;
pub mod context;
pub mod daemon;
pub mod demo_model;
pub mod ja4;
pub mod kernel;
pub mod keys;
pub mod listener;
pub mod memory;
pub mod message;
pub mod prompt;
pub mod relay;
pub mod session;
pub mod sidecar;
pub mod telemetry;
pub mod upstream;
pub mod usage;

/// Secrets as types: in the package that clients use too.
pub use edge_client::secret;
/// Token counts: a package of its own, which needs nothing of the daemon.
pub use edge_tokens as tokens;
