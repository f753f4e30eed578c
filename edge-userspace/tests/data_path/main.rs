//! The data path with real clients: an edge, a demo model behind it, and TLS, HTTP/2 and
//! HTTP/1.1 clients in front of it, all in this process and over loopback.
//!
//! Not here: the kernel half, the daemon and its command line.

mod accept;
mod binding;
mod calibration;
mod charges;
mod client;
mod clients;
mod contexts;
mod early;
mod ejection;
mod frames;
mod framing;
mod headers;
mod leaving;
mod ledger;
mod limits;
mod oddities;
mod one_byte;
mod passing;
mod prompts;
mod proxied;
mod quotas;
mod refuse;
mod relaying;
mod revoke;
mod slow;
mod streams;
mod surface;
mod unread;
mod unreadable;
mod upstream;
mod upstreams;
mod usage;
mod wire;
mod world;

/// As in the program.
#[global_allocator]
static ALLOCATOR: edge_userspace::memory::Allocator = edge_userspace::memory::Allocator;
