//! Bytes from upstream to client and from client to upstream, untouched; back-pressure and
//! cancellation both ways.
//!
//! [`ResponseBody`] is polled by the client's connection and polls the upstream's, so
//! neither reads ahead of the other, and when one side leaves the other is dropped with
//! it. [`RequestBody`] is the way up. Where a response has to be ended by the edge, it is
//! an event stream that gets one proper `error` event, between two events. [`side`] reads along
//! and tells [`crate::usage`] what it saw.
//! Not here: heads and headers ([`crate::api`]).

mod account;
mod cut;
mod events;
mod extra;
mod incoming;
mod mark;
mod request;
mod response;
pub mod side;
mod silence;
mod unreadable;

pub use cut::Cut;
pub use events::Boundary;
pub use extra::{Dialect, Extras};
pub use incoming::{Inbox, Incoming, IncomingError, Line};
pub use request::RequestBody;
pub use response::{Company, Relayed, ResponseBody};
pub use unreadable::{Unreadable, Whose};
