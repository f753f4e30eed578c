//! What the kernel half and the userspace half of the edge share.
//!
//! `no_std`, no allocation, no I/O: the same lines are compiled for the host and
//! for the BPF virtual machine, so both halves judge a ClientHello alike. The kernel
//! crate supplies bytes (through [`client_hello::Source`]) and maps (through
//! [`policy::Keys`]); everything that can be wrong about a hello or a token is here,
//! where it can be tested on the host.
#![cfg_attr(not(test), no_std)]

pub mod client_hello;
pub mod flow;
#[cfg(feature = "user")]
mod pod;
pub mod policy;
pub mod prefix;
pub mod rate;
pub mod rehearsal;
pub mod replay;
pub mod siphash;
pub mod token;
pub mod total;
