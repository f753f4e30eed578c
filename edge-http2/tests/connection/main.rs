//! The connection as a client sees it.

mod client;
mod counting;
mod differential;
mod h2_server;
mod ops;
mod seen;
mod server;
mod windows;

/// What a server says of itself.
const MAX_STREAMS: u32 = 8;
const STREAM_WINDOW_BYTES: u32 = 65_535;
const CONNECTION_WINDOW_BYTES: u32 = 200_000;
const MAX_HEAD_BYTES: u32 = 4_000;
