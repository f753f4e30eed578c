//! Where a conversation's next turn belongs: what identifies its prefix, and what is known of
//! that prefix.
//!
//! [`identity`] says whose prefix it is and which, [`slots`] remembers where it went and what
//! it counted, [`hints`] how its answers began. Not here: how a body is read ([`crate::prompt`]), and which upstream is chosen
//! ([`crate::upstream`]).

pub mod hints;
pub mod identity;
pub mod preheat;
pub mod slots;

pub use identity::{ContextId, Fingerprint, Key, Tenant};
pub use slots::{Entry, Slots};
