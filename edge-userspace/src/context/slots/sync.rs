//! What threads share words by. The models of `tests/slots_models.rs` put loom's in its place.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(super) use std::sync::{Mutex, PoisonError};
