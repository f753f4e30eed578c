//! The server half of HTTP/2 (RFC 9113), without I/O.
//!
//! What came from the client goes in as bytes; what it means comes out as events, and what is to be
//! sent is appended to one buffer that the caller writes. Nothing here waits, locks or is shared
//! between threads, and each buffer, table and queue has a bound: one connection is one value.
//!
//! [`Connection`] is one connection, [`Event`] what comes of it; heads are lists of [`Fields`]. [`hpack`] is the compression of header fields (RFC 7541).
//!
//! Not here: sockets, TLS, time, and the client's half.

#![forbid(unsafe_code)]

mod calm;
mod code;
mod connection;
mod fields;
mod frame;
mod head;
pub mod hpack;
mod output;
mod settings;
mod streams;

pub use code::{Code, Violation};
pub use connection::{Config, Connection, Event, OUTPUT_BYTES};
pub use fields::Fields;
pub use head::RequestHead;
pub use streams::Stream;
