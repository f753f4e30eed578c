//! A real edge and real clients where kernels and networks differ from this machine's.
//!
//! `cargo xtask kernels` boots these tests in a guest, once per kernel; they are no part of
//! `cargo test`, for few machines have netem, VLANs and an old kernel at hand. By hand, as
//! root: `cargo test -p edge-userspace --test guest -- --test-threads 1 --nocapture`.

#[path = "../counters/mod.rs"]
mod counters;
#[path = "../daemon/process.rs"]
#[expect(dead_code, reason = "shared with the tests of the daemon")]
mod process;
#[macro_use]
#[path = "../skip/mod.rs"]
mod skip;

mod clients;
mod facts;
mod live;
mod netem;
mod network;
mod scene;
mod vlan;
