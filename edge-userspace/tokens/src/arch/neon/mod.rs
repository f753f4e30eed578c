//! NEON.

pub(crate) mod blocks;
pub(super) mod scan;
