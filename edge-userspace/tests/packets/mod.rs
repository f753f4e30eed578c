//! Packet fixtures: data, its generator, and what the tests need to run it.
//!
//! `make.py` (with `wire.py`) writes the `.json` files; `case` reads them, `edge` runs them
//! through the real object, `frames` makes those that are no data, `model` says in
//! userspace what must come of a frame.

pub(crate) mod case;
pub(crate) mod edge;
pub(crate) mod frames;
pub(crate) mod model;
