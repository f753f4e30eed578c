//! Where a conversation's next turn belongs: what identifies its prefix, and what is known of
//! that prefix.
//!
//! [`canonical`] reads what a prefix is, [`chain`] names each prefix of a request by a
//! [`secret`], [`identity`] says whose it is and which, [`slots`] remembers where it went and
//! what it counted, [`hints`] how its answers began, [`preheat`] what a client announces;
//! [`Contexts`] is all of that, a [`Turn`] what it knows of one request; [`wire`] is the name
//! that a client may send. Not here: how a body is read ([`crate::prompt`]), and which upstream is chosen
//! ([`crate::upstream`]).

pub mod canonical;
pub mod chain;
mod hash;
pub mod hints;
pub mod identity;
pub mod preheat;
pub mod secret;
pub mod slots;
mod turn;

pub use chain::{Boundary, Chain, Owner};
/// The name of a request that a client may send.
pub use edge_client::fingerprint as wire;
pub use identity::{ContextId, Fingerprint, Key, Tenant};
pub use secret::Secret;
pub use slots::{Entry, Slots};
pub use turn::{Contexts, ContextsError, Listening, Turn};
