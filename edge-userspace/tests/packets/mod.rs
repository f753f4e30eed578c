//! Packet fixtures: data, its generator, and what the tests need to run it.
//!
//! `make.py` (with `wire.py`) writes the `.json` files; `case` reads them, `edge` runs them
//! through the real object, `frames` makes those that are no data. `model` says in userspace
//! what must come of a frame (by way of `dissect`), `check` holds one against the other,
//! `answers` says whether an answer is a good packet. The hellos, on file and at random, are `edge-common`'s.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses its own part of it"
)]

pub(crate) mod answers;
pub(crate) mod case;
pub(crate) mod check;
pub(crate) mod dissect;
pub(crate) mod edge;
#[path = "../../../edge-common/tests/common/files.rs"]
pub(crate) mod files;
pub(crate) mod frames;
#[path = "../../../edge-common/tests/common/generated.rs"]
pub(crate) mod generated;
#[path = "../../../edge-common/tests/common/made.rs"]
pub(crate) mod made;
pub(crate) mod model;
